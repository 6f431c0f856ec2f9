// SPDX-License-Identifier: GPL-2.0

//! The work queue of a connection, from its completion handlers to nfsd threads.
//!
//! The handlers must not allocate, so the queue gets an entry for each Receive of the connection
//! before it is posted. Each element owns the Receive buffer of its message, so there are never
//! more elements than entries.

use super::{
    call_layout::{
        policy,
        CallLayout, //
    },
    fifo::Fifo,
    read_budget::ReadPermit,
    sq_credit_queue::{
        SqCreditQueue,
        SqWaiter, //
    },
    wait_queue::{
        Attempt,
        WaitQueue, //
    },
    waiting::{
        Outgoing,
        WaitingReads, //
    }, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    time::{
        Instant,
        Monotonic, //
    }, //
};
use proto::call::{
    self,
    Incoming, //
};
use rdma::{
    receive::Message,
    Handler,
    ReadHandler, //
};
use sunrpc::memory::Page;

/// A call with Read chunks, whose RDMA Reads are posted or have completed.
pub(crate) struct ChunkedCall<H: Handler> {
    pub(super) message: Message<H>,
    pub(super) layout: CallLayout,
    /// The Data Sink of the Reads.
    pub(super) pages: KVec<Page>,
    /// Accounts for the pages.
    pub(super) permit: ReadPermit,
    /// When the Reads were posted, if that is traced.
    pub(super) reads_posted: Option<Instant<Monotonic>>,
}

impl<H: Handler> ChunkedCall<H> {
    /// Returns the length of all Read chunks.
    pub(super) fn read_bytes(&self) -> u64 {
        match call::parse(self.message.bytes(), &policy(usize::MAX)) {
            Ok(Incoming::Call(call)) => call.chunks().map(|(_, length)| length).sum(),
            _ => 0,
        }
    }
}

/// Work for an nfsd thread.
pub(crate) enum Work<H: ReadHandler> {
    /// A message was received.
    Received(Message<H>),
    /// The RDMA Reads of a call have completed.
    ReadDone(ChunkedCall<H>),
    /// RDMA Reads have their SQ credits, or may get pages.
    Reads(WaitingReads<H>),
}

/// A waiter for SQ credits of the context `H`.
pub(super) type Waiter<H> = SqWaiter<Outgoing<H>, WaitingReads<H>>;

/// The work that no thread has taken yet, and the elements that [wait](super::waiting).
pub(super) struct WorkQueue<H: ReadHandler> {
    /// Whether the connection has ended, and there are no entries any more.
    closed: bool,
    /// These calls arrived before the messages in `received`, and go first: RPCSEC_GSS drops a call
    /// that is overtaken by more calls than its sequence window holds, and closes the connection.
    read_done: Fifo<ChunkedCall<H>>,
    received: Fifo<Message<H>>,
    /// RDMA Reads that have SQ credits.
    ready_reads: Fifo<WaitingReads<H>>,
    sends_for_buffers: WaitQueue<Outgoing<H>>,
    for_credits: SqCreditQueue<Outgoing<H>, WaitingReads<H>>,
    reads_for_pages: WaitQueue<WaitingReads<H>>,
}

impl<H: ReadHandler> WorkQueue<H> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        closed: false,
        read_done: Fifo::EMPTY,
        received: Fifo::EMPTY,
        ready_reads: Fifo::EMPTY,
        sends_for_buffers: WaitQueue::EMPTY,
        for_credits: SqCreditQueue::EMPTY,
        reads_for_pages: WaitQueue::EMPTY,
    };

    /// The number of waiting Sends from which on no call is taken for execution. Each may keep the
    /// pages of a reply.
    const MAX_WAITING_SENDS: usize = 4;

    /// Creates an empty queue for the messages of `count` Receives. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            closed: false,
            read_done: Fifo::with_capacity(count, flags)?,
            received: Fifo::with_capacity(count, flags)?,
            ready_reads: Fifo::with_capacity(count, flags)?,
            sends_for_buffers: WaitQueue::with_capacity(count, flags)?,
            for_credits: SqCreditQueue::with_capacity(count, flags)?,
            reads_for_pages: WaitQueue::with_capacity(count, flags)?,
        })
    }

    /// Moves all work to `other` and swaps the two, if `other` has more entries.
    pub(super) fn grow_into(&mut self, other: &mut Self) {
        if self.closed {
            return;
        }
        self.read_done.grow_into(&mut other.read_done);
        self.received.grow_into(&mut other.received);
        self.ready_reads.grow_into(&mut other.ready_reads);
        self.sends_for_buffers
            .grow_into(&mut other.sends_for_buffers);
        self.for_credits.grow_into(&mut other.for_credits);
        self.reads_for_pages.grow_into(&mut other.reads_for_pages);
    }

    /// Returns the number of Receives whose messages it has entries for.
    pub(super) fn capacity(&self) -> usize {
        self.received.capacity()
    }

    /// Moves all work to `other` and swaps the two, if `other` has fewer entries, but enough.
    pub(super) fn shrink_into(&mut self, other: &mut Self) {
        self.read_done.shrink_into(&mut other.read_done);
        self.received.shrink_into(&mut other.received);
        self.ready_reads.shrink_into(&mut other.ready_reads);
        self.sends_for_buffers
            .shrink_into(&mut other.sends_for_buffers);
        self.for_credits.shrink_into(&mut other.for_credits);
        self.reads_for_pages.shrink_into(&mut other.reads_for_pages);
    }

    /// Adds a received message. Returns it if no entry is free.
    pub(super) fn push_received(&mut self, message: Message<H>) -> Result<(), Message<H>> {
        self.received.push(message)
    }

    /// Adds a call whose RDMA Reads have completed. Returns it if no entry is free.
    pub(super) fn push_read_done(&mut self, call: ChunkedCall<H>) -> Result<(), ChunkedCall<H>> {
        self.read_done.push(call)
    }

    /// Adds a Send without a Send buffer. Returns it if no entry is free.
    pub(super) fn wait_for_buffer(
        &mut self,
        message: Outgoing<H>,
        attempt: Attempt<bool>,
    ) -> Result<(), Outgoing<H>> {
        self.sends_for_buffers.push(message, attempt)
    }

    /// Adds a waiter for SQ credits. Returns it if no entry is free.
    pub(super) fn wait_for_credits(
        &mut self,
        waiting: Waiter<H>,
        attempt: Attempt<bool>,
    ) -> Result<(), Waiter<H>> {
        self.for_credits.push(waiting, attempt)
    }

    /// Adds RDMA Reads that need pages. Returns them if no entry is free.
    pub(super) fn wait_for_pages(
        &mut self,
        reads: WaitingReads<H>,
        attempt: Attempt<bool>,
    ) -> Result<(), WaitingReads<H>> {
        self.reads_for_pages.push(reads, attempt)
    }

    /// Adds RDMA Reads that have SQ credits. Returns them if no entry is free.
    pub(super) fn push_ready(&mut self, reads: WaitingReads<H>) -> Result<(), WaitingReads<H>> {
        self.ready_reads.push(reads)?;
        self.for_credits.note_ready_reads();
        Ok(())
    }

    /// Notes that RDMA Reads from [`Self::pop_waiter`] have been posted, or wait again.
    pub(super) fn end_reads(&mut self) {
        self.for_credits.end_reads();
    }

    /// Notes that the Send queue has space again.
    pub(super) fn space_freed(&mut self) {
        self.sends_for_buffers.space_freed();
        self.for_credits.space_freed();
    }

    /// Notes that a call has freed its pages.
    pub(super) fn pages_freed(&mut self) {
        self.reads_for_pages.space_freed();
    }

    /// Returns the numbers of waiters for Send buffers, SQ credits and pages.
    pub(super) fn waiter_counts(&self) -> [usize; 3] {
        [
            self.sends_for_buffers.len(),
            self.for_credits.len(),
            self.reads_for_pages.len(),
        ]
    }

    /// Takes the next work that a thread can do.
    pub(super) fn pop(&mut self) -> Option<Work<H>> {
        let takes_calls = self.takes_calls();
        let read_done = takes_calls.then(|| self.read_done.pop()).flatten();
        if let Some(call) = read_done {
            return Some(Work::ReadDone(call));
        }
        let reads = self.ready_reads.pop();
        let reads = reads.or_else(|| self.reads_for_pages.pop());
        if let Some(reads) = reads {
            return Some(Work::Reads(reads));
        }
        match takes_calls {
            true => self.received.pop().map(Work::Received),
            false => None,
        }
    }

    /// Takes the next waiter for which there may be space. RDMA Reads require a call of
    /// [`Self::end_reads`] later.
    pub(super) fn pop_waiter(&mut self) -> Option<Waiter<H>> {
        let next = self.for_credits.pop();
        next.or_else(|| self.sends_for_buffers.pop().map(SqWaiter::Send))
    }

    /// Takes all elements because the connection has ended. None can be added from now on.
    pub(super) fn close(&mut self) -> Self {
        let closed = Self {
            closed: true,
            ..Self::EMPTY
        };
        core::mem::replace(self, closed)
    }

    /// Returns whether a thread may take calls, including those that were read by RDMA Reads: their
    /// replies would have to wait behind others.
    fn takes_calls(&self) -> bool {
        self.sends_for_buffers.len() + self.for_credits.sends() < Self::MAX_WAITING_SENDS
    }

    /// Returns whether there is no work that a thread can do.
    pub(super) fn is_empty(&self) -> bool {
        let reads = self.ready_reads.len() != 0 || self.reads_for_pages.next().is_some();
        let calls = self.read_done.len() != 0 || self.received.len() != 0;
        !(reads || calls && self.takes_calls())
    }
}
