// SPDX-License-Identifier: GPL-2.0

//! The transmit half of a stream: requests of this end and responses to the peer's become segments.
//!
//! RFC 5040, section 5.5, RFC 7306, sections 5 to 7, and RFC 5041, section 5.2. Requests are cut
//! into segments in the order of posting, none longer than the MULPDU that holds when it is cut
//! (rule 13). They complete in that order as well: a Send or a Write when the LLP has taken its
//! last segment, a Read or an atomic operation when its response was delivered, and each only after
//! those before it (rules 14, 15, 19). Responses are sent in the order of the requests (rule 20);
//! they alternate with requests between messages, not inside one, and not between a Write and its
//! Immediate Data. An atomic operation of the peer is carried out when its response has its turn:
//! so it is after all Reads that were asked for before it, and before those after it.
//!
//! [`TxHalf::peek`] returns the next segment, [`TxHalf::commit`] commits it when the LLP has it, so
//! that a segment that was too long can be cut anew (RFC 5041, section 5.2: a segment that was
//! handed over never is), and [`TxHalf::release`] says that its memory is no longer needed.
//!
//! A Read or an atomic operation beyond ORD waits, and everything that was posted behind it; so
//! does a fenced request while a Read is outstanding, and everything behind a local operation until
//! that is done. Over an LLP that reorders, responses are identified by the memory they go to, so a
//! Read also waits while one is outstanding whose destination overlaps its own.
//!
//! The first fault wins. It becomes a Terminate in place of the next segment, the one and only.
//! Then, or when the stream is closed, the remaining requests complete as flushed, once the LLP
//! does not need their memory; or as [refused](TxHalf::refused), the one that the peer's Terminate
//! is about. Before [`TxHalf::close`] neither a Read whose request was committed
//! is flushed, because its response may still be placed, nor a local operation that was started.
//! `close` ends both.
//!
//! # Locking
//!
//! This half and the [receive half](crate::rx::RxHalf) of the same stream may have one lock or a
//! lock each, as described there. One context at a time sends, and it may drop the lock between
//! [`TxHalf::peek`] and [`TxHalf::commit`], to give the segment to the LLP. Other contexts may
//! meanwhile do the following:
//!
//! - [`TxHalf::done`] may name the Read that `peek` returned: the response was faster than
//!   `commit`.
//! - [`TxHalf::complete`] does not return the request that `peek` returned, because the LLP may be
//!   reading its memory. It does so after `commit`, after another `peek`, or after `close`.
//! - [`TxHalf::fail`] and [`TxHalf::close`] take effect at the next `peek`. `commit` keeps the
//!   state that they left.

mod cut;
mod refused;

use crate::atomic::Atomic;
use crate::fault::{Fault, Misuse, RemoteError};
use crate::header::{Header, ReadRequest};
use crate::ring::Ring;
use crate::rx::{Closed, InboundRequest};
use crate::stag::{Range, Stag};
use crate::terminate::Terminate;
use crate::tx::cut::Cut;
use crate::wire::Octets;
use core::ops::DerefMut;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends octets to a Receive of the peer.
    Send {
        /// The length in octets.
        length: u32,
        /// With Solicited Event.
        solicited: bool,
        /// With Invalidate.
        invalidate: Option<Stag>,
    },
    /// Writes octets to memory of the peer.
    Write(Range),
    /// Writes octets to memory of the peer, then sends Immediate Data to a Receive of it: two
    /// messages.
    WriteImmediate {
        /// The memory.
        range: Range,
        /// The data.
        data: [u8; 8],
        /// With Solicited Event.
        solicited: bool,
    },
    /// Reads memory of the peer.
    Read(ReadRequest),
    /// An atomic operation on memory of the peer.
    Atomic {
        /// The STag of the memory.
        stag: Stag,
        /// The Tagged Offset of the value, a multiple of eight.
        offset: u64,
        /// The operation.
        operation: Atomic,
    },
    /// An operation of this end alone, in order: registration or invalidation of memory.
    Local,
}

/// A posted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The operation.
    pub operation: Operation,
    /// It waits until all earlier Reads and atomic operations are done.
    pub fence: bool,
}

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    request: Request,
    progress: Progress,
    // The newest segment of it that was handed over; 0 if none was.
    last_segment: u64,
}

/// The progress of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// Its last segment was not committed, or it was not started.
    Queued,
    /// A request whose response was delivered before it was committed.
    Answered,
    /// A request whose response is awaited, or a local operation that was started.
    Outstanding,
    /// Nothing is left to do for it, but the LLP may still need its memory.
    Done,
    /// Its memory is not there.
    Failed,
    /// The peer's Terminate is about it.
    Refused(RemoteError),
}

impl Posted {
    /// The content of an unused slot.
    pub const EMPTY: Self = Self {
        request: Request {
            operation: Operation::Local,
            fence: false,
        },
        progress: Progress::Queued,
        last_segment: 0,
    };

    /// Sets the progress, unless the peer has refused the request: that is final.
    fn set(&mut self, progress: Progress) {
        if !matches!(self.progress, Progress::Refused(_)) {
            self.progress = progress;
        }
    }
}

impl Operation {
    /// Returns whether there is a response to it, for which ORD counts.
    #[inline]
    const fn has_response(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Atomic { .. })
    }
}

/// The memory of the queues of a transmit half.
pub trait Slots {
    /// One for each request that may be posted.
    type Requests: DerefMut<Target = [Posted]>;
    /// One for each Read or atomic operation that the peer may have outstanding: IRD.
    type Responses: DerefMut<Target = [InboundRequest]>;
}

/// The status of a completed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was carried out.
    Success,
    /// This end could not carry it out.
    Failed,
    /// The peer refused it, which ended the stream.
    Refused(RemoteError),
    /// The stream ended before.
    Flushed,
}

/// The completion of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The number of the request.
    pub number: u64,
    /// Its status.
    pub status: Status,
}

/// The length in octets of the longest header, with the payload that this crate makes itself.
pub const HEADER_LEN: usize = Header::UNTAGGED_LEN + Terminate::MAX_LEN;

/// The origin of a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// There is none behind the header octets.
    None,
    /// The memory of a request.
    Request {
        /// The number of the request; the first that was posted has 0.
        number: u64,
        /// The offset in its memory.
        offset: u32,
        /// The length in octets.
        length: u32,
    },
    /// Memory that the peer reads.
    Response(Range),
}

/// The next thing to send or to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A DDP Segment.
    Segment {
        /// The header. Of a message that this crate makes itself it is the whole segment.
        header: Octets<HEADER_LEN>,
        /// The payload.
        payload: Payload,
        /// The segment is the last one of its message.
        last: bool,
        /// The number of the request whose response ends with this segment.
        /// [`RxHalf::free_inbound`](crate::rx::RxHalf::free_inbound) is called before it leaves.
        last_of_response: Option<u64>,
    },
    /// A Read Request. [`RxHalf::expect`](crate::rx::RxHalf::expect) is called before it leaves.
    Read {
        /// The number of the request.
        number: u64,
        /// The whole segment.
        header: Octets<HEADER_LEN>,
        /// Its fields.
        request: ReadRequest,
    },
    /// An Atomic Request. [`RxHalf::expect_atomic`](crate::rx::RxHalf::expect_atomic) is called
    /// before it leaves.
    Atomic {
        /// The number of the request.
        number: u64,
        /// The whole segment.
        header: Octets<HEADER_LEN>,
    },
    /// A local operation is to be started. [`TxHalf::done`] says when it is
    /// done.
    Local(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// A Terminate is due.
    Failing,
    /// The Terminate was handed over.
    Terminated,
    Closed,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Request,
    Response,
}

/// The segment or operation that [`TxHalf::peek`] returned and [`TxHalf::commit`] commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offered {
    /// A segment of the request to cut.
    Request(Cut),
    /// The request to cut, which is a local operation.
    Local,
    /// A segment of the response that is being cut.
    Response(Cut),
    /// The Terminate.
    Terminate,
}

/// The transmit half of a stream.
#[derive(Debug)]
pub struct TxHalf<S: Slots> {
    state: State,
    fault: Option<Fault>,
    requests: Ring<S::Requests>,
    responses: Ring<S::Responses>,
    // The response that is being cut. It is no longer in the ring: the peer may use its slot as
    // soon as its last segment is offered, before it is known whether the LLP takes that.
    responding: Option<InboundRequest>,
    // The value before the operation, if that is an atomic one and was carried out.
    original: Option<u64>,
    in_order: bool,
    // The request to cut.
    cutting: u64,
    // The message whose next segment is due, and how many octets of it were handed over: a message
    // is not interrupted by another one.
    partial: Option<(Message, u32)>,
    // The message that was handed over last. One of the other kind has precedence.
    previous: Message,
    offered: Option<Offered>,
    // Messages that were sent to each queue: to the peer's Receives, requests, Atomic Responses.
    sends: u64,
    reads: u64,
    originals: u64,
    outstanding: u16,
    ord: u16,
    segments: u64,
    released: u64,
    // A request ended without success, and so do all behind it.
    flushing: bool,
}

impl<S: Slots> TxHalf<S> {
    /// Creates the transmit half of a new stream, which may have `ord` Reads and atomic operations
    /// outstanding. `in_order` says whether its LLP delivers segments in order:
    /// [`Order::IN_ORDER`](crate::order::Order::IN_ORDER).
    pub fn new(requests: S::Requests, responses: S::Responses, ord: u16, in_order: bool) -> Self {
        Self {
            state: State::Open,
            fault: None,
            requests: Ring::new(requests),
            responses: Ring::new(responses),
            responding: None,
            original: None,
            in_order,
            cutting: 0,
            partial: None,
            previous: Message::Request,
            offered: None,
            sends: 0,
            reads: 0,
            originals: 0,
            outstanding: 0,
            ord,
            segments: 0,
            released: 0,
            flushing: false,
        }
    }

    /// Continues the message numbers behind as many Sends, requests and Atomic Responses.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, messages: u64) {
        (self.sends, self.reads, self.originals) = (messages, messages, messages);
    }

    /// Posts a request. Returns its number. On a stream that is over it completes as flushed.
    pub fn post(&mut self, request: Request) -> Result<u64, Misuse> {
        if request.operation.has_response() && self.ord == 0 {
            return Err(Misuse::NoReads);
        }
        let posted = Posted {
            request,
            ..Posted::EMPTY
        };
        self.requests.push(posted).ok_or(Misuse::Full)
    }

    /// Queues the response to a request of the peer.
    pub fn respond(&mut self, request: InboundRequest) -> Result<(), Misuse> {
        let pushed = self.responses.push(request);
        pushed.map(drop).ok_or(Misuse::Full)
    }

    /// Returns whether the LLP may be taking a segment of this request right now.
    fn is_offered(&self, number: u64) -> bool {
        let of_request = matches!(self.offered, Some(Offered::Request(_) | Offered::Local));
        of_request && number == self.cutting
    }

    /// Takes note that a request's response was delivered, or that a local operation is done.
    ///
    /// A request may be done before [`commit`](Self::commit) commits its request. A local operation
    /// that is done after [`close`](Self::close) may have been flushed by then and is unknown.
    pub fn done(&mut self, number: u64) -> Result<(), Misuse> {
        let is_offered = self.is_offered(number);
        let posted = self.requests.get_mut(number).ok_or(Misuse::Unknown)?;
        let has_response = posted.request.operation.has_response();
        posted.progress = match (posted.request.operation, posted.progress) {
            (_, Progress::Queued) if has_response && is_offered => Progress::Answered,
            (_, Progress::Outstanding) if has_response => {
                self.outstanding = self.outstanding.saturating_sub(1);
                Progress::Done
            }
            (Operation::Local, Progress::Outstanding) => {
                self.cutting = self.cutting.saturating_add(1);
                Progress::Done
            }
            _ => return Err(Misuse::Unknown),
        };
        Ok(())
    }

    /// Fails the request that is being cut, or the local operation that was started, as its memory
    /// is not there. The stream ends (RFC 5040, section 7.1, case 1).
    pub fn abandon(&mut self) {
        if self.is_offered(self.cutting) {
            self.offered = None;
        }
        if let Some(posted) = self.requests.get_mut(self.cutting) {
            posted.set(Progress::Failed);
        }
        self.fail(Fault::LOCAL);
    }

    /// Fails a request whose response was delivered, as there is no memory for what that brought.
    /// The stream ends.
    pub fn spoil(&mut self, number: u64) {
        if let Some(posted) = self.requests.get_mut(number) {
            posted.set(Progress::Failed);
        }
        self.fail(Fault::LOCAL);
    }

    /// Ends the stream with a fault. Only the first one counts: says whether this is it.
    pub fn fail(&mut self, fault: Fault) -> bool {
        let first = self.state == State::Open;
        if first {
            self.state = State::Failing;
            self.fault = Some(fault);
        }
        first
    }

    /// Returns the fault that ended the stream.
    #[inline]
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Closes the stream, also when the peer sent a Terminate: that is not answered.
    ///
    /// The [receive half](crate::rx::RxHalf) is closed, so nothing is written to the destination of
    /// a Read any more. The caller guarantees that the LLP needs no memory of the stream: it takes
    /// no segment right now and holds none that was handed over.
    #[inline]
    pub fn close(&mut self, _: Closed) {
        self.state = State::Closed;
    }

    /// Returns whether requests of the peer are still to be answered, and may be.
    #[inline]
    pub fn owes_responses(&self) -> bool {
        self.state == State::Open && (self.responding.is_some() || !self.responses.is_empty())
    }

    /// Returns whether nothing more will be sent.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Terminated | State::Closed)
    }

    /// Takes note that the LLP does not need the memory of the segments up to this one.
    #[inline]
    pub fn release(&mut self, segment: u64) {
        self.released = self.released.max(segment.min(self.segments));
    }

    /// Returns the next request that is complete, in the order of posting.
    pub fn complete(&mut self) -> Option<Completion> {
        let posted = *self.requests.front()?;
        let number = self.requests.first();
        // A closed stream gives nothing to the LLP.
        let in_use = self.is_offered(number) && self.state != State::Closed;
        let is_released = posted.last_segment <= self.released && !in_use;
        let may_flush = match self.state {
            State::Open => false,
            // Until the stream is closed a response may still be placed, and a local operation that
            // was started continues.
            State::Failing | State::Terminated => {
                let awaits = matches!(
                    posted.progress,
                    Progress::Outstanding | Progress::Refused(_)
                );
                is_released && !awaits
            }
            State::Closed => true,
        };
        let status = match posted.progress {
            Progress::Done if is_released && !self.flushing => Status::Success,
            _ if !may_flush => return None,
            Progress::Failed => Status::Failed,
            Progress::Refused(error) => Status::Refused(error),
            _ => Status::Flushed,
        };
        self.flushing = status != Status::Success;
        self.requests.pop();
        Some(Completion { number, status })
    }
}
