// SPDX-License-Identifier: GPL-2.0

//! An established session, in which segments flow, and its end: the Terminate, the peer's, and then
//! the end of the association.
//!
//! A Terminate that could overtake the first control message of this end waits until that was
//! acknowledged (RFC 5043, section 6.6). Chunks of the peer are discarded then; unread ones would
//! make SCTP abort the association, and lose everything that is under way.

use crate::prelude::*;
use crate::{
    llp,
    sctp::{
        association::{
            DdpAssociation,
            Order,
            RecvOutcome, //
        },
        inbound::{
            self,
            EarlySegments, //
        }, //
    }, //
};
use core::iter;
use provider::{
    borrowed::Piece,
    zeroed, //
};
use rdmap::{
    sctp::{
        chunk,
        session, //
    },
    tx::HEADER_LEN,
    wire::Octets, //
};
use socket::{
    sctp::Sent,
    SendBuf, //
};

/// The first octets of a chunk: its number, and the header of the segment.
type Head = Octets<{ chunk::SSN_LEN + HEADER_LEN }>;

/// Segments that are sent in a row, before chunks are received again.
const SEND_BUDGET: usize = 64;

/// The interval of polling for space, in milliseconds. Mostly an event reports it, but not after a
/// shortage of memory.
const POLL_MS: u32 = 20;

/// The number of attempts for a segment that SCTP refuses as too long, although it is not.
const MAX_SEND_TRIES: usize = 3;

/// The time without space after which a peer that does not receive is given up, in milliseconds.
const SEND_TIMEOUT_MS: i64 = 60_000;

/// The time that the peer has for its Terminate, in milliseconds.
const TERMINATE_MS: i64 = 1_000;

/// Chunks that are discarded in a row, so that a peer that never stops cannot keep the association
/// from ending.
const DISCARD_BUDGET: usize = 4_096;

/// An established session, in which segments flow.
pub(crate) struct SctpEstablished {
    assoc: DdpAssociation,
    // [`None`] once the stream has it.
    order: Option<Order>,
    early: EarlySegments,
    // Payload that cannot be sent from where it is. It is there until the next flush.
    scratch: KVVec<u8>,
    mulpdu: u32,
    // Segments that were sent since the last flush.
    added: usize,
    // The time since when there is no space.
    no_space_since: Option<Instant<Monotonic>>,
}

impl SctpEstablished {
    /// Creates a session that is about to be open. Sleeps.
    pub(super) fn new(assoc: DdpAssociation, order: Order, early: EarlySegments) -> Self {
        Self {
            scratch: KVVec::new(),
            mulpdu: assoc.mulpdu(),
            assoc,
            order: Some(order),
            early,
            added: 0,
            no_space_since: None,
        }
    }

    /// Takes note that there was no space.
    fn note_no_space(&mut self) {
        self.no_space_since.get_or_insert_with(Instant::now);
    }

    /// Begins a chunk with its number and `header`. Returns [`None`] while the window is full.
    fn begin(&mut self, header: &[u8]) -> Option<Head> {
        let Some(ssn) = self.assoc.ssn() else {
            self.note_no_space();
            return None;
        };
        let mut head = Head::new();
        head.put(ssn.to_be_bytes());
        head.put_slice(header);
        Some(head)
    }

    /// Makes room in `scratch` for `length` octets. Returns false if there is no memory now.
    fn make_room(&mut self, length: usize) -> bool {
        if self.scratch.len() < length {
            // For other segments as well, which are hardly longer.
            let length = usize::try_from(self.mulpdu).map_or(length, |mulpdu| length.max(mulpdu));
            match zeroed::vec(length, GFP_KERNEL_ACCOUNT | __GFP_NOWARN) {
                Ok(scratch) => self.scratch = scratch,
                Err(_) => {
                    self.note_no_space();
                    return false;
                }
            }
        }
        true
    }

    /// Sends the chunk that begins with `head`, with `pieces` of payload behind it.
    fn send<'a>(
        &mut self,
        head: &'a Head,
        pieces: impl Iterator<Item = SendBuf<'a>> + Clone,
    ) -> Result<llp::SendStatus, llp::SendError> {
        let octets = Iterator::chain(iter::once(SendBuf::from(head.as_slice())), pieces);
        let all = octets.clone().map(|octets| octets.len()).sum::<usize>();
        let ulpdu = all.saturating_sub(chunk::SSN_LEN);
        for _ in 0..MAX_SEND_TRIES {
            match self.assoc.send_pieces(chunk::PPID_SEGMENT, octets.clone()) {
                Ok(Sent::Done) => {
                    self.added = self.added.saturating_add(1);
                    self.no_space_since = None;
                    return Ok(llp::SendStatus::Queued);
                }
                Ok(Sent::Full) => {
                    self.no_space_since.get_or_insert_with(Instant::now);
                    return Ok(llp::SendStatus::NoSpace);
                }
                Ok(Sent::TooLong) => {
                    self.mulpdu = self.assoc.mulpdu();
                    if usize::try_from(self.mulpdu).is_ok_and(|mulpdu| ulpdu > mulpdu) {
                        return Ok(llp::SendStatus::TooLong);
                    }
                    // The path MTU has grown again since.
                }
                Err(_) => return Err(llp::SendError::Connection),
            }
        }
        // The path is narrower than RFC 5043 allows.
        Err(llp::SendError::Connection)
    }
}

impl llp::EstablishedConn for SctpEstablished {
    type Order = Order;
    type HalfClosed = HalfClosed;
    // RFC 5043, section 6.2: nothing follows on the Terminate of a session, which whoever ends the
    // connection sends.
    const HALF_CLOSES: bool = false;
    const GATHERS: bool = true;

    fn order(&mut self) -> Result<Order> {
        self.order.take().ok_or(EINVAL)
    }

    fn mulpdu(&self) -> u32 {
        self.mulpdu
    }

    fn may_send(&self) -> bool {
        self.assoc.session.may_send()
    }

    fn has_space(&self) -> bool {
        self.added < SEND_BUDGET
    }

    fn is_empty(&self) -> bool {
        self.added == 0
    }

    fn add(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<llp::SendStatus, llp::SendError> {
        let Some(head) = self.begin(header) else {
            return Ok(llp::SendStatus::NoSpace);
        };
        let length = usize::try_from(length).map_err(|_| llp::SendError::Payload)?;
        if !self.make_room(length) {
            return Ok(llp::SendStatus::NoSpace);
        }
        let mut scratch = core::mem::replace(&mut self.scratch, KVVec::new());
        let octets = scratch.get_mut(..length).ok_or(llp::SendError::Payload)?;
        payload(octets).map_err(|_| llp::SendError::Payload)?;
        let sent = self.send(&head, iter::once(SendBuf::from(&*octets)));
        self.scratch = scratch;
        sent
    }

    fn add_pieces<'a>(
        &mut self,
        header: &[u8],
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
    ) -> Result<llp::SendStatus, llp::SendError> {
        match self.begin(header) {
            Some(head) => {
                let pieces = pieces.map(|piece| -> SendBuf<'_> { piece.into() });
                self.send(&head, pieces)
            }
            None => Ok(llp::SendStatus::NoSpace),
        }
    }

    fn flush(&mut self) -> Result {
        self.added = 0;
        self.scratch = KVVec::new();
        let has_control_pending = self.assoc.has_control_pending();
        match self.assoc.flush()? {
            true => {
                if has_control_pending {
                    self.no_space_since = None;
                }
                Ok(())
            }
            false => {
                self.note_no_space();
                Err(EAGAIN)
            }
        }
    }

    fn receive(&mut self, receiver: &mut Receiver<'_, '_, Order>) -> Result<Received> {
        self.assoc.note_acked();
        self.mulpdu = self.assoc.mulpdu();
        inbound::receive(&mut self.assoc, &mut self.early, receiver)
    }

    fn finish(&mut self) {
        self.assoc.on(session::Event::Fail);
    }

    fn ended(&mut self) -> bool {
        self.assoc.on(session::Event::Fail);
        true
    }

    fn poll_after_ms(&self) -> Option<u32> {
        self.no_space_since.map(|_| POLL_MS)
    }

    fn has_timed_out(&self) -> bool {
        self.no_space_since
            .is_some_and(|since| since.elapsed().as_millis() > SEND_TIMEOUT_MS)
    }

    fn close(mut self, _: bool) -> Option<HalfClosed> {
        // RFC 5043, section 6.2: one of both sides sends a Terminate in any case.
        self.assoc.on(session::Event::Disconnect);
        Some(self.half_close())
    }

    fn half_close(self) -> HalfClosed {
        HalfClosed::new(self.assoc)
    }

    fn abort(self) {
        self.assoc.abort();
    }
}

/// A session in the course of closing.
pub(crate) struct HalfClosed {
    assoc: DdpAssociation,
    since: Instant<Monotonic>,
    // The peer has sent its last control message.
    peer_done: bool,
    // This end has shut the association down.
    is_shut_down: bool,
}

impl HalfClosed {
    /// Begins to close a session. `assoc` may still have a Terminate to send.
    pub(super) fn new(assoc: DdpAssociation) -> Self {
        Self {
            peer_done: assoc.session.state() == rdmap::sctp::session::State::Quiesce
                || assoc.session.state() == rdmap::sctp::session::State::Free,
            assoc,
            since: Instant::now(),
            is_shut_down: false,
        }
    }

    /// Discards the chunks that arrived, up to a budget. Returns whether the association is over.
    fn drain(&mut self) -> bool {
        for _ in 0..DISCARD_BUDGET {
            match self.assoc.recv() {
                RecvOutcome::Nothing => return false,
                RecvOutcome::End | RecvOutcome::Lost | RecvOutcome::Violation => return true,
                RecvOutcome::Data(data) => {
                    if let Some(chunk::Chunk {
                        body: chunk::Body::Control(control),
                        ..
                    }) = data.chunk()
                    {
                        self.peer_done |= control.function == chunk::Function::Terminate;
                    }
                    if self.assoc.take(data).is_err() {
                        return true;
                    }
                }
            }
        }
        false
    }
}

impl llp::HalfClosed for HalfClosed {
    fn step(&mut self) -> bool {
        let over = self.drain();
        self.assoc.note_acked_and_watch();
        let waited = self.since.elapsed().as_millis();
        if over || self.assoc.flush().is_err() {
            return true;
        }
        let peer_done = self.peer_done || waited > TERMINATE_MS;
        if self.assoc.terminate_sent && peer_done && !self.is_shut_down {
            self.assoc.shutdown();
            self.is_shut_down = true;
        }
        false
    }

    fn abort(self) {
        self.assoc.abort();
    }
}
