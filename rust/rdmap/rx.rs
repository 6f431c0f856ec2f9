// SPDX-License-Identifier: GPL-2.0

//! The receive half of a stream: placement of segments and delivery of messages.
//!
//! RFC 5040, sections 5 and 7, RFC 7306, sections 5 to 8, and RFC 5041, sections 5 to 7. A segment
//! is *placed* when it arrives: this half says where ([`Placement`]), and the caller copies the
//! octets and says so. A message is *delivered* in the order of the sender ([`Delivery`]): each of
//! its octets is placed, and so is everything that the peer sent before. Only then is a Read
//! Request or Atomic Request answered (section 5.5, rule 12), an STag invalidated, a Read or atomic
//! operation completed, a Send given to the upper layer. A Write is never delivered.
//!
//! Immediate Data takes a Receive like a Send, whatever the length of that, and places nothing. A
//! consumer may want to know how long the Write before it was (RFC 7306 does not say): that is told
//! if the segment before it was the last one of a Write, over an LLP that keeps the order.
//!
//! Over TCP both happen together. Over SCTP segments arrive in any order, and this code is the
//! same: the sequence number of each message's last segment is kept with it, and the message waits
//! until all segments up to that are [placed](Order::in_order_upto).
//!
//! A caller posts Receives before messages need them; or, if streams share them, when a segment
//! wants some ([`RxHalf::receives_wanted`]).
//!
//! Order of the checks: the header alone ([`Header::parse`]); then, untagged, a buffer for the
//! message, its offset and its length; tagged, the STag, as [`crate::stag`] says. A segment without
//! payload is accepted without a check of its STag.
//!
//! After the first fault nothing more is placed. Messages that were complete before it in the
//! peer's order are still delivered.
//!
//! # Locking
//!
//! The two halves of a stream, this one and the [transmit half](crate::tx), may have one lock or a
//! lock each: no method of one half accesses the other. A caller that passes something from one
//! half to the other (an [`InboundRequest`], a Read that is expected or done, a fault) drops the
//! first lock before it takes the second, or holds both.
//!
//! One context at a time receives, and it may drop the lock between [`RxHalf::segment`] and
//! [`RxHalf::placed`], or [`RxHalf::not_placed`], while it copies octets. Another context may close
//! this half meanwhile: [`RxHalf::close`] then yields no [`Closed`], and [`RxHalf::flush`] no
//! Receive, before that.
//!
//! A peer may send its next Read Request as soon as it has the last segment of a response. So
//! [`RxHalf::free_inbound`], which frees the slot of the old request, is called before that segment
//! leaves, like [`RxHalf::expect`] for a Read. A peer that does not wait for the response can have
//! one request more than IRD here for that moment; there is room for it.

mod deliver;
mod message;
mod place;

use crate::atomic::AtomicRequest;
use crate::fault::{Fault, Misuse, OffendingSegment, Violation};
use crate::header::{Header, ReadRequest};
use crate::order::{Invalid, Order, Seq};
use crate::ring::Ring;
pub use crate::rx::message::HashKey;
use crate::rx::message::Message;
use crate::stag::{Denied, Range, Stag};
use crate::terminate::Terminate;
use core::ops::DerefMut;

/// The destination of a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A posted Receive.
    Receive {
        /// The number of the Receive; the first that was posted has 0.
        receive: u64,
        /// The offset in it.
        offset: u32,
        /// The length in octets.
        length: u32,
    },
    /// Memory that the peer writes.
    Write(Range),
    /// The destination of a Read of this end.
    Response {
        /// The Read.
        read: ReadId,
        /// The memory.
        range: Range,
    },
    /// Nowhere: there is no payload, or this crate has taken it, or the stream has failed.
    Nothing,
}

/// A message that is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A Send. The Receive is complete.
    Message {
        /// The number of the Receive.
        receive: u64,
        /// The length of the message in octets.
        length: u32,
        /// With Solicited Event.
        solicited: bool,
        /// The STag that the peer named. It was invalidated by
        /// [`Memory::invalidate`](crate::stag::Memory::invalidate).
        invalidated: Option<Stag>,
    },
    /// Immediate Data. The Receive is complete.
    Immediate {
        /// The number of the Receive.
        receive: u64,
        /// The data.
        data: [u8; 8],
        /// The length in octets of the Write that ended just before, as far as that is known.
        written: u32,
        /// With Solicited Event.
        solicited: bool,
    },
    /// A Read Request or an Atomic Request, for
    /// [`TxHalf::respond`](crate::tx::TxHalf::respond).
    Request(InboundRequest),
    /// The response to a Read of this end.
    ReadDone {
        /// The Read.
        read: ReadId,
        /// The STag that the Read is to invalidate. It is still valid: the caller invalidates it
        /// before it calls [`TxHalf::done`](crate::tx::TxHalf::done). This end asked for that, so
        /// the rights of the peer that [`Memory::invalidate`](crate::stag::Memory::invalidate)
        /// checks do not matter.
        to_invalidate: Option<Stag>,
    },
    /// The response to an atomic operation of this end. The caller calls
    /// [`TxHalf::done`](crate::tx::TxHalf::done), and stores the value before it lets the request
    /// complete.
    AtomicDone {
        /// The request.
        request: ReadId,
        /// The value before the operation.
        original: u64,
    },
    /// A Terminate. Nothing follows.
    Terminate(Terminate),
}

/// The reason why a segment is not placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its sequence number is impossible. The LLP ends the session.
    Order(Invalid),
    /// The peer broke a rule of DDP or RDMAP. A Terminate reports it.
    Fault(Fault),
    /// The peer broke a rule of DDP or RDMAP with a Terminate. This is not answered with another
    /// Terminate.
    Terminate(Violation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// A fault was found in a segment. Messages that are complete below this sequence number are
    /// delivered.
    Failed(Seq),
    /// Nothing is delivered any more.
    Closed,
}

/// A Read or an atomic operation of this end: its number in the queue of [`crate::tx::TxHalf`].
pub type ReadId = u64;

/// A posted Receive, with the placed part of its message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Receive {
    capacity: u32,
    message: Message,
    solicited: bool,
    invalidate: Option<Stag>,
    immediate: Option<Immediate>,
    offending: Option<OffendingSegment>,
}

/// Immediate Data that arrived for a Receive.
#[derive(Clone, Copy, Debug)]
struct Immediate {
    data: [u8; 8],
    written: u32,
}

/// A slot for a Read Request or an Atomic Request of the peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct InboundSlot(Option<(Seq, InboundRequest)>);

/// A Read or an atomic operation of this end that waits for its response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outstanding {
    read: ReadId,
    awaited: Awaited,
    message: Message,
    offending: Option<OffendingSegment>,
}

/// The response that is awaited.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    /// Octets for this memory, whose STag is invalidated afterwards if `invalidate`.
    Octets { sink: Range, invalidate: bool },
    /// The original value of the atomic operation with this number among these; zero until it is
    /// there.
    Original { number: u64, value: u64 },
}

impl Default for Awaited {
    fn default() -> Self {
        Self::Octets {
            sink: Range::default(),
            invalidate: false,
        }
    }
}

/// The memory of the queues of a receive half. Its sizes determine the number of Receives, IRD and
/// ORD.
pub trait Slots {
    /// One for each Receive that may be posted.
    type Receives: DerefMut<Target = [Receive]>;
    /// One for each Read or atomic operation that the peer may have outstanding: IRD.
    type Inbound: DerefMut<Target = [InboundSlot]>;
    /// One for each Read or atomic operation that this end may have outstanding: ORD.
    type Outstanding: DerefMut<Target = [Outstanding]>;
}

/// A request that was delivered and is to be answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboundRequest {
    /// The number of the request; the first that the peer sent has 0.
    pub number: u64,
    /// The octets or the operation that it asks for.
    pub wanted: Wanted,
    /// Its segment, in case the request fails later.
    pub offending: Option<OffendingSegment>,
}

/// The octets or the operation that a request of the peer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Octets: a Read Request.
    Read(ReadRequest),
    /// An atomic operation: an Atomic Request.
    Atomic(AtomicRequest),
}

impl Default for Wanted {
    fn default() -> Self {
        Self::Read(ReadRequest::default())
    }
}

/// The peer's Write that is arriving, or that arrived last. Its octets are those of one run of
/// memory: else they are not known, and count as none.
#[derive(Debug)]
struct LastWrite {
    octets: Option<u32>,
    stag: Stag,
    // The offset of its next octet.
    next: u64,
    ended: bool,
    // The sequence number behind its last segment.
    behind: Seq,
}

impl LastWrite {
    const NONE: Self = Self {
        octets: None,
        stag: Stag(0),
        next: 0,
        ended: true,
        behind: 0,
    };

    /// Adds a segment.
    #[inline]
    fn add(&mut self, seq: Seq, range: Range, last: bool) {
        let before = match self.ended {
            true => Some(0),
            false if (self.stag, self.next) == (range.stag, range.offset) => self.octets,
            false => None,
        };
        *self = Self {
            octets: before.and_then(|octets| octets.checked_add(range.length)),
            stag: range.stag,
            next: range.offset.wrapping_add(u64::from(range.length)),
            ended: last,
            behind: seq.saturating_add(1),
        };
    }

    /// Returns the length in octets of the Write that ended just before `seq`, or 0 if none did.
    fn before(&self, seq: Seq) -> u32 {
        match self.ended && self.behind == seq {
            true => self.octets.unwrap_or(0),
            false => 0,
        }
    }
}

impl Outstanding {
    /// Returns the offset of the range in the destination `sink`, if it may belong to this Read.
    /// The order determines that if responses come `in_order`; else the range has to.
    fn offset_of(&self, sink: Range, range: Range, in_order: bool) -> Result<u32, Denied> {
        // The STag of a Read of no octets is not checked.
        if in_order && sink.length == 0 && range.length == 0 {
            return Ok(0);
        }
        if range.stag != sink.stag {
            return Err(Denied::Invalid);
        }
        let offset = range.offset.checked_sub(sink.offset);
        let offset = offset
            .and_then(|offset| u32::try_from(offset).ok())
            .ok_or(Denied::Bounds)?;
        let end = offset.checked_add(range.length);
        if end.is_none_or(|end| end > sink.length) {
            return Err(Denied::Bounds);
        }
        // A Read that has no room for these octets is not the one that is meant.
        let octets = self.message.octets().checked_add(range.length);
        match octets.is_some_and(|octets| octets <= sink.length) {
            true => Ok(offset),
            false => Err(Denied::Bounds),
        }
    }
}

/// The receive half of a stream.
#[derive(Debug)]
pub struct RxHalf<O, S: Slots> {
    order: O,
    key: HashKey,
    state: State,
    receives: Ring<S::Receives>,
    // INVARIANT: always full. An entry is empty or holds a request; those below `next_response`
    // were delivered.
    inbound: Ring<S::Inbound>,
    next_response: u64,
    outstanding: Ring<S::Outstanding>,
    // The request that was registered last, which may be answered already.
    newest: Option<ReadId>,
    // Atomic operations of this end: the number of those that were registered, and of those whose
    // response was delivered.
    atomics: u64,
    atomics_done: u64,
    terminate: Option<(Seq, Terminate)>,
    last_write: LastWrite,
    // Sequence numbers of the last message with a Receive, of the last request and of the last
    // Atomic Response that were delivered.
    delivered: [Option<Seq>; 3],
    // The caller copies octets: `segment` has returned, and `placed` was not called yet.
    placing: bool,
}

/// The proof that a receive half is closed and that nothing of its stream is placed any more.
#[derive(Debug)]
#[must_use]
pub struct Closed(());

/// Octets of the front of a segment that [`RxHalf::segment`] needs, if the segment is as long.
pub const HEAD_LEN: usize = Header::UNTAGGED_LEN + Terminate::MAX_LEN;

const _: () = assert!(AtomicRequest::LEN <= Terminate::MAX_LEN);

impl<O: Order, S: Slots> RxHalf<O, S> {
    /// Creates the receive half of a new stream. `key` is random.
    pub fn new(
        order: O,
        key: HashKey,
        receives: S::Receives,
        inbound: S::Inbound,
        outstanding: S::Outstanding,
    ) -> Self {
        let mut inbound = Ring::new(inbound);
        while inbound.push(InboundSlot(None)).is_some() {}
        Self {
            order,
            key,
            state: State::Open,
            receives: Ring::new(receives),
            inbound,
            next_response: 0,
            outstanding: Ring::new(outstanding),
            newest: None,
            atomics: 0,
            atomics_done: 0,
            terminate: None,
            last_write: LastWrite::NONE,
            delivered: [None; 3],
            placing: false,
        }
    }

    /// Continues the message numbers behind as many Sends, Reads and atomic operations each way.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, messages: u64) {
        while self.inbound.pop().is_some() {}
        self.inbound.skip_to(messages);
        while self.inbound.push(InboundSlot(None)).is_some() {}
        self.next_response = messages;
        self.receives.skip_to(messages);
        self.outstanding.skip_to(messages);
        (self.atomics, self.atomics_done) = (messages, messages);
    }

    /// Posts a Receive of `capacity` octets. Returns its number.
    pub fn post_receive(&mut self, capacity: u32) -> Result<u64, Misuse> {
        let receive = Receive {
            capacity,
            ..Receive::default()
        };
        self.receives.push(receive).ok_or(Misuse::Full)
    }

    /// Registers a Read of this end, before its request is sent. Its response goes to `sink`, whose
    /// STag is invalidated afterwards if `invalidate`.
    ///
    /// A request that the LLP did not take is offered again, and so is this call: the newest Read
    /// is registered once.
    ///
    /// A response does not name its Read. Over a layer that reorders, the range that it goes to
    /// identifies it, so [`TxHalf`](crate::tx::TxHalf) defers a Read whose destination overlaps
    /// that of another outstanding one.
    pub fn expect(&mut self, read: ReadId, sink: Range, invalidate: bool) -> Result<(), Misuse> {
        self.register(read, Awaited::Octets { sink, invalidate })
            .map(drop)
    }

    /// Registers an atomic operation of this end, before its request is sent. The newest one is
    /// registered once, like a Read.
    pub fn expect_atomic(&mut self, request: ReadId) -> Result<(), Misuse> {
        let original = Awaited::Original {
            number: self.atomics,
            value: 0,
        };
        if self.register(request, original)? {
            self.atomics = self.atomics.saturating_add(1);
        }
        Ok(())
    }

    /// Registers a request of this end, unless it is the newest one. Returns whether it did.
    fn register(&mut self, read: ReadId, awaited: Awaited) -> Result<bool, Misuse> {
        // A peer can answer what was offered and not sent yet. That is answered once.
        if self.newest == Some(read) {
            return Ok(false);
        }
        let outstanding = Outstanding {
            read,
            awaited,
            ..Outstanding::default()
        };
        self.outstanding.push(outstanding).ok_or(Misuse::Full)?;
        self.newest = Some(read);
        Ok(true)
    }

    /// Returns the order of the peer's segments.
    #[inline]
    pub fn order(&mut self) -> &mut O {
        &mut self.order
    }

    /// Takes note that the payload of the segment, if it has any, was copied.
    #[inline]
    pub fn placed(&mut self) {
        self.placing = false;
        self.order.placed();
    }

    /// Takes note that the payload could not be copied: its memory has gone since
    /// [`segment`](Self::segment). The stream fails, as if the segment had been refused.
    #[inline]
    pub fn not_placed(&mut self) {
        if self.state == State::Open {
            self.state = State::Failed(self.order.in_order_upto());
        }
        self.placed();
    }

    /// Frees the slot of the request with this number, whose last response segment is about to be
    /// sent: as soon as the peer has that, it may send one more request.
    ///
    /// A segment that the LLP did not take is offered again, and this may be called again.
    pub fn free_inbound(&mut self, number: u64) -> Result<(), Misuse> {
        if number >= self.next_response {
            return Err(Misuse::Unknown);
        }
        // Responses are sent in the order of the requests: there is one at most.
        while self.inbound.first() <= number {
            self.inbound.pop();
            self.inbound.push(InboundSlot(None));
        }
        Ok(())
    }

    /// Closes this half: nothing more is placed or delivered.
    ///
    /// Returns `None` while octets are copied: then it is called again after
    /// [`placed`](Self::placed).
    #[inline]
    pub fn close(&mut self) -> Option<Closed> {
        self.state = State::Closed;
        (!self.placing).then_some(Closed(()))
    }

    /// Takes back the oldest Receive of a closed half. Returns `None` if there is none, if the half
    /// is not closed, or while octets are copied: then it is called again after
    /// [`placed`](Self::placed).
    pub fn flush(&mut self) -> Option<u64> {
        let number = self.receives.first();
        match self.state {
            State::Closed if !self.placing => self.receives.pop().map(|_| number),
            _ => None,
        }
    }
}
