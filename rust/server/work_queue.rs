// SPDX-License-Identifier: GPL-2.0

//! The elements of the queues of a connection ([`proto::work_queue`]): the work that no thread has
//! taken, and what waits for space in the Send queue or for pages. [`super::waiting`] says who
//! serves them.
//!
//! Each element has the message of its call, and with it a Receive that the client cannot use
//! meanwhile. So there are never more elements than Receives, however many calls a client sends. In
//! a queue, the Receive buffers are linked, and keep the rest of their elements
//! ([`MessageContext`]): completion handlers need no memory to add work, and no queue is ever full.

use super::{
    call::CallLayout,
    rdma_read::ReadPermit, //
};
use crate::prelude::*;
use core::marker::PhantomData;
use kernel::warn_on;
use proto::{
    call::Outline,
    work_queue, //
};
use rdma::{
    receive::MessageQueue,
    send::Buffer,
    zeroed,
    BatchMemory,
    SqPermit, //
};

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
    pub(super) outline: Outline,
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
    pub(super) outline: Outline,
    /// The Data Sink of the Reads. Empty while these are posted, and have the pages.
    pub(super) pages: KVec<Page>,
    /// Accounts for the pages.
    pub(super) permit: ReadPermit,
    /// When the Reads were posted, if that is traced.
    pub(super) reads_posted: Option<Instant<Monotonic>>,
}

impl WithMessage<ChunkedCall> {
    /// Returns the length of all Read chunks.
    pub(super) fn read_bytes(&self) -> u64 {
        let call = self.state.outline.call(self.message.bytes());
        call.map_or(0, |call| call.chunks().map(|(_, length)| length).sum())
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
        Ok(Self::Memory(zeroed::vec(len, GFP_KERNEL)?))
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
    /// Nothing: it is in no queue.
    #[default]
    Nothing,
    /// The position in what the client has sent: it was just received.
    Received {
        position: u32,
    },
    Reads(WaitingReads),
    ReadDone(ChunkedCall),
    Send(Outgoing),
}

/// An element of a queue.
pub(crate) trait Queued: Sized {
    /// Returns the message, with which the rest of the element is kept.
    fn into_message(self) -> Message<ServerConn>;

    /// Returns the element that [`Self::into_message`] made a message of.
    fn from_message(message: Message<ServerConn>) -> Option<Self>;
}

impl Queued for Message<ServerConn> {
    fn into_message(self) -> Message<ServerConn> {
        self
    }

    fn from_message(message: Message<ServerConn>) -> Option<Self> {
        Some(message)
    }
}

impl<T: QueuedState> Queued for WithMessage<T> {
    fn into_message(self) -> Message<ServerConn> {
        let Self { mut message, state } = self;
        message.set_context(state.into_context());
        message
    }

    fn from_message(mut message: Message<ServerConn>) -> Option<Self> {
        let state = T::from_context(message.take_context())?;
        Some(Self { message, state })
    }
}

/// A state that a message can keep.
pub(crate) trait QueuedState: Sized {
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
pub(crate) struct Fifo<E> {
    messages: MessageQueue<ServerConn>,
    _element: PhantomData<E>,
}

impl<E: Queued> work_queue::Fifo for Fifo<E> {
    type Element = E;

    const EMPTY: Self = Self {
        messages: MessageQueue::new(),
        _element: PhantomData,
    };

    fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    fn push_back(&mut self, element: E) {
        self.messages.push_back(element.into_message());
    }

    fn push_front(&mut self, element: E) {
        self.messages.push_front(element.into_message());
    }

    fn pop_front(&mut self) -> Option<E> {
        let element = E::from_message(self.messages.pop_front()?);
        // This queue alone adds the messages in it, and nobody has them meanwhile.
        warn_on!(element.is_none());
        element
    }
}

/// The queues of a connection.
pub(crate) enum Queues {}

impl work_queue::Queues for Queues {
    type Received = Fifo<Message<ServerConn>>;
    type ReadDone = Fifo<WithMessage<ChunkedCall>>;
    type Reads = Fifo<WithMessage<WaitingReads>>;
    type Sends = Fifo<WithMessage<Outgoing>>;
}

/// The work that no thread has taken yet, and the elements that wait.
pub(super) type WorkQueue = work_queue::WorkQueue<Queues>;

/// Work for an nfsd thread.
pub(crate) type Work = work_queue::Work<Queues>;

/// An element that waited for space in the Send queue.
pub(super) type Waiter = work_queue::Waiter<Queues>;
