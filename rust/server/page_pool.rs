// SPDX-License-Identifier: GPL-2.0

//! Pages to pull calls to.
//!
//! A pull takes as many as it needs. When it is done, its call goes to a service thread, which gives
//! as many pages of its own in exchange. So what goes round is what all pulls have at the same time,
//! whichever connections they are of: the connections of a listener share a pool.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use sunrpc::memory::Page;

/// Pages that no pull has.
#[pin_data]
pub(crate) struct PagePool {
    #[pin]
    spare: SpinLock<KVec<Page>>,
}

impl PagePool {
    /// As many are kept: 8 MiB, or eight pulls of the usual length.
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

    /// Takes `count` pages, or allocates them. Sleeps.
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

    /// Keeps those of `pages` that nobody else has, as many as there is a place for.
    pub(super) fn keep(&self, mut pages: KVec<Page>) {
        let mut spare = self.spare.lock();
        while spare.len() < Self::MAX {
            let Some(page) = pages.pop() else { break };
            if page.is_unique() {
                let _ = spare.push_within_capacity(page);
            }
        }
        // What is left is freed without the lock.
        drop(spare);
    }
}
