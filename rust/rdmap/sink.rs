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
//! One context at a time receives, and it may drop the lock of the sink between [`Sink::segment`] and [`Sink::placed`],
//! while it moves octets. The other context may close the sink meanwhile: [`Sink::close`] then yields no [`Closed`], and
//! [`Sink::flush`] no Receive, before `placed`.
//!
//! A peer may send its next Read Request as soon as it has the last segment of a response. So [`Sink::answered`], which
//! gives the place of the old request back, is called before that segment leaves, like [`Sink::expect`] for a Read. A peer
//! that does not wait for the response can have one request more than IRD here for that moment; there is room for it.

mod message;
mod queue;

use crate::fault::Culprit;
use crate::fault::Fault;
use crate::fault::Misuse;
use crate::header::Header;
use crate::header::Model;
use crate::header::ReadRequest;
use crate::header::Untagged;
use crate::order::Invalid;
use crate::order::Order;
use crate::order::Turn;
use crate::ring::Ring;
use crate::serial::ahead_u32;
pub use crate::sink::message::Key;
use crate::sink::message::Message;
pub use crate::sink::queue::Answer;
pub use crate::sink::queue::Inbound;
pub use crate::sink::queue::Outstanding;
pub use crate::sink::queue::ReadId;
pub use crate::sink::queue::Receive;
pub use crate::sink::queue::Slots;
use crate::stag::Access;
use crate::stag::Denied;
use crate::stag::Memory;
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
        /// The STag that the peer named. The sink has invalidated it by [`Memory::invalidate`].
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
        /// [`Memory::invalidate`] checks do not matter.
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

/// Which message is next to be delivered: the oldest one of these.
#[derive(Clone, Copy)]
enum Next {
    Send,
    ReadRequest,
    Response,
    Terminate,
}

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

    /// A segment of `length` octets arrived that begins with `head`, which has [`HEAD_LEN`] of them or all.
    ///
    /// Afterwards the payload is moved to its place, and [`placed`](Self::placed) is called.
    pub fn segment(
        &mut self,
        key: O::Key,
        head: &[u8],
        length: usize,
        memory: &impl Memory,
    ) -> Result<Place, Refusal> {
        let arrived = self.order.arrive(key);
        if arrived == Err(Invalid::Busy) {
            // The caller's fault, not the peer's: the stream stays as it is.
            return Err(Refusal::Order(Invalid::Busy));
        }
        if self.state != State::Open {
            // Only its number counts: a stream is not used again before all of them are there.
            return Ok(Place::Nothing);
        }
        let placed = match arrived {
            Ok(turn) => self.place(turn, head, length, memory),
            Err(invalid) => Err(Refusal::Order(invalid)),
        };
        if placed.is_err() {
            self.state = State::Failed(self.order.reached());
            self.order.placed();
        }
        self.placing = !matches!(placed, Ok(Place::Nothing) | Err(_));
        placed
    }

    fn place(
        &mut self,
        turn: Turn,
        head: &[u8],
        length: usize,
        memory: &impl Memory,
    ) -> Result<Place, Refusal> {
        let culprit = Culprit::of(head, length);
        let refuse = |violation| Refusal::Fault(Fault::peer(violation, culprit));
        let (header, payload) = Header::parse(head).map_err(refuse)?;
        let header_len = head.len().saturating_sub(payload.len());
        let Some(length) = length
            .checked_sub(header_len)
            .and_then(|length| u32::try_from(length).ok())
        else {
            return Err(refuse(Violation::Truncated));
        };
        let last = header.last.then_some(turn);
        match header.model {
            Model::Tagged {
                response: false,
                stag,
                offset,
            } => {
                let range = Range {
                    stag,
                    offset,
                    length,
                };
                if length == 0 {
                    return Ok(Place::Nothing);
                }
                let allowed = memory.check(range, Access::RemoteWrite);
                allowed.map_err(|denied| refuse(Violation::Tagged(denied)))?;
                Ok(Place::Write(range))
            }
            Model::Tagged { stag, offset, .. } => {
                let range = Range {
                    stag,
                    offset,
                    length,
                };
                self.place_response(range, last, culprit, memory)
                    .map_err(refuse)
            }
            Model::Untagged {
                message:
                    Untagged::Send {
                        solicited,
                        invalidate,
                    },
                msn,
                offset,
            } => {
                let segment = Receive {
                    solicited,
                    invalidate,
                    culprit,
                    ..Receive::default()
                };
                self.place_send(segment, msn, offset, length, last)
                    .map_err(refuse)
            }
            Model::Untagged {
                message: Untagged::ReadRequest,
                msn,
                offset,
            } => {
                let request = single::<{ ReadRequest::LEN }>(offset, length, last);
                let request =
                    request.and_then(|()| ReadRequest::parse(payload).ok_or(Violation::Truncated));
                // The request goes back with the Terminate if it is the request that is wrong.
                let request = request.map_err(refuse)?;
                let placed = self.place_request(turn, msn, request, culprit);
                placed.map_err(|violation| {
                    Refusal::Fault(Fault::peer(violation, culprit).with_read(request))
                })
            }
            Model::Untagged {
                message: Untagged::Terminate,
                msn,
                offset,
            } => single::<{ usize::MAX }>(offset, length, last)
                .and_then(|()| self.place_terminate(turn, msn, payload))
                .map(|()| Place::Nothing)
                .map_err(Refusal::Terminate),
        }
    }

    fn place_send(
        &mut self,
        segment: Receive,
        msn: u32,
        offset: u32,
        length: u32,
        last: Option<Turn>,
    ) -> Result<Place, Violation> {
        let number = number_of(msn, self.receives.first())?;
        let receive = self.receives.get_mut(number).ok_or(Violation::NoBuffer)?;
        if offset > receive.capacity {
            return Err(Violation::MessageOffset);
        }
        let end = offset.checked_add(length).ok_or(Violation::TooLong)?;
        if end > receive.capacity {
            return Err(Violation::TooLong);
        }
        let added = receive.message.add(self.key, offset, length, last);
        added.map_err(|_| Violation::MessageOffset)?;
        if last.is_some() {
            *receive = Receive {
                capacity: receive.capacity,
                message: receive.message,
                ..segment
            };
        }
        if length == 0 {
            return Ok(Place::Nothing);
        }
        Ok(Place::Receive {
            receive: number,
            offset,
            length,
        })
    }

    fn place_request(
        &mut self,
        turn: Turn,
        msn: u32,
        request: ReadRequest,
        culprit: Option<Culprit>,
    ) -> Result<Place, Violation> {
        let number = number_of(msn, self.inbound.first())?;
        // More than were agreed on find no buffer.
        let slot = self.inbound.get_mut(number).ok_or(Violation::NoBuffer)?;
        // It stays there until it is answered.
        if slot.0.is_some() {
            return Err(Violation::MessageNumber);
        }
        let answer = Answer {
            number,
            request,
            culprit,
        };
        slot.0 = Some((turn, answer));
        Ok(Place::Nothing)
    }

    fn place_terminate(&mut self, turn: Turn, msn: u32, payload: &[u8]) -> Result<(), Violation> {
        if msn != 1 || self.terminate.is_some() {
            return Err(Violation::MessageNumber);
        }
        let terminate = Terminate::parse(payload).ok_or(Violation::Truncated)?;
        self.terminate = Some((turn, terminate));
        Ok(())
    }

    /// A segment of a Read Response belongs to a Read whose sink it lies in, and to the oldest that is not complete if
    /// the lower layer keeps the order: responses come in the order of the requests (RFC 5040, section 5.2.2).
    fn place_response(
        &mut self,
        range: Range,
        last: Option<Turn>,
        culprit: Option<Culprit>,
        memory: &impl Memory,
    ) -> Result<Place, Violation> {
        let mut found = Err(Violation::NoRead);
        for number in self.outstanding.first()..self.outstanding.next() {
            let Some(read) = self.outstanding.get(number) else {
                break;
            };
            // Its last segment may have overtaken others.
            let ended = read.message.ended().is_some();
            let full = read.message.octets() == read.sink.length;
            if ended && (O::IN_ORDER || full || last.is_some()) {
                continue;
            }
            match read.offset_of(range, O::IN_ORDER) {
                Ok(offset) => {
                    found = Ok((number, offset));
                    break;
                }
                // The first one that comes close says what is wrong.
                Err(denied) if found != Err(Violation::Tagged(Denied::Bounds)) => {
                    found = Err(Violation::Tagged(denied));
                }
                Err(_) => {}
            }
            if O::IN_ORDER {
                break;
            }
        }
        let (number, offset) = found?;
        if range.length > 0 {
            // It may have been invalidated here in the meantime.
            let allowed = memory.check(range, Access::ReadSink);
            allowed.map_err(Violation::Tagged)?;
        }
        let read = self.outstanding.get_mut(number).ok_or(Violation::NoRead)?;
        let added = read.message.add(self.key, offset, range.length, last);
        added.map_err(|_| Violation::Tagged(Denied::Bounds))?;
        if last.is_some() {
            read.culprit = culprit;
        }
        if range.length == 0 {
            return Ok(Place::Nothing);
        }
        Ok(Place::Response {
            read: read.read,
            range,
        })
    }

    /// The payload of the segment that arrived is where it belongs, if it has any.
    #[inline]
    pub fn placed(&mut self) {
        self.placing = false;
        self.order.placed();
    }

    /// Delivers the next message whose turn has come. `None` if there is none yet.
    pub fn deliver(&mut self, memory: &impl Memory) -> Result<Option<Delivery>, Fault> {
        let reached = match self.state {
            State::Open => self.order.reached(),
            State::Failed(turn) => turn,
            State::Closed => return Ok(None),
        };
        let Some((turn, next)) = self.next(reached) else {
            return Ok(None);
        };
        let delivered = match next {
            Next::Send => self.deliver_send(turn, memory),
            Next::ReadRequest => self.deliver_request(turn, memory),
            Next::Response => self.deliver_response(),
            Next::Terminate => {
                self.state = State::Closed;
                return Ok(self.terminate.map(|(_, told)| Delivery::Terminate(told)));
            }
        };
        if delivered.is_err() {
            self.state = State::Closed;
        }
        delivered
    }

    /// The oldest message of each queue is a candidate; the one that the peer sent first is next.
    fn next(&self, reached: Turn) -> Option<(Turn, Next)> {
        let ended = |message: &Message| message.ended();
        let send = self
            .receives
            .front()
            .and_then(|receive| ended(&receive.message));
        let request = self.inbound.get(self.answering);
        let request = request.and_then(|inbound| inbound.0.as_ref().map(|(turn, _)| *turn));
        let response = self
            .outstanding
            .front()
            .and_then(|read| ended(&read.message));
        let terminate = self.terminate.as_ref().map(|(turn, _)| *turn);
        let candidates = [
            (send, Next::Send),
            (request, Next::ReadRequest),
            (response, Next::Response),
            (terminate, Next::Terminate),
        ];
        candidates
            .into_iter()
            .filter_map(|(turn, next)| Some((turn?, next)))
            .filter(|(turn, _)| *turn < reached)
            .min_by_key(|(turn, _)| *turn)
    }

    /// Messages of a queue end in the order of their numbers.
    fn in_turn(&mut self, queue: usize, turn: Turn) -> Result<(), Violation> {
        let Some(before) = self.delivered.get_mut(queue) else {
            return Ok(());
        };
        match before.replace(turn) {
            Some(before) if turn < before => Err(Violation::MessageNumber),
            _ => Ok(()),
        }
    }

    fn deliver_send(
        &mut self,
        turn: Turn,
        memory: &impl Memory,
    ) -> Result<Option<Delivery>, Fault> {
        let number = self.receives.first();
        let Some(receive) = self.receives.front().copied() else {
            return Ok(None);
        };
        let refuse = |violation| Fault::peer(violation, receive.culprit);
        let whole = receive.message.whole(self.key);
        let length = whole.ok_or(Violation::MessageOffset).map_err(refuse)?;
        self.in_turn(0, turn).map_err(refuse)?;
        if let Some(stag) = receive.invalidate {
            let done = memory.invalidate(stag);
            done.map_err(|denied| refuse(Violation::Invalidate(denied)))?;
        }
        self.receives.pop();
        Ok(Some(Delivery::Message {
            receive: number,
            length,
            solicited: receive.solicited,
            invalidated: receive.invalidate,
        }))
    }

    fn deliver_request(
        &mut self,
        turn: Turn,
        memory: &impl Memory,
    ) -> Result<Option<Delivery>, Fault> {
        let inbound = self.inbound.get(self.answering).copied();
        let Some(Inbound(Some((_, answer)))) = inbound else {
            return Ok(None);
        };
        let refuse = |violation| Fault::peer(violation, answer.culprit).with_read(answer.request);
        self.in_turn(1, turn).map_err(refuse)?;
        if answer.request.length > 0 {
            let allowed = memory.check(answer.request.source(), Access::RemoteRead);
            allowed.map_err(|denied| refuse(Violation::Source(denied)))?;
        }
        self.answering = self.answering.saturating_add(1);
        Ok(Some(Delivery::Answer(answer)))
    }

    fn deliver_response(&mut self) -> Result<Option<Delivery>, Fault> {
        let Some(read) = self.outstanding.pop() else {
            return Ok(None);
        };
        if read.message.whole(self.key) != Some(read.sink.length) {
            return Err(Fault::peer(Violation::ShortResponse, read.culprit));
        }
        Ok(Some(Delivery::ReadDone {
            read: read.read,
            to_invalidate: read.invalidate.then_some(read.sink.stag),
        }))
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

/// The number of a queue's entry that a message has, if its message number may be. The first one has MSN 1.
fn number_of(msn: u32, first: u64) -> Result<u64, Violation> {
    let ahead = ahead_u32(msn, first.saturating_add(1)).ok_or(Violation::MessageNumber)?;
    Ok(first.saturating_add(u64::from(ahead)))
}

/// A message that always has one segment, of `LENGTH` octets at most.
fn single<const LENGTH: usize>(
    offset: u32,
    length: u32,
    last: Option<Turn>,
) -> Result<(), Violation> {
    if offset != 0 {
        return Err(Violation::MessageOffset);
    }
    let longer = usize::try_from(length).map_or(true, |length| length > LENGTH);
    match longer || last.is_none() {
        true => Err(Violation::TooLong),
        false => Ok(()),
    }
}
