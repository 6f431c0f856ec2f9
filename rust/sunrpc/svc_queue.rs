// SPDX-License-Identifier: GPL-2.0

//! The work queue of server transports.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use core::{
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    }, //
};
use kernel::{
    bindings::{
        workqueue_struct,
        wq_misc_consts_WORK_CPU_UNBOUND as WORK_CPU_UNBOUND, //
    },
    ffi::c_int,
    prelude::*,
    time::Jiffies, //
};

/// The queue of [`WorkQueue`], while there is one.
static QUEUE: AtomicPtr<workqueue_struct> = AtomicPtr::new(null_mut());

/// The work queue that frees transports. Of several that live at the same time the last one serves.
///
/// # Invariants
///
/// The queue exists, until this is dropped.
pub(crate) struct WorkQueue(NonNull<workqueue_struct>);

// SAFETY: Any task may destroy the queue.
unsafe impl Send for WorkQueue {}
// SAFETY: `&WorkQueue` gives access to nothing.
unsafe impl Sync for WorkQueue {}

impl WorkQueue {
    /// Makes the queue. Sleeps.
    pub(crate) fn new() -> Result<Self> {
        let name = c"svcrdma".to_bytes_with_nul().as_ptr().cast();
        // SAFETY: The name is a string.
        let queue = unsafe { raw::alloc_workqueue(name, raw::wq_flags_WQ_UNBOUND) };
        let queue = NonNull::new(queue).ok_or(ENOMEM)?;
        QUEUE.store(queue.as_ptr(), Ordering::Release);
        // INVARIANT: Just made.
        Ok(Self(queue))
    }
}

impl Drop for WorkQueue {
    /// Waits until all that was queued has run, and returned from this module. No transport is left that could queue more.
    fn drop(&mut self) {
        QUEUE.store(null_mut(), Ordering::Release);
        // SAFETY: The queue exists by the type invariants.
        unsafe { raw::destroy_workqueue(self.0.as_ptr()) };
    }
}

/// Queues `work` after `delay`. Returns false if it was queued already, or if there is no queue.
///
/// # Safety
///
/// `work` was initialised, and lives until its function is called.
pub(crate) unsafe fn queue(work: *mut raw::delayed_work, delay: Jiffies) -> bool {
    let queue = QUEUE.load(Ordering::Acquire);
    // CAST: A small number.
    let cpu = WORK_CPU_UNBOUND as c_int;
    // SAFETY: As the class is registered, its queue exists: a transport keeps the module. The caller vouches for `work`.
    !queue.is_null() && unsafe { raw::queue_delayed_work_on(cpu, queue, work, delay) }
}
