// SPDX-License-Identifier: GPL-2.0

//! The work of a connection that no thread has taken, and the Sends and RDMA Reads that wait
//! without a thread: for what, and who serves them.
//!
//! # The queues
//!
//! The picture of the path of an RPC is in [`super`]. These are the queues on it, all fields of
//! [`WorkQueue`](proto::work_queue::WorkQueue), under one lock:
//!
//! ```text
//! queue              waits for         served by
//!
//! received           a thread          an nfsd thread, which may go on to 1 with Read chunks
//! reads_for_credits  1. SQ credits     run_waiters, which reserves them; goes on to 2
//! ready_reads        2. a thread       an nfsd thread; goes on to 3
//! for_pages          3. pages          an nfsd thread, once a ReadPermit is dropped; begins with 1
//! read_done          a thread          an nfsd thread, when all RDMA Reads have completed
//!
//! for_buffers        4. a Send buffer  run_waiters, which takes one; goes on to 5 with RDMA Writes
//! sends_for_credits  5. SQ credits     run_waiters, which posts the Send
//! ```
//!
//! A thread that finds what it needs goes on at once, so 2 is for calls that waited in 1. A call
//! begins with 1 again after 3 because it has given its credits back. Each step can be served,
//! whatever the others hold:
//!
//! * All Send buffers come back: those that are posted, those that threads are filling, and those
//!   of Sends in 5.
//! * SQ credits come back when transfers complete. Reads take pages after their credits, and give
//!   the credits back if there are no pages, so neither waits for the other.
//! * The pages of calls that are being read come back when a thread has exchanged them for its own.
//!
//! A Send in 4 or 5 needs nothing else, so a completion handler posts it. Reads need memory, so a
//! thread posts them. While Reads are ready, which have about half of the credits, the other
//! credits are for Sends, so that these need not wait for a thread; otherwise Reads and Sends
//! alternate ([`proto::waiting`]).
//!
//! # Who wakes a waiter
//!
//! `run_waiters` serves what waits for the Send queue, and wakes an nfsd thread if that makes work
//! for one. It runs
//!
//! * in a completion that returns Send buffers or SQ credits, if an attempt has failed since the
//!   last one ([`rdma::Handler::send_space_freed`]),
//! * in a thread after each attempt, or after it has given credits or a buffer back
//!   ([`ServerConn::recheck_waiters`], [`ServerConn::retry_waiters`]); not if that ends the
//!   connection,
//! * once a second in the timer of the transport, while something is posted.
//!
//! The drop of a [`ReadPermit`](super::rdma_read::ReadPermit) wakes an nfsd thread for a call that
//! waits for pages.
//!
//! Whoever tries reads [a counter of such events](ServerConn::space_seq) before the attempt. If it
//! has changed when the element is queued, the event may have come between the two, and woken
//! nobody: the element is tried again. The counter is advanced when the space is there and before
//! the lock is taken (release), and is read before the attempt (acquire) and again under the lock.
//! So an attempt that has read the new value finds the space; one that has read the old value finds
//! the new one under the lock, or the event finds the element there.
//!
//! The numbers of waiters are read without the lock. A thread sees what it has queued itself, and
//! an element that it misses is rechecked by the thread that queues it.

use super::work_queue::{
    Waiter,
    WaitingReads,
    Work,
    WorkQueue, //
};
use crate::prelude::*;
use core::sync::atomic::{
    fence,
    Ordering, //
};
use kernel::sync::lock::{
    spinlock::SpinLockBackend,
    Guard, //
};
use proto::waiting::Attempt;

/// The queues of a connection.
#[pin_data]
pub(super) struct Waiting {
    /// [`None`] when the connection has ended: nothing is queued any more.
    #[pin]
    queue: SpinLock<Option<WorkQueue>>,
    /// Event counters; see [`ServerConn::space_seq`] and [`ServerConn::pages_seq`].
    space_seq: Atomic<u64>,
    pages_seq: Atomic<u64>,
    /// The numbers of waiters for Send buffers, SQ credits and pages. Changed under the lock of
    /// `queue`.
    buffer_waiters: Atomic<usize>,
    credit_waiters: Atomic<usize>,
    page_waiters: Atomic<usize>,
}

impl Waiting {
    /// Creates empty queues.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            queue <- new_spinlock!(Some(WorkQueue::EMPTY), "rpcrdma::work"),
            space_seq: Atomic::new(0),
            pages_seq: Atomic::new(0),
            buffer_waiters: Atomic::new(0),
            credit_waiters: Atomic::new(0),
            page_waiters: Atomic::new(0),
        })
    }

    /// Frees all elements because the connection has ended. Nothing is queued from now on. Sleeps.
    pub(super) fn close(&self) {
        let mut queue = self.queue.lock();
        let elements = queue.take();
        self.count([0; 3]);
        drop(queue);
        drop(elements);
    }

    /// Returns whether [`Self::close`] was called.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(super) fn is_closed(&self) -> bool {
        self.queue.lock().is_none()
    }

    /// Sets the numbers of waiters, in the order of [`WorkQueue::waiter_counts`]. Call it with
    /// `queue` locked.
    fn count(&self, [buffer_waiters, credit_waiters, page_waiters]: [usize; 3]) {
        self.buffer_waiters.store(buffer_waiters, Relaxed);
        self.credit_waiters.store(credit_waiters, Relaxed);
        self.page_waiters.store(page_waiters, Relaxed);
    }
}

impl ServerConn {
    /// Takes the next work. Calls `emptied` under the lock of the queue if no more is left.
    pub(super) fn next_work(&self, emptied: impl FnOnce()) -> Option<Work> {
        let mut locked = self.waiting.queue.lock();
        let Some(queue) = &mut *locked else {
            emptied();
            return None;
        };
        let work = queue.pop();
        if let Some(Work::Reads(_)) = work {
            self.waiting.count(queue.waiter_counts());
        }
        if queue.is_empty() {
            emptied();
        }
        work
    }

    /// Queues a received message, and wakes an nfsd thread for it.
    pub(super) fn queue_message(&self, message: Message<Self>) {
        self.queue_work(|queue| queue.push_received(message));
    }

    /// Queues a call whose RDMA Reads have completed, and wakes an nfsd thread for it.
    pub(super) fn queue_read_done(&self, call: WithMessage<ChunkedCall>) {
        self.queue_work(|queue| queue.push_read_done(call));
    }

    /// Calls `add`, unless the connection has ended, and wakes an nfsd thread if there is work for
    /// it. Does not sleep.
    fn queue_work(&self, add: impl FnOnce(&mut WorkQueue)) {
        let Some(link) = self.link.as_ref() else {
            return;
        };
        let mut add = Some(add);
        link.with(|xprt| {
            let mut locked = self.waiting.queue.lock();
            let Some(queue) = &mut *locked else {
                return;
            };
            if let Some(add) = add.take() {
                add(queue);
            }
            self.wake_thread(locked, xprt);
        });
        // If the connection has ended, this drops the element, without the lock.
        drop(add);
    }

    /// Wakes an nfsd thread if there is work in `queue`. When the connection has ended there is no
    /// work, and sunrpc may have freed the transport.
    fn wake_thread(
        &self,
        queue: Guard<'_, Option<WorkQueue>, SpinLockBackend>,
        xprt: &SvcXprt<ServerTransport>,
    ) {
        let has_work = queue.as_ref().is_some_and(|queue| !queue.is_empty());
        if self.state.is_open() && has_work {
            xprt.data_pending();
            drop(queue);
            xprt.enqueue();
        }
    }

    /// Returns a counter that changes when another attempt to post may succeed. Read it before an
    /// attempt.
    pub(super) fn space_seq(&self) -> u64 {
        self.waiting.space_seq.load(Acquire)
    }

    /// Returns a counter that changes when pages are freed that another call waits for. Read it
    /// before an attempt.
    pub(super) fn pages_seq(&self) -> u64 {
        self.waiting.pages_seq.load(Acquire)
    }

    /// Returns whether Sends wait for Send buffers.
    pub(super) fn waits_for_buffers(&self) -> bool {
        self.waiting.buffer_waiters.load(Relaxed) != 0
    }

    /// Returns whether Sends or RDMA Reads wait for SQ credits.
    pub(super) fn waits_for_credits(&self) -> bool {
        self.waiting.credit_waiters.load(Relaxed) != 0
    }

    /// Returns whether RDMA Reads wait for pages.
    pub(super) fn waits_for_pages(&self) -> bool {
        self.waiting.page_waiters.load(Relaxed) != 0
    }

    /// Queues `message` to wait for a Send buffer. An attempt has the value of [`Self::space_seq`].
    pub(super) fn wait_for_buffer(&self, message: WithMessage<Outgoing>, attempt: Attempt<u64>) {
        self.queue_waiting(attempt, &self.waiting.space_seq, |queue, attempt| {
            queue.wait_for_buffer(message, attempt);
        });
    }

    /// Queues `waiter` to wait for SQ credits. An attempt has the value of [`Self::space_seq`].
    pub(super) fn wait_for_credits(&self, waiter: Waiter, attempt: Attempt<u64>) {
        self.queue_waiting(attempt, &self.waiting.space_seq, |queue, attempt| {
            queue.wait_for_credits(waiter, attempt);
        });
    }

    /// Queues `reads` to wait for pages. An attempt has the value of [`Self::pages_seq`].
    pub(super) fn wait_for_pages(&self, reads: WithMessage<WaitingReads>, attempt: Attempt<u64>) {
        self.queue_waiting(attempt, &self.waiting.pages_seq, |queue, attempt| {
            queue.wait_for_pages(reads, attempt);
        });
    }

    /// Calls `add` with the attempt, and whether its counter has changed since.
    fn queue_waiting(
        &self,
        attempt: Attempt<u64>,
        number: &Atomic<u64>,
        add: impl FnOnce(&mut WorkQueue, Attempt<bool>),
    ) {
        if !attempt.is_requeued() {
            config::SQ_STARVE.add(1);
        }
        self.queue_work(|queue| {
            add(queue, attempt.map(|before| number.load(Acquire) != before));
            self.waiting.count(queue.waiter_counts());
        });
    }

    /// Notes that the Send queue has space again. Call [`Self::next_waiter`] after this.
    pub(super) fn note_space_freed(&self) {
        self.waiting.space_seq.fetch_add(1, Release);
        if let Some(queue) = &mut *self.waiting.queue.lock() {
            queue.space_freed();
        }
    }

    /// Queues `reads`, which have SQ credits, for an nfsd thread to post.
    fn queue_ready_reads(&self, reads: WithMessage<WaitingReads>) {
        self.queue_work(|queue| queue.push_ready(reads));
    }

    /// Wakes an nfsd thread for RDMA Reads that wait for pages, as a call has given its own back.
    /// Does not sleep.
    pub(super) fn on_pages_freed(&self) {
        self.waiting.pages_seq.fetch_add(1, Release);
        self.queue_work(WorkQueue::pages_freed);
    }

    /// Notes that RDMA Reads from [`Self::next_waiter`] have been posted, or wait again. Call that
    /// again after this.
    pub(super) fn end_reads(&self) {
        if let Some(queue) = &mut *self.waiting.queue.lock() {
            queue.end_reads();
        }
    }

    /// Takes the next waiter for which the Send queue may have space. If there is none, wakes an
    /// nfsd thread if there is work for it. Does not sleep.
    fn next_waiter(&self) -> Option<Waiter> {
        let next = self.link.as_ref()?.with(|xprt| {
            let mut locked = self.waiting.queue.lock();
            let Some(queue) = &mut *locked else {
                return None;
            };
            let next = queue.pop_waiter();
            match next {
                Some(_) => self.waiting.count(queue.waiter_counts()),
                None => self.wake_thread(locked, xprt),
            }
            next
        });
        next.flatten()
    }

    /// Notes that `queue` has space again, and serves the waiters. Does not sleep.
    pub(super) fn on_space_freed(&self, queue: &QueuePair<Self>) {
        self.note_space_freed();
        self.run_waiters(queue);
    }

    /// Rechecks the waiters. Call this after every attempt to post. Closes the race with a
    /// completion that freed space before the element was queued: no later completion may come.
    /// Does not sleep.
    pub(super) fn recheck_waiters(&self, queue: &QueuePair<Self>) {
        if self.waits_for_buffers() || self.waits_for_credits() {
            // Another thread puts SQ credits back without the lock of the Send queue, and looks at
            // the numbers of waiters then. It sees that of the element, or this sees the credits:
            // two locks one behind the other are no full barrier.
            fence(Ordering::SeqCst);
            self.run_waiters(queue);
        }
    }

    /// Does what [`Self::on_space_freed`] does, if anything waits.
    pub(super) fn retry_waiters(&self, queue: &QueuePair<Self>) {
        if self.waits_for_buffers() || self.waits_for_credits() {
            self.on_space_freed(queue);
        }
    }

    /// Posts the waiting Sends for which there is space, and queues RDMA Reads for which there is
    /// for a thread to post. If the connection has ended, drops both. Does not sleep.
    fn run_waiters(&self, queue: &QueuePair<Self>) {
        while let Some(waiting) = self.next_waiter() {
            let sequence = self.space_seq();
            match waiting {
                Waiter::Reads(reads) if !self.state.is_open() => {
                    drop(reads);
                    self.end_reads();
                }
                Waiter::Reads(mut reads) => {
                    let WaitingReads {
                        requests,
                        registrations,
                        ..
                    } = reads.state;
                    match queue.reserve_reads(requests, registrations) {
                        Some(credits) => {
                            reads.state.credits = Some(credits);
                            self.queue_ready_reads(reads);
                        }
                        None => {
                            self.wait_for_credits(
                                Waiter::Reads(reads),
                                Attempt::Requeued(sequence),
                            );
                            self.end_reads();
                        }
                    }
                }
                Waiter::Send(message) => {
                    let take = || queue.take_send_buffer();
                    let xid = message.state.xid;
                    // An error closes the connection.
                    if let Err(error) = self.try_send(queue, message, take, sequence, true) {
                        self.trace_send_error(xid, error);
                    }
                }
            }
        }
    }
}
