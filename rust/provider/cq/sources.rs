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

/// A place for a queue.
enum Slot {
    // With the next free place.
    Free(usize),
    Used(Source),
}

impl Slot {
    fn used(&self) -> Option<&Source> {
        match self {
            Self::Used(source) => Some(source),
            Self::Free(_) => None,
        }
    }

    fn used_mut(&mut self) -> Option<&mut Source> {
        match self {
            Self::Used(source) => Some(source),
            Self::Free(_) => None,
        }
    }
}

/// The queues of a completion queue. Thousands of queue pairs may share one.
pub(super) struct Sources {
    slots: KVVec<Slot>,
    // INVARIANT: The first free place, from which the others follow. The last one has the number of
    // places behind it, which is here if none is free.
    free: usize,
}

impl Sources {
    pub(super) fn new() -> Self {
        Self {
            slots: KVVec::new(),
            free: 0,
        }
    }

    /// Allocates room for more queues than these have. Sleeps.
    pub(super) fn with_room(len: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(len, GFP_KERNEL)?;
        for at in 0..len {
            slots.push(Slot::Free(at + 1), GFP_KERNEL)?;
        }
        // INVARIANT: Each place has the one behind it.
        Ok(Self { slots, free: 0 })
    }

    /// Returns for how many queues there is room.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there is room for one more.
    pub(super) fn has_room(&self) -> bool {
        self.free < self.slots.len()
    }

    /// Moves to other room, if that is more. Returns what is not needed.
    pub(super) fn grow(&mut self, mut more: Self) -> Self {
        if more.slots.len() > self.slots.len() {
            for (to, from) in more.slots.iter_mut().zip(self.slots.iter_mut()) {
                core::mem::swap(to, from);
            }
            // INVARIANT: What stood for no free place is now the first of the new ones, from which
            // the others follow.
            more.free = self.free;
            core::mem::swap(self, &mut more);
        }
        more
    }

    /// Counts one more queue pair that uses a shared receive queue, if that is there. Few are.
    pub(super) fn share(&mut self, polled: &Arc<Polled>) -> Option<SourceId> {
        let known = |source: &Source| Arc::ptr_eq(&source.polled, polled);
        let mut slots = self.slots.iter();
        let at = slots.position(|slot| slot.used().is_some_and(known))?;
        let source = self.slots.get_mut(at)?.used_mut()?;
        source.users = source.users.checked_add(1)?;
        Some(SourceId(at))
    }

    /// Adds a queue, if there is room.
    pub(super) fn insert(&mut self, source: Source) -> Option<SourceId> {
        let at = self.free;
        let slot = self.slots.get_mut(at)?;
        let Slot::Free(next) = *slot else {
            return None;
        };
        *slot = Slot::Used(source);
        self.free = next;
        Some(SourceId(at))
    }

    /// Counts one queue pair less. Returns the queue, if that was the last one.
    pub(super) fn release(&mut self, id: SourceId) -> Option<Source> {
        let slot = self.slots.get_mut(id.0)?;
        let source = slot.used_mut()?;
        source.users = source.users.saturating_sub(1);
        if source.users > 0 {
            return None;
        }
        match core::mem::replace(slot, Slot::Free(self.free)) {
            Slot::Used(source) => {
                self.free = id.0;
                Some(source)
            }
            Slot::Free(_) => None,
        }
    }

    /// Counts a completion of a queue that was polled, or that nobody will poll.
    pub(super) fn polled(&self, id: Option<SourceId>) {
        let source = id.and_then(|id| self.slots.get(id.0)?.used());
        if let Some(source) = source {
            source.polled.add_one();
        }
    }
}
