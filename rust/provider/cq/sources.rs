// SPDX-License-Identifier: GPL-2.0

//! The queues whose completions a completion queue has, and how many of these it needs room for.
//!
//! A request of a consumer in the kernel keeps its place in its queue until the consumer has polled
//! its completion. So a queue never has more completions than places, and a completion queue that
//! has room for those of each queue once loses none, however many queue pairs share one of them.

use core::sync::atomic::{
    AtomicUsize,
    Ordering, //
};
use kernel::{
    alloc::{
        Flags,
        KVVec, //
    },
    prelude::*,
    sync::Arc, //
};

/// How many completions of a queue its consumer has polled. The number wraps around.
pub(crate) struct Polled(AtomicUsize);

impl Polled {
    pub(crate) fn new(flags: Flags) -> Result<Arc<Self>> {
        Ok(Arc::new(Self(AtomicUsize::new(0)), flags)?)
    }

    /// Returns the number. A completion that is in it takes no room any more.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Counts one more, whose room was given back before.
    pub(super) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// A queue, as a completion queue knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceId(usize);

/// A queue whose completions a completion queue has.
pub(super) struct Source {
    pub(super) polled: Arc<Polled>,
    // Its places.
    pub(super) requests: usize,
    // The queue pairs that use it: more than one, if it is a shared receive queue.
    pub(super) users: usize,
}

/// The queues of a completion queue.
pub(super) struct Sources(KVVec<Option<Source>>);

impl Sources {
    pub(super) fn new() -> Self {
        Self(KVVec::new())
    }

    /// Allocates room for more queues than these have. Sleeps.
    pub(super) fn with_room(len: usize) -> Result<Self> {
        let mut list = KVVec::with_capacity(len, GFP_KERNEL)?;
        for _ in 0..len {
            list.push(None, GFP_KERNEL)?;
        }
        Ok(Self(list))
    }

    /// Returns for how many queues there is room.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.0.iter().any(Option::is_none)
    }

    /// Moves to other room, if that is more. Returns what is not needed.
    pub(super) fn grow(&mut self, mut more: Self) -> Self {
        if more.0.len() > self.0.len() {
            for (to, from) in more.0.iter_mut().zip(self.0.iter_mut()) {
                *to = from.take();
            }
            core::mem::swap(self, &mut more);
        }
        more
    }

    /// Counts one more queue pair that uses a queue, if the queue is there.
    pub(super) fn share(&mut self, polled: &Arc<Polled>) -> Option<SourceId> {
        let known = |source: &Source| Arc::ptr_eq(&source.polled, polled);
        let at = self
            .0
            .iter()
            .position(|at| at.as_ref().is_some_and(known))?;
        let source = self.0.get_mut(at)?.as_mut()?;
        source.users = source.users.checked_add(1)?;
        Some(SourceId(at))
    }

    /// Adds a queue, if there is room.
    pub(super) fn insert(&mut self, source: Source) -> Option<SourceId> {
        let at = self.0.iter().position(Option::is_none)?;
        *self.0.get_mut(at)? = Some(source);
        Some(SourceId(at))
    }

    /// Counts one queue pair less. Returns the queue, if that was the last one.
    pub(super) fn release(&mut self, id: SourceId) -> Option<Source> {
        let at = self.0.get_mut(id.0)?;
        let source = at.as_mut()?;
        source.users = source.users.saturating_sub(1);
        match source.users {
            0 => at.take(),
            _ => None,
        }
    }

    /// Counts a completion of a queue that was polled, or that nobody will poll.
    pub(super) fn polled(&self, id: Option<SourceId>) {
        let source = id.and_then(|id| self.0.get(id.0)?.as_ref());
        if let Some(source) = source {
            source.polled.add_one();
        }
    }
}
