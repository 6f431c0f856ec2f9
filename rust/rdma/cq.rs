// SPDX-License-Identifier: GPL-2.0

//! Completion queues, and the status of completions.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Completions are polled in a worker of the core (`IB_POLL_WORKQUEUE`), because the completion of
//! an RPC takes locks of sunrpc that are not safe in interrupts.

use crate::prelude::*;

/// The completion queue of a connection.
///
/// # Invariants
///
/// `ptr` came from `ib_alloc_cq_any` with the context of `id` as its context, and is freed only
/// in `drop`.
///
/// Its callbacks run one at a time, each after what the one before did: in one work item
/// (`IB_POLL_WORKQUEUE`), and nobody polls it directly. [`Completing`](crate::Completing)
/// is built on that.
pub(crate) struct CompletionQueue<H: Context> {
    ptr: NonNull<cbindings::ib_cq>,
    _id: Arc<Id<H>>, // Dropped after `ptr` is freed: it keeps the device and the context.
}

// SAFETY: A queue is created, referred to in other calls, and freed, all of which any task may do.
unsafe impl<H: Context> Send for CompletionQueue<H> {}
// SAFETY: `&CompletionQueue` gives only the pointer and a number that never changes.
unsafe impl<H: Context> Sync for CompletionQueue<H> {}

impl<H: Context> CompletionQueue<H> {
    /// Creates a completion queue with room for `entries`. Sleeps.
    pub(crate) fn new(id: Arc<Id<H>>, entries: u32) -> Result<Self> {
        let device = id.device()?;
        // SAFETY: `id` is bound to `device` and so keeps it; the context lives as long as `id`,
        // which the value made below drops after the queue.
        let ptr = from_err_ptr(unsafe {
            cbindings::ib_alloc_cq_any(
                device.as_ptr(),
                Arc::as_ptr(id.context()).cast_mut().cast(),
                i32::try_from(entries)?,
                cbindings::ib_poll_context_IB_POLL_WORKQUEUE,
            )
        })?;
        // INVARIANT: The queue was just created with that context.
        Ok(Self {
            ptr: NonNull::new(ptr).ok_or(ENOMEM)?,
            _id: id,
        })
    }

    /// Returns the number of the queue at its device.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: `ptr` is live by the type invariants, and the number was set when the queue was
        // created.
        unsafe { (*self.ptr.as_ptr()).res.id }
    }

    /// Returns the trace identifier of buffer `number` of a protection domain, whose request
    /// completes here.
    pub(crate) fn completion_id(&self, number: u32) -> CompletionId {
        CompletionId {
            queue: self.number(),
            // CAST: Only its bits count.
            completion: number as c_int,
        }
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut cbindings::ib_cq {
        self.ptr.as_ptr()
    }
}

impl<H: Context> Drop for CompletionQueue<H> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants. The queue pair that uses it owns this
        // value, and is destroyed in its `drop` before its fields are dropped.
        unsafe { cbindings::ib_free_cq(self.ptr.as_ptr()) };
    }
}

/// Returns the arguments of a completion callback: the context of its queue, and the completion.
///
/// # Safety
///
/// The core called the callback with these arguments for a [`CompletionQueue<H>`], and both
/// references are gone when it returns.
pub(crate) unsafe fn callback_args<'a, H: Context>(
    cq: *mut cbindings::ib_cq,
    wc: *mut cbindings::ib_wc,
) -> (&'a H, &'a cbindings::ib_wc) {
    // SAFETY: By the invariants of `CompletionQueue` the context of its queue is an `H`, which
    // lives longer, and freeing the queue waits for callbacks. The caller promises that the core
    // passed `wc`, which is valid during the callback.
    unsafe { (&*(*cq).cq_context.cast::<H>(), &*wc) }
}

/// The status of a work request that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WcStatus {
    status: cbindings::ib_wc_status,
    vendor_err: u32,
}

impl WcStatus {
    /// Returns the status of `wc`. [`None`] if the request succeeded.
    pub(crate) fn of(wc: &cbindings::ib_wc) -> Option<Self> {
        (wc.status != cbindings::ib_wc_status_IB_WC_SUCCESS).then_some(Self {
            status: wc.status,
            vendor_err: wc.vendor_err,
        })
    }

    /// Returns the number of the status.
    pub fn number(self) -> u32 {
        self.status
    }

    /// Returns the vendor's own error code.
    pub fn vendor_err(self) -> u32 {
        self.vendor_err
    }

    /// Returns whether the request was flushed because the queue pair is in the error state. The
    /// request that caused that has a more specific status.
    pub fn is_flush(self) -> bool {
        self.status == cbindings::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// Returns whether the peer denied access to its memory.
    pub fn is_denial(self) -> bool {
        self.status == cbindings::ib_wc_status_IB_WC_REM_ACCESS_ERR
    }

    /// Returns the kernel's text for the status.
    pub fn reason(self) -> &'static CStr {
        // SAFETY: The function takes any number and returns a static string that ends with a NUL.
        unsafe { CStr::from_char_ptr(cbindings::ib_wc_status_msg(self.status)) }
    }
}
