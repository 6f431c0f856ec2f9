// SPDX-License-Identifier: GPL-2.0

//! One end: the engine, its memory, and its requests.

use rdmap::rx::{
    self, HashKey, InboundRequest, InboundSlot, Outstanding, Placement, Receive, RxHalf,
};
use rdmap::stag::{Region, Stag};
use rdmap::tx::{self, Completion, Operation, Posted, Status, TxHalf};
use std::collections::BTreeMap;

use super::memory::Regions;
use super::planted::Bug;
use super::terms::{Choices, Llp, Summary};

const RECEIVES: usize = 6;
/// The length of a Receive in octets.
pub(super) const CAPACITY: u32 = 1000;

/// The memory that the peer may read, that it may write, and that responses go to. The base of
/// their offsets is high.
pub(super) const READABLE: Stag = Stag(0x100);
pub(super) const WRITABLE: Stag = Stag(0x200);
pub(super) const SINK: Stag = Stag(0x300);
pub(super) const FOREIGN: Stag = Stag(0x400);
pub(super) const BASE: u64 = 0xffff_ffff_fff0_0001;

/// The memory on which the peer may carry out atomic operations: counters.
pub(super) const COUNTED: Stag = Stag(0x500);
pub(super) const COUNTERS: usize = 3;
pub(super) const COUNTERS_BASE: u64 = 0xffff_ffff_fff0_1000;

/// The lengths of the longest Write and of the longest Read, and of the readable memory, in octets.
pub(super) const WRITE: u32 = 1500;
pub(super) const READ: u32 = 3000;
pub(super) const READABLE_LENGTH: u32 = READ + 1000;

pub struct Queues;

impl rx::Slots for Queues {
    type Receives = Vec<Receive>;
    type Inbound = Vec<InboundSlot>;
    type Outstanding = Vec<Outstanding>;
}

impl tx::Slots for Queues {
    type Requests = Vec<Posted>;
    type Responses = Vec<InboundRequest>;
}

/// A posted request, with the record that the model keeps of it.
pub(super) struct Work {
    pub operation: Operation,
    pub fence: bool,
    /// The octets that are sent or written.
    pub octets: Vec<u8>,
    /// The octets that a Read or an atomic operation has to find.
    pub expected: Vec<u8>,
    /// The last segment that was cut from it.
    pub segment: u64,
    pub done: bool,
}

pub struct End<L: Llp> {
    pub(super) rx: RxHalf<L, Queues>,
    pub(super) tx: TxHalf<Queues>,
    pub(super) memory: Regions,
    pub(super) work: Vec<Work>,
    pub(super) completed: usize,
    pub(super) flushing: bool,
    pub(super) receives: BTreeMap<u64, Vec<u8>>,
    pub(super) receives_posted: usize,
    /// Messages with a Receive, and requests of the peer, that were delivered.
    pub(super) sends_delivered: usize,
    pub(super) reads_delivered: usize,
    pub(super) sends_posted: usize,
    pub(super) written: u32,
    pub(super) read_to: u32,
    /// The peer's counters, after all atomic operations that were posted.
    pub(super) counters: [u64; COUNTERS],
    pub(super) ord: usize,
    pub(super) reads_outstanding: usize,
    pub(super) count: u64,
    pub(super) arrived: u64,
    pub(super) handed: u64,
    pub(super) taken: u64,
    pub(super) leaving: bool,
    pub(super) terminated: bool,
    pub(super) closed: bool,
    pub(super) next_stag: u32,
    /// The planted bug of this end, and the events that it withholds.
    pub(super) bug: Option<Bug>,
    pub(super) withheld_octets: Option<(Placement, Vec<u8>)>,
    pub(super) withheld_answer: Option<InboundRequest>,
    pub(super) withheld_completion: Option<Completion>,
}

impl<L: Llp> End<L> {
    /// Creates an end that may post `requests` requests.
    pub fn new(ord: usize, ird: usize, requests: usize, bug: Option<Bug>) -> Self {
        let memory = Regions::new(bug);
        let region = |length: &[u8], read, write| Region {
            base: BASE,
            length: u64::try_from(length.len()).unwrap(),
            valid: true,
            of_this_stream: true,
            remote_read: read,
            remote_write: write,
            remote_atomic: false,
            remote_invalidate: false,
        };
        let filled = |octet: u8, each: u32| vec![octet; usize::try_from(each).unwrap() * requests];
        let readable: Vec<_> = (0..READABLE_LENGTH)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        memory.register(READABLE, region(&readable, true, false), readable);
        let writable = filled(0xee, WRITE);
        memory.register(WRITABLE, region(&writable, true, true), writable);
        let sink = filled(0xdd, READ);
        memory.register(SINK, region(&sink, false, false), sink);
        let counters = vec![0; 8 * COUNTERS];
        let counted = Region {
            base: COUNTERS_BASE,
            remote_atomic: true,
            ..region(&counters, true, false)
        };
        memory.register(COUNTED, counted, counters);
        let foreign = Region {
            of_this_stream: false,
            remote_atomic: true,
            ..region(&[0xcc; 16], true, true)
        };
        memory.register(FOREIGN, foreign, vec![0xcc; 16]);
        let more = usize::from(bug == Some(Bug::OrdExceeded));
        let mut end = Self {
            rx: RxHalf::new(
                L::new(),
                HashKey(1, 2),
                vec![Receive::default(); RECEIVES],
                vec![InboundSlot::default(); ird],
                vec![Outstanding::default(); ord + more],
            ),
            tx: TxHalf::new(
                vec![Posted::EMPTY; 64],
                vec![InboundRequest::default(); ird],
                u16::try_from(ord + more).unwrap(),
                L::IN_ORDER || bug == Some(Bug::SinksOverlap),
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
            counters: [0; COUNTERS],
            ord,
            reads_outstanding: 0,
            count: 0,
            arrived: 0,
            handed: 0,
            taken: 0,
            leaving: false,
            terminated: false,
            closed: false,
            next_stag: 0x1000,
            bug,
            withheld_octets: None,
            withheld_answer: None,
            withheld_completion: None,
        };
        for _ in 0..RECEIVES {
            end.post_receive();
        }
        end
    }

    pub fn is_done(&self, requests: usize) -> bool {
        let over = match self.tx.fault() {
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

    pub(super) fn post_receive(&mut self) {
        let number = self.rx.post_receive(CAPACITY).unwrap();
        let buffer = vec![0; usize::try_from(CAPACITY).unwrap()];
        assert!(self.receives.insert(number, buffer).is_none());
        self.receives_posted += 1;
    }

    /// Passes the segment that was offered last to the LLP.
    pub(super) fn hand_over(&mut self) {
        if std::mem::take(&mut self.leaving) {
            let handed = self.tx.commit().unwrap();
            assert_eq!(handed, self.handed + 1);
            self.handed = handed;
        }
    }

    pub(super) fn close(&mut self) {
        self.hand_over();
        self.tx.close(self.rx.close().unwrap());
        self.closed = true;
        // Receives come back in the order of posting.
        let mut numbers = Vec::new();
        while let Some(number) = self.rx.flush() {
            numbers.push(number);
        }
        let left: Vec<_> = std::mem::take(&mut self.receives).into_keys().collect();
        assert_eq!(numbers, left);
    }

    /// Lets the LLP send some of its segments.
    pub fn take(&mut self, choices: &mut impl Choices) {
        self.hand_over();
        let under_way = usize::try_from(self.handed - self.taken).unwrap();
        self.taken += u64::try_from(choices.below(under_way + 1)).unwrap();
        let taken = match self.bug {
            Some(Bug::CompletedEarly) => self.handed,
            _ => self.taken,
        };
        self.tx.release(taken);
        if self.terminated && self.taken == self.handed && !self.closed {
            self.close();
        }
    }

    /// Completes the requests that are complete.
    pub fn complete(&mut self, summary: &mut Summary) {
        while let Some(completion) = self.completion() {
            assert_eq!(completion.number, u64::try_from(self.completed).unwrap());
            let work = &self.work[self.completed];
            match completion.status {
                Status::Success => {
                    assert!(!self.flushing);
                    let by_delivery = matches!(
                        work.operation,
                        Operation::Read(_) | Operation::Atomic { .. } | Operation::Local
                    );
                    assert_eq!(work.done, by_delivery);
                    assert!(work.segment <= self.taken, "its memory is still used");
                }
                Status::Flushed => {
                    assert!(self.tx.fault().is_some() || self.closed);
                    self.flushing = true;
                    summary.flushed += 1;
                }
                Status::Failed | Status::Refused(_) => panic!("nothing failed here"),
            }
            self.completed += 1;
        }
    }

    fn completion(&mut self) -> Option<Completion> {
        match self.bug {
            Some(Bug::CompletionLost) if self.completed == 3 => {
                self.tx.complete()?;
                self.tx.complete()
            }
            Some(Bug::CompletionTwice) if self.completed == 4 => {
                let again = self.withheld_completion.take();
                again.or_else(|| self.tx.complete())
            }
            Some(Bug::CompletionTwice) => {
                self.withheld_completion = self.tx.complete();
                self.withheld_completion
            }
            Some(Bug::CompletionsSwapped) => {
                let completion = self.tx.complete();
                match self.withheld_completion.take() {
                    None if self.completed > 0 => completion,
                    None => {
                        self.withheld_completion = completion;
                        self.tx.complete()
                    }
                    first => completion.or(first),
                }
            }
            _ => self.tx.complete(),
        }
    }

    /// Checks that everything came to an end.
    pub fn check_end(&self) {
        assert_eq!(self.completed, self.work.len());
        if !self.closed {
            assert_eq!(self.reads_outstanding, 0);
            assert!(!self.flushing);
        }
    }
}
