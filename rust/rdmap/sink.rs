// SPDX-License-Identifier: GPL-2.0

//! The receive half of a stream: which octets go where, and what is delivered when.
//!
//! RFC 5040, sections 5 and 7, and RFC 5041, sections 5 to 7. A segment is *placed* when it arrives: the sink says where
//! ([`Place`]), the caller moves the octets and says so. A message is *delivered* when its turn comes ([`Delivery`]):
//! each of its octets is placed, and so is all that the peer sent before. Only then is a Read Request answered (section
//! 5.5, rule 12), an STag invalidated, a Read complete, a Send shown to the upper layer. A Write is never delivered.
//!
//! Over TCP both come together. Over SCTP segments arrive in any order, and this file is the same: the turn of each
//! message's last segment is kept with it, and the message waits until its turn is [reached](Order::reached).
//!
//! Order of the checks: what the header shows ([`Header::parse`]); then, untagged, a buffer for the message, its offset
//! and its length; tagged, the STag, as [`crate::stag`] says. Zero octets are placed without a look at the STag.
//!
//! After the first fault nothing more is placed. What was complete before it in the peer's order is still delivered.
//!
//! # Locking
//!
//! The sink and the [source](crate::source) of a stream may have one lock or a lock each: no method of one half looks at
//! the other. Whoever passes something from half to half (an [`Answer`], a Read to be expected, one that is done, a fault)
//! drops the lock of the first before it takes the lock of the second, or holds both.
//!
//! One context at a time receives, and it may drop the lock of the sink between [`Sink::segment`] and
//! [`Sink::placed`], or [`Sink::not_placed`], while it moves octets. The other context may close the
//! sink meanwhile: [`Sink::close`] then yields no [`Closed`], and [`Sink::flush`] no Receive, before
//! that.
//!
//! A peer may send its next Read Request as soon as it has the last segment of a response. So [`Sink::answered`], which
//! gives the place of the old request back, is called before that segment leaves, like [`Sink::expect`] for a Read. A peer
//! that does not wait for the response can have one request more than IRD here for that moment; there is room for it.

mod deliver;
mod message;
mod place;
mod queue;

use crate::fault::Fault;
use crate::fault::Misuse;
use crate::header::Header;
use crate::order::Invalid;
use crate::order::Order;
use crate::order::Turn;
use crate::ring::Ring;
pub use crate::sink::message::Key;
pub use crate::sink::queue::Answer;
pub use crate::sink::queue::Inbound;
pub use crate::sink::queue::Outstanding;
pub use crate::sink::queue::ReadId;
pub use crate::sink::queue::Receive;
pub use crate::sink::queue::Slots;
use crate::stag::Range;
use crate::stag::Stag;
use crate::terminate::Terminate;
use crate::violation::Violation;

/// Where the payload of a segment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To a Receive.
    Receive {
        /// Its number; the first that was posted has 0.
        receive: u64,
        /// From which octet of it on.
        offset: u32,
        /// How many octets.
        length: u32,
    },
    /// To memory that the peer writes.
    Write(Range),
    /// To the sink of a Read.
    Response {
        /// Which Read.
        read: ReadId,
        /// Where.
        range: Range,
    },
    /// Nowhere: there is none, or the engine has taken it, or the stream has failed.
    Nothing,
}

/// A message whose turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// A Send. The Receive is complete.
    Message {
        /// Which Receive.
        receive: u64,
        /// How many octets.
        length: u32,
        /// With Solicited Event.
        solicited: bool,
        /// The STag that the peer named. The sink has invalidated it by [`Memory::invalidate`](crate::stag::Memory::invalidate).
        invalidated: Option<Stag>,
    },
    /// A Read Request, for [`Source::answer`](crate::source::Source::answer).
    Answer(Answer),
    /// The response to a Read of this end.
    ReadDone {
        /// Which Read.
        read: ReadId,
        /// The STag that the Read is to invalidate. It is still valid: the caller invalidates it before it says
        /// [`Source::done`](crate::source::Source::done). This end asked for that, so the rights of the peer that
        /// [`Memory::invalidate`](crate::stag::Memory::invalidate) checks do not matter.
        to_invalidate: Option<Stag>,
    },
    /// A Terminate. Nothing follows.
    Terminate(Terminate),
}

/// Why a segment is not placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its sequence number cannot be. The lower layer ends the session.
    Order(Invalid),
    /// The peer broke a rule of DDP or RDMAP. A Terminate says so.
    Fault(Fault),
    /// The peer broke a rule of DDP or RDMAP with a Terminate. This is not answered with another Terminate.
    Terminate(Violation),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// A fault was found in a segment. What comes before this turn is complete and is delivered.
    Failed(Turn),
    /// Nothing is delivered any more.
    Closed,
}

/// The receive half of a stream.
#[derive(Debug)]
pub struct Sink<O, S: Slots> {
    order: O,
    key: Key,
    state: State,
    receives: Ring<S::Receives>,
    // INVARIANT: always full. An entry is empty or holds a Read Request; those below `answering` were delivered.
    inbound: Ring<S::Inbound>,
    answering: u64,
    outstanding: Ring<S::Outstanding>,
    terminate: Option<(Turn, Terminate)>,
    // Turns of the last Send and of the last Read Request that were delivered.
    delivered: [Option<Turn>; 2],
    // The caller moves octets: `segment` has said where, and `placed` was not called yet.
    placing: bool,
}

/// The proof that a sink is closed and that nothing of its stream is placed any more.
#[derive(Debug)]
#[must_use]
pub struct Closed(());

/// Octets from the front of a segment that [`Sink::segment`] needs, if the segment has as many.
pub const HEAD_LEN: usize = Header::UNTAGGED_LEN + Terminate::MAX_LEN;

impl<O: Order, S: Slots> Sink<O, S> {
    /// The receive half of a stream that is just open. `key` is random.
    pub fn new(
        order: O,
        key: Key,
        receives: S::Receives,
        inbound: S::Inbound,
        outstanding: S::Outstanding,
    ) -> Self {
        let mut inbound = Ring::new(inbound);
        while inbound.push(Inbound(None)).is_some() {}
        Self {
            order,
            key,
            state: State::Open,
            receives: Ring::new(receives),
            inbound,
            answering: 0,
            outstanding: Ring::new(outstanding),
            terminate: None,
            delivered: [None; 2],
            placing: false,
        }
    }

    /// The stream as if so many Sends and as many Reads each way were over.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, messages: u64) {
        while self.inbound.pop().is_some() {}
        self.inbound.skip_to(messages);
        while self.inbound.push(Inbound(None)).is_some() {}
        self.answering = messages;
        self.receives.skip_to(messages);
        self.outstanding.skip_to(messages);
    }

    /// Posts a Receive of `capacity` octets. Returns its number.
    pub fn post_receive(&mut self, capacity: u32) -> Result<u64, Misuse> {
        let receive = Receive {
            capacity,
            ..Receive::default()
        };
        self.receives.push(receive).ok_or(Misuse::Full)
    }

    /// A Read of this end is about to be sent. Its response goes to `sink`, whose STag is to be invalidated afterwards
    /// if `invalidate`. To be called before the request leaves.
    ///
    /// A request that the lower layer did not take is shown again, and this is called again: the newest Read is
    /// registered once.
    ///
    /// A response does not name its Read. Over a layer that reorders it is told by the range it goes to, so
    /// [`Source`](crate::source::Source) holds a Read back whose sink overlaps that of another one that is outstanding.
    pub fn expect(&mut self, read: ReadId, sink: Range, invalidate: bool) -> Result<(), Misuse> {
        let newest = self.outstanding.next().checked_sub(1);
        let newest = newest.and_then(|number| self.outstanding.get(number));
        if newest.is_some_and(|newest| newest.read == read) {
            return Ok(());
        }
        let outstanding = Outstanding {
            read,
            sink,
            invalidate,
            ..Outstanding::default()
        };
        let pushed = self.outstanding.push(outstanding);
        pushed.map(drop).ok_or(Misuse::Full)
    }

    /// The order of the peer's segments.
    #[inline]
    pub fn order(&mut self) -> &mut O {
        &mut self.order
    }

    /// The payload of the segment that arrived is where it belongs, if it has any.
    #[inline]
    pub fn placed(&mut self) {
        self.placing = false;
        self.order.placed();
    }

    /// The payload of the segment that arrived could not be moved: its memory has gone since
    /// [`segment`](Self::segment). The stream has failed, as if the segment had been refused.
    #[inline]
    pub fn not_placed(&mut self) {
        if self.state == State::Open {
            self.state = State::Failed(self.order.reached());
        }
        self.placed();
    }

    /// The last segment of the response to the Read Request of this number, which was delivered, is about to be sent: as
    /// soon as the peer has it, it may send one more request.
    ///
    /// A segment that the lower layer did not take is shown again, and this may be called again.
    pub fn answered(&mut self, number: u64) -> Result<(), Misuse> {
        if number >= self.answering {
            return Err(Misuse::Unknown);
        }
        // Responses are sent in the order of the requests: there is one at most.
        while self.inbound.first() <= number {
            self.inbound.pop();
            self.inbound.push(Inbound(None));
        }
        Ok(())
    }

    /// The stream is over: nothing more is placed or delivered.
    ///
    /// `None` while octets are being moved: then this is called again after [`placed`](Self::placed).
    #[inline]
    pub fn close(&mut self) -> Option<Closed> {
        self.state = State::Closed;
        (!self.placing).then_some(Closed(()))
    }

    /// Takes back the oldest Receive of a stream that is over. `None` if there is none, if the stream is not over, or
    /// while octets are being moved: then this is called again after [`placed`](Self::placed).
    pub fn flush(&mut self) -> Option<u64> {
        let number = self.receives.first();
        match self.state {
            State::Closed if !self.placing => self.receives.pop().map(|_| number),
            _ => None,
        }
    }
}
