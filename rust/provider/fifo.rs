// SPDX-License-Identifier: GPL-2.0

//! A queue of a fixed capacity, which allocates only when it is created.

use kernel::{
    alloc::{
        Flags,
        KVVec, //
    },
    prelude::*, //
};

/// Wraps an index of a ring of `capacity` entries that went beyond its end, once at most.
#[inline]
pub(crate) fn wrapped(index: usize, capacity: usize) -> usize {
    if index < capacity {
        index
    } else {
        index - capacity
    }
}

/// A queue of `T`.
pub(crate) struct Fifo<T> {
    // INVARIANT: `first` is an index of `slots` or 0, and `len` is at most their number.
    slots: KVVec<Option<T>>,
    first: usize,
    len: usize,
}

impl<T> Fifo<T> {
    /// Creates an empty queue. Sleeps.
    pub(crate) fn new(capacity: usize, flags: Flags) -> Result<Self> {
        let mut slots = KVVec::with_capacity(capacity, flags)?;
        for _ in 0..capacity {
            slots.push(None, flags)?;
        }
        Ok(Self {
            slots,
            first: 0,
            len: 0,
        })
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds an entry, or returns it if the queue is full.
    pub(crate) fn push(&mut self, entry: T) -> Result<(), T> {
        let capacity = self.slots.len();
        if self.len == capacity {
            return Err(entry);
        }
        let at = wrapped(self.first + self.len, capacity);
        match self.slots.get_mut(at) {
            Some(slot) => {
                *slot = Some(entry);
                self.len += 1;
                Ok(())
            }
            None => Err(entry),
        }
    }

    /// Removes the oldest entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.len == 0 {
            return None;
        }
        let entry = self.slots.get_mut(self.first).and_then(Option::take);
        self.first = wrapped(self.first + 1, self.slots.len());
        self.len -= 1;
        entry
    }
}
