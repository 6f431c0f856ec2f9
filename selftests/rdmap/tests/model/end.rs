// SPDX-License-Identifier: GPL-2.0

//! One end: the engine, its memory, and what it posted.

use std::collections::BTreeMap;

use rdmap::fault::Fault;
use rdmap::header::ReadRequest;
use rdmap::sink;
use rdmap::sink::Answer;
use rdmap::sink::Delivery;
use rdmap::sink::Inbound;
use rdmap::sink::Key;
use rdmap::sink::Outstanding;
use rdmap::sink::Place;
use rdmap::sink::Receive;
use rdmap::sink::Refusal;
use rdmap::sink::Sink;
use rdmap::sink::HEAD_LEN;
use rdmap::source;
use rdmap::source::Operation;
use rdmap::source::Outgoing;
use rdmap::source::Payload;
use rdmap::source::Posted;
use rdmap::source::Request;
use rdmap::source::Source;
use rdmap::source::Status;
use rdmap::stag::Range;
use rdmap::stag::Region;
use rdmap::stag::Stag;

use super::memory::Regions;
use super::terms::Choices;
use super::terms::Flying;
use super::terms::Lower;
use super::terms::Summary;
use super::terms::Wrong;

const RECEIVES: usize = 6;
const CAPACITY: u32 = 1000;

/// What the peer may read, what it may write, and where its answers go. Their offsets begin somewhere.
const READABLE: Stag = Stag(0x100);
const WRITABLE: Stag = Stag(0x200);
const SINK: Stag = Stag(0x300);
const FOREIGN: Stag = Stag(0x400);
const BASE: u64 = 0xffff_ffff_fff0_0001;
const LENGTH: u32 = 60_000;

pub struct Queues;

impl sink::Slots for Queues {
    type Receives = Vec<Receive>;
    type Inbound = Vec<Inbound>;
    type Outstanding = Vec<Outstanding>;
}

impl source::Slots for Queues {
    type Requests = Vec<Posted>;
    type Answers = Vec<Answer>;
}

/// What was posted, and what there is to say of it.
struct Work {
    operation: Operation,
    fence: bool,
    /// What is sent or written.
    octets: Vec<u8>,
    /// What a Read has to find, and where it puts it.
    expected: Vec<u8>,
    done: bool,
}

pub struct End<L: Lower> {
    sink: Sink<L, Queues>,
    source: Source<Queues>,
    memory: Regions,
    work: Vec<Work>,
    completed: usize,
    flushing: bool,
    receives: BTreeMap<u64, Vec<u8>>,
    receives_posted: usize,
    /// Sends of the peer's that were delivered, and Read Requests.
    sends_delivered: usize,
    reads_delivered: usize,
    sends_posted: usize,
    written: u32,
    read_to: u32,
    ord: usize,
    reads_outstanding: usize,
    count: u64,
    handed: u64,
    taken: u64,
    leaving: bool,
    terminated: bool,
    closed: bool,
    next_stag: u32,
}

impl<L: Lower> End<L> {
    pub fn new(ord: usize, ird: usize) -> Self {
        let memory = Regions::default();
        let region = |read, write| Region {
            base: BASE,
            length: u64::from(LENGTH),
            valid: true,
            of_this_stream: true,
            remote_read: read,
            remote_write: write,
            remote_invalidate: false,
        };
        let length = usize::try_from(LENGTH).unwrap();
        let pattern: Vec<_> = (0..length)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        memory.register(READABLE, region(true, false), pattern);
        memory.register(WRITABLE, region(true, true), vec![0xee; length]);
        memory.register(SINK, region(false, false), vec![0xdd; length]);
        let foreign = Region {
            of_this_stream: false,
            ..region(true, true)
        };
        memory.register(FOREIGN, foreign, vec![0xcc; length]);
        let mut end = Self {
            sink: Sink::new(
                L::new(),
                Key(1, 2),
                vec![Receive::default(); RECEIVES],
                vec![Inbound::default(); ird],
                vec![Outstanding::default(); ord],
            ),
            source: Source::new(
                vec![Posted::EMPTY; 64],
                vec![Answer::default(); ird],
                u16::try_from(ord).unwrap(),
                L::IN_ORDER,
            ),
            memory,
            work: Vec::new(),
            completed: 0,
            flushing: false,
            receives: BTreeMap::new(),
            receives_posted: 0,
            sends_delivered: 0,
            reads_delivered: 0,
            sends_posted: 0,
            written: 0,
            read_to: 0,
            ord,
            reads_outstanding: 0,
            count: 0,
            handed: 0,
            taken: 0,
            leaving: false,
            terminated: false,
            closed: false,
            next_stag: 0x1000,
        };
        for _ in 0..RECEIVES {
            end.post_receive();
        }
        end
    }

    pub fn is_done(&self, requests: usize) -> bool {
        let over = match self.source.fault() {
            Some(_) => self.closed,
            None => self.closed || self.work.len() >= requests,
        };
        over && self.work.len() == self.completed
    }

    pub fn posted(&self) -> usize {
        match self.closed {
            true => usize::MAX,
            false => self.work.len(),
        }
    }

    fn post_receive(&mut self) {
        let number = self.sink.post_receive(CAPACITY).unwrap();
        let buffer = vec![0; usize::try_from(CAPACITY).unwrap()];
        assert!(self.receives.insert(number, buffer).is_none());
        self.receives_posted += 1;
    }

    fn octets(choices: &mut impl Choices, limit: u32) -> Vec<u8> {
        let limit = usize::try_from(limit).unwrap();
        let length = match choices.below(5) {
            0 => 0,
            1 => limit,
            _ => choices.below(limit),
        };
        let first = choices.below(256);
        (first..first + length)
            .map(|at| u8::try_from(at % 253).unwrap())
            .collect()
    }

    fn add(&mut self, operation: Operation, fence: bool, octets: Vec<u8>, expected: Vec<u8>) {
        let request = Request { operation, fence };
        if self.source.post(request).is_ok() {
            self.work.push(Work {
                operation,
                fence,
                octets,
                expected,
                done: false,
            });
        }
    }

    /// Posts anything that is right.
    pub fn post(&mut self, choices: &mut impl Choices, peer: &Self) {
        if self.work.len() >= self.completed + 60 {
            return;
        }
        let fence = choices.one_in(4);
        match choices.below(8) {
            0..=2 if self.sends_posted < peer.receives_posted => {
                let octets = Self::octets(choices, CAPACITY);
                let invalidate = choices.one_in(3).then(|| peer.advertise(self));
                let operation = Operation::Send {
                    length: u32::try_from(octets.len()).unwrap(),
                    solicited: choices.one_in(2),
                    invalidate,
                };
                self.sends_posted += 1;
                self.add(operation, fence, octets, Vec::new());
            }
            3 | 4 => {
                let octets = Self::octets(choices, 1500);
                let length = u32::try_from(octets.len()).unwrap();
                if self.written + length > LENGTH {
                    return;
                }
                let range = Range {
                    stag: WRITABLE,
                    offset: BASE + u64::from(self.written),
                    length,
                };
                self.written += length;
                self.add(Operation::Write(range), fence, octets, Vec::new());
            }
            5 | 6 => self.post_read(choices, peer, fence),
            7 => self.add(Operation::Local, fence, Vec::new(), Vec::new()),
            _ => {}
        }
    }

    /// Reads what never changes, or what an earlier Write of this end wrote.
    fn post_read(&mut self, choices: &mut impl Choices, peer: &Self, fence: bool) {
        let writes = |work: &&Work| matches!(work.operation, Operation::Write(_));
        let earlier = self.work.iter().filter(writes).next_back();
        let (source, expected) = match earlier {
            Some(Work {
                operation: Operation::Write(range),
                octets,
                ..
            }) if choices.one_in(2) => (*range, octets.clone()),
            _ => {
                let length = Self::octets(choices, 3000).len();
                let range = Range {
                    stag: READABLE,
                    offset: BASE + u64::try_from(choices.below(1000)).unwrap(),
                    length: u32::try_from(length).unwrap(),
                };
                (range, peer.memory.read(range))
            }
        };
        if self.read_to + source.length > LENGTH {
            return;
        }
        // Reads of no octets may name anything.
        let nonsense = source.length == 0;
        let request = ReadRequest {
            sink_stag: if nonsense { Stag(9) } else { SINK },
            sink_offset: BASE + u64::from(self.read_to),
            length: source.length,
            source_stag: if nonsense { Stag(8) } else { source.stag },
            source_offset: source.offset,
        };
        self.read_to += source.length;
        self.add(Operation::Read(request), fence, Vec::new(), expected);
    }

    /// Registers memory for the peer to invalidate.
    fn advertise(&self, user: &mut Self) -> Stag {
        let stag = Stag(user.next_stag);
        user.next_stag += 1;
        let region = Region {
            base: 0,
            length: 16,
            valid: true,
            of_this_stream: true,
            remote_read: true,
            remote_write: true,
            remote_invalidate: true,
        };
        self.memory.register(stag, region, vec![0; 16]);
        stag
    }

    /// Posts what is wrong.
    pub fn post_wrong(&mut self, wrong: Wrong, peer: &Self) {
        let range = |stag, offset, length| Range {
            stag,
            offset,
            length,
        };
        let write = |range| Operation::Write(range);
        let read = |source: Range| {
            Operation::Read(ReadRequest {
                sink_stag: SINK,
                sink_offset: BASE,
                length: source.length,
                source_stag: source.stag,
                source_offset: source.offset,
            })
        };
        let send = |length, invalidate| Operation::Send {
            length,
            solicited: false,
            invalidate,
        };
        let end = BASE + u64::from(LENGTH);
        let operation = match wrong {
            Wrong::WriteNowhere => write(range(Stag(7), BASE, 1)),
            Wrong::WriteBeyond => write(range(WRITABLE, end - 10, 11)),
            Wrong::WriteReadOnly => write(range(READABLE, BASE, 1)),
            Wrong::ReadNowhere => read(range(Stag(7), BASE, 1)),
            Wrong::ReadBeyond => read(range(READABLE, end - 10, 11)),
            Wrong::ReadWrapping => read(range(READABLE, u64::MAX - 5, 7)),
            Wrong::ReadForeign => read(range(FOREIGN, BASE, 1)),
            Wrong::SendTooLong => send(CAPACITY + 1, None),
            Wrong::InvalidateShared => send(3, Some(WRITABLE)),
            Wrong::InvalidateNothing => send(3, Some(Stag(7))),
        };
        let length = match operation {
            Operation::Send { length, .. } => {
                assert!(self.sends_posted <= peer.receives_posted);
                self.sends_posted += 1;
                length
            }
            Operation::Write(range) => range.length,
            _ => 0,
        };
        let octets = vec![0x77; usize::try_from(length).unwrap()];
        self.add(operation, false, octets, Vec::new());
    }

    /// Cuts the next segment and hands it over.
    pub fn send(&mut self, choices: &mut impl Choices) -> Option<Flying> {
        if self.closed {
            return None;
        }
        self.hand_over();
        let mulpdu = 128 + u32::try_from(choices.below(500)).unwrap();
        let mut next = self.source.next(mulpdu, &self.memory)?;
        let mut limit = mulpdu;
        if choices.one_in(8) {
            // The lower layer takes less by now: it is cut anew.
            limit = 128;
            next = self.source.next(limit, &self.memory)?;
        }
        let mut octets;
        match next {
            Outgoing::Local(number) => {
                self.source.handed().unwrap();
                self.source.done(number).unwrap();
                self.work[usize::try_from(number).unwrap()].done = true;
                return None;
            }
            Outgoing::Read {
                number,
                header,
                request,
            } => {
                let sink = Range {
                    stag: request.sink_stag,
                    offset: request.sink_offset,
                    length: request.length,
                };
                self.sink.expect(number, sink, false).unwrap();
                self.begin(number);
                self.reads_outstanding += 1;
                assert!(self.reads_outstanding <= self.ord);
                octets = header.as_slice().to_vec();
            }
            Outgoing::Segment {
                header,
                payload,
                answered,
                ..
            } => {
                if let Some(number) = answered {
                    self.sink.answered(number).unwrap();
                }
                octets = header.as_slice().to_vec();
                match payload {
                    Payload::None => {}
                    Payload::Request {
                        number,
                        offset,
                        length,
                    } => {
                        if offset == 0 {
                            self.begin(number);
                        }
                        let first = usize::try_from(offset).unwrap();
                        let work = &self.work[usize::try_from(number).unwrap()];
                        let length = usize::try_from(length).unwrap();
                        octets.extend(&work.octets[first..first + length]);
                    }
                    Payload::Answer(range) => octets.extend(self.memory.read(range)),
                }
            }
        }
        assert!(octets.len() <= usize::try_from(limit).unwrap());
        assert!(!self.terminated, "nothing follows a Terminate");
        self.terminated = octets[1] == 0x47;
        // The peer may have the segment before the sender knows that it left.
        self.leaving = true;
        if choices.one_in(2) {
            self.hand_over();
        }
        let count = self.count;
        self.count += 1;
        Some(Flying { count, octets })
    }

    fn hand_over(&mut self) {
        if std::mem::take(&mut self.leaving) {
            let handed = self.source.handed().unwrap();
            assert_eq!(handed, self.handed + 1);
            self.handed = handed;
        }
    }

    fn begin(&self, number: u64) {
        let work = &self.work[usize::try_from(number).unwrap()];
        assert!(
            !work.fence || self.reads_outstanding == 0,
            "a fence is kept"
        );
    }

    /// A segment arrives.
    pub fn arrive(&mut self, flying: &Flying, peer: &mut Self, summary: &mut Summary) {
        if self.closed {
            return;
        }
        let octets = &flying.octets;
        let head = &octets[..octets.len().min(HEAD_LEN)];
        let placed = self
            .sink
            .segment(L::key(flying.count), head, octets.len(), &self.memory);
        match placed {
            Ok(place) => {
                self.place(place, octets);
                self.sink.placed();
            }
            Err(Refusal::Fault(fault)) => self.fail(fault),
            Err(refusal) => panic!("{refusal:?}"),
        }
        loop {
            match self.sink.deliver(&self.memory) {
                Ok(Some(delivery)) => self.deliver(delivery, peer, summary),
                Ok(None) => break,
                Err(fault) => {
                    self.fail(fault);
                    break;
                }
            }
        }
    }

    fn fail(&mut self, fault: Fault) {
        self.source.fail(fault);
    }

    fn place(&mut self, place: Place, octets: &[u8]) {
        let payload = |length: u32| &octets[octets.len() - usize::try_from(length).unwrap()..];
        match place {
            Place::Nothing => {}
            Place::Write(range) => self.memory.write(range, payload(range.length)),
            Place::Response { read, range } => {
                assert!(
                    usize::try_from(read).unwrap() >= self.completed,
                    "nothing is written after the completion"
                );
                self.memory.write(range, payload(range.length));
            }
            Place::Receive {
                receive,
                offset,
                length,
            } => {
                let buffer = self.receives.get_mut(&receive).expect("a posted Receive");
                let first = usize::try_from(offset).unwrap();
                let last = first + usize::try_from(length).unwrap();
                buffer[first..last].copy_from_slice(payload(length));
            }
        }
    }

    /// What was sent ahead of the peer's request at `index` is here: Sends delivered, Writes placed.
    fn check_before(&self, peer: &Self, index: usize, summary: &mut Summary) {
        let mut sends = 0;
        for work in &peer.work[..index] {
            match work.operation {
                Operation::Send { .. } => sends += 1,
                Operation::Write(range) => {
                    assert_eq!(self.memory.read(range), work.octets);
                    summary.writes += 1;
                }
                _ => {}
            }
        }
        assert!(self.sends_delivered >= sends);
    }

    fn nth(peer: &Self, nth: usize, kind: impl Fn(&Operation) -> bool) -> usize {
        let mut found = (0..peer.work.len()).filter(|at| kind(&peer.work[*at].operation));
        found.nth(nth).expect("what the peer posted")
    }

    fn deliver(&mut self, delivery: Delivery, peer: &mut Self, summary: &mut Summary) {
        match delivery {
            Delivery::Message {
                receive,
                length,
                solicited,
                invalidated,
            } => {
                let is_send = |operation: &Operation| matches!(operation, Operation::Send { .. });
                let index = Self::nth(peer, self.sends_delivered, is_send);
                self.check_before(peer, index, summary);
                let work = &peer.work[index];
                let sent = Operation::Send {
                    length,
                    solicited,
                    invalidate: invalidated,
                };
                assert_eq!(sent, work.operation);
                assert_eq!(receive, u64::try_from(self.sends_delivered).unwrap());
                let buffer = self.receives.remove(&receive).unwrap();
                assert_eq!(buffer[..usize::try_from(length).unwrap()], work.octets);
                if let Some(stag) = invalidated {
                    assert!(!self.memory.is_valid(stag));
                }
                self.sends_delivered += 1;
                summary.sends += 1;
                self.post_receive();
            }
            Delivery::Answer(answer) => {
                let is_read = |operation: &Operation| matches!(operation, Operation::Read(_));
                let index = Self::nth(peer, self.reads_delivered, is_read);
                self.check_before(peer, index, summary);
                assert_eq!(Operation::Read(answer.request), peer.work[index].operation);
                self.reads_delivered += 1;
                self.source.answer(answer).unwrap();
            }
            Delivery::ReadDone { read, .. } => {
                let work = &mut self.work[usize::try_from(read).unwrap()];
                let Operation::Read(request) = work.operation else {
                    panic!("{:?}", work.operation);
                };
                let sink = Range {
                    stag: request.sink_stag,
                    offset: request.sink_offset,
                    length: request.length,
                };
                if sink.length > 0 {
                    assert_eq!(self.memory.read(sink), work.expected);
                }
                assert!(!std::mem::replace(&mut work.done, true));
                self.reads_outstanding -= 1;
                summary.reads += 1;
                self.source.done(read).unwrap();
            }
            Delivery::Terminate(terminate) => {
                summary.codes.push(terminate.code);
                self.close();
            }
        }
    }

    fn close(&mut self) {
        self.hand_over();
        self.source.close(self.sink.close().unwrap());
        self.closed = true;
        // Receives come back in the order of posting.
        let mut numbers = Vec::new();
        while let Some(number) = self.sink.flush() {
            numbers.push(number);
        }
        let left: Vec<_> = std::mem::take(&mut self.receives).into_keys().collect();
        assert_eq!(numbers, left);
    }

    /// The lower layer has sent some of what it has.
    pub fn take(&mut self, choices: &mut impl Choices) {
        self.hand_over();
        let under_way = usize::try_from(self.handed - self.taken).unwrap();
        self.taken += u64::try_from(choices.below(under_way + 1)).unwrap();
        self.source.taken(self.taken);
        if self.terminated && self.taken == self.handed && !self.closed {
            self.close();
        }
    }

    /// Completes what is complete.
    pub fn complete(&mut self, summary: &mut Summary) {
        while let Some(completion) = self.source.complete() {
            assert_eq!(completion.number, u64::try_from(self.completed).unwrap());
            let work = &self.work[self.completed];
            match completion.status {
                Status::Success => {
                    assert!(!self.flushing);
                    let by_delivery =
                        matches!(work.operation, Operation::Read(_) | Operation::Local);
                    assert_eq!(work.done, by_delivery);
                }
                Status::Flushed => {
                    assert!(self.source.fault().is_some() || self.closed);
                    self.flushing = true;
                    summary.flushed += 1;
                }
                Status::Failed => panic!("nothing failed here"),
            }
            self.completed += 1;
        }
    }

    /// Everything came to an end.
    pub fn check_end(&self) {
        assert_eq!(self.completed, self.work.len());
        if !self.closed {
            assert_eq!(self.reads_outstanding, 0);
            assert!(!self.flushing);
        }
    }
}
