// SPDX-License-Identifier: GPL-2.0

//! Entries of the queues of the receive half: Receives, Read Requests of the peer, Reads of this
//! end (RFC 5040, sections 3.1 and 6.1).

use core::ops::DerefMut;

use crate::fault::OffendingSegment;
use crate::header::ReadRequest;
use crate::order::Seq;
use crate::rx::message::Message;
use crate::stag::Denied;
use crate::stag::Range;
use crate::stag::Stag;

/// A Read of this end: its number in the queue of [`crate::tx::TxHalf`].
pub type ReadId = u64;

/// A posted Receive, with the placed part of its message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receive {
    pub(super) capacity: u32,
    pub(super) message: Message,
    pub(super) solicited: bool,
    pub(super) invalidate: Option<Stag>,
    pub(super) offending: Option<OffendingSegment>,
}

/// A slot for a Read Request of the peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct InboundSlot(pub(super) Option<(Seq, InboundRead)>);

/// A Read of this end that waits for its response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outstanding {
    pub(super) read: ReadId,
    pub(super) sink: Range,
    pub(super) invalidate: bool,
    pub(super) message: Message,
    pub(super) offending: Option<OffendingSegment>,
}

/// The memory of the queues of a receive half. Its sizes determine the number of Receives, IRD and
/// ORD.
pub trait Slots {
    /// One for each Receive that may be posted.
    type Receives: DerefMut<Target = [Receive]>;
    /// One for each Read Request that the peer may have outstanding: IRD.
    type Inbound: DerefMut<Target = [InboundSlot]>;
    /// One for each Read that this end may have outstanding: ORD.
    type Outstanding: DerefMut<Target = [Outstanding]>;
}

/// A Read Request that was delivered and is to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboundRead {
    /// The number of the request; the first that the peer sent has 0.
    pub number: u64,
    /// The Read Request.
    pub request: ReadRequest,
    /// Its segment, in case the Read fails later.
    pub offending: Option<OffendingSegment>,
}

impl Outstanding {
    /// Returns the offset of the range in the destination, if it may belong to this Read. The order
    /// determines that if responses come `in_order`; else the range has to.
    pub(super) fn offset_of(&self, range: Range, in_order: bool) -> Result<u32, Denied> {
        // The STag of a Read of no octets is not checked.
        if in_order && self.sink.length == 0 && range.length == 0 {
            return Ok(0);
        }
        if range.stag != self.sink.stag {
            return Err(Denied::Invalid);
        }
        let offset = range.offset.checked_sub(self.sink.offset);
        let offset = offset
            .and_then(|offset| u32::try_from(offset).ok())
            .ok_or(Denied::Bounds)?;
        let end = offset.checked_add(range.length);
        if end.is_none_or(|end| end > self.sink.length) {
            return Err(Denied::Bounds);
        }
        // A Read that has no room for these octets is not the one that is meant.
        let octets = self.message.octets().checked_add(range.length);
        match octets.is_some_and(|octets| octets <= self.sink.length) {
            true => Ok(offset),
            false => Err(Denied::Bounds),
        }
    }
}
