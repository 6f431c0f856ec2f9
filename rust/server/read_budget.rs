// SPDX-License-Identifier: GPL-2.0

//! How many pages RDMA Reads may bring calls to at the same time.
//!
//! All connections together have [`max_total_read_pages`]. Each connection may read one call beyond that, so clients that do not
//! let their RDMA Reads complete keep nobody else from sending calls; and when a call has to wait for pages, another call of its
//! connection is being read, or about to be, and has it tried again when it gives its pages back.

use super::config::max_total_read_pages;
use kernel::sync::atomic::{
    Atomic,
    Full,
    Relaxed, //
};

/// The pages that all calls are read to.
static TOTAL: Atomic<usize> = Atomic::new(0);

/// The calls of one connection that are being read.
pub(super) struct CallsRead {
    count: Atomic<u32>,
    /// Another call waits until one of them gives its pages back.
    waits: Atomic<bool>,
}

/// The pages of one call, until it is dropped.
pub(crate) struct ReadPages(usize);

impl CallsRead {
    /// No call.
    pub(super) fn new() -> Self {
        Self {
            count: Atomic::new(0),
            waits: Atomic::new(false),
        }
    }

    /// Begins to read a call to `count` pages. [`None`] if it has to wait until [`Self::end`] says so for another one.
    pub(super) fn begin(&self, count: usize) -> Option<ReadPages> {
        let total = TOTAL.fetch_add(count, Relaxed).saturating_add(count);
        // They are given back when this is dropped.
        let pages = ReadPages(count);
        let fits = total <= max_total_read_pages();
        if !self.add(fits) {
            // Whoever ends after this sees it, and whoever ended before is seen here.
            self.waits.xchg(true, Full);
            if !self.add(fits) {
                return None;
            }
        }
        Some(pages)
    }

    /// Counts a call that `fits`, or that is the only one. What has to wait is never counted, not even for a moment: another one might
    /// wait for it then.
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

    /// A call has been read. Returns whether to try again what waits.
    pub(super) fn end(&self, pages: ReadPages) -> bool {
        self.cancel(pages);
        self.waits.load(Relaxed) && self.waits.xchg(false, Full)
    }

    /// A call is not read now, but waits for SQ credits and is tried again. When it has been read, what waits is tried.
    pub(super) fn cancel(&self, pages: ReadPages) {
        drop(pages);
        self.count.fetch_sub(1, Full);
    }
}

impl Drop for ReadPages {
    fn drop(&mut self) {
        TOTAL.fetch_sub(self.0, Relaxed);
    }
}
