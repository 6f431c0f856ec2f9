// SPDX-License-Identifier: GPL-2.0

//! Protection domains.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    cm::Id,
    mr::Limbo,
    Handler, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        code::ENOMEM,
        from_err_ptr,
        Result, //
    },
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
    types::ScopeGuard, //
};

/// A protection domain: what regions and buffers of one connection belong to.
///
/// # Invariants
///
/// `ptr` came from `ib_alloc_pd` on the device of `id` and is freed only in `drop`.
#[pin_data(PinnedDrop)]
pub struct ProtectionDomain<H: Handler> {
    ptr: NonNull<raw::ib_pd>,
    #[pin]
    limbo: SpinLock<Limbo<H>>,
    id: Arc<Id<H>>, // Dropped after `ptr` is freed: it keeps the device.
}

// SAFETY: Verbs may be called from any task.
unsafe impl<H: Handler> Send for ProtectionDomain<H> {}
// SAFETY: `&ProtectionDomain` gives access to numbers and pointers that never change.
unsafe impl<H: Handler> Sync for ProtectionDomain<H> {}

impl<H: Handler> ProtectionDomain<H> {
    /// Makes one on the device that `id` is bound to. Sleeps.
    pub fn new(id: Arc<Id<H>>) -> Result<Arc<Self>> {
        let device = id.device()?;
        // SAFETY: `id` is bound to `device` and so keeps it.
        let ptr = from_err_ptr(unsafe { raw::ib_alloc_pd(device.as_ptr(), 0) })?;
        let ptr = NonNull::new(ptr).ok_or(ENOMEM)?;
        let free_on_error = ScopeGuard::new(|| {
            // SAFETY: Just made, and nobody else knows of it.
            unsafe { raw::ib_dealloc_pd(ptr.as_ptr()) };
        });
        let pd = Arc::pin_init(
            // INVARIANT: Just made.
            pin_init!(Self {
                ptr,
                limbo <- new_spinlock!(Limbo::new(), "rdma::limbo"),
                id,
            }),
            GFP_KERNEL,
        )?;
        free_on_error.dismiss();
        Ok(pd)
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut raw::ib_pd {
        self.ptr.as_ptr()
    }

    pub(crate) fn limbo(&self) -> &SpinLock<Limbo<H>> {
        &self.limbo
    }

    #[inline]
    pub(crate) fn id(&self) -> &Arc<Id<H>> {
        &self.id
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

#[pinned_drop]
impl<H: Handler> PinnedDrop for ProtectionDomain<H> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: `ptr` is live by the type invariants. All that is made in the domain holds an
        // `Arc` of it, so nothing is left in it.
        unsafe { raw::ib_dealloc_pd(self.ptr.as_ptr()) };
    }
}
