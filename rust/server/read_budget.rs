// SPDX-License-Identifier: GPL-2.0

//! A budget for pages of calls that are being read by RDMA Reads.
//!
//! All connections together have [`max_total_read_pages`]. Each connection may read one call beyond
//! that, so a client that does not answer RDMA Reads does not keep others from sending calls. While
//! a call waits for pages, another call of its connection is being read or about to be, and retries
//! it when its pages are freed.

use super::config::max_total_read_pages;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};

/// The pages of all calls that are being read.
static TOTAL: Atomic<usize> = Atomic::new(0);

/// The calls of one connection that are being read.
pub(super) struct ReadBudget {
    count: Atomic<u32>,
    /// Whether another call waits for their pages.
    waits: Atomic<bool>,
}

/// The right to read a call into a number of pages, until it is dropped.
pub(crate) struct ReadPermit(usize);

impl ReadBudget {
    /// Creates the state of a connection that reads no call.
    pub(super) fn new() -> Self {
        Self {
            count: Atomic::new(0),
            waits: Atomic::new(false),
        }
    }

    /// Begins to read a call into `count` pages. [`None`] if it must wait until [`Self::end`] of
    /// another call returns true.
    pub(super) fn begin(&self, count: usize) -> Option<ReadPermit> {
        let total = TOTAL.fetch_add(count, Relaxed).saturating_add(count);
        // They are subtracted when this is dropped.
        let pages = ReadPermit(count);
        let fits = total <= max_total_read_pages();
        if !self.add(fits) {
            // Any later [`Self::end`] sees this, and an earlier one is seen here.
            self.waits.xchg(true, Full);
            if !self.add(fits) {
                return None;
            }
        }
        Some(pages)
    }

    /// Counts a call that `fits`, or that is the only one. A call that must wait is never counted,
    /// not even for a moment: another one might wait for it.
    fn add(&self, fits: bool) -> bool {
        let mut count = self.count.load(Relaxed);
        while count == 0 || fits {
            match self.count.cmpxchg(count, count.saturating_add(1), Full) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// Ends a call that was read. Returns whether to retry the call that waits.
    pub(super) fn end(&self, pages: ReadPermit) -> bool {
        self.cancel(pages);
        self.waits.load(Relaxed) && self.waits.xchg(false, Full)
    }

    /// Ends a call that is not read now but waits for SQ credits. The call that waits for pages is
    /// retried when this one has been read.
    pub(super) fn cancel(&self, pages: ReadPermit) {
        drop(pages);
        self.count.fetch_sub(1, Full);
    }
}

impl Drop for ReadPermit {
    fn drop(&mut self) {
        TOTAL.fetch_sub(self.0, Relaxed);
    }
}
