// SPDX-License-Identifier: GPL-2.0

//! SQ credits: room in the Send queue for RDMA Reads and Writes.
//!
//! Sends have room of their own, one for each Send buffer.

/// The SQ credits of a connection.
pub(super) struct SqCredits {
    free: usize,
    /// How many there are.
    total: usize,
}

impl SqCredits {
    pub(super) fn new(total: usize) -> Self {
        Self { free: total, total }
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// How many there are.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// How many requests of one transfer are posted at the same time at most: half of all, so that two
    /// long transfers take turns.
    pub(super) fn batch(&self) -> usize {
        self.total.div_ceil(2)
    }

    /// Takes `count`, if there are so many.
    pub(super) fn reserve(&mut self, count: usize) -> bool {
        match self.free.checked_sub(count) {
            Some(free) => self.free = free,
            None => return false,
        }
        true
    }

    /// Gives back `count`.
    pub(super) fn release(&mut self, count: usize) {
        self.free = self.free.saturating_add(count);
    }
}
