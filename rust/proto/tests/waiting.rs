// SPDX-License-Identifier: GPL-2.0

//! The queues of a Responder over random histories: every call is answered, with what it has; none
//! overtakes in a queue; nothing waits while there is space and nothing else to wait for.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use proto::waiting::Attempt;
use proto::work_queue::{self, Queues, Work};

use crate::common::line::Line;

/// The SQ credits of the Send queue.
const CREDITS: usize = 8;
/// The Send buffers.
const BUFFERS: usize = 3;
/// The waiting Sends from which on no call is taken for execution.
const MOST_SENDS: usize = 4;
/// The pages for calls that are being read. One call is always read.
const PAGES: usize = 6;

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    /// The order in which the calls came.
    number: usize,
    /// The credits and pages for its RDMA Reads. None if it has no Read chunks.
    reads: usize,
    pages: usize,
    /// The RDMA Writes of its reply.
    writes: usize,
}

/// The RDMA Reads of a call.
#[derive(Debug)]
struct ToRead {
    call: Call,
    /// The credits that it asks for, at first perhaps fewer than it needs.
    requests: usize,
    has_credits: bool,
    waited_for_pages: bool,
}

/// A call that was read. Its pages are in use.
#[derive(Debug)]
struct WasRead(Call);

/// A reply.
#[derive(Debug)]
struct Reply {
    call: Call,
    has_buffer: bool,
}

/// The queues of this model.
struct Model;

impl Queues for Model {
    type Received = Line<Call>;
    type ReadDone = Line<WasRead>;
    type Reads = Line<ToRead>;
    type Sends = Line<Reply>;
}

type Waiter = work_queue::Waiter<Model>;
type WorkQueue = work_queue::WorkQueue<Model>;

/// A batch of work requests that was posted.
enum Posted {
    Reads(Call),
    Reply(Call),
}

/// The numbers of the calls that should be in a queue, in order.
type Expected = VecDeque<usize>;

/// Adds a call where it should stand.
fn expect(expected: &mut Expected, number: usize, attempt: Attempt<bool>) {
    match attempt {
        Attempt::Requeued(_) => expected.push_front(number),
        Attempt::New(_) | Attempt::NotTried => expected.push_back(number),
    }
}

/// One event of a history.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A call arrives with so many Reads, pages and Writes.
    Call {
        reads: usize,
        pages: usize,
        writes: usize,
    },
    /// A thread takes some work. In a race, a transfer completes after it has found no space, and
    /// before the element is queued.
    Thread { race: bool },
    /// A thread has the reply to the oldest call that is executed. A race is as above.
    Reply { race: bool },
    /// The oldest transfer that is posted completes.
    Complete,
}

fn event() -> impl Strategy<Value = Event> {
    let call = (0..=CREDITS / 2, 1..=PAGES, 0..=CREDITS / 2).prop_map(|(reads, pages, writes)| {
        Event::Call {
            reads,
            pages,
            writes,
        }
    });
    prop_oneof![
        3 => call,
        5 => any::<bool>().prop_map(|race| Event::Thread { race }),
        3 => any::<bool>().prop_map(|race| Event::Reply { race }),
        3 => Just(Event::Complete),
    ]
}

/// A Responder. One context is at work at a time, except in races.
struct Server {
    queue: WorkQueue,
    /// The RDMA Writes of each call that came.
    writes: Vec<usize>,
    executing: VecDeque<Call>,
    posted: VecDeque<Posted>,
    answered: Vec<usize>,

    credits: usize,
    buffers: usize,
    pages: usize,
    /// The number of calls that are being read.
    reading: usize,
    /// Whether an attempt has failed since the last completion.
    starved: bool,
    /// Whether a call waits for the pages of another.
    waits_for_pages: bool,
    /// The number of times that space, or pages, were freed.
    space_seq: usize,
    pages_seq: usize,

    /// The calls that should be in the queues.
    received: Expected,
    read_done: Expected,
    for_buffers: Expected,
    sends: Expected,
    reads: Expected,
    for_pages: Expected,
    /// The Reads that were taken for SQ credits, and are neither posted nor waiting again.
    taken: Option<usize>,
    /// How many Sends have passed the first waiting Reads, and the other way round.
    passed_reads: usize,
    passed_sends: usize,
}

impl Server {
    fn new() -> Self {
        Self {
            queue: WorkQueue::EMPTY,
            writes: Vec::new(),
            executing: VecDeque::new(),
            posted: VecDeque::new(),
            answered: Vec::new(),
            credits: CREDITS,
            buffers: BUFFERS,
            pages: 0,
            reading: 0,
            starved: false,
            waits_for_pages: false,
            space_seq: 0,
            pages_seq: 0,
            received: Expected::new(),
            read_done: Expected::new(),
            for_buffers: Expected::new(),
            sends: Expected::new(),
            reads: Expected::new(),
            for_pages: Expected::new(),
            taken: None,
            passed_reads: 0,
            passed_sends: 0,
        }
    }

    fn reserve(&mut self, credits: usize) -> bool {
        let fits = credits <= self.credits;
        if fits {
            self.credits -= credits;
        }
        self.starved |= !fits;
        fits
    }

    fn wait_for_credits(&mut self, waiter: Waiter, attempt: Attempt<usize>) {
        let now = self.space_seq;
        let attempt = attempt.map(|before| before != now);
        match &waiter {
            Waiter::Reads(reads) => expect(&mut self.reads, reads.call.number, attempt),
            Waiter::Send(reply) => expect(&mut self.sends, reply.call.number, attempt),
        }
        self.queue.wait_for_credits(waiter, attempt);
    }

    /// Tries to post `reply`, or queues it.
    fn try_send(&mut self, mut reply: Reply, again: bool, race: bool) {
        let sequence = self.space_seq;
        let had_buffer = reply.has_buffer;
        if !had_buffer {
            if self.buffers == 0 {
                self.starved = true;
                if race {
                    self.complete();
                }
                let attempt = if again {
                    Attempt::Requeued(self.space_seq != sequence)
                } else {
                    Attempt::New(self.space_seq != sequence)
                };
                expect(&mut self.for_buffers, reply.call.number, attempt);
                self.queue.wait_for_buffer(reply, attempt);
                return;
            }
            self.buffers -= 1;
            reply.has_buffer = true;
        }
        let writes = reply.call.writes;
        let attempt = if again && had_buffer {
            Attempt::Requeued(sequence)
        } else if writes != 0 && !(self.sends.is_empty() && self.reads.is_empty()) {
            Attempt::NotTried
        } else {
            Attempt::New(sequence)
        };
        if attempt == Attempt::NotTried || !self.reserve(writes) {
            if race {
                self.complete();
            }
            self.wait_for_credits(Waiter::Send(reply), attempt);
            return;
        }
        self.posted.push_back(Posted::Reply(reply.call));
    }

    fn send(&mut self, call: Call, race: bool) {
        let reply = Reply {
            call,
            has_buffer: false,
        };
        if self.for_buffers.is_empty() {
            self.try_send(reply, false, race);
        } else {
            expect(&mut self.for_buffers, call.number, Attempt::NotTried);
            self.queue.wait_for_buffer(reply, Attempt::NotTried);
        }
        self.run();
    }

    /// Gives credits back without a completion.
    fn release(&mut self, credits: usize) {
        self.credits += credits;
        self.note_space_freed();
        self.run();
    }

    fn note_space_freed(&mut self) {
        self.space_seq += 1;
        self.queue.space_freed();
    }

    /// Posts Reads, or queues them.
    fn try_read(&mut self, reads: ToRead, race: bool) {
        let had_credits = reads.has_credits;
        self.post_reads(reads, race);
        if had_credits {
            self.taken = None;
            self.queue.end_reads();
        }
        self.run();
    }

    fn post_reads(&mut self, mut reads: ToRead, race: bool) {
        let (space_seq, pages_seq) = (self.space_seq, self.pages_seq);
        let had_credits = std::mem::take(&mut reads.has_credits);
        let attempt = if had_credits {
            Attempt::Requeued(space_seq)
        } else if !(self.sends.is_empty() && self.reads.is_empty()) {
            Attempt::NotTried
        } else {
            Attempt::New(space_seq)
        };
        let reserved = had_credits || attempt != Attempt::NotTried && self.reserve(reads.requests);
        if !reserved {
            if race {
                self.complete();
            }
            self.wait_for_credits(Waiter::Reads(reads), attempt);
            return;
        }
        let Call { number, pages, .. } = reads.call;
        if self.reading != 0 && self.pages + pages > PAGES {
            self.waits_for_pages = true;
            self.release(reads.requests);
            if race {
                self.finish_reading();
            }
            let changed = self.pages_seq != pages_seq;
            let attempt = if !had_credits && reads.waited_for_pages {
                Attempt::Requeued(changed)
            } else {
                Attempt::New(changed)
            };
            reads.waited_for_pages = true;
            expect(&mut self.for_pages, number, attempt);
            self.queue.wait_for_pages(reads, attempt);
            return;
        }
        let more = reads.call.reads - reads.requests;
        if more > self.credits {
            // They come back with the number that they need.
            self.starved = true;
            self.credits += reads.requests;
            reads.requests = reads.call.reads;
            self.note_space_freed();
            self.wait_for_credits(Waiter::Reads(reads), attempt);
            return;
        }
        self.credits -= more;
        self.pages += pages;
        self.reading += 1;
        self.posted.push_back(Posted::Reads(reads.call));
    }

    /// Begins to execute the oldest call that was read, if there is one, in another thread.
    fn finish_reading(&mut self) {
        if self.read_done.is_empty() || self.for_buffers.len() + self.sends.len() >= MOST_SENDS {
            return;
        }
        match self.queue.pop() {
            Some(Work::ReadDone(read)) => self.execute_read(read),
            _ => panic!("what was read is next"),
        }
    }

    fn execute_read(&mut self, WasRead(call): WasRead) {
        assert_eq!(self.read_done.pop_front(), Some(call.number));
        self.executing.push_back(call);
        self.pages -= call.pages;
        self.reading -= 1;
        if std::mem::take(&mut self.waits_for_pages) {
            self.pages_seq += 1;
            self.queue.pages_freed();
        }
    }

    /// Takes some work. Returns whether there was any.
    fn thread(&mut self, race: bool) -> bool {
        let Some(work) = self.queue.pop() else {
            return false;
        };
        match work {
            Work::ReadDone(read) => self.execute_read(read),
            Work::Received(call) => {
                assert_eq!(self.received.pop_front(), Some(call.number));
                self.receive(call, race);
            }
            Work::Reads(reads) if reads.has_credits => {
                assert_eq!(self.taken, Some(reads.call.number));
                self.try_read(reads, race);
            }
            Work::Reads(reads) => {
                assert_eq!(self.for_pages.pop_front(), Some(reads.call.number));
                self.try_read(reads, race);
            }
        }
        true
    }

    fn receive(&mut self, call: Call, race: bool) {
        if call.reads == 0 {
            self.executing.push_back(call);
            return;
        }
        let waits = !self.for_pages.is_empty();
        let reads = ToRead {
            call,
            requests: call.reads.div_ceil(2),
            has_credits: false,
            waited_for_pages: waits,
        };
        if waits {
            expect(&mut self.for_pages, call.number, Attempt::NotTried);
            self.queue.wait_for_pages(reads, Attempt::NotTried);
        } else {
            self.try_read(reads, race);
        }
    }

    fn complete(&mut self) {
        let Some(posted) = self.posted.pop_front() else {
            return;
        };
        match posted {
            Posted::Reads(call) => {
                self.credits += call.reads;
                self.read_done.push_back(call.number);
                self.queue.push_read_done(WasRead(call));
            }
            Posted::Reply(call) => {
                self.credits += call.writes;
                self.buffers += 1;
                self.answered.push(call.number);
            }
        }
        if std::mem::take(&mut self.starved) {
            self.note_space_freed();
            self.run();
        }
    }

    /// Serves the elements for which there may be space.
    fn run(&mut self) {
        while let Some(waiter) = self.queue.pop_waiter() {
            match waiter {
                Waiter::Send(reply) => self.serve_send(reply),
                Waiter::Reads(mut reads) => {
                    let number = reads.call.number;
                    assert_eq!(self.reads.pop_front(), Some(number));
                    assert_eq!(
                        self.taken.replace(number),
                        None,
                        "Reads of one call at a time"
                    );
                    if self.reserve(reads.requests) {
                        reads.has_credits = true;
                        self.passed_reads = 0;
                        if !self.sends.is_empty() {
                            self.passed_sends += 1;
                        }
                        assert!(self.passed_sends <= 1, "a Send is passed twice");
                        self.queue.push_ready(reads);
                    } else {
                        self.wait_for_credits(
                            Waiter::Reads(reads),
                            Attempt::Requeued(self.space_seq),
                        );
                        self.taken = None;
                        self.queue.end_reads();
                    }
                }
            }
        }
    }

    fn serve_send(&mut self, reply: Reply) {
        let number = reply.call.number;
        if !reply.has_buffer {
            assert_eq!(self.for_buffers.pop_front(), Some(number));
            self.try_send(reply, true, false);
            return;
        }
        assert_eq!(self.sends.pop_front(), Some(number));
        self.try_send(reply, true, false);
        if self.sends.front() != Some(&number) {
            self.passed_sends = 0;
            // Sends pass Reads while those of another call are ready.
            if !self.reads.is_empty() && self.taken.is_none() {
                self.passed_reads += 1;
            }
            assert!(self.passed_reads <= 1, "Reads are passed twice");
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Call {
                reads,
                pages,
                writes,
            } => {
                let call = Call {
                    number: self.writes.len(),
                    reads,
                    pages,
                    writes,
                };
                self.writes.push(writes);
                self.received.push_back(call.number);
                self.queue.push_received(call);
            }
            Event::Thread { race } => {
                self.thread(race);
            }
            Event::Reply { race } => {
                if let Some(call) = self.executing.pop_front() {
                    self.send(call, race);
                }
            }
            Event::Complete => self.complete(),
        }
        self.check();
    }

    fn check(&self) {
        let waiters = [
            self.for_buffers.len(),
            self.sends.len() + self.reads.len(),
            self.for_pages.len(),
        ];
        assert_eq!(self.queue.waiter_counts(), waiters);
        // Whatever waits, something will serve it.
        if self.posted.is_empty() && self.executing.is_empty() && self.queue.is_empty() {
            assert_eq!(waiters, [0; 3], "all wait, and for nothing");
            assert!(self.received.is_empty() && self.read_done.is_empty());
        }
        // There is no space that one that waits for it alone could use.
        if !self.for_buffers.is_empty() {
            assert_eq!(self.buffers, 0, "a Send waits beside free buffers");
        }
        // Credits are saved for Reads that have the turn, but not while others are ready.
        let saved = !self.reads.is_empty() && self.taken.is_none();
        if let (Some(number), false) = (self.sends.front(), saved) {
            assert!(
                self.credits < self.writes[*number],
                "a Send waits beside free credits"
            );
        }
        if self.credits == CREDITS && self.taken.is_none() {
            assert_eq!(waiters[1], 0, "all credits are free");
        }
        if self.reading == 0 && !self.for_pages.is_empty() {
            assert!(!self.queue.is_empty(), "all pages are free");
        }
    }

    /// Lets everything run to its end.
    fn finish(&mut self) {
        loop {
            let before = (self.executing.len(), self.posted.len());
            let worked = self.thread(false);
            self.on(Event::Reply { race: false });
            self.on(Event::Complete);
            if !worked && before == (0, 0) {
                return;
            }
        }
    }
}

proptest! {
    // A finding becomes a test of its own, not a line in a file.
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_call_is_served_in_turn_and_answered_once(events in vec(event(), 0..200)) {
        let mut server = Server::new();
        for event in events {
            server.on(event);
        }
        server.finish();
        server.answered.sort_unstable();
        prop_assert_eq!(server.answered, Vec::from_iter(0..server.writes.len()));
        prop_assert_eq!(server.credits, CREDITS);
        prop_assert_eq!(server.buffers, BUFFERS);
        prop_assert_eq!((server.pages, server.reading), (0, 0));
    }
}
