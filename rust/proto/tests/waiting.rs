// SPDX-License-Identifier: GPL-2.0

//! Sends and RDMA Reads that wait for SQ credits, over random histories: nothing is lost, nothing
//! overtakes, and nothing waits while there is space and nothing else to wait for.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use proto::waiting::Attempt;
use proto::waiting::Kind;
use proto::waiting::SqCreditQueue;

/// The SQ credits of the Send queue.
const CREDITS: usize = 8;

/// One event of a history.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A thread has a reply with so many RDMA Writes.
    Reply(usize),
    /// A thread has a call with so many RDMA Reads.
    Call(usize),
    /// A thread posts the Reads that are ready.
    PostReads,
    /// The oldest posted transfer completes.
    Complete,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (1..=CREDITS / 2).prop_map(Event::Reply),
        (1..=CREDITS / 2).prop_map(Event::Call),
        Just(Event::PostReads),
        Just(Event::Complete),
    ]
}

/// An element: the order in which it came, and the credits that it needs.
type Element = (usize, usize);

/// A Responder with one context at a time.
#[derive(Default)]
struct Server {
    order: Option<SqCreditQueue>,
    sends: VecDeque<Element>,
    reads: VecDeque<Element>,
    ready: Option<Element>,
    posted: VecDeque<Element>,
    free: usize,
    /// Whether an attempt failed since the last completion.
    starved: bool,
    came: usize,
    posted_sends: Vec<usize>,
    ready_reads: Vec<usize>,
}

impl Server {
    fn new() -> Self {
        Self {
            order: Some(SqCreditQueue::EMPTY),
            free: CREDITS,
            ..Self::default()
        }
    }

    fn order(&mut self) -> &mut SqCreditQueue {
        self.order.as_mut().unwrap()
    }

    fn reserve(&mut self, credits: usize) -> bool {
        let fits = credits <= self.free;
        if fits {
            self.free -= credits;
        }
        self.starved |= !fits;
        fits
    }

    /// Tries to post, or queues, what comes from a thread.
    fn begin(&mut self, kind: Kind, credits: usize) {
        self.came += 1;
        let element = (self.came, credits);
        let attempt = if !self.order().is_empty() {
            Attempt::NotTried
        } else if self.reserve(credits) {
            match kind {
                Kind::Send => self.posted_sends.push(element.0),
                Kind::Reads => self.ready_reads.push(element.0),
            }
            self.posted.push_back(element);
            return;
        } else {
            Attempt::New(false)
        };
        self.push(kind, element, attempt);
        self.run();
    }

    fn push(&mut self, kind: Kind, element: Element, attempt: Attempt<bool>) {
        let elements = match kind {
            Kind::Send => {
                self.order().push_send(attempt);
                &mut self.sends
            }
            Kind::Reads => {
                self.order().push_reads(attempt);
                &mut self.reads
            }
        };
        if attempt.is_requeued() {
            elements.push_front(element);
        } else {
            elements.push_back(element);
        }
    }

    /// Serves the elements for which there may be space.
    fn run(&mut self) {
        while let Some(kind) = self.order().pop() {
            match kind {
                Kind::Send => {
                    let element = self.sends.pop_front().unwrap();
                    if self.reserve(element.1) {
                        self.posted_sends.push(element.0);
                        self.posted.push_back(element);
                    } else {
                        self.push(kind, element, Attempt::Requeued(false));
                    }
                }
                Kind::Reads => {
                    let element = self.reads.pop_front().unwrap();
                    assert!(
                        self.ready.is_none(),
                        "Reads of one call are ready at a time"
                    );
                    if self.reserve(element.1) {
                        self.ready_reads.push(element.0);
                        self.ready = Some(element);
                        self.order().note_ready_reads();
                    } else {
                        self.push(kind, element, Attempt::Requeued(false));
                        self.order().end_reads();
                    }
                }
            }
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Reply(writes) => self.begin(Kind::Send, writes),
            Event::Call(reads) => self.begin(Kind::Reads, reads),
            Event::PostReads => {
                if let Some(element) = self.ready.take() {
                    self.posted.push_back(element);
                    self.order().end_reads();
                    self.run();
                }
            }
            Event::Complete => {
                if let Some((_, credits)) = self.posted.pop_front() {
                    self.free += credits;
                    if std::mem::take(&mut self.starved) {
                        self.order().space_freed();
                        self.run();
                    }
                }
            }
        }
        assert_eq!(self.order().len(), self.sends.len() + self.reads.len());
        assert_eq!(self.order().sends(), self.sends.len());
        if !self.order().is_empty() {
            // Something will serve them.
            assert!(
                !self.posted.is_empty() || self.ready.is_some(),
                "all wait, and for nothing"
            );
        }
    }
}

proptest! {
    // A finding becomes a test of its own, not a line in a file.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_waits_is_served_in_order(events in vec(event(), 0..200)) {
        let mut server = Server::new();
        for event in events {
            server.on(event);
        }
        // In the end everything completes.
        while !server.posted.is_empty() || server.ready.is_some() {
            server.on(Event::PostReads);
            server.on(Event::Complete);
        }
        prop_assert_eq!(server.posted_sends.len() + server.ready_reads.len(), server.came);
        prop_assert_eq!(server.free, CREDITS);
        prop_assert!(server.posted_sends.is_sorted() && server.ready_reads.is_sorted());
    }

    #[test]
    fn neither_sends_nor_reads_are_passed_twice(events in vec(event(), 0..200)) {
        let mut server = Server::new();
        for event in events {
            let (sends, reads) = (server.posted_sends.len(), server.ready_reads.len());
            let both_waited = !server.sends.is_empty() && !server.reads.is_empty();
            let was_ready = server.ready.is_some();
            server.on(event);
            let (sends, reads) = (server.posted_sends.len() - sends, server.ready_reads.len() - reads);
            // Sends pass Reads that are ready. Otherwise they alternate.
            if both_waited && !was_ready && !server.sends.is_empty() && !server.reads.is_empty()
                && server.ready.is_none()
            {
                prop_assert!(sends <= reads + 1 && reads <= sends + 1);
            }
        }
    }
}
