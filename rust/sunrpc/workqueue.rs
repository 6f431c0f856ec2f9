// SPDX-License-Identifier: GPL-2.0

//! The work queues of transports: one for those of clients, one for those of the server.
//!
//! A queue is there as long as its class of transports is registered.
//!
//! C header: [`include/linux/workqueue.h`](srctree/include/linux/workqueue.h)

use crate::prelude::*;
use core::{
    ptr::null_mut,
    sync::atomic::AtomicPtr, //
};
use ext::work::Workqueue;
use kernel::{
    bindings::{
        workqueue_struct,
        wq_misc_consts_WORK_CPU_UNBOUND as WORK_CPU_UNBOUND, //
    },
    time::Jiffies, //
};

/// The queue on which transports of clients connect, and give up what they kept for the next
/// connection.
///
/// An attempt to connect waits for the peer for up to a minute. `xprtiod`, sunrpc's queue, also
/// receives for sockets, closes transports and sends; when memory is short it has one thread, and
/// whatever write-back needs of another server would wait behind the attempt. Memory may come back
/// only over the connection that is being made.
pub(crate) static CONNECT: ClassQueue = ClassQueue::new(
    c"xprtrdma",
    cbindings::wq_flags_WQ_UNBOUND | cbindings::wq_flags_WQ_MEM_RECLAIM,
);

/// The queue on which transports of the server end and are freed, and on which their timers run.
pub(crate) static SERVER: ClassQueue = ClassQueue::new(c"svcrdma", cbindings::wq_flags_WQ_UNBOUND);

/// The work queue of a class of transports, to be a `static`.
///
/// # Invariants
///
/// `queue` is null, or the queue that the [`RunningQueue`] of this one owns.
pub(crate) struct ClassQueue {
    name: &'static CStr,
    flags: c_uint,
    queue: AtomicPtr<workqueue_struct>,
}

impl ClassQueue {
    const fn new(name: &'static CStr, flags: c_uint) -> Self {
        // INVARIANT: Not running.
        Self {
            name,
            flags,
            queue: AtomicPtr::new(null_mut()),
        }
    }

    /// Creates the queue, which runs until the returned value is dropped. Fails with [`EBUSY`] if
    /// it runs already. Sleeps.
    pub(crate) fn start(&'static self) -> Result<RunningQueue> {
        let made = Workqueue::new(self.name, self.flags)?;
        // INVARIANT: Only a queue that this makes visible gets an owner.
        self.queue
            .compare_exchange(
                null_mut(),
                made.as_raw(),
                Ordering::Release,
                Ordering::Relaxed,
            )
            .map_err(|_| EBUSY)?;
        // INVARIANT: `made` is the queue of `self` from now on.
        Ok(RunningQueue {
            of: self,
            _queue: made,
        })
    }

    /// Queues `work` after `delay`. Returns false if it was queued already, or if the queue does
    /// not run or is about to end. Does not sleep.
    ///
    /// # Safety
    ///
    /// `work` was initialised, and lives until its function is called or it is disabled. The caller
    /// has a transport whose class started this queue, or has the [`RunningQueue`], or is work that
    /// runs on it.
    pub(crate) unsafe fn queue(&self, work: *mut cbindings::delayed_work, delay: Jiffies) -> bool {
        let queue = self.queue.load(Ordering::Acquire);
        // CAST: A small number.
        let cpu = WORK_CPU_UNBOUND as c_int;
        // SAFETY: The queue ends after the last transport of its class, as each keeps the module,
        // and after what runs on it has returned. The caller vouches for `work`.
        !queue.is_null() && unsafe { cbindings::queue_delayed_work_on(cpu, queue, work, delay) }
    }
}

/// Keeps a queue running as long as it lives.
///
/// # Invariants
///
/// `_queue` is the queue of `of`.
pub(crate) struct RunningQueue {
    of: &'static ClassQueue,
    _queue: Workqueue,
}

impl Drop for RunningQueue {
    /// Waits until all that was queued has run, and returned from this module. No transport is left
    /// that could queue more.
    fn drop(&mut self) {
        // INVARIANT: It has no owner any more. The drop of `_queue`, next, does the rest.
        self.of.queue.store(null_mut(), Ordering::Release);
    }
}
