// SPDX-License-Identifier: GPL-2.0

//! Protection domains.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    cm::Id,
    context::Context, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        code::ENOMEM,
        from_err_ptr,
        Result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// A protection domain: what regions and buffers belong to.
///
/// It is made for one connection and may serve others after it, on the same device: regions need not
/// be allocated anew then. The id of the first keeps the device meanwhile, and hears of its removal.
///
/// # Invariants
///
/// `ptr` came from `ib_alloc_pd` on the device of `id` and is freed only in `drop`.
pub struct ProtectionDomain<H: Context> {
    ptr: NonNull<raw::ib_pd>,
    /// A region in it could not be deregistered: whoever has its key may use it as long as the domain lives.
    unclean: Atomic<bool>,
    /// How many buffers were made in it.
    buffers: Atomic<u32>,
    id: Arc<Id<H>>, // Dropped after `ptr` is freed: it keeps the device.
}

// SAFETY: Verbs may be called from any task.
unsafe impl<H: Context> Send for ProtectionDomain<H> {}
// SAFETY: `&ProtectionDomain` gives access to numbers and pointers that never change.
unsafe impl<H: Context> Sync for ProtectionDomain<H> {}

impl<H: Context> ProtectionDomain<H> {
    /// Makes one on the device that `id` is bound to. Sleeps.
    pub fn new(id: Arc<Id<H>>) -> Result<Arc<Self>> {
        let device = id.device()?;
        // SAFETY: `id` is bound to `device` and so keeps it.
        let ptr = from_err_ptr(unsafe { raw::ib_alloc_pd(device.as_ptr(), 0) })?;
        // INVARIANT: Just made.
        let pd = Self {
            ptr: NonNull::new(ptr).ok_or(ENOMEM)?,
            unclean: Atomic::new(false),
            buffers: Atomic::new(0),
            id,
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut raw::ib_pd {
        self.ptr.as_ptr()
    }

    /// Whether a connection of `id` may use it: one on its device, and no peer of an earlier connection
    /// can still reach memory here.
    pub fn serves(&self, id: &Id<H>) -> bool {
        !self.unclean.load(Relaxed)
            && id
                .device()
                .is_ok_and(|device| device.as_ptr() == self.device())
    }

    /// A region could not be deregistered. No later connection may use the domain.
    pub(crate) fn set_unclean(&self) {
        self.unclean.store(true, Relaxed);
    }

    /// A number for a new buffer. Only who reads traces tells buffers apart by it.
    pub(crate) fn number_buffer(&self) -> u32 {
        self.buffers.fetch_add(1, Relaxed).wrapping_add(1)
    }

    /// Whether it was made for the connection of `id`, and keeps that.
    pub fn is_of(&self, id: &Id<H>) -> bool {
        self.id.as_raw() == id.as_raw()
    }

    /// The context of the connection that it was made for. The end of the device is told there, and
    /// waits for the domain's.
    pub fn context(&self) -> &Arc<H> {
        self.id.context()
    }

    /// The key for local access to all memory of the machine.
    #[inline]
    pub(crate) fn local_key(&self) -> u32 {
        // SAFETY: `ptr` is live by the type invariants; the key never changes.
        unsafe { (*self.ptr.as_ptr()).local_dma_lkey }
    }

    #[inline]
    pub(crate) fn device(&self) -> *mut raw::ib_device {
        // SAFETY: As above.
        unsafe { (*self.ptr.as_ptr()).device }
    }
}

impl<H: Context> Drop for ProtectionDomain<H> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants. All that is made in the domain holds an
        // `Arc` of it, so nothing is left in it but regions that could not be deregistered: for those the
        // device refuses, and keeps the domain.
        unsafe { raw::ib_dealloc_pd(self.ptr.as_ptr()) };
    }
}
