// SPDX-License-Identifier: GPL-2.0

//! The queues of a Responder's connection: work that no thread has taken, and elements that wait
//! for Send buffers, for SQ credits or for pages.
//!
//! The caller has the elements, and a FIFO for each queue ([`Queues`]); [`crate::waiting`] counts
//! them, and decides which one is next. Nothing here knows what an element is.

use crate::waiting::{Attempt, Kind, SqCreditQueue, WaitQueue};

/// A FIFO.
pub trait Fifo {
    /// An element.
    type Element;

    /// An empty FIFO.
    const EMPTY: Self;

    /// Returns whether there is no element.
    fn is_empty(&self) -> bool;

    /// Adds `element` at the end.
    fn push_back(&mut self, element: Self::Element);

    /// Adds `element` at the front.
    fn push_front(&mut self, element: Self::Element);

    /// Takes the first element.
    fn pop_front(&mut self) -> Option<Self::Element>;
}

/// The FIFOs of a [`WorkQueue`].
pub trait Queues {
    /// Messages that were received.
    type Received: Fifo;
    /// Calls whose RDMA Reads have completed.
    type ReadDone: Fifo;
    /// The RDMA Reads of calls.
    type Reads: Fifo;
    /// Sends, perhaps with RDMA Writes.
    type Sends: Fifo;
}

type Received<Q> = <<Q as Queues>::Received as Fifo>::Element;
type ReadDone<Q> = <<Q as Queues>::ReadDone as Fifo>::Element;
type Reads<Q> = <<Q as Queues>::Reads as Fifo>::Element;
type Send<Q> = <<Q as Queues>::Sends as Fifo>::Element;

/// Adds `element`: at the front if it was taken from there and tried, otherwise at the end.
fn push<F: Fifo>(elements: &mut F, element: F::Element, attempt: Attempt<bool>) {
    if attempt.is_requeued() {
        elements.push_front(element);
    } else {
        elements.push_back(element);
    }
}

/// Elements that wait for the same resource.
struct Waiters<F> {
    order: WaitQueue,
    elements: F,
}

impl<F: Fifo> Waiters<F> {
    const EMPTY: Self = Self {
        order: WaitQueue::EMPTY,
        elements: F::EMPTY,
    };

    fn push(&mut self, element: F::Element, attempt: Attempt<bool>) {
        self.order.push(attempt);
        push(&mut self.elements, element, attempt);
    }

    /// Takes the first element, if there may be enough of the resource for it.
    fn pop(&mut self) -> Option<F::Element> {
        if self.order.pop() {
            self.elements.pop_front()
        } else {
            None
        }
    }
}

/// Work for a thread.
pub enum Work<Q: Queues> {
    /// A message was received.
    Received(Received<Q>),
    /// The RDMA Reads of a call have completed.
    ReadDone(ReadDone<Q>),
    /// RDMA Reads have their SQ credits, or may get pages.
    Reads(Reads<Q>),
}

/// An element that waited for space in the Send queue.
pub enum Waiter<Q: Queues> {
    /// RDMA Reads that need SQ credits.
    Reads(Reads<Q>),
    /// A Send that needs SQ credits, or a Send buffer first.
    Send(Send<Q>),
}

/// The work that no thread has taken yet, and the elements that wait.
pub struct WorkQueue<Q: Queues> {
    /// These calls arrived before the messages in `received`, and go first: RPCSEC_GSS drops a call
    /// that is overtaken by more calls than its sequence window holds, and closes the connection.
    read_done: Q::ReadDone,
    received: Q::Received,
    /// RDMA Reads that have SQ credits.
    ready_reads: Q::Reads,
    for_buffers: Waiters<Q::Sends>,
    /// The order of the next two, which wait for SQ credits.
    credit_order: SqCreditQueue,
    sends_for_credits: Q::Sends,
    reads_for_credits: Q::Reads,
    for_pages: Waiters<Q::Reads>,
}

impl<Q: Queues> WorkQueue<Q> {
    /// An empty queue.
    pub const EMPTY: Self = Self {
        read_done: Q::ReadDone::EMPTY,
        received: Q::Received::EMPTY,
        ready_reads: Q::Reads::EMPTY,
        for_buffers: Waiters::EMPTY,
        credit_order: SqCreditQueue::EMPTY,
        sends_for_credits: Q::Sends::EMPTY,
        reads_for_credits: Q::Reads::EMPTY,
        for_pages: Waiters::EMPTY,
    };

    /// The number of waiting Sends from which on no call is taken for execution. Each may keep the
    /// pages of a reply.
    const MAX_WAITING_SENDS: usize = 4;

    /// Adds a received message.
    pub fn push_received(&mut self, message: Received<Q>) {
        self.received.push_back(message);
    }

    /// Adds a call whose RDMA Reads have completed.
    pub fn push_read_done(&mut self, call: ReadDone<Q>) {
        self.read_done.push_back(call);
    }

    /// Adds a Send without a Send buffer.
    pub fn wait_for_buffer(&mut self, send: Send<Q>, attempt: Attempt<bool>) {
        self.for_buffers.push(send, attempt);
    }

    /// Adds a waiter for SQ credits.
    pub fn wait_for_credits(&mut self, waiter: Waiter<Q>, attempt: Attempt<bool>) {
        match waiter {
            Waiter::Reads(reads) => {
                self.credit_order.push_reads(attempt);
                push(&mut self.reads_for_credits, reads, attempt);
            }
            Waiter::Send(send) => {
                self.credit_order.push_send(attempt);
                push(&mut self.sends_for_credits, send, attempt);
            }
        }
    }

    /// Adds RDMA Reads that need pages.
    pub fn wait_for_pages(&mut self, reads: Reads<Q>, attempt: Attempt<bool>) {
        self.for_pages.push(reads, attempt);
    }

    /// Adds RDMA Reads that have SQ credits.
    pub fn push_ready(&mut self, reads: Reads<Q>) {
        self.ready_reads.push_back(reads);
        self.credit_order.note_ready_reads();
    }

    /// Notes that RDMA Reads from [`Self::pop_waiter`] have been posted, or wait again.
    pub fn end_reads(&mut self) {
        self.credit_order.end_reads();
    }

    /// Notes that the Send queue has space again.
    pub fn space_freed(&mut self) {
        self.for_buffers.order.space_freed();
        self.credit_order.space_freed();
    }

    /// Notes that a call has freed its pages.
    pub fn pages_freed(&mut self) {
        self.for_pages.order.space_freed();
    }

    /// Returns the numbers of waiters for Send buffers, SQ credits and pages.
    pub fn waiter_counts(&self) -> [usize; 3] {
        [
            self.for_buffers.order.len(),
            self.credit_order.len(),
            self.for_pages.order.len(),
        ]
    }

    /// Takes the next work that a thread can do.
    pub fn pop(&mut self) -> Option<Work<Q>> {
        let takes_calls = self.takes_calls();
        let read_done = takes_calls.then(|| self.read_done.pop_front()).flatten();
        if let Some(call) = read_done {
            return Some(Work::ReadDone(call));
        }
        let reads = self.ready_reads.pop_front();
        let reads = reads.or_else(|| self.for_pages.pop());
        if let Some(reads) = reads {
            return Some(Work::Reads(reads));
        }
        if takes_calls {
            self.received.pop_front().map(Work::Received)
        } else {
            None
        }
    }

    /// Takes the next waiter for which there may be space. RDMA Reads require a call of
    /// [`Self::end_reads`] later.
    pub fn pop_waiter(&mut self) -> Option<Waiter<Q>> {
        let next = match self.credit_order.pop() {
            Some(Kind::Reads) => self.reads_for_credits.pop_front().map(Waiter::Reads),
            Some(Kind::Send) => self.sends_for_credits.pop_front().map(Waiter::Send),
            None => None,
        };
        next.or_else(|| self.for_buffers.pop().map(Waiter::Send))
    }

    /// Returns whether a thread may take calls, including those that were read by RDMA Reads: their
    /// replies would have to wait behind others.
    fn takes_calls(&self) -> bool {
        let sends = self
            .for_buffers
            .order
            .len()
            .saturating_add(self.credit_order.sends());
        sends < Self::MAX_WAITING_SENDS
    }

    /// Returns whether there is no work that a thread can do.
    pub fn is_empty(&self) -> bool {
        let reads = !self.ready_reads.is_empty() || self.for_pages.order.may_pop();
        let calls = !self.read_done.is_empty() || !self.received.is_empty();
        !(reads || calls && self.takes_calls())
    }
}
