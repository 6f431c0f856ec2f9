// SPDX-License-Identifier: GPL-2.0

//! What waits for room in the Send queue of a connection, or for pages, without a thread.
//!
//! It waits in one of four lines, so that nothing holds what something before it waits for:
//!
//! * Sends without a Send buffer wait for one. All buffers come back: those that are posted, those that threads are filling, and those
//!   of Sends in the next line.
//! * Sends in a Send buffer wait for SQ credits.
//! * RDMA Reads wait for SQ credits. The first that gets some is ready for a thread, since it needs memory, too. Until that has posted
//!   them, Sends come first; else they take turns.
//! * RDMA Reads wait for pages, until another call of the connection has been read ([`CallsRead`](super::read_budget::CallsRead)).
//!
//! A Send needs nothing else, so a completion posts it. While Reads are ready, which have about half of the credits, the others
//! are for Sends, so that these need not wait until a thread comes.
//!
//! All keep the message of their call, and with it a Receive that the client cannot use meanwhile. So there are
//! never more of them than Receives, however many calls a client sends.

use super::call_layout::CallLayout;
use kernel::{
    alloc::flags::__GFP_ZERO,
    prelude::*, //
};
use rdma::{
    receive::Message,
    send::{
        Buffer,
        Verb, //
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
    /// How many RDMA Reads it takes, as far as is known.
    pub(super) requests: usize,
    /// How many regions are registered for them, as far as is known.
    pub(super) registrations: usize,
    /// The SQ credits that it has, if it is ready.
    pub(super) credits: Option<usize>,
    /// Whether it has waited for pages.
    pub(super) waited_for_pages: bool,
}

/// A message to the client, with all that goes with it. It needs no thread: the pages that are sent from are kept by `attached`.
pub(crate) struct Outgoing<H: ReadHandler> {
    /// The first `len` bytes are sent.
    pub(super) bytes: OutgoingBytes<H>,
    pub(super) len: usize,
    pub(super) attached: Attached<H>,
    /// What posting takes if these are many.
    pub(super) memory: Option<BatchMemory<H>>,
    pub(super) verb: Verb,
    pub(super) xid: u32,
    /// The message that this answers. Its Receive is posted again before the Send, after which the client may use the credit.
    pub(super) answers: Message<H>,
}

/// Where the bytes of a message are.
pub(crate) enum OutgoingBytes<H: Handler> {
    /// In a Send buffer.
    Buffer(Buffer<H>),
    /// In other memory, as no Send buffer was free.
    Memory(KVec<u8>),
}

impl<H: Handler> OutgoingBytes<H> {
    /// Memory for `len` bytes that is no Send buffer. Sleeps.
    pub(super) fn memory(len: usize) -> Result<Self> {
        Ok(Self::Memory(KVec::from_elem(
            0,
            len,
            GFP_KERNEL | __GFP_ZERO,
        )?))
    }

    /// The bytes.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Buffer(buffer) => buffer.bytes_mut(),
            Self::Memory(memory) => memory,
        }
    }

    /// A Send buffer that has the first `len` bytes: its own, or the one that `take` returns. If that is none, it stays as it is.
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
