// SPDX-License-Identifier: GPL-2.0

//! A pool of memory regions for the destination of RDMA Reads, the Data Sink of RFC 5040.
//!
//! On iWARP the peer writes the response to a Read, by a key in the request, and the key for local
//! access does not serve for that. So the memory is registered in the chain of the Reads, and the
//! last Read of each region invalidates it: when that completes, the key is not valid any more.
//!
//! The core has a helper for that, `rdma_rw_ctx_init()`. It takes a region for each segment of the
//! peer, from a pool that is allocated with the queue pair and that may be empty. Here a region
//! extends as far as the local memory does, whatever the segments of the peer, and there are only
//! as many regions as were ever in use at the same time.

use crate::lock_names;
use crate::prelude::*;
use core::iter::Peekable;
use kernel::{
    static_lock_class,
    sync::SpinLock, //
};

/// The idle regions of a queue pair.
#[pin_data]
pub(crate) struct ReadMrPool<H: Context> {
    #[pin]
    idle: SpinLock<mr::Idle<H>>,
    pages: u32,
    pd: Arc<ProtectionDomain<H>>,
}

impl<H: Context> ReadMrPool<H> {
    /// Creates an empty pool. Each region will cover up to `pages`.
    pub(crate) fn new(pd: Arc<ProtectionDomain<H>>, pages: u32) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                idle <- SpinLock::new(mr::Idle::new(), lock_names::READ_MRS, static_lock_class!()),
                pages,
                pd,
            }),
            GFP_KERNEL,
        )
    }

    /// Covers the next of `pieces` with a region, as many as it can, and adds it to `regions`.
    /// Returns the scatter element for the Reads. Sleeps.
    pub(crate) fn cover(
        &self,
        pieces: &mut Peekable<impl Iterator<Item = Result<Piece>>>,
        regions: &mut mr::Prepared<H>,
    ) -> Result<cbindings::ib_sge> {
        let mut region = self.idle.lock().take(1);
        if region.is_empty() {
            region.allocate(&self.pd, self.pages, GFP_KERNEL)?;
        }
        regions.map_for_read(&mut region, pieces)
    }

    /// Deregisters the idle regions. Sleeps.
    pub(crate) fn free_idle(&self) {
        let idle = core::mem::take(&mut *self.idle.lock());
        drop(idle);
    }

    /// Takes back `regions`, and unmaps and releases their memory.
    ///
    /// # Safety
    ///
    /// Completed Reads have invalidated all of them.
    pub(crate) unsafe fn put_back(&self, regions: mr::Registered<H>) {
        // SAFETY: The caller promises that completed Reads have invalidated all of them.
        let mut regions = unsafe { regions.into_idle() };
        self.idle.lock().append(&mut regions);
    }
}
