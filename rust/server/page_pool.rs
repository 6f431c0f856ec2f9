// SPDX-License-Identifier: GPL-2.0

//! Pages that RDMA Reads bring calls to.
//!
//! A call with Read chunks takes as many pages as it needs. When its Reads have completed, it goes
//! to an nfsd thread, which gives as many pages of its own in exchange. So the number of pages in
//! use is that of all calls that are being read at the same time. The connections of a listener
//! share a pool.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use sunrpc::memory::Page;

/// Pages that no call has.
#[pin_data]
pub(crate) struct PagePool {
    #[pin]
    spare: SpinLock<KVec<Page>>,
}

impl PagePool {
    /// How many pages are kept: 8 MiB, enough for eight NFS WRITEs of 1 MiB.
    const MAX: usize = 2048;

    /// An empty pool. Sleeps.
    pub(super) fn new() -> Result<Arc<Self>> {
        let spare = KVec::with_capacity(Self::MAX, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                spare <- new_spinlock!(spare, "rpcrdma::page_pool"),
            }),
            GFP_KERNEL,
        )
    }

    /// Takes `count` pages, and allocates those that are missing. Sleeps.
    pub(super) fn take(&self, count: usize) -> Result<KVec<Page>> {
        let mut pages = KVec::with_capacity(count, GFP_KERNEL)?;
        let mut spare = self.spare.lock();
        while pages.len() < count {
            let Some(page) = spare.pop() else { break };
            pages.push_within_capacity(page).map_err(|_| EINVAL)?;
        }
        drop(spare);
        while pages.len() < count {
            pages.push(Page::new(GFP_KERNEL)?, GFP_KERNEL)?;
        }
        Ok(pages)
    }

    /// Keeps those of `pages` to which there is no other reference, up to [`Self::MAX`].
    pub(super) fn keep(&self, mut pages: KVec<Page>) {
        // Whoever has the only reference to a page is the only one who can make another.
        pages.retain(|page| page.is_unique());
        let mut spare = self.spare.lock();
        while spare.len() < Self::MAX {
            let Some(page) = pages.pop() else { break };
            let _ = spare.push_within_capacity(page);
        }
        // The other pages are freed without the lock.
        drop(spare);
    }
}
