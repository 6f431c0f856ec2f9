// SPDX-License-Identifier: GPL-2.0

//! Requests that the engine has, by the numbers that it gave them.

use kernel::alloc::KVVec;
use kernel::prelude::*;

/// Requests by consecutive numbers, never more at a time than slots.
pub(super) struct Requests<R> {
    slots: KVVec<Option<KBox<R>>>,
}

impl<R> Requests<R> {
    /// Creates a table of `capacity` slots. Sleeps.
    pub(super) fn new(capacity: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(capacity, GFP_KERNEL)?;
        for _ in 0..capacity {
            slots.push(None, GFP_KERNEL)?;
        }
        Ok(Self { slots })
    }

    fn slot(&mut self, number: u64) -> Option<&mut Option<KBox<R>>> {
        let capacity = u64::try_from(self.slots.len()).ok()?;
        let index = number.checked_rem(capacity)?;
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// Inserts a request. Returns the previous one of its slot, or one that has no slot.
    pub(super) fn put(&mut self, number: u64, request: KBox<R>) -> Option<KBox<R>> {
        match self.slot(number) {
            Some(slot) => slot.replace(request),
            None => Some(request),
        }
    }

    /// Returns the request with this number.
    pub(super) fn get(&mut self, number: u64) -> Option<&R> {
        self.slot(number)?.as_deref()
    }

    /// Removes the request with this number.
    pub(super) fn take(&mut self, number: u64) -> Option<KBox<R>> {
        self.slot(number)?.take()
    }

    /// Removes any one request.
    pub(super) fn pop(&mut self) -> Option<KBox<R>> {
        self.slots.iter_mut().find_map(Option::take)
    }
}
