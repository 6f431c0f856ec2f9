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
    waiting::Waiting,
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
    /// There may be room in the Send queue for this now.
    Resumed(Waiting<H>),
}

/// The work that no thread has taken yet.
pub(super) struct WorkQueue<H: Handler> {
    /// These calls arrived before the messages in `received`, and go first: RPCSEC_GSS drops a call
    /// that was overtaken by more calls than its sequence window holds, and has the connection
    /// closed.
    read_done: Fifo<ChunkedCall<H>>,
    received: Fifo<Message<H>>,
    /// What waits for room in the Send queue.
    waiting: Fifo<Waiting<H>>,
    /// How many of these are Sends.
    waiting_sends: usize,
    /// Whether there may be room for the first of them.
    room: bool,
}

impl<H: Handler> WorkQueue<H> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        read_done: Fifo::EMPTY,
        received: Fifo::EMPTY,
        waiting: Fifo::EMPTY,
        waiting_sends: 0,
        room: false,
    };

    /// How many Sends may wait when a new call is taken. Each may keep the pages of a reply.
    const MAX_WAITING_SENDS: usize = 4;

    /// An empty queue that has room for the messages of `count` Receives. Sleeps if `flags` allow
    /// it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            read_done: Fifo::with_capacity(count, flags)?,
            received: Fifo::with_capacity(count, flags)?,
            waiting: Fifo::with_capacity(count, flags)?,
            ..Self::EMPTY
        })
    }

    /// If `other` has more entries, moves all work there, and exchanges the two.
    pub(super) fn move_to(&mut self, other: &mut Self) {
        self.read_done.move_to(&mut other.read_done);
        self.received.move_to(&mut other.received);
        self.waiting.move_to(&mut other.waiting);
    }

    /// Adds `work`, which comes back if no entry is free.
    pub(super) fn push(&mut self, work: Work<H>) -> Result<(), Work<H>> {
        match work {
            Work::ReadDone(call) => self.read_done.push(call).map_err(Work::ReadDone),
            Work::Received(message) => self.received.push(message).map_err(Work::Received),
            Work::Resumed(waiting) => self.push_waiting(waiting, true).map_err(Work::Resumed),
        }
    }

    /// Adds `waiting` behind what waits already, or before that. It comes back if no entry is free.
    pub(super) fn push_waiting(
        &mut self,
        waiting: Waiting<H>,
        first: bool,
    ) -> Result<(), Waiting<H>> {
        let is_send = matches!(waiting, Waiting::Send(_));
        match first {
            true => self.waiting.push_first(waiting)?,
            false => self.waiting.push(waiting)?,
        }
        if is_send {
            self.waiting_sends = self.waiting_sends.saturating_add(1);
        }
        Ok(())
    }

    /// Says whether there may be room for the first of what waits.
    pub(super) fn set_room(&mut self, room: bool) {
        self.room = room;
    }

    /// How many wait for room in the Send queue, and how many of these are Sends.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.waiting.len, self.waiting_sends)
    }

    /// Takes the next work that a thread can do.
    pub(super) fn pop(&mut self) -> Option<Work<H>> {
        if let Some(call) = self.read_done.pop() {
            return Some(Work::ReadDone(call));
        }
        if self.room && self.waiting.len != 0 {
            return self.pop_waiting();
        }
        match self.takes_calls() {
            true => self.received.pop().map(Work::Received),
            false => None,
        }
    }

    fn pop_waiting(&mut self) -> Option<Work<H>> {
        let waiting = self.waiting.pop()?;
        if matches!(waiting, Waiting::Send(_)) {
            self.waiting_sends = self.waiting_sends.saturating_sub(1);
        }
        Some(Work::Resumed(waiting))
    }

    /// Takes any work, of a connection that has ended.
    pub(super) fn pop_any(&mut self) -> Option<Work<H>> {
        let next = self.pop().or_else(|| self.pop_waiting());
        next.or_else(|| self.received.pop().map(Work::Received))
    }

    /// Whether a thread may take calls that were received: their replies would have to wait behind others.
    fn takes_calls(&self) -> bool {
        self.waiting_sends < Self::MAX_WAITING_SENDS
    }

    /// Whether there is no work that a thread can do.
    pub(super) fn is_empty(&self) -> bool {
        let resumes = self.room && self.waiting.len != 0;
        let calls = self.takes_calls() && self.received.len != 0;
        self.read_done.len == 0 && !resumes && !calls
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

    /// Adds `element` before all others.
    fn push_first(&mut self, element: T) -> Result<(), T> {
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

    fn pop(&mut self) -> Option<T> {
        let element = self.entries.get_mut(self.first)?.take()?;
        let next = self.first.wrapping_add(1);
        self.first = next.checked_rem(self.entries.len()).unwrap_or(0);
        self.len = self.len.wrapping_sub(1);
        Some(element)
    }
}
