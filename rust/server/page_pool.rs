// SPDX-License-Identifier: GPL-2.0

//! A pool of pages for RDMA Reads of calls.
//!
//! A call with Read chunks takes as many pages as it needs. When its Reads have completed, an nfsd
//! thread takes the pages and returns as many of its own in exchange. So the pages in use are those
//! of the calls that are being read, which [`read_budget`](super::read_budget) limits. The
//! connections of a listener share a pool.
//!
//! A pool keeps at most 8 MiB of idle pages, and frees them when the kernel runs short of memory.
//!
//! A pool has one lock, and no array per CPU or NUMA node. The lock is taken twice for a call,
//! whose Reads take at least a round trip to the client, and is held while pointers are copied; no
//! page is examined or freed under it. Arrays per CPU would be filled on one CPU and needed on
//! another, as any nfsd thread may serve a call. Arrays per node would need the node of each page:
//! those that come from a thread are from wherever it ran when it allocated them.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};
use sunrpc::{
    memory::Page,
    shrinker::{
        Shrink,
        Shrinker, //
    }, //
};

/// A pool of idle pages.
pub(crate) struct PagePool {
    idle: Shrinker<IdlePages>,
}

/// The idle pages. Any allocation may call the shrinker, so nothing is allocated under the lock.
#[pin_data]
struct IdlePages {
    #[pin]
    pages: SpinLock<KVec<Page>>,
}

impl PagePool {
    /// The largest number of idle pages: 8 MiB, enough for eight NFS WRITEs of 1 MiB.
    pub(super) const MAX: usize = 2048;

    /// Creates an empty pool. Sleeps, and so does dropping it.
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

    /// Takes `count` pages, allocating those that the pool lacks. Sleeps.
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

    /// Puts those of `pages` without another reference into the pool, up to [`Self::MAX`].
    pub(super) fn keep(&self, mut pages: KVec<Page>) {
        // A page that is unique now stays so: a scan by page frame number takes a reference for a
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

    /// Makes the kernel reclaim `wanted` pages. Returns the numbers of pages found and freed.
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
            // The lock is held for this statement only: the page is freed without it.
            let page = self.pages.lock().pop();
            let Some(page) = page else { break };
            drop(page);
            freed += 1;
        }
        freed
    }
}
