// SPDX-License-Identifier: GPL-2.0

//! Completion queues.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Completions are polled in a worker of the core (`IB_POLL_WORKQUEUE`), because
//! what follows a reply takes locks of sunrpc that are not safe in interrupts.

use crate::{
    cm::Id,
    Handler, //
};
use core::ptr::NonNull;
use kernel::{
    error::{
        code::ENOMEM,
        from_err_ptr,
        Result, //
    },
    prelude::*,
    str::CStrExt,
    sync::Arc, //
};

/// A completion queue of one connection.
///
/// # Invariants
///
/// `ptr` came from `ib_alloc_cq_any` with the context of `id` as its context, and is freed only
/// in `drop`.
pub(crate) struct CompletionQueue<H: Handler> {
    ptr: NonNull<raw::ib_cq>,
    _id: Arc<Id<H>>, // Dropped after `ptr` is freed: it keeps the device and the context.
}

// SAFETY: The queue is only created, named in other calls, and freed.
unsafe impl<H: Handler> Send for CompletionQueue<H> {}
// SAFETY: As above.
unsafe impl<H: Handler> Sync for CompletionQueue<H> {}

impl<H: Handler> CompletionQueue<H> {
    /// Makes one with room for `entries`. Sleeps.
    pub(crate) fn new(id: Arc<Id<H>>, entries: u32) -> Result<Self> {
        let device = id.device()?;
        // SAFETY: `id` is bound to `device` and so keeps it; the context lives as long as `id`.
        let ptr = from_err_ptr(unsafe {
            raw::ib_alloc_cq_any(
                device.as_ptr(),
                Arc::as_ptr(id.context()).cast_mut().cast(),
                i32::try_from(entries)?,
                raw::ib_poll_context_IB_POLL_WORKQUEUE,
            )
        })?;
        // INVARIANT: Just made so.
        Ok(Self {
            ptr: NonNull::new(ptr).ok_or(ENOMEM)?,
            _id: id,
        })
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut raw::ib_cq {
        self.ptr.as_ptr()
    }
}

impl<H: Handler> Drop for CompletionQueue<H> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants. The queue pair that used it is destroyed
        // first: in its `drop`, before its fields go.
        unsafe { raw::ib_free_cq(self.ptr.as_ptr()) };
    }
}

/// How a work request ended that did not succeed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WcStatus(raw::ib_wc_status);

impl WcStatus {
    /// That of a request which was not even posted, as the queue pair is at its end.
    pub(crate) const FLUSHED: Self = Self(raw::ib_wc_status_IB_WC_WR_FLUSH_ERR);

    /// [`None`] if `status` says that the request succeeded.
    pub(crate) fn of(status: raw::ib_wc_status) -> Option<Self> {
        (status != raw::ib_wc_status_IB_WC_SUCCESS).then_some(Self(status))
    }

    /// Whether it only shares the fate of its queue pair. The request that sealed it says more.
    pub fn is_flush(self) -> bool {
        self.0 == raw::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// Whether the peer does not let us at memory of its own.
    pub fn is_denial(self) -> bool {
        self.0 == raw::ib_wc_status_IB_WC_REM_ACCESS_ERR
    }

    /// The kernel's words for it.
    pub fn reason(self) -> &'static CStr {
        // SAFETY: The function takes any number and returns a string that is never freed.
        unsafe { CStr::from_char_ptr(raw::ib_wc_status_msg(self.0)) }
    }
}

/// What a completion callback was called for: the context of its queue, and the completion.
///
/// # Safety
///
/// The core called it with these arguments for a [`CompletionQueue<H>`], and both references are gone
/// when it returns.
pub(crate) unsafe fn called_for<'a, H: Handler>(
    cq: *mut raw::ib_cq,
    wc: *mut raw::ib_wc,
) -> (&'a H, &'a raw::ib_wc) {
    // SAFETY: By the invariants of `CompletionQueue`, whose drop waits for callbacks; the completion is
    // valid during the call.
    unsafe { (&*(*cq).cq_context.cast::<H>(), &*wc) }
}
