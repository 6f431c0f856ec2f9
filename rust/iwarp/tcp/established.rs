// SPDX-License-Identifier: GPL-2.0

//! An established connection, on which FPDUs flow, and its end.
//!
//! Each FPDU is verified before any of it is placed. At the end, octets that TCP has had no space
//! for yet are handed over first, so that the stream ends behind an FPDU. If received octets were
//! left unread, TCP would reset the connection when it is closed, and octets under way would be
//! lost. So they are discarded, until the peer closes.

use crate::prelude::*;
use crate::{
    end_reason::EndReason,
    llp,
    stream::receiver::Handled,
    tcp::outbox::Outbox, //
};
use provider::borrowed::Piece;
use rdmap::{
    fault::LlpError,
    mpa::{
        announcement,
        crc,
        frame,
        marker::Position,
        startup::StreamParams, //
    },
    order::InOrder,
    rx::HEAD_LEN, //
};
use socket::{
    parameters,
    ConnState,
    Frame,
    Next,
    TcpConn, //
};

/// The interval of polling a stream that waits for the rest of an FPDU, or for space, in
/// milliseconds. Mostly an event reports space, but not if memory was short and nothing is under
/// way whose acknowledgement frees some.
const POLL_MS: u32 = 1_000;

/// The time that the rest of an FPDU may take, in milliseconds. TCP waits twice as long with each
/// retransmission, so after a network that was down for 8 seconds it may come after 13, and after
/// 13 seconds, after 26.
const RECEIVE_TIMEOUT_MS: i64 = 30_000;

/// The reason why segments that this end makes may be longer than those of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mulpdu {
    /// The peer [announces](announcement) a length. This end does so, too.
    Announced,
    /// An administrator has chosen this length in octets, if it is longer.
    Fixed(u32),
}

impl Mulpdu {
    /// Returns the choice of the administrator.
    pub(super) fn chosen() -> Self {
        match parameters::mulpdu() {
            0 => Self::Announced,
            length => Self::Fixed(length),
        }
    }
}

/// An established connection, on which FPDUs flow.
pub(crate) struct TcpEstablished {
    connection: TcpConn<EventTarget>,
    outbox: Outbox,
    crc: bool,
    send_markers: bool,
    // The length of segments that the peer takes, whatever TCP's is, in octets; or 0.
    taken: u32,
    // The peer may still announce that length.
    listens: bool,
    // If it does, this end has to do so, too.
    answers: bool,
    // The passive side sends nothing before it has received an FPDU (RFC 5044, section 7.1.2).
    gated: bool,
}

impl TcpEstablished {
    /// Creates a connection with the negotiated properties. `reply` is the frame that the passive
    /// side has to send first. The active side sends a Write of no octets first, if the peer waits
    /// for it, or if it is an announcement. Sleeps.
    pub(super) fn new(
        connection: TcpConn<EventTarget>,
        agreed: &StreamParams,
        reply: Option<&[u8]>,
        mulpdu: Mulpdu,
    ) -> Result<Self> {
        let announces = mulpdu == Mulpdu::Announced;
        let mut outbox = Outbox::new(agreed.send_markers, agreed.crc)?;
        if let Some(reply) = reply {
            outbox.raw(reply)?;
        } else if announces || agreed.rtr.is_some() {
            announce(&mut outbox)?;
        }
        Ok(Self {
            connection,
            outbox,
            crc: agreed.crc,
            send_markers: agreed.send_markers,
            taken: match mulpdu {
                Mulpdu::Announced => 0,
                Mulpdu::Fixed(length) => length,
            },
            listens: announces,
            answers: announces && reply.is_some(),
            gated: reply.is_some(),
        })
    }

    /// Takes note of what the peer has announced. Another announcement does not count.
    fn adapt(&mut self, taken: u32, has_failed: bool) -> Result {
        if !core::mem::take(&mut self.listens) {
            return Ok(());
        }
        self.taken = taken;
        // Nothing follows a Terminate.
        if core::mem::take(&mut self.answers) && !has_failed {
            announce(&mut self.outbox)?;
        }
        Ok(())
    }

    /// Returns the greatest length of a segment, wherever there is space for it.
    fn longest(&self) -> u32 {
        frame::long_mulpdu(self.connection.emss(), self.send_markers, self.taken)
    }
}

impl llp::EstablishedConn for TcpEstablished {
    type Order = InOrder;
    type HalfClosed = HalfClosed;
    // RFC 5044, section 7.2: either half of a connection ends by itself.
    const HALF_CLOSES: bool = true;
    // See `outbox`.
    const GATHERS: bool = false;

    fn order(&mut self) -> Result<InOrder> {
        Ok(InOrder::new())
    }

    fn mulpdu(&self) -> u32 {
        self.longest().min(self.outbox.max_ulpdu())
    }

    fn may_send(&self) -> bool {
        !self.gated
    }

    fn has_space(&self) -> bool {
        self.outbox.has_space(self.longest())
    }

    fn is_empty(&self) -> bool {
        self.outbox.is_empty()
    }

    fn add(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<llp::SendStatus, llp::SendError> {
        match self.outbox.fpdu(header, length, payload) {
            Ok(()) => Ok(llp::SendStatus::Queued),
            Err(_) => Err(llp::SendError::Payload),
        }
    }

    fn add_pieces<'a>(
        &mut self,
        header: &[u8],
        pieces: impl Iterator<Item = Piece<'a>> + Clone,
    ) -> Result<llp::SendStatus, llp::SendError> {
        let _ = (header, pieces);
        Err(llp::SendError::Payload)
    }

    fn flush(&mut self) -> Result {
        self.outbox.flush(&mut self.connection)
    }

    fn receive(&mut self, receiver: &mut Receiver<'_, '_, InOrder>) -> Result<Received> {
        let mut taken = None;
        let (connection, gated) = (&mut self.connection, &mut self.gated);
        let received = receive(connection, gated, self.crc, &mut taken, receiver)?;
        if let Some(taken) = taken {
            self.adapt(taken, receiver.has_failed())?;
        }
        Ok(match (received, self.connection.state()) {
            (Received::Over { graceful, .. }, ConnState::Failed(error)) => Received::Over {
                graceful,
                reason: EndReason::Error(error.to_errno()),
            },
            _ => received,
        })
    }

    fn finish(&mut self) {
        self.connection.shutdown();
    }

    fn ended(&mut self) -> bool {
        false
    }

    fn poll_after_ms(&self) -> Option<u32> {
        let waits = self.connection.waiting_since().is_some() || !self.outbox.is_empty();
        // If nothing happens until then, memory is given back.
        (waits || self.outbox.has_memory()).then_some(POLL_MS)
    }

    fn has_timed_out(&self) -> bool {
        let since = self.connection.waiting_since();
        since.is_some_and(|since| since.elapsed().as_millis() > RECEIVE_TIMEOUT_MS)
    }

    fn close(self, at_once: bool) -> Option<HalfClosed> {
        if at_once {
            self.abort();
            return None;
        }
        Some(self.half_close())
    }

    fn half_close(self) -> HalfClosed {
        HalfClosed::new(self.connection, self.outbox)
    }

    fn abort(self) {
        self.connection.abort();
    }
}

/// Adds the FPDU that announces what this end takes, or that it is ready to receive.
fn announce(outbox: &mut Outbox) -> Result {
    outbox.fpdu(announcement::emit().as_slice(), 0, |_| Ok(()))
}

/// Receives the FPDUs that are there. `gated` ends with the first one; `with_crc` says whether they
/// have a CRC. `taken` becomes what the peer announces, if it does.
fn receive(
    connection: &mut TcpConn<EventTarget>,
    gated: &mut bool,
    with_crc: bool,
    taken: &mut Option<u32>,
    receiver: &mut Receiver<'_, '_, InOrder>,
) -> Result<Received> {
    connection.receive(|frames| loop {
        let length = |head: &[u8]| -> Result<usize> {
            let layout = frame::Layout::of(head, Position::NO_MARKERS).ok_or(EINVAL)?;
            Ok(layout.wire_len())
        };
        let next = match frames.next(frame::LENGTH_LEN, length) {
            // There is no memory to assemble a frame. Part of it is there, so it is polled.
            Err(error) if error == ENOMEM => {
                receiver.count(Count::NoMemory);
                return Ok(Received::Idle);
            }
            next => next?,
        };
        match next {
            Next::Whole(frame) => {
                let handled = fpdu(receiver, &frame, with_crc, taken)?;
                frame.take()?;
                *gated = false;
                if let Handled::Ended = handled {
                    return Ok(Received::Ended);
                }
            }
            Next::Part | Next::Nothing => return Ok(Received::Idle),
            Next::Budget => return Ok(Received::More),
            Next::End { within_frame } => {
                if within_frame {
                    // The peer may still receive, and is told the reason (RFC 5040, section 6.2.1),
                    // unless it was told of another fault.
                    receiver.fail(Fault::llp(LlpError::Lost));
                }
                return Ok(Received::Over {
                    graceful: true,
                    reason: EndReason::PeerClosed,
                });
            }
        }
    })
}

/// Handles a complete FPDU. An error is one of this machine.
fn fpdu(
    receiver: &mut Receiver<'_, '_, InOrder>,
    frame: &Frame<'_, '_>,
    with_crc: bool,
    taken: &mut Option<u32>,
) -> Result<Handled> {
    receiver.count(Count::Received);
    // Behind a fault nothing is placed (RFC 5044, section 8). The receive half does not know of a
    // wrong CRC.
    if receiver.has_failed() {
        return Ok(Handled::Done);
    }
    let mut head = [0; frame::LENGTH_LEN + HEAD_LEN];
    let head_len = head.len().min(frame.len());
    let head = head.get_mut(..head_len).ok_or(EINVAL)?;
    frame.copy_to_slice(0, head)?;
    let layout = frame::Layout::of(head, Position::NO_MARKERS).ok_or(EINVAL)?;
    if with_crc && !verify(frame)? {
        receiver.count(Count::BadCrc);
        receiver.fail(Fault::llp(LlpError::Crc));
        return Ok(Handled::Done);
    }
    let ulpdu_len = usize::from(layout.ulpdu_len());
    let head = head.get(frame::LENGTH_LEN..).ok_or(EINVAL)?;
    let head = head.get(..ulpdu_len.min(head.len())).unwrap_or(head);
    if ulpdu_len == announcement::LEN {
        *taken = taken.or_else(|| announcement::parse(head));
    }
    receiver.segment((), head, ulpdu_len, |at, piece| {
        frame.copy_to(frame::LENGTH_LEN.saturating_add(at), piece)
    })
}

/// Returns whether the CRC of an FPDU is correct.
fn verify(frame: &Frame<'_, '_>) -> Result<bool> {
    Ok(!frame.crc32c(!0, 0, frame.len())? == crc::RESIDUE)
}

/// A connection that is shut down for sending.
pub(crate) struct HalfClosed {
    connection: TcpConn<EventTarget>,
    // Octets that TCP does not have yet. Behind them, nothing more is sent.
    outbox: Option<Outbox>,
}

impl HalfClosed {
    /// Shuts down for sending behind the octets that wait. Sleeps for the socket's lock.
    pub(super) fn new(connection: TcpConn<EventTarget>, outbox: Outbox) -> Self {
        let mut this = Self {
            connection,
            outbox: Some(outbox),
        };
        // The next look at the connection finds an error again.
        let _ = this.flush();
        this
    }

    /// Hands over the octets that wait. An error is the connection's.
    fn flush(&mut self) -> Result {
        let Some(outbox) = &mut self.outbox else {
            return Ok(());
        };
        match outbox.flush(&mut self.connection) {
            // An event will report space.
            Err(error) if error == EAGAIN => return Ok(()),
            flushed => flushed?,
        }
        self.outbox = None;
        self.connection.shutdown();
        Ok(())
    }
}

impl llp::HalfClosed for HalfClosed {
    fn step(&mut self) -> bool {
        let discarded = self.connection.receive(|frames| frames.discard());
        if self.flush().is_err() || discarded.is_err() {
            return true;
        }
        match self.connection.state() {
            ConnState::Connecting | ConnState::Open => false,
            // The peer sends nothing more, but may still receive.
            ConnState::PeerClosed => self.outbox.is_none(),
            ConnState::Closed | ConnState::Failed(_) => true,
        }
    }

    fn abort(self) {
        // TCP continues alone for a while.
        drop(self);
    }
}

impl Drop for HalfClosed {
    fn drop(&mut self) {
        if self.outbox.is_some() {
            // A stream that ends within an FPDU must not look as if it ended in order.
            self.connection.abort_when_dropped();
        }
    }
}
