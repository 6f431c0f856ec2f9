// SPDX-License-Identifier: GPL-2.0

//! A FIFO in a ring of entries that are allocated before the first element is added.

use kernel::{
    alloc::Flags,
    prelude::*, //
};

/// A FIFO with a fixed number of entries.
pub(super) struct Fifo<T> {
    entries: KVec<Option<T>>,
    first: usize,
    len: usize,
}

impl<T> Fifo<T> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        entries: KVec::new(),
        first: 0,
        len: 0,
    };

    /// Creates an empty queue for `count` elements. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        let mut entries = KVec::with_capacity(count, flags)?;
        for _ in 0..count {
            entries.push(None, flags)?;
        }
        Ok(Self {
            entries,
            ..Self::EMPTY
        })
    }

    /// Returns the number of entries.
    pub(super) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Moves all elements to `other` and swaps the two, if `other` has more entries.
    pub(super) fn grow_into(&mut self, other: &mut Self) {
        if other.entries.len() > self.entries.len() {
            self.exchange(other);
        }
    }

    /// Moves all elements to `other` and swaps the two, if `other` has fewer entries, but enough.
    pub(super) fn shrink_into(&mut self, other: &mut Self) {
        if other.entries.len() < self.entries.len() && other.entries.len() >= self.len {
            self.exchange(other);
        }
    }

    /// Moves all elements to `other`, which is empty and has entries for them, and swaps the two.
    fn exchange(&mut self, other: &mut Self) {
        while let Some(element) = self.pop() {
            // The callers have compared the number of entries.
            let _ = other.push(element);
        }
        core::mem::swap(self, other);
    }

    /// Adds `element` at the end. Returns it if no entry is free.
    pub(super) fn push(&mut self, element: T) -> Result<(), T> {
        let at = self.first.wrapping_add(self.len);
        let at = at.checked_rem(self.entries.len()).unwrap_or(0);
        match self.entries.get_mut(at) {
            Some(entry @ None) => *entry = Some(element),
            _ => return Err(element),
        }
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Adds `element` at the front. Returns it if no entry is free.
    pub(super) fn push_first(&mut self, element: T) -> Result<(), T> {
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

    /// Returns the first element.
    pub(super) fn first(&self) -> Option<&T> {
        self.entries.get(self.first)?.as_ref()
    }

    /// Takes the first element.
    pub(super) fn pop(&mut self) -> Option<T> {
        let element = self.entries.get_mut(self.first)?.take()?;
        let next = self.first.wrapping_add(1);
        self.first = next.checked_rem(self.entries.len()).unwrap_or(0);
        self.len = self.len.wrapping_sub(1);
        Some(element)
    }
}
