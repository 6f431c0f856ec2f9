// SPDX-License-Identifier: GPL-2.0

//! What waits for room in the Send queue of a connection, without a thread.
//!
//! Both kinds keep the message of their call, and with it a Receive that the client cannot use meanwhile. So there are
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
    Handler, //
};

/// What waits for room in the Send queue, or could.
pub(crate) enum Waiting<H: Handler> {
    /// RDMA Reads.
    Reads(WaitingReads<H>),
    /// A Send.
    Send(Outgoing<H>),
}

/// A call whose Read chunks are to be read. It has no pages yet.
pub(crate) struct WaitingReads<H: Handler> {
    pub(super) message: Message<H>,
    pub(super) layout: CallLayout,
    /// How many RDMA Reads it takes, as far as is known.
    pub(super) requests: usize,
}

/// A message to the client, with all that goes with it. It needs no thread: the pages that are sent from are kept by `attached`.
pub(crate) struct Outgoing<H: Handler> {
    /// The first `len` bytes are sent.
    pub(super) bytes: OutgoingBytes<H>,
    pub(super) len: usize,
    pub(super) attached: Attached<H>,
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
        for (to, from) in buffer.bytes_mut().iter_mut().zip(memory.iter().take(len)) {
            *to = *from;
        }
        Ok(buffer)
    }
}
