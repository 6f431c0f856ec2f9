// SPDX-License-Identifier: GPL-2.0

//! The work queue of a connection, from its completion handlers to nfsd threads.
//!
//! The handlers must not allocate, so the queue has an entry for each Receive of the connection
//! before that is posted. Each element owns the Receive buffer of its message, so there are never
//! more elements.

use super::{
    call_layout::{
        policy,
        CallLayout, //
    },
    credit_line::{
        CreditLine,
        Waiting, //
    },
    fifo::Fifo,
    read_budget::ReadPages,
    room_queue::{
        Attempt,
        RoomQueue, //
    },
    waiting::{
        Outgoing,
        WaitingReads, //
    },
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

/// A call that is not all in its message: RDMA Reads bring the rest, or have brought it.
pub(crate) struct ChunkedCall<H: Handler> {
    pub(super) message: Message<H>,
    pub(super) layout: CallLayout,
    /// The Data Sink of the Reads.
    pub(super) pages: KVec<Page>,
    /// Counts them.
    pub(super) counted: ReadPages,
    /// When the Reads were posted, if a trace asks.
    pub(super) reads_posted: Option<Instant<Monotonic>>,
}

impl<H: Handler> ChunkedCall<H> {
    /// How many bytes its Read chunks have.
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
    /// There is room for these, or there may be pages.
    Reads(WaitingReads<H>),
}

/// What may find room in the Send queue of an `H` now.
pub(super) type WaitingFor<H> = Waiting<Outgoing<H>, WaitingReads<H>>;

/// The work that no thread has taken yet, and what [waits](super::waiting).
pub(super) struct WorkQueue<H: ReadHandler> {
    /// The connection has ended: there are no entries any more.
    closed: bool,
    /// These calls arrived before the messages in `received`, and go first: RPCSEC_GSS drops a call
    /// that was overtaken by more calls than its sequence window holds, and has the connection
    /// closed.
    read_done: Fifo<ChunkedCall<H>>,
    received: Fifo<Message<H>>,
    /// They have SQ credits.
    ready_reads: Fifo<WaitingReads<H>>,
    sends_for_buffers: RoomQueue<Outgoing<H>>,
    for_credits: CreditLine<Outgoing<H>, WaitingReads<H>>,
    reads_for_pages: RoomQueue<WaitingReads<H>>,
}

impl<H: ReadHandler> WorkQueue<H> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        closed: false,
        read_done: Fifo::EMPTY,
        received: Fifo::EMPTY,
        ready_reads: Fifo::EMPTY,
        sends_for_buffers: RoomQueue::EMPTY,
        for_credits: CreditLine::EMPTY,
        reads_for_pages: RoomQueue::EMPTY,
    };

    /// As long as so many Sends wait, no call is taken for execution. Each may keep the pages of a
    /// reply.
    const MAX_WAITING_SENDS: usize = 4;

    /// An empty queue that has room for the messages of `count` Receives. Sleeps if `flags` allow
    /// it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            closed: false,
            read_done: Fifo::with_capacity(count, flags)?,
            received: Fifo::with_capacity(count, flags)?,
            ready_reads: Fifo::with_capacity(count, flags)?,
            sends_for_buffers: RoomQueue::with_capacity(count, flags)?,
            for_credits: CreditLine::with_capacity(count, flags)?,
            reads_for_pages: RoomQueue::with_capacity(count, flags)?,
        })
    }

    /// If `other` has more entries, moves all work there, and exchanges the two.
    pub(super) fn move_to(&mut self, other: &mut Self) {
        if self.closed {
            return;
        }
        self.read_done.move_to(&mut other.read_done);
        self.received.move_to(&mut other.received);
        self.ready_reads.move_to(&mut other.ready_reads);
        self.sends_for_buffers.move_to(&mut other.sends_for_buffers);
        self.for_credits.move_to(&mut other.for_credits);
        self.reads_for_pages.move_to(&mut other.reads_for_pages);
    }

    /// For the messages of how many Receives it has room.
    pub(super) fn capacity(&self) -> usize {
        self.received.capacity()
    }

    /// If `other` has fewer entries, but enough, moves all work there, and exchanges the two.
    pub(super) fn shrink_to(&mut self, other: &mut Self) {
        self.read_done.shrink_to(&mut other.read_done);
        self.received.shrink_to(&mut other.received);
        self.ready_reads.shrink_to(&mut other.ready_reads);
        self.sends_for_buffers
            .shrink_to(&mut other.sends_for_buffers);
        self.for_credits.shrink_to(&mut other.for_credits);
        self.reads_for_pages.shrink_to(&mut other.reads_for_pages);
    }

    /// Adds a message that was received. It comes back if no entry is free.
    pub(super) fn push_received(&mut self, message: Message<H>) -> Result<(), Message<H>> {
        self.received.push(message)
    }

    /// Adds a call whose RDMA Reads have completed. It comes back if no entry is free.
    pub(super) fn push_read_done(&mut self, call: ChunkedCall<H>) -> Result<(), ChunkedCall<H>> {
        self.read_done.push(call)
    }

    /// Adds a Send that has no Send buffer. It comes back if no entry is free.
    pub(super) fn wait_for_buffer(
        &mut self,
        message: Outgoing<H>,
        attempt: Attempt<bool>,
    ) -> Result<(), Outgoing<H>> {
        self.sends_for_buffers.push(message, attempt)
    }

    /// Adds what needs SQ credits. It comes back if no entry is free.
    pub(super) fn wait_for_credits(
        &mut self,
        waiting: WaitingFor<H>,
        attempt: Attempt<bool>,
    ) -> Result<(), WaitingFor<H>> {
        self.for_credits.push(waiting, attempt)
    }

    /// Adds RDMA Reads that need pages. They come back if no entry is free.
    pub(super) fn wait_for_pages(
        &mut self,
        reads: WaitingReads<H>,
        attempt: Attempt<bool>,
    ) -> Result<(), WaitingReads<H>> {
        self.reads_for_pages.push(reads, attempt)
    }

    /// Adds RDMA Reads that have SQ credits. They come back if no entry is free.
    pub(super) fn push_ready(&mut self, reads: WaitingReads<H>) -> Result<(), WaitingReads<H>> {
        self.ready_reads.push(reads)?;
        self.for_credits.note_ready_reads();
        Ok(())
    }

    /// RDMA Reads that [`Self::pop_waiting`] returned have been posted, or wait again.
    pub(super) fn end_reads(&mut self) {
        self.for_credits.end_reads();
    }

    /// Something was given back to the Send queue.
    pub(super) fn set_room(&mut self) {
        self.sends_for_buffers.set_room();
        self.for_credits.set_room();
    }

    /// A call gave back its pages.
    pub(super) fn set_pages(&mut self) {
        self.reads_for_pages.set_room();
    }

    /// How many wait for Send buffers, for SQ credits, and for pages.
    pub(super) fn waiting(&self) -> [usize; 3] {
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

    /// Takes the next for which there may be room. If it is RDMA Reads, [`Self::end_reads`] is to follow.
    pub(super) fn pop_waiting(&mut self) -> Option<WaitingFor<H>> {
        let next = self.for_credits.pop();
        next.or_else(|| self.sends_for_buffers.pop().map(Waiting::Send))
    }

    /// Takes all that waits and that no thread has taken, as the connection has ended. Nothing can
    /// be added from now on.
    pub(super) fn close(&mut self) -> Self {
        let closed = Self {
            closed: true,
            ..Self::EMPTY
        };
        core::mem::replace(self, closed)
    }

    /// Whether a thread may take calls, also those that RDMA Reads have brought: their replies
    /// would have to wait behind others.
    fn takes_calls(&self) -> bool {
        self.sends_for_buffers.len() + self.for_credits.sends() < Self::MAX_WAITING_SENDS
    }

    /// Whether there is no work that a thread can do.
    pub(super) fn is_empty(&self) -> bool {
        let reads = self.ready_reads.len() != 0 || self.reads_for_pages.next().is_some();
        let calls = self.read_done.len() != 0 || self.received.len() != 0;
        !(reads || calls && self.takes_calls())
    }
}
