// SPDX-License-Identifier: GPL-2.0

//! An established session, in which segments flow.

use crate::lower;
use crate::lower::Added;
use crate::lower::Failed;
use crate::sctp::held::Held;
use crate::sctp::inbound;
use crate::sctp::lingering::Lingering;
use crate::sctp::peer::Order;
use crate::sctp::peer::Peer;
use crate::sctp::peer::LONGEST;
use crate::stream::receiver::Received;
use crate::stream::receiver::Receiver;
use kernel::alloc::KVVec;
use kernel::prelude::*;
use kernel::time::Instant;
use kernel::time::Monotonic;
use rdmap::sctp::chunk::PPID_SEGMENT;
use rdmap::sctp::chunk::SSN_LEN;
use rdmap::sctp::session::Event;
use socket::sctp::Sent;

/// Segments that are sent in a row, before chunks are received again.
const BATCH: usize = 64;

/// The interval of polling for space, in milliseconds. Mostly an event reports it, but not after a
/// shortage of memory.
const LOOK_MS: u32 = 20;

/// The number of attempts for a segment that SCTP refuses as too long, although it is not.
const TRIES: usize = 3;

/// The time without space after which a peer that does not receive is given up, in milliseconds.
const LATE_MS: i64 = 60_000;

/// An established session, in which segments flow.
pub(crate) struct Open {
    peer: Peer,
    // [`None`] once the stream has it.
    order: Option<Order>,
    held: Held,
    scratch: KVVec<u8>,
    mulpdu: u32,
    // Segments that were sent since the last flush.
    added: usize,
    // The time since when there is no space.
    full: Option<Instant<Monotonic>>,
}

impl Open {
    /// Creates a session that is about to be open. Sleeps.
    pub(super) fn new(peer: Peer, order: Order, held: Held) -> Result<Self> {
        Ok(Self {
            scratch: KVVec::from_elem(0, LONGEST, GFP_KERNEL)?,
            mulpdu: peer.mulpdu(),
            peer,
            order: Some(order),
            held,
            added: 0,
            full: None,
        })
    }

    /// Takes note that there was no space.
    fn wait(&mut self) {
        self.full.get_or_insert_with(Instant::now);
    }
}

impl lower::Open for Open {
    type Order = Order;
    type Lingering = Lingering;
    // RFC 5043, section 6.2: nothing follows on the Terminate of a session, which whoever ends the
    // connection sends.
    const HALF_CLOSES: bool = false;

    fn order(&mut self) -> Result<Order> {
        self.order.take().ok_or(EINVAL)
    }

    fn mulpdu(&self) -> u32 {
        self.mulpdu
    }

    fn may_send(&self) -> bool {
        self.peer.session.may_send()
    }

    fn has_room(&self) -> bool {
        self.added < BATCH
    }

    fn is_empty(&self) -> bool {
        self.added == 0
    }

    fn add(
        &mut self,
        header: &[u8],
        length: u32,
        payload: impl FnOnce(&mut [u8]) -> Result,
    ) -> Result<Added, Failed> {
        let Some(ssn) = self.peer.ssn() else {
            self.wait();
            return Ok(Added::Full);
        };
        let begin = SSN_LEN.saturating_add(header.len());
        let length = usize::try_from(length).map_err(|_| Failed::Payload)?;
        let chunk = self.scratch.get_mut(..begin.saturating_add(length));
        let chunk = chunk.ok_or(Failed::Payload)?;
        let (to, rest) = chunk.split_at_mut_checked(SSN_LEN).ok_or(Failed::Payload)?;
        to.copy_from_slice(&ssn.to_be_bytes());
        let (to, rest) = rest
            .split_at_mut_checked(header.len())
            .ok_or(Failed::Payload)?;
        to.copy_from_slice(header);
        payload(rest).map_err(|_| Failed::Payload)?;
        let ulpdu = chunk.len().saturating_sub(SSN_LEN);
        for _ in 0..TRIES {
            match self.peer.hand_over(PPID_SEGMENT, chunk) {
                Ok(Sent::Done) => {
                    self.added = self.added.saturating_add(1);
                    self.full = None;
                    return Ok(Added::Done);
                }
                Ok(Sent::Full) => {
                    self.wait();
                    return Ok(Added::Full);
                }
                Ok(Sent::TooLong) => {
                    self.mulpdu = self.peer.mulpdu();
                    if usize::try_from(self.mulpdu).is_ok_and(|mulpdu| ulpdu > mulpdu) {
                        return Ok(Added::TooLong);
                    }
                    // The path MTU has grown again since.
                }
                Err(_) => return Err(Failed::Connection),
            }
        }
        // The path is narrower than RFC 5043 allows.
        Err(Failed::Connection)
    }

    fn flush(&mut self) -> Result {
        self.added = 0;
        let is_due = self.peer.is_due();
        match self.peer.flush()? {
            true => {
                if is_due {
                    self.full = None;
                }
                Ok(())
            }
            false => {
                self.wait();
                Err(EAGAIN)
            }
        }
    }

    fn receive(&mut self, receiver: &mut Receiver<'_, '_, Order>) -> Result<Received> {
        self.peer.settle();
        self.mulpdu = self.peer.mulpdu();
        inbound::take(&mut self.peer, &mut self.held, receiver)
    }

    fn finish(&mut self) {
        self.peer.on(Event::Fail);
    }

    fn ended(&mut self) -> bool {
        self.peer.on(Event::Fail);
        true
    }

    fn look_again(&self) -> Option<u32> {
        self.full.map(|_| LOOK_MS)
    }

    fn is_late(&self) -> bool {
        self.full
            .is_some_and(|since| since.elapsed().as_millis() > LATE_MS)
    }

    fn close(mut self, _: bool) -> Option<Lingering> {
        // RFC 5043, section 6.2: one of both sides sends a Terminate in any case.
        self.peer.on(Event::Disconnect);
        Some(self.linger())
    }

    fn linger(self) -> Lingering {
        Lingering::new(self.peer)
    }

    fn abort(self) {
        self.peer.abort();
    }
}
