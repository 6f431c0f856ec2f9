// SPDX-License-Identifier: GPL-2.0

//! The send half of a stream: requests of this end and answers to the peer's Reads become segments.
//!
//! RFC 5040, section 5.5, and RFC 5041, section 5.2. Requests are cut into segments in the order in which they were
//! posted, none longer than the MULPDU that holds when it is cut (rule 13). They complete in that order as well: a Send or
//! a Write when the lower layer has taken its last segment, a Read when its response was delivered, and each only after
//! those before it (rules 14, 15, 19). Answers are sent in the order of the Read Requests (rule 20); between messages, not
//! inside one, they take turns with requests.
//!
//! [`Source::next`] shows the next segment, [`Source::handed`] says that the lower layer has it, so that a segment that was
//! too long can be cut anew (RFC 5041, section 5.2: what was handed over never is), and [`Source::taken`] that its memory
//! is no longer needed.
//!
//! A Read beyond ORD waits, and all that was posted behind it; so does a fenced request while a Read is outstanding, and
//! everything behind a local operation until that is done. Over a lower layer that reorders, responses are told apart by
//! the memory they go to, so a Read waits as well while one is outstanding whose sink overlaps its own.
//!
//! The first fault wins. It becomes a Terminate in place of the next segment, the one and only. Then, or when the stream
//! is closed, what is left completes as flushed, once the lower layer needs its memory no more. Before [`Source::close`]
//! neither a Read whose request was handed over is flushed, because its response may still be placed, nor a local
//! operation that was started. `close` ends both.
//!
//! # Locking
//!
//! A source and the [`Sink`](crate::sink::Sink) of the same stream may have one lock or a lock each, as the sink's header
//! says. One context at a time sends, and it may drop the lock of the source between [`Source::next`] and
//! [`Source::handed`], to give the segment to the lower layer. What other contexts may do meanwhile:
//!
//! - [`Source::done`] may name the Read that `next` showed: the response was faster than `handed`.
//! - [`Source::complete`] does not give back the request that `next` showed, because the lower layer may be reading its
//!   memory. It does so after `handed`, after another `next`, or after `close`.
//! - [`Source::fail`] and [`Source::close`] take effect at the next `next`. `handed` keeps the state that they left.

use core::ops::DerefMut;

use crate::fault::Fault;
use crate::fault::Misuse;
use crate::header::Header;
use crate::header::Model;
use crate::header::ReadRequest;
use crate::header::Untagged;
use crate::ring::Ring;
use crate::serial::low_u32;
use crate::sink::Answer;
use crate::sink::Closed;
use crate::stag::Access;
use crate::stag::Memory;
use crate::stag::Range;
use crate::stag::Stag;
use crate::terminate::Terminate;
use crate::violation::Violation;
use crate::wire::size;
use crate::wire::Octets;

/// What the upper layer wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Send octets to a Receive of the peer's.
    Send {
        /// How many.
        length: u32,
        /// With Solicited Event.
        solicited: bool,
        /// With Invalidate.
        invalidate: Option<Stag>,
    },
    /// Write octets to memory of the peer's.
    Write(Range),
    /// Read memory of the peer's.
    Read(ReadRequest),
    /// Something that only this end does, in its turn: to register memory, or to invalidate it.
    Local,
}

/// A posted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is to be done.
    pub operation: Operation,
    /// Not before all earlier Reads are done.
    pub fence: bool,
}

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    request: Request,
    // The newest segment of it that was handed over; 0 if none was.
    handed: u64,
    // All its segments were handed over, or it has been started.
    cut: bool,
    // Reads and local operations are done when the caller says so.
    done: bool,
    failed: bool,
}

impl Posted {
    /// What a slot holds before it is used.
    pub const EMPTY: Self = Self {
        request: Request {
            operation: Operation::Local,
            fence: false,
        },
        handed: 0,
        cut: false,
        done: false,
        failed: false,
    };
}

/// The memory of a source's queues.
pub trait Slots {
    /// One for each request that may be posted.
    type Requests: DerefMut<Target = [Posted]>;
    /// One for each Read Request that the peer may have outstanding: IRD.
    type Answers: DerefMut<Target = [Answer]>;
}

/// Octets of the longest header, with what the engine itself has to say behind it.
pub const HEADER_LEN: usize = Header::UNTAGGED_LEN + Terminate::MAX_LEN;

/// Where the payload of a segment comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// There is none behind the header octets.
    None,
    /// The memory of a request.
    Request {
        /// Its number; the first that was posted has 0.
        number: u64,
        /// From which octet on.
        offset: u32,
        /// How many.
        length: u32,
    },
    /// Memory that the peer reads.
    Answer(Range),
}

/// What goes out next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A DDP Segment.
    Segment {
        /// Its header. That of a Read Request or of a Terminate is all of it.
        header: Octets<HEADER_LEN>,
        /// What follows.
        payload: Payload,
        /// It is the last one of its message.
        last: bool,
        /// It is the last one of the response to the Read Request of this number.
        /// [`Sink::answered`](crate::sink::Sink::answered) comes before it leaves.
        answered: Option<u64>,
    },
    /// A Read Request. [`Sink::expect`](crate::sink::Sink::expect) comes before it leaves.
    Read {
        /// Its number.
        number: u64,
        /// The whole segment.
        header: Octets<HEADER_LEN>,
        /// What it asks for.
        request: ReadRequest,
    },
    /// A local operation is to be started. [`Source::done`] says when it is done.
    Local(u64),
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As it should.
    Success,
    /// This end could not do it.
    Failed,
    /// The stream ended before.
    Flushed,
}

/// A request is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its number.
    pub number: u64,
    /// How it ended.
    pub status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// A Terminate is due.
    Failing,
    /// The Terminate is handed over.
    Terminated,
    Closed,
}

/// Of which message the next segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Current {
    Request,
    Answer,
}

/// What [`Source::handed`] has to take note of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    current: Option<Current>,
    octets: u32,
    last: bool,
}

/// The send half of a stream.
#[derive(Debug)]
pub struct Source<S: Slots> {
    state: State,
    fault: Option<Fault>,
    requests: Ring<S::Requests>,
    answers: Ring<S::Answers>,
    // The answer that is being cut. It is no longer in the ring: the peer may have its place as soon as its last segment is
    // shown, before it is known whether the lower layer takes that.
    answering: Option<Answer>,
    in_order: bool,
    // The request to cut, and how much of it or of the answer was handed over.
    cutting: u64,
    current: Option<Current>,
    octets: u32,
    answer_next: bool,
    shown: Option<Shown>,
    sends: u64,
    reads: u64,
    outstanding: u16,
    ord: u16,
    handed: u64,
    taken: u64,
    // A request ended without success, and so do all behind it.
    flushing: bool,
}

impl<S: Slots> Source<S> {
    /// The send half of a stream that is just open, which may have `ord` Reads outstanding. `in_order` says whether its
    /// lower layer delivers segments in their turn: [`Order::IN_ORDER`](crate::order::Order::IN_ORDER).
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
            handed: 0,
            taken: 0,
            flushing: false,
        }
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

    /// The peer's Read Request is to be answered.
    pub fn answer(&mut self, answer: Answer) -> Result<(), Misuse> {
        let pushed = self.answers.push(answer);
        pushed.map(drop).ok_or(Misuse::Full)
    }

    /// Says whether the lower layer may be taking a segment of this request right now.
    fn is_shown(&self, number: u64) -> bool {
        let shown = self.shown.and_then(|shown| shown.current);
        shown == Some(Current::Request) && number == self.cutting
    }

    /// A Read's response was delivered, or a local operation is done.
    ///
    /// A Read may be done before [`handed`](Self::handed) says that its request left. A local operation that is done after
    /// [`close`](Self::close) may have been flushed by then and is unknown.
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

    /// This end cannot do the request that is being cut, or the local operation that was started: its memory is not
    /// there. The stream ends (RFC 5040, section 7.1, case 1).
    pub fn abandon(&mut self) {
        if self.is_shown(self.cutting) {
            self.shown = None;
        }
        if let Some(posted) = self.requests.get_mut(self.cutting) {
            posted.failed = true;
        }
        self.fail(Fault::LOCAL);
    }

    /// The stream has a fault. Only the first one counts: says whether this is it.
    pub fn fail(&mut self, fault: Fault) -> bool {
        let first = self.state == State::Open;
        if first {
            self.state = State::Failing;
            self.fault = Some(fault);
        }
        first
    }

    /// The fault that ended the stream.
    #[inline]
    pub const fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// The stream is over, also when the peer sent a Terminate: that is not answered.
    ///
    /// The [`Sink`](crate::sink::Sink) is closed, so nothing is written to the sink of a Read any more. The caller sees to
    /// it that the lower layer needs no memory of the stream: it takes no segment right now and holds none that was handed
    /// over.
    #[inline]
    pub fn close(&mut self, _: Closed) {
        self.state = State::Closed;
    }

    /// Nothing more will be sent.
    #[inline]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Terminated | State::Closed)
    }

    /// Shows what goes out next, in a segment of at most `mulpdu` octets. `None` if there is nothing.
    ///
    /// It is the same again, or what another `mulpdu` makes of it, until it is [`handed`](Self::handed) over.
    pub fn next(&mut self, mulpdu: u32, memory: &impl Memory) -> Option<Outgoing> {
        self.shown = None;
        if self.state == State::Open {
            match self.current.or_else(|| self.choose()) {
                Some(Current::Request) => return self.cut_request(mulpdu),
                Some(Current::Answer) => {
                    if let Some(outgoing) = self.cut_answer(mulpdu, memory) {
                        return Some(outgoing);
                    }
                }
                None => return None,
            }
        }
        match self.state {
            State::Failing => self.terminate(),
            _ => None,
        }
    }

    /// Whose turn it is between two messages.
    fn choose(&self) -> Option<Current> {
        let request = self.may_cut().then_some(Current::Request);
        let waiting = self.answering.is_some() || !self.answers.is_empty();
        let answer = waiting.then_some(Current::Answer);
        match self.answer_next {
            true => answer.or(request),
            false => request.or(answer),
        }
    }

    fn may_cut(&self) -> bool {
        let Some(posted) = self.requests.get(self.cutting) else {
            return false;
        };
        // A local operation that was started is waited for.
        let started = posted.cut;
        let fenced = posted.request.fence && self.outstanding > 0;
        let waits = match posted.request.operation {
            Operation::Read(request) => {
                self.outstanding >= self.ord || self.is_ambiguous(request.sink())
            }
            _ => false,
        };
        !(started || fenced || waits)
    }

    /// Says whether a response to this place could be that of a Read that is outstanding. Responses that come in order
    /// are told by that.
    fn is_ambiguous(&self, sink: Range) -> bool {
        let mut left = if self.in_order { 0 } else { self.outstanding };
        let mut numbers = (self.requests.first()..self.cutting).rev();
        while left > 0 {
            let Some(posted) = numbers.next().and_then(|number| self.requests.get(number)) else {
                break;
            };
            if let (Operation::Read(request), false) = (posted.request.operation, posted.done) {
                if request.sink().overlaps(sink) {
                    return true;
                }
                left = left.saturating_sub(1);
            }
        }
        false
    }

    fn cut_request(&mut self, mulpdu: u32) -> Option<Outgoing> {
        let number = self.cutting;
        let operation = self.requests.get(number)?.request.operation;
        let (length, header_len) = match operation {
            Operation::Send { length, .. } => (length, Header::UNTAGGED_LEN),
            Operation::Write(range) => (range.length, Header::TAGGED_LEN),
            Operation::Read(request) => return Some(self.cut_read(number, request)),
            Operation::Local => {
                self.show(Some(Current::Request), 0, true);
                return Some(Outgoing::Local(number));
            }
        };
        let cut = Cut::new(length, self.octets, header_len, mulpdu);
        let model = match operation {
            Operation::Write(range) => Model::Tagged {
                response: false,
                stag: range.stag,
                offset: range.offset.wrapping_add(u64::from(self.octets)),
            },
            Operation::Send {
                solicited,
                invalidate,
                ..
            } => Model::Untagged {
                message: Untagged::Send {
                    solicited,
                    invalidate,
                },
                msn: low_u32(self.sends.saturating_add(1)),
                offset: self.octets,
            },
            Operation::Read(_) | Operation::Local => return None,
        };
        let payload = match cut.octets {
            0 => Payload::None,
            length => Payload::Request {
                number,
                offset: self.octets,
                length,
            },
        };
        self.show(Some(Current::Request), cut.octets, cut.last);
        Some(segment(model, payload, cut.last, None))
    }

    fn cut_read(&mut self, number: u64, request: ReadRequest) -> Outgoing {
        let header = Header {
            last: true,
            model: Model::Untagged {
                message: Untagged::ReadRequest,
                msn: low_u32(self.reads.saturating_add(1)),
                offset: 0,
            },
        };
        self.show(Some(Current::Request), 0, true);
        Outgoing::Read {
            number,
            header: together(header.emit().as_slice(), request.emit().as_slice()),
            request,
        }
    }

    fn cut_answer(&mut self, mulpdu: u32, memory: &impl Memory) -> Option<Outgoing> {
        if self.answering.is_none() {
            self.answering = self.answers.pop();
        }
        let answer = self.answering?;
        // It was allowed when the request was delivered, and may have been invalidated since.
        let left = answer.request.advanced(self.octets);
        let cut = Cut::new(
            answer.request.length,
            self.octets,
            Header::TAGGED_LEN,
            mulpdu,
        );
        let range = Range {
            length: cut.octets,
            ..left.source()
        };
        let mut payload = Payload::None;
        if cut.octets > 0 {
            if let Err(denied) = memory.check(range, Access::RemoteRead) {
                let fault = Fault::peer(Violation::Source(denied), answer.culprit);
                self.fail(fault.with_read(left));
                return None;
            }
            payload = Payload::Answer(range);
        }
        let model = Model::Tagged {
            response: true,
            stag: left.sink_stag,
            offset: left.sink_offset,
        };
        self.show(Some(Current::Answer), cut.octets, cut.last);
        let answered = cut.last.then_some(answer.number);
        Some(segment(model, payload, cut.last, answered))
    }

    fn terminate(&mut self) -> Option<Outgoing> {
        let terminate = Terminate::new(&self.fault?);
        let header = Header {
            last: true,
            model: Model::Untagged {
                message: Untagged::Terminate,
                msn: 1,
                offset: 0,
            },
        };
        self.show(None, 0, true);
        Some(Outgoing::Segment {
            header: together(header.emit().as_slice(), terminate.emit().as_slice()),
            payload: Payload::None,
            last: true,
            answered: None,
        })
    }

    fn show(&mut self, current: Option<Current>, octets: u32, last: bool) {
        self.shown = Some(Shown {
            current,
            octets,
            last,
        });
    }

    /// What [`next`](Self::next) showed last was handed to the lower layer, or was started. Returns how many segments were
    /// handed over until now, which is the number of this one.
    pub fn handed(&mut self) -> Result<u64, Misuse> {
        let shown = self.shown.take().ok_or(Misuse::State)?;
        let mut local = false;
        let segment = self.handed.saturating_add(1);
        match shown.current {
            // The stream may have been closed in the meantime.
            None if self.state == State::Failing => self.state = State::Terminated,
            None => {}
            Some(Current::Answer) => {
                if shown.last {
                    self.answering = None;
                }
            }
            Some(Current::Request) => {
                let posted = self.requests.get_mut(self.cutting).ok_or(Misuse::State)?;
                posted.cut = shown.last;
                let operation = posted.request.operation;
                local = operation == Operation::Local;
                if !local {
                    posted.handed = segment;
                }
                let counter = match operation {
                    Operation::Send { .. } => Some(&mut self.sends),
                    Operation::Read(_) => {
                        let outstanding = u16::from(!posted.done);
                        self.outstanding = self.outstanding.saturating_add(outstanding);
                        Some(&mut self.reads)
                    }
                    Operation::Write(_) | Operation::Local => None,
                };
                if let Some(counter) = counter.filter(|_| shown.last) {
                    *counter = counter.saturating_add(1);
                }
                if shown.last && !local {
                    self.cutting = self.cutting.saturating_add(1);
                }
            }
        }
        self.octets = match shown.last {
            true => 0,
            false => self.octets.saturating_add(shown.octets),
        };
        self.current = shown.current.filter(|_| !shown.last);
        if shown.last {
            self.answer_next = shown.current == Some(Current::Request);
        }
        if !local {
            self.handed = segment;
        }
        Ok(self.handed)
    }

    /// The lower layer needs the memory of all segments up to this one no more.
    #[inline]
    pub fn taken(&mut self, segment: u64) {
        self.taken = self.taken.max(segment.min(self.handed));
    }

    /// The next request that is complete, in the order of posting.
    pub fn complete(&mut self) -> Option<Completion> {
        let posted = *self.requests.front()?;
        let number = self.requests.first();
        // A closed stream gives nothing to the lower layer.
        let in_use = self.is_shown(number) && self.state != State::Closed;
        let released = posted.handed <= self.taken && !in_use;
        let done = match posted.request.operation {
            Operation::Send { .. } | Operation::Write(_) => posted.cut && released,
            Operation::Read(_) => posted.cut && posted.done && released,
            Operation::Local => posted.done,
        };
        // Until the stream is closed a response may still be placed, and a local operation that was started goes on.
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

/// How much of a message the next segment has.
struct Cut {
    octets: u32,
    last: bool,
}

impl Cut {
    fn new(length: u32, begun: u32, header_len: usize, mulpdu: u32) -> Self {
        let left = length.saturating_sub(begun);
        // A segment has one octet at least, or a message would have no end. No lower layer is that narrow.
        let room = size(mulpdu).saturating_sub(header_len).max(1);
        let octets = u32::try_from(room).map_or(left, |room| room.min(left));
        Self {
            octets,
            last: octets == left,
        }
    }
}

fn segment(model: Model, payload: Payload, last: bool, answered: Option<u64>) -> Outgoing {
    let header = Header { last, model }.emit();
    Outgoing::Segment {
        header: together(header.as_slice(), &[]),
        payload,
        last,
        answered,
    }
}

fn together(header: &[u8], payload: &[u8]) -> Octets<HEADER_LEN> {
    let mut octets = Octets::new();
    octets.put_slice(header);
    octets.put_slice(payload);
    octets
}
