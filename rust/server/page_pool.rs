// SPDX-License-Identifier: GPL-2.0

//! Pages that RDMA Reads bring calls to.
//!
//! A call with Read chunks takes as many pages as it needs. When its Reads have completed, it goes
//! to an nfsd thread, which gives as many pages of its own in exchange. So the number of pages in
//! use is that of all calls that are being read at the same time, which
//! [`read_budget`](super::read_budget) limits. The connections of a listener share a pool.
//!
//! The idle pages of a pool are 8 MiB at most, and go back when the kernel runs short of memory.
//!
//! A pool has one lock, and no array for each CPU or NUMA node. The lock is taken twice for a call, whose Reads take a round trip to
//! the client at least, and held while pointers are copied; nobody looks at a page or frees one meanwhile. Arrays for each CPU
//! would be filled on one CPU and needed on another, as any nfsd thread may serve a call. Arrays for each node would need
//! the node of each page: those that come from a thread are from wherever it ran when it allocated them.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use sunrpc::{
    memory::Page,
    shrinker::{
        Shrink,
        Shrinker, //
    }, //
};

/// Pages that no call has.
pub(crate) struct PagePool {
    idle: Shrinker<IdlePages>,
}

/// The pages. Memory may be reclaimed by whoever allocates some, so nothing is allocated under the lock.
#[pin_data]
struct IdlePages {
    #[pin]
    pages: SpinLock<KVec<Page>>,
}

impl PagePool {
    /// How many pages are kept: 8 MiB, enough for eight NFS WRITEs of 1 MiB.
    pub(super) const MAX: usize = 2048;

    /// An empty pool. Sleeps, and so does dropping it.
    pub(super) fn new() -> Result<Arc<Self>> {
        let pages = KVec::with_capacity(Self::MAX, GFP_KERNEL)?;
        let idle = Arc::pin_init(
            pin_init!(IdlePages {
                pages <- new_spinlock!(pages, "rpcrdma::page_pool"),
            }),
            GFP_KERNEL,
        )?;
        let idle = Shrinker::new(c"svcrdma-read-pages", idle)?;
        Ok(Arc::new(Self { idle }, GFP_KERNEL)?)
    }

    /// Takes `count` pages, and allocates those that are missing. Sleeps.
    pub(super) fn take(&self, count: usize) -> Result<KVec<Page>> {
        let mut pages = KVec::with_capacity(count, GFP_KERNEL)?;
        let mut idle = self.idle.pages.lock();
        while pages.len() < count {
            let Some(page) = idle.pop() else { break };
            pages.push_within_capacity(page).map_err(|_| EINVAL)?;
        }
        drop(idle);
        while pages.len() < count {
            pages.push(Page::new(GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(pages)
    }

    /// Keeps those of `pages` to which there is no other reference, up to [`Self::MAX`].
    pub(super) fn keep(&self, mut pages: KVec<Page>) {
        // Nobody keeps any other: whoever looks for pages by their number takes a reference for a
        // moment only, and reads nothing.
        pages.retain(|page| page.is_unique());
        let mut idle = self.idle.pages.lock();
        while idle.len() < Self::MAX {
            let Some(page) = pages.pop() else { break };
            let _ = idle.push_within_capacity(page);
        }
        // The other pages are freed without the lock.
        drop(idle);
    }

    /// Has the kernel reclaim `wanted` pages. Returns how many it finds, and how many it gets.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(super) fn reclaim(&self, wanted: usize) -> Result<(usize, usize)> {
        self.idle.reclaim(wanted)
    }
}

impl Shrink for IdlePages {
    fn count(&self) -> usize {
        self.pages.lock().len()
    }

    fn shrink(&self, count: usize) -> usize {
        let mut freed = 0;
        while freed < count {
            // The lock is for the statement only: the page is freed without it.
            let page = self.pages.lock().pop();
            let Some(page) = page else { break };
            drop(page);
            freed += 1;
        }
        freed
    }
}
