// SPDX-License-Identifier: GPL-2.0

//! The work queue of a connection, from its completion handlers to nfsd threads.
//!
//! The handlers must not allocate, so the queue has an entry for each Receive of the connection
//! before that is posted. Each element owns the Receive buffer of its message, so there are never
//! more elements.

use super::call_layout::{
    policy,
    CallLayout, //
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
    Handler, //
};
use sunrpc::memory::Page;

/// A call that is not all in its message: RDMA Reads bring the rest, or have brought it.
pub(crate) struct ChunkedCall<H: Handler> {
    pub(super) message: Message<H>,
    pub(super) layout: CallLayout,
    /// The Data Sink of the Reads.
    pub(super) pages: KVec<Page>,
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
pub(crate) enum Work<H: Handler> {
    /// A message was received.
    Received(Message<H>),
    /// The RDMA Reads of a call have completed.
    ReadDone(ChunkedCall<H>),
}

/// The work that no thread has taken yet.
pub(super) struct WorkQueue<H: Handler> {
    /// These calls arrived before the messages in `received`, and go first: RPCSEC_GSS drops a call
    /// that was overtaken by more calls than its sequence window holds, and has the connection
    /// closed.
    read_done: Fifo<ChunkedCall<H>>,
    received: Fifo<Message<H>>,
}

impl<H: Handler> WorkQueue<H> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        read_done: Fifo::EMPTY,
        received: Fifo::EMPTY,
    };

    /// An empty queue that has room for the messages of `count` Receives. Sleeps if `flags` allow
    /// it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            read_done: Fifo::with_capacity(count, flags)?,
            received: Fifo::with_capacity(count, flags)?,
        })
    }

    /// If `other` has more entries, moves all work there, and exchanges the two.
    pub(super) fn move_to(&mut self, other: &mut Self) {
        self.read_done.move_to(&mut other.read_done);
        self.received.move_to(&mut other.received);
    }

    /// Adds `work`, which comes back if no entry is free.
    pub(super) fn push(&mut self, work: Work<H>) -> Result<(), Work<H>> {
        match work {
            Work::ReadDone(call) => self.read_done.push(call).map_err(Work::ReadDone),
            Work::Received(message) => self.received.push(message).map_err(Work::Received),
        }
    }

    /// Takes the next work.
    pub(super) fn pop(&mut self) -> Option<Work<H>> {
        match self.read_done.pop() {
            Some(call) => Some(Work::ReadDone(call)),
            None => self.received.pop().map(Work::Received),
        }
    }

    /// Whether there is no work.
    pub(super) fn is_empty(&self) -> bool {
        self.read_done.len == 0 && self.received.len == 0
    }
}

/// A first-in-first-out queue in a ring of entries.
struct Fifo<T> {
    entries: KVec<Option<T>>,
    first: usize,
    len: usize,
}

impl<T> Fifo<T> {
    const EMPTY: Self = Self {
        entries: KVec::new(),
        first: 0,
        len: 0,
    };

    fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        let mut entries = KVec::with_capacity(count, flags)?;
        for _ in 0..count {
            entries.push(None, flags)?;
        }
        Ok(Self {
            entries,
            ..Self::EMPTY
        })
    }

    fn move_to(&mut self, other: &mut Self) {
        if other.entries.len() <= self.entries.len() {
            return;
        }
        while let Some(element) = self.pop() {
            // It has more entries than this one.
            let _ = other.push(element);
        }
        core::mem::swap(self, other);
    }

    fn push(&mut self, element: T) -> Result<(), T> {
        let at = self.first.wrapping_add(self.len);
        let at = at.checked_rem(self.entries.len()).unwrap_or(0);
        match self.entries.get_mut(at) {
            Some(entry @ None) => *entry = Some(element),
            _ => return Err(element),
        }
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        let element = self.entries.get_mut(self.first)?.take()?;
        let next = self.first.wrapping_add(1);
        self.first = next.checked_rem(self.entries.len()).unwrap_or(0);
        self.len = self.len.wrapping_sub(1);
        Some(element)
    }
}
