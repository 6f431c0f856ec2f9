// SPDX-License-Identifier: GPL-2.0

//! SQ credits: space in the Send queue for RDMA Reads and Writes.
//!
//! Sends have space of their own, one for each Send buffer.

/// The SQ credits of a connection.
pub(super) struct SqCredits {
    free: usize,
    /// The number of all credits.
    total: usize,
}

impl SqCredits {
    pub(super) fn new(total: usize) -> Self {
        Self { free: total, total }
    }

    /// Returns the number of free credits.
    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Returns the number of all credits.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Returns the most requests of one transfer that are posted at the same time: half of all, so
    /// that two long transfers alternate.
    pub(super) fn batch(&self) -> usize {
        self.total.div_ceil(2)
    }

    /// Reserves `count` credits, if as many are free.
    pub(super) fn reserve(&mut self, count: usize) -> bool {
        match self.free.checked_sub(count) {
            Some(free) => self.free = free,
            None => return false,
        }
        true
    }

    /// Releases `count` credits.
    pub(super) fn release(&mut self, count: usize) {
        self.free = self.free.saturating_add(count);
    }
}
