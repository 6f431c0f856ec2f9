// SPDX-License-Identifier: GPL-2.0

//! The work of a connection that no thread has taken, and the messages and RDMA Reads that wait for
//! its Send queue or for pages, without a thread.
//!
//! Completion handlers add work for nfsd threads. They must not allocate, so each queue gets an
//! entry for each Receive of the connection before it is posted.
//!
//! # Waiting
//!
//! Messages and RDMA Reads wait in one of four queues, so that no element holds a resource that one
//! before it waits for:
//!
//! * Sends without a Send buffer wait for one. All buffers come back: those that are posted, those
//!   that threads are filling, and those of Sends in the next queue.
//! * Sends in a Send buffer wait for SQ credits.
//! * RDMA Reads wait for SQ credits. The first that gets its credits is ready for a thread, since
//!   it needs memory, too. Until the thread has posted it, Sends come first; otherwise Reads and
//!   Sends alternate.
//! * RDMA Reads wait for pages, until another call of the connection has been read
//!   ([`ReadPermit`]).
//!
//! A Send needs nothing else, so a completion handler posts it. While Reads are ready, which have
//! about half of the credits, the other credits are for Sends, so that these need not wait for a
//! thread.
//!
//! Each element keeps the message of its call, and with it a Receive that the client cannot use
//! meanwhile. So there are never more elements than Receives, however many calls a client sends.

use super::{
    call::{
        policy,
        CallLayout, //
    },
    connection::ServerConn,
    rdma_read::ReadPermit, //
};
use kernel::{
    alloc::{
        flags::__GFP_ZERO,
        Flags, //
    },
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
    send::{
        Buffer,
        SendKind, //
    },
    transfer::Attached,
    BatchMemory,
    SqPermit, //
};
use sunrpc::memory::Page;

/// A call with Read chunks, whose RDMA Reads are posted or have completed.
pub(crate) struct ChunkedCall {
    pub(super) message: Message<ServerConn>,
    pub(super) layout: CallLayout,
    /// The Data Sink of the Reads.
    pub(super) pages: KVec<Page>,
    /// Accounts for the pages.
    pub(super) permit: ReadPermit,
    /// When the Reads were posted, if that is traced.
    pub(super) reads_posted: Option<Instant<Monotonic>>,
}

impl ChunkedCall {
    /// Returns the length of all Read chunks.
    pub(super) fn read_bytes(&self) -> u64 {
        match call::parse(self.message.bytes(), &policy(usize::MAX)) {
            Ok(Incoming::Call(call)) => call.chunks().map(|(_, length)| length).sum(),
            _ => 0,
        }
    }
}

/// Work for an nfsd thread.
pub(crate) enum Work {
    /// A message was received.
    Received(Message<ServerConn>),
    /// The RDMA Reads of a call have completed.
    ReadDone(ChunkedCall),
    /// RDMA Reads have their SQ credits, or may get pages.
    Reads(WaitingReads),
}

/// A waiter for SQ credits.
pub(super) type Waiter = SqWaiter<Outgoing, WaitingReads>;

/// The work that no thread has taken yet, and the elements that wait.
pub(super) struct WorkQueue {
    /// Whether the connection has ended, and there are no entries any more.
    closed: bool,
    /// These calls arrived before the messages in `received`, and go first: RPCSEC_GSS drops a call
    /// that is overtaken by more calls than its sequence window holds, and closes the connection.
    read_done: Fifo<ChunkedCall>,
    received: Fifo<Message<ServerConn>>,
    /// RDMA Reads that have SQ credits.
    ready_reads: Fifo<WaitingReads>,
    sends_for_buffers: WaitQueue<Outgoing>,
    for_credits: SqCreditQueue<Outgoing, WaitingReads>,
    reads_for_pages: WaitQueue<WaitingReads>,
}

impl WorkQueue {
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
    pub(super) fn push_received(
        &mut self,
        message: Message<ServerConn>,
    ) -> Result<(), Message<ServerConn>> {
        self.received.push(message)
    }

    /// Adds a call whose RDMA Reads have completed. Returns it if no entry is free.
    pub(super) fn push_read_done(&mut self, call: ChunkedCall) -> Result<(), ChunkedCall> {
        self.read_done.push(call)
    }

    /// Adds a Send without a Send buffer. Returns it if no entry is free.
    pub(super) fn wait_for_buffer(
        &mut self,
        message: Outgoing,
        attempt: Attempt<bool>,
    ) -> Result<(), Outgoing> {
        self.sends_for_buffers.push(message, attempt)
    }

    /// Adds a waiter for SQ credits. Returns it if no entry is free.
    pub(super) fn wait_for_credits(
        &mut self,
        waiting: Waiter,
        attempt: Attempt<bool>,
    ) -> Result<(), Waiter> {
        self.for_credits.push(waiting, attempt)
    }

    /// Adds RDMA Reads that need pages. Returns them if no entry is free.
    pub(super) fn wait_for_pages(
        &mut self,
        reads: WaitingReads,
        attempt: Attempt<bool>,
    ) -> Result<(), WaitingReads> {
        self.reads_for_pages.push(reads, attempt)
    }

    /// Adds RDMA Reads that have SQ credits. Returns them if no entry is free.
    pub(super) fn push_ready(&mut self, reads: WaitingReads) -> Result<(), WaitingReads> {
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
    pub(super) fn pop(&mut self) -> Option<Work> {
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
        if takes_calls {
            self.received.pop().map(Work::Received)
        } else {
            None
        }
    }

    /// Takes the next waiter for which there may be space. RDMA Reads require a call of
    /// [`Self::end_reads`] later.
    pub(super) fn pop_waiter(&mut self) -> Option<Waiter> {
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

/// A call whose Read chunks are to be read. It has no pages yet.
pub(crate) struct WaitingReads {
    pub(super) message: Message<ServerConn>,
    pub(super) layout: CallLayout,
    /// The number of RDMA Reads, as far as is known.
    pub(super) requests: usize,
    /// The number of regions that are registered for them, as far as is known.
    pub(super) registrations: usize,
    /// The SQ credits of the call, if it is ready.
    pub(super) credits: Option<SqPermit>,
    /// Whether the call has waited for pages.
    pub(super) waited_for_pages: bool,
}

/// A message to the client, with all that goes with it. Posting it needs no thread: `attached` owns
/// references to the pages that are sent.
pub(crate) struct Outgoing {
    /// The bytes of the message, of which the first `len` are sent.
    pub(super) bytes: OutgoingBytes,
    pub(super) len: usize,
    pub(super) attached: Attached<ServerConn>,
    /// Memory for posting in batches, if there are many Writes.
    pub(super) memory: Option<BatchMemory<ServerConn>>,
    pub(super) kind: SendKind,
    pub(super) xid: u32,
    /// The message that this one answers. Its Receive is reposted before the Send, after which the
    /// client may use the credit.
    pub(super) answers: Message<ServerConn>,
}

/// The memory of an outgoing message.
pub(crate) enum OutgoingBytes {
    /// A Send buffer.
    Buffer(Buffer<ServerConn>),
    /// Other memory, because no Send buffer was free.
    Memory(KVec<u8>),
}

impl OutgoingBytes {
    /// Allocates `len` bytes that are no Send buffer. Sleeps.
    pub(super) fn memory(len: usize) -> Result<Self> {
        Ok(Self::Memory(KVec::from_elem(
            0,
            len,
            GFP_KERNEL | __GFP_ZERO,
        )?))
    }

    /// Returns the bytes.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Buffer(buffer) => buffer.bytes_mut(),
            Self::Memory(memory) => memory,
        }
    }

    /// Returns a Send buffer with the first `len` bytes: its own, or one from `take`. If that has
    /// none, returns `self` unchanged.
    pub(super) fn into_buffer(
        self,
        len: usize,
        take: impl FnOnce() -> Option<Buffer<ServerConn>>,
    ) -> Result<Buffer<ServerConn>, Self> {
        let memory = match self {
            Self::Buffer(buffer) => return Ok(buffer),
            Self::Memory(memory) => memory,
        };
        let Some(mut buffer) = take() else {
            return Err(Self::Memory(memory));
        };
        // Both are as long as the longest message.
        if let (Some(to), Some(from)) = (buffer.bytes_mut().get_mut(..len), memory.get(..len)) {
            to.copy_from_slice(from);
        }
        Ok(buffer)
    }
}

/// A waiter for SQ credits.
pub(super) enum SqWaiter<S, R> {
    /// RDMA Reads that need SQ credits.
    Reads(R),
    /// A Send that needs SQ credits, or a Send buffer first.
    Send(S),
}

/// A queue of Sends `S` and RDMA Reads `R` that wait for SQ credits.
pub(super) struct SqCreditQueue<S, R> {
    sends: WaitQueue<S>,
    reads: WaitQueue<R>,
    /// Whether Reads were taken that are neither posted nor waiting again.
    reads_are_taken: bool,
    /// Whether those Reads have their credits.
    reads_are_ready: bool,
    /// Whether it is the turn of Reads, if both wait.
    reads_turn: bool,
}

impl<S, R> SqCreditQueue<S, R> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        sends: WaitQueue::EMPTY,
        reads: WaitQueue::EMPTY,
        reads_are_taken: false,
        reads_are_ready: false,
        reads_turn: true,
    };

    /// Creates an empty queue for `count` elements of each kind. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            sends: WaitQueue::with_capacity(count, flags)?,
            reads: WaitQueue::with_capacity(count, flags)?,
            ..Self::EMPTY
        })
    }

    /// Moves all elements to `other` and swaps the two, if `other` has more entries.
    pub(super) fn grow_into(&mut self, other: &mut Self) {
        self.sends.grow_into(&mut other.sends);
        self.reads.grow_into(&mut other.reads);
    }

    /// Moves all elements to `other` and swaps the two, if `other` has fewer entries, but enough.
    pub(super) fn shrink_into(&mut self, other: &mut Self) {
        self.sends.shrink_into(&mut other.sends);
        self.reads.shrink_into(&mut other.reads);
    }

    /// Returns the number of Sends that wait.
    pub(super) fn sends(&self) -> usize {
        self.sends.len()
    }

    /// Returns the number of Sends and Reads that wait.
    pub(super) fn len(&self) -> usize {
        self.sends.len().saturating_add(self.reads.len())
    }

    /// Adds a waiter that found too few credits or was not tried. Returns it if no entry is free.
    pub(super) fn push(
        &mut self,
        waiting: SqWaiter<S, R>,
        attempt: Attempt<bool>,
    ) -> Result<(), SqWaiter<S, R>> {
        match waiting {
            SqWaiter::Reads(reads) => self.reads.push(reads, attempt).map_err(SqWaiter::Reads),
            SqWaiter::Send(send) => {
                if matches!(attempt, Attempt::Requeued(_)) {
                    // It keeps its turn.
                    self.reads_turn = false;
                }
                self.sends.push(send, attempt).map_err(SqWaiter::Send)
            }
        }
    }

    /// Notes that the Reads that were taken have their credits.
    pub(super) fn note_ready_reads(&mut self) {
        self.reads_are_ready = true;
        self.reads_turn = false;
    }

    /// Notes that the Reads that were taken are posted, or wait again. The caller takes the next
    /// waiter then.
    pub(super) fn end_reads(&mut self) {
        self.reads_are_taken = false;
        self.reads_are_ready = false;
    }

    /// Notes that the Send queue has space again.
    pub(super) fn space_freed(&mut self) {
        self.sends.space_freed();
        self.reads.space_freed();
    }

    /// Takes the next waiter for which there may be credits. RDMA Reads require a call of
    /// [`Self::end_reads`] later.
    pub(super) fn pop(&mut self) -> Option<SqWaiter<S, R>> {
        let sends_turn = !self.reads_turn && self.sends.len() != 0;
        if !self.reads_are_taken && !sends_turn {
            if let Some(reads) = self.reads.pop() {
                self.reads_are_taken = true;
                return Some(SqWaiter::Reads(reads));
            }
        }
        // If Reads have the turn but too few credits, credits that come back are saved for them.
        let no_reads = self.reads.len() == 0 && !self.reads_are_taken;
        let may_send = self.reads_are_ready || sends_turn || no_reads;
        let send = may_send.then(|| self.sends.pop()).flatten()?;
        self.reads_turn = true;
        Some(SqWaiter::Send(send))
    }
}

/// The reason why an element is queued. `T` is the event counter read before the failed attempt, or
/// whether it has changed since.
#[derive(Clone, Copy)]
pub(super) enum Attempt<T> {
    /// It was not tried, because others wait.
    NotTried,
    /// It was tried for the first time, and goes to the end.
    New(T),
    /// It was the first waiter, was tried, and goes to the front again.
    Requeued(T),
}

impl<T> Attempt<T> {
    /// Applies `f` to the counter.
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::NotTried => Attempt::NotTried,
            Self::New(number) => Attempt::New(f(number)),
            Self::Requeued(number) => Attempt::Requeued(f(number)),
        }
    }
}

/// A queue of elements that wait for the same resource, with one wakeup bit.
///
/// A failed attempt to post an element arranges for a wakeup ([`rdma::Handler::send_space_freed`],
/// the drop of a [`ReadPermit`]). An element that was queued untried
/// gets no wakeup of its own: if it is first, there may be space for it.
pub(super) struct WaitQueue<W> {
    waiting: Fifo<W>,
    /// Whether there may be space for the first element.
    may_fit: bool,
}

impl<W> WaitQueue<W> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        waiting: Fifo::EMPTY,
        may_fit: false,
    };

    /// Creates an empty queue for `count` elements. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            waiting: Fifo::with_capacity(count, flags)?,
            ..Self::EMPTY
        })
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Moves all elements to `other` and swaps the two, if `other` has more entries.
    pub(super) fn grow_into(&mut self, other: &mut Self) {
        self.waiting.grow_into(&mut other.waiting);
    }

    /// Moves all elements to `other` and swaps the two, if `other` has fewer entries, but enough.
    pub(super) fn shrink_into(&mut self, other: &mut Self) {
        self.waiting.shrink_into(&mut other.waiting);
    }

    /// Adds `waiting`, which found no space or was not tried. Returns it if no entry is free.
    pub(super) fn push(&mut self, waiting: W, attempt: Attempt<bool>) -> Result<(), W> {
        match attempt {
            Attempt::Requeued(_) => self.waiting.push_first(waiting)?,
            Attempt::NotTried | Attempt::New(_) => self.waiting.push(waiting)?,
        }
        let is_only = self.len() == 1;
        self.may_fit = match attempt {
            Attempt::NotTried => self.may_fit || is_only,
            // The space may suffice for the others, too.
            Attempt::New(true) => true,
            Attempt::New(false) => self.may_fit && !is_only,
            Attempt::Requeued(may_fit) => may_fit,
        };
        Ok(())
    }

    /// Notes that space was freed.
    pub(super) fn space_freed(&mut self) {
        self.may_fit = true;
    }

    /// Returns the first element, if there may be space for it.
    pub(super) fn next(&self) -> Option<&W> {
        self.waiting.first().filter(|_| self.may_fit)
    }

    /// Takes the first element, if there may be space for it.
    pub(super) fn pop(&mut self) -> Option<W> {
        if self.may_fit {
            self.waiting.pop()
        } else {
            None
        }
    }
}

/// A FIFO with a fixed number of entries.
pub(super) struct Fifo<T> {
    entries: KVec<Option<T>>,
    first: usize,
    len: usize,
}

impl<T> Fifo<T> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        entries: KVec::new(),
        first: 0,
        len: 0,
    };

    /// Creates an empty queue for `count` elements. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        let mut entries = KVec::with_capacity(count, flags)?;
        for _ in 0..count {
            entries.push(None, flags)?;
        }
        Ok(Self {
            entries,
            ..Self::EMPTY
        })
    }

    /// Returns the number of entries.
    pub(super) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Moves all elements to `other` and swaps the two, if `other` has more entries.
    pub(super) fn grow_into(&mut self, other: &mut Self) {
        if other.entries.len() > self.entries.len() {
            self.exchange(other);
        }
    }

    /// Moves all elements to `other` and swaps the two, if `other` has fewer entries, but enough.
    pub(super) fn shrink_into(&mut self, other: &mut Self) {
        if other.entries.len() < self.entries.len() && other.entries.len() >= self.len {
            self.exchange(other);
        }
    }

    /// Moves all elements to `other`, which is empty and has entries for them, and swaps the two.
    fn exchange(&mut self, other: &mut Self) {
        while let Some(element) = self.pop() {
            // The callers have compared the number of entries.
            let _ = other.push(element);
        }
        core::mem::swap(self, other);
    }

    /// Adds `element` at the end. Returns it if no entry is free.
    pub(super) fn push(&mut self, element: T) -> Result<(), T> {
        let at = self.first.wrapping_add(self.len);
        let at = at.checked_rem(self.entries.len()).unwrap_or(0);
        match self.entries.get_mut(at) {
            Some(entry @ None) => *entry = Some(element),
            _ => return Err(element),
        }
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Adds `element` at the front. Returns it if no entry is free.
    pub(super) fn push_first(&mut self, element: T) -> Result<(), T> {
        let last = self.entries.len().wrapping_sub(1);
        let first = self.first.checked_sub(1).unwrap_or(last);
        match self.entries.get_mut(first) {
            Some(entry @ None) => *entry = Some(element),
            _ => return Err(element),
        }
        self.first = first;
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Returns the first element.
    pub(super) fn first(&self) -> Option<&T> {
        self.entries.get(self.first)?.as_ref()
    }

    /// Takes the first element.
    pub(super) fn pop(&mut self) -> Option<T> {
        let element = self.entries.get_mut(self.first)?.take()?;
        let next = self.first.wrapping_add(1);
        self.first = next.checked_rem(self.entries.len()).unwrap_or(0);
        self.len = self.len.wrapping_sub(1);
        Some(element)
    }
}
