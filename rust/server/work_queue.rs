// SPDX-License-Identifier: GPL-2.0

//! The queues of a connection: the work that no thread has taken, and what waits for space in the
//! Send queue or for pages. [`super::waiting`] says who serves them.
//!
//! Each element has the message of its call, and with it a Receive that the client cannot use
//! meanwhile. So there are never more elements than Receives, however many calls a client sends. In
//! a queue, the Receive buffers are linked, and keep the rest of their elements
//! ([`MessageContext`]): completion handlers need no memory to add work, and no queue is ever full.

use super::{
    call::{
        policy,
        CallLayout, //
    },
    connection::ServerConn,
    rdma_read::ReadPermit, //
};
use core::marker::PhantomData;
use kernel::{
    alloc::flags::__GFP_ZERO,
    prelude::*,
    time::{
        Instant,
        Monotonic, //
    }, //
};
use proto::{
    call::{
        self,
        Incoming, //
    },
    waiting::{
        Attempt,
        Kind,
        SqCreditQueue,
        WaitQueue, //
    }, //
};
use rdma::{
    receive::{
        Message,
        MessageQueue, //
    },
    send::{
        Buffer,
        SendKind, //
    },
    transfer::Attached,
    BatchMemory,
    SqPermit, //
};
use sunrpc::memory::Page;

/// A message of the client, with what is done for it.
pub(crate) struct WithMessage<T> {
    /// The message. For a reply, the one that it answers: its Receive is reposted before the Send,
    /// after which the client may use the credit.
    pub(super) message: Message<ServerConn>,
    pub(super) state: T,
}

/// A call whose Read chunks are to be read. It has no pages yet.
pub(crate) struct WaitingReads {
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

/// A call with Read chunks, whose RDMA Reads are posted or have completed.
pub(crate) struct ChunkedCall {
    pub(super) layout: CallLayout,
    /// The Data Sink of the Reads.
    pub(super) pages: KVec<Page>,
    /// Accounts for the pages.
    pub(super) permit: ReadPermit,
    /// When the Reads were posted, if that is traced.
    pub(super) reads_posted: Option<Instant<Monotonic>>,
}

impl WithMessage<ChunkedCall> {
    /// Returns the length of all Read chunks.
    pub(super) fn read_bytes(&self) -> u64 {
        match call::parse(self.message.bytes(), &policy(usize::MAX)) {
            Ok(Incoming::Call(call)) => call.chunks().map(|(_, length)| length).sum(),
            _ => 0,
        }
    }
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

/// The state of a message that is in a queue.
#[derive(Default)]
pub(crate) enum MessageContext {
    /// Nothing: it was just received, or is in no queue.
    #[default]
    Nothing,
    Reads(WaitingReads),
    ReadDone(ChunkedCall),
    Send(Outgoing),
}

/// A state that a message can keep.
trait QueuedState: Sized {
    fn into_context(self) -> MessageContext;

    /// Returns the state, if `context` is that of such an element.
    fn from_context(context: MessageContext) -> Option<Self>;
}

impl QueuedState for WaitingReads {
    fn into_context(self) -> MessageContext {
        MessageContext::Reads(self)
    }

    fn from_context(context: MessageContext) -> Option<Self> {
        match context {
            MessageContext::Reads(reads) => Some(reads),
            _ => None,
        }
    }
}

impl QueuedState for ChunkedCall {
    fn into_context(self) -> MessageContext {
        MessageContext::ReadDone(self)
    }

    fn from_context(context: MessageContext) -> Option<Self> {
        match context {
            MessageContext::ReadDone(call) => Some(call),
            _ => None,
        }
    }
}

impl QueuedState for Outgoing {
    fn into_context(self) -> MessageContext {
        MessageContext::Send(self)
    }

    fn from_context(context: MessageContext) -> Option<Self> {
        match context {
            MessageContext::Send(message) => Some(message),
            _ => None,
        }
    }
}

/// A FIFO of elements of one type.
struct Fifo<T> {
    messages: MessageQueue<ServerConn>,
    _state: PhantomData<T>,
}

impl<T: QueuedState> Fifo<T> {
    /// An empty queue.
    const EMPTY: Self = Self {
        messages: MessageQueue::new(),
        _state: PhantomData,
    };

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Adds `element`: at the front if it was taken from there and tried, otherwise at the end.
    fn push(&mut self, element: WithMessage<T>, attempt: Attempt<bool>) {
        let WithMessage { mut message, state } = element;
        message.set_context(state.into_context());
        if attempt.is_requeued() {
            self.messages.push_front(message);
        } else {
            self.messages.push_back(message);
        }
    }

    /// Takes the first element.
    fn pop(&mut self) -> Option<WithMessage<T>> {
        let mut message = self.messages.pop_front()?;
        // Only this queue sets the context of its messages.
        let state = T::from_context(message.take_context())?;
        Some(WithMessage { message, state })
    }
}

/// Elements that wait for the same resource.
struct Waiters<T> {
    order: WaitQueue,
    elements: Fifo<T>,
}

impl<T: QueuedState> Waiters<T> {
    const EMPTY: Self = Self {
        order: WaitQueue::EMPTY,
        elements: Fifo::EMPTY,
    };

    fn push(&mut self, element: WithMessage<T>, attempt: Attempt<bool>) {
        self.order.push(attempt);
        self.elements.push(element, attempt);
    }

    /// Takes the first element, if there may be enough of the resource for it.
    fn pop(&mut self) -> Option<WithMessage<T>> {
        if self.order.pop() {
            self.elements.pop()
        } else {
            None
        }
    }
}

/// Sends and RDMA Reads that wait for SQ credits.
struct SqCreditWaiters {
    order: SqCreditQueue,
    sends: Fifo<Outgoing>,
    reads: Fifo<WaitingReads>,
}

/// An element that waited for space in the Send queue.
pub(super) enum Waiter {
    /// RDMA Reads that need SQ credits.
    Reads(WithMessage<WaitingReads>),
    /// A Send that needs SQ credits, or a Send buffer first.
    Send(WithMessage<Outgoing>),
}

impl SqCreditWaiters {
    const EMPTY: Self = Self {
        order: SqCreditQueue::EMPTY,
        sends: Fifo::EMPTY,
        reads: Fifo::EMPTY,
    };

    fn push(&mut self, waiter: Waiter, attempt: Attempt<bool>) {
        match waiter {
            Waiter::Reads(reads) => {
                self.order.push_reads(attempt);
                self.reads.push(reads, attempt);
            }
            Waiter::Send(message) => {
                self.order.push_send(attempt);
                self.sends.push(message, attempt);
            }
        }
    }

    /// Takes the next element for which there may be credits.
    fn pop(&mut self) -> Option<Waiter> {
        match self.order.pop()? {
            Kind::Reads => self.reads.pop().map(Waiter::Reads),
            Kind::Send => self.sends.pop().map(Waiter::Send),
        }
    }
}

/// Work for an nfsd thread.
pub(crate) enum Work {
    /// A message was received.
    Received(Message<ServerConn>),
    /// The RDMA Reads of a call have completed.
    ReadDone(WithMessage<ChunkedCall>),
    /// RDMA Reads have their SQ credits, or may get pages.
    Reads(WithMessage<WaitingReads>),
}

/// The work that no thread has taken yet, and the elements that wait.
pub(super) struct WorkQueue {
    /// These calls arrived before the messages in `received`, and go first: RPCSEC_GSS drops a call
    /// that is overtaken by more calls than its sequence window holds, and closes the connection.
    read_done: Fifo<ChunkedCall>,
    received: MessageQueue<ServerConn>,
    /// RDMA Reads that have SQ credits.
    ready_reads: Fifo<WaitingReads>,
    for_buffers: Waiters<Outgoing>,
    for_credits: SqCreditWaiters,
    for_pages: Waiters<WaitingReads>,
}

impl WorkQueue {
    /// An empty queue.
    pub(super) const EMPTY: Self = Self {
        read_done: Fifo::EMPTY,
        received: MessageQueue::new(),
        ready_reads: Fifo::EMPTY,
        for_buffers: Waiters::EMPTY,
        for_credits: SqCreditWaiters::EMPTY,
        for_pages: Waiters::EMPTY,
    };

    /// The number of waiting Sends from which on no call is taken for execution. Each may keep the
    /// pages of a reply.
    const MAX_WAITING_SENDS: usize = 4;

    /// Adds a received message.
    pub(super) fn push_received(&mut self, message: Message<ServerConn>) {
        self.received.push_back(message);
    }

    /// Adds a call whose RDMA Reads have completed.
    pub(super) fn push_read_done(&mut self, call: WithMessage<ChunkedCall>) {
        self.read_done.push(call, Attempt::NotTried);
    }

    /// Adds a Send without a Send buffer.
    pub(super) fn wait_for_buffer(
        &mut self,
        message: WithMessage<Outgoing>,
        attempt: Attempt<bool>,
    ) {
        self.for_buffers.push(message, attempt);
    }

    /// Adds a waiter for SQ credits.
    pub(super) fn wait_for_credits(&mut self, waiter: Waiter, attempt: Attempt<bool>) {
        self.for_credits.push(waiter, attempt);
    }

    /// Adds RDMA Reads that need pages.
    pub(super) fn wait_for_pages(
        &mut self,
        reads: WithMessage<WaitingReads>,
        attempt: Attempt<bool>,
    ) {
        self.for_pages.push(reads, attempt);
    }

    /// Adds RDMA Reads that have SQ credits.
    pub(super) fn push_ready(&mut self, reads: WithMessage<WaitingReads>) {
        self.ready_reads.push(reads, Attempt::NotTried);
        self.for_credits.order.note_ready_reads();
    }

    /// Notes that RDMA Reads from [`Self::pop_waiter`] have been posted, or wait again.
    pub(super) fn end_reads(&mut self) {
        self.for_credits.order.end_reads();
    }

    /// Notes that the Send queue has space again.
    pub(super) fn space_freed(&mut self) {
        self.for_buffers.order.space_freed();
        self.for_credits.order.space_freed();
    }

    /// Notes that a call has freed its pages.
    pub(super) fn pages_freed(&mut self) {
        self.for_pages.order.space_freed();
    }

    /// Returns the numbers of waiters for Send buffers, SQ credits and pages.
    pub(super) fn waiter_counts(&self) -> [usize; 3] {
        [
            self.for_buffers.order.len(),
            self.for_credits.order.len(),
            self.for_pages.order.len(),
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
    pub(super) fn pop_waiter(&mut self) -> Option<Waiter> {
        let next = self.for_credits.pop();
        next.or_else(|| self.for_buffers.pop().map(Waiter::Send))
    }

    /// Returns whether a thread may take calls, including those that were read by RDMA Reads: their
    /// replies would have to wait behind others.
    fn takes_calls(&self) -> bool {
        let sends = self.for_buffers.order.len() + self.for_credits.order.sends();
        sends < Self::MAX_WAITING_SENDS
    }

    /// Returns whether there is no work that a thread can do.
    pub(super) fn is_empty(&self) -> bool {
        let reads = !self.ready_reads.is_empty() || self.for_pages.order.may_pop();
        let calls = !self.read_done.is_empty() || !self.received.is_empty();
        !(reads || calls && self.takes_calls())
    }
}
