// SPDX-License-Identifier: GPL-2.0

//! Messages and RDMA Reads that wait for the Send queue of a connection, or for pages, without a
//! thread.
//!
//! They wait in one of four queues, so that no element holds a resource that one before it waits
//! for:
//!
//! * Sends without a Send buffer wait for one. All buffers come back: those that are posted, those
//!   that threads are filling, and those of Sends in the next queue.
//! * Sends in a Send buffer wait for SQ credits.
//! * RDMA Reads wait for SQ credits. The first that gets its credits is ready for a thread, since
//!   it needs memory, too. Until the thread has posted it, Sends come first; otherwise Reads and
//!   Sends alternate.
//! * RDMA Reads wait for pages, until another call of the connection has been read
//!   ([`ReadBudget`](super::read_budget::ReadBudget)).
//!
//! A Send needs nothing else, so a completion handler posts it. While Reads are ready, which have
//! about half of the credits, the other credits are for Sends, so that these need not wait for a
//! thread.
//!
//! Each element keeps the message of its call, and with it a Receive that the client cannot use
//! meanwhile. So there are never more elements than Receives, however many calls a client sends.

use super::call_layout::CallLayout;
use kernel::{
    alloc::flags::__GFP_ZERO,
    prelude::*, //
};
use rdma::{
    receive::Message,
    send::{
        Buffer,
        SendKind, //
    },
    transfer::Attached,
    BatchMemory,
    Handler,
    ReadHandler, //
};

/// A call whose Read chunks are to be read. It has no pages yet.
pub(crate) struct WaitingReads<H: Handler> {
    pub(super) message: Message<H>,
    pub(super) layout: CallLayout,
    /// The number of RDMA Reads, as far as is known.
    pub(super) requests: usize,
    /// The number of regions that are registered for them, as far as is known.
    pub(super) registrations: usize,
    /// The SQ credits of the call, if it is ready.
    pub(super) credits: Option<usize>,
    /// Whether the call has waited for pages.
    pub(super) waited_for_pages: bool,
}

/// A message to the client, with all that goes with it. Posting it needs no thread: `attached` owns
/// references to the pages that are sent.
pub(crate) struct Outgoing<H: ReadHandler> {
    /// The bytes of the message, of which the first `len` are sent.
    pub(super) bytes: OutgoingBytes<H>,
    pub(super) len: usize,
    pub(super) attached: Attached<H>,
    /// Memory for posting in batches, if there are many Writes.
    pub(super) memory: Option<BatchMemory<H>>,
    pub(super) kind: SendKind,
    pub(super) xid: u32,
    /// The message that this one answers. Its Receive is reposted before the Send, after which the
    /// client may use the credit.
    pub(super) answers: Message<H>,
}

/// The memory of an outgoing message.
pub(crate) enum OutgoingBytes<H: Handler> {
    /// A Send buffer.
    Buffer(Buffer<H>),
    /// Other memory, because no Send buffer was free.
    Memory(KVec<u8>),
}

impl<H: Handler> OutgoingBytes<H> {
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
        take: impl FnOnce() -> Option<Buffer<H>>,
    ) -> Result<Buffer<H>, Self> {
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
