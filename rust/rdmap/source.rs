// SPDX-License-Identifier: GPL-2.0

//! The transmit half of a stream: requests of this end and responses to the peer's Reads become
//! segments.
//!
//! RFC 5040, section 5.5, and RFC 5041, section 5.2. Requests are cut into segments in the order of
//! posting, none longer than the MULPDU that holds when it is cut (rule 13). They complete in that
//! order as well: a Send or a Write when the lower layer has taken its last segment, a Read when
//! its response was delivered, and each only after those before it (rules 14, 15, 19). Responses
//! are sent in the order of the Read Requests (rule 20); they alternate with requests between
//! messages, not inside one.
//!
//! [`Source::next`] returns the next segment, [`Source::handed`] commits it when the lower layer
//! has it, so that a segment that was too long can be cut anew (RFC 5041, section 5.2: a segment
//! that was handed over never is), and [`Source::taken`] says that its memory is no longer needed.
//!
//! A Read beyond ORD waits, and everything that was posted behind it; so does a fenced request
//! while a Read is outstanding, and everything behind a local operation until that is done. Over a
//! lower layer that reorders, responses are identified by the memory they go to, so a Read also
//! waits while one is outstanding whose destination overlaps its own.
//!
//! The first fault wins. It becomes a Terminate in place of the next segment, the one and only.
//! Then, or when the stream is closed, the remaining requests complete as flushed, once the lower
//! layer does not need their memory. Before [`Source::close`] neither a Read whose request was
//! committed is flushed, because its response may still be placed, nor a local operation that was
//! started. `close` ends both.
//!
//! # Locking
//!
//! This half and the [receive half](crate::sink::Sink) of the same stream may have one lock or a
//! lock each, as described there. One context at a time sends, and it may drop the lock between
//! [`Source::next`] and [`Source::handed`], to give the segment to the lower layer. Other contexts
//! may meanwhile do the following:
//!
//! - [`Source::done`] may name the Read that `next` returned: the response was faster than
//!   `handed`.
//! - [`Source::complete`] does not return the request that `next` returned, because the lower layer
//!   may be reading its memory. It does so after `handed`, after another `next`, or after `close`.
//! - [`Source::fail`] and [`Source::close`] take effect at the next `next`. `handed` keeps the
//!   state that they left.

mod cut;
mod outgoing;
mod work;

use crate::fault::Fault;
use crate::fault::Misuse;
use crate::ring::Ring;
use crate::sink::Answer;
use crate::sink::Closed;
pub use crate::source::outgoing::Outgoing;
pub use crate::source::outgoing::Payload;
pub use crate::source::outgoing::HEADER_LEN;
pub use crate::source::work::Completion;
pub use crate::source::work::Operation;
pub use crate::source::work::Posted;
pub use crate::source::work::Request;
pub use crate::source::work::Slots;
pub use crate::source::work::Status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// A Terminate is due.
    Failing,
    /// The Terminate was handed over.
    Terminated,
    Closed,
}

/// The kind of message that the next segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Current {
    Request,
    Answer,
}

/// The segment that [`Source::handed`] commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    current: Option<Current>,
    octets: u32,
    last: bool,
}

/// The transmit half of a stream.
#[derive(Debug)]
pub struct Source<S: Slots> {
    state: State,
    fault: Option<Fault>,
    requests: Ring<S::Requests>,
    answers: Ring<S::Answers>,
    // The response that is being cut. It is no longer in the ring: the peer may use its slot as
    // soon as its last segment is offered, before it is known whether the lower layer takes that.
    answering: Option<Answer>,
    in_order: bool,
    // The request to cut, and the part of it or of the response that was handed over.
    cutting: u64,
    current: Option<Current>,
    octets: u32,
    answer_next: bool,
    shown: Option<Shown>,
    sends: u64,
    reads: u64,
    outstanding: u16,
    ord: u16,
    segments: u64,
    taken: u64,
    // A request ended without success, and so do all behind it.
    flushing: bool,
}

impl<S: Slots> Source<S> {
    /// Creates the transmit half of a new stream, which may have `ord` Reads outstanding.
    /// `in_order` says whether its lower layer delivers segments in order:
    /// [`Order::IN_ORDER`](crate::order::Order::IN_ORDER).
    pub fn new(requests: S::Requests, answers: S::Answers, ord: u16, in_order: bool) -> Self {
        Self {
            state: State::Open,
            fault: None,
            requests: Ring::new(requests),
            answers: Ring::new(answers),
            answering: None,
            in_order,
            cutting: 0,
            current: None,
            octets: 0,
            answer_next: true,
            shown: None,
            sends: 0,
            reads: 0,
            outstanding: 0,
            ord,
            segments: 0,
            taken: 0,
            flushing: false,
        }
    }

    /// Continues the message numbers behind as many Sends and Reads.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, messages: u64) {
        (self.sends, self.reads) = (messages, messages);
    }

    /// Posts a request. Returns its number. On a stream that is over it completes as flushed.
    pub fn post(&mut self, request: Request) -> Result<u64, Misuse> {
        if matches!(request.operation, Operation::Read(_)) && self.ord == 0 {
            return Err(Misuse::NoReads);
        }
        let posted = Posted {
            request,
            ..Posted::EMPTY
        };
        self.requests.push(posted).ok_or(Misuse::Full)
    }

    /// Queues the response to a Read Request of the peer.
    pub fn answer(&mut self, answer: Answer) -> Result<(), Misuse> {
        let pushed = self.answers.push(answer);
        pushed.map(drop).ok_or(Misuse::Full)
    }

    /// Says whether the lower layer may be taking a segment of this request right now.
    fn is_shown(&self, number: u64) -> bool {
        let shown = self.shown.and_then(|shown| shown.current);
        shown == Some(Current::Request) && number == self.cutting
    }

    /// Takes note that a Read's response was delivered, or that a local operation is done.
    ///
    /// A Read may be done before [`handed`](Self::handed) commits its request. A local operation
    /// that is done after [`close`](Self::close) may have been flushed by then and is unknown.
    pub fn done(&mut self, number: u64) -> Result<(), Misuse> {
        let is_shown = self.is_shown(number);
        let posted = self.requests.get_mut(number).ok_or(Misuse::Unknown)?;
        if posted.done {
            return Err(Misuse::Unknown);
        }
        match posted.request.operation {
            // `handed` does not count it as outstanding then.
            Operation::Read(_) if is_shown => {}
            _ if !posted.cut => return Err(Misuse::Unknown),
            Operation::Read(_) => self.outstanding = self.outstanding.saturating_sub(1),
            Operation::Local => self.cutting = self.cutting.saturating_add(1),
            Operation::Send { .. } | Operation::Write(_) => return Err(Misuse::Unknown),
        }
        posted.done = true;
        Ok(())
    }

    /// Fails the request that is being cut, or the local operation that was started, as its memory
    /// is not there. The stream ends (RFC 5040, section 7.1, case 1).
    pub fn abandon(&mut self) {
        if self.is_shown(self.cutting) {
            self.shown = None;
        }
        if let Some(posted) = self.requests.get_mut(self.cutting) {
            posted.failed = true;
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
    /// The [receive half](crate::sink::Sink) is closed, so nothing is written to the destination of
    /// a Read any more. The caller guarantees that the lower layer needs no memory of the stream:
    /// it takes no segment right now and holds none that was handed over.
    #[inline]
    pub fn close(&mut self, _: Closed) {
        self.state = State::Closed;
    }

    /// Says whether Reads of the peer are still to be answered, and may be.
    #[inline]
    pub fn owes_answers(&self) -> bool {
        self.state == State::Open && (self.answering.is_some() || !self.answers.is_empty())
    }

    /// Says whether nothing more will be sent.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Terminated | State::Closed)
    }

    /// Takes note that the lower layer does not need the memory of the segments up to this one.
    #[inline]
    pub fn taken(&mut self, segment: u64) {
        self.taken = self.taken.max(segment.min(self.segments));
    }

    /// Returns the next request that is complete, in the order of posting.
    pub fn complete(&mut self) -> Option<Completion> {
        let posted = *self.requests.front()?;
        let number = self.requests.first();
        // A closed stream gives nothing to the lower layer.
        let in_use = self.is_shown(number) && self.state != State::Closed;
        let released = posted.last_segment <= self.taken && !in_use;
        let done = match posted.request.operation {
            Operation::Send { .. } | Operation::Write(_) => posted.cut && released,
            Operation::Read(_) => posted.cut && posted.done && released,
            Operation::Local => posted.done,
        };
        // Until the stream is closed a response may still be placed, and a local operation that was
        // started continues.
        let held = match posted.request.operation {
            Operation::Send { .. } | Operation::Write(_) => false,
            Operation::Read(_) | Operation::Local => posted.cut && !posted.done && !posted.failed,
        };
        let over = match self.state {
            State::Open => false,
            State::Failing | State::Terminated => released && !held,
            State::Closed => true,
        };
        let status = match (done && !self.flushing, over) {
            (true, _) => Status::Success,
            (false, true) if posted.failed => Status::Failed,
            (false, true) => Status::Flushed,
            (false, false) => return None,
        };
        self.flushing = status != Status::Success;
        self.requests.pop();
        Some(Completion { number, status })
    }
}
