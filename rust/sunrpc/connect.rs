// SPDX-License-Identifier: GPL-2.0

//! Connect and close.
//!
//! A task that finds the transport not connected takes `XPRT_LOCKED` and calls `connect`, which
//! hands the lock on to a work item. The first connect, and one after a connection that was of use,
//! is tried at once; others wait, longer each time, up to the transport's limit.

use crate::{
    errno,
    xprt::{
        jiffies,
        MIN_RECONNECT_DELAY, //
    },
    Transport,
    Xprt, //
};
use core::mem::offset_of;
use kernel::{
    bindings::{
        work_struct, //
        wq_misc_consts_WORK_CPU_UNBOUND as WORK_CPU_UNBOUND,
    },
    ffi::{
        c_int,
        c_ulong,
        c_void, //
    },
    prelude::*, //
};

impl<T: Transport> Xprt<T> {
    /// Starts the work item.
    ///
    /// # Safety
    ///
    /// `task` owns `XPRT_LOCKED`, and the transport is marked as connecting.
    pub(crate) unsafe fn start_connect(&self, task: *mut raw::rpc_task) {
        // SAFETY: The caller owns the lock.
        let locked = unsafe { raw::xprt_lock_connect(self.as_raw(), task, self.lock_cookie()) };
        if kernel::warn_on!(!locked) {
            // Without the lock nothing may happen here; somebody else may try again.
            // SAFETY: The transport is live.
            unsafe { raw::xprt_clear_connecting(self.as_raw()) };
            return;
        }
        let delay = if self.need_backoff() {
            self.back_off()
        } else {
            0
        };
        self.connect_after(delay);
        // Who wants it closed may have come a moment before there was something to expedite_connect.
        // SAFETY: A word of flags that is changed as a whole.
        let state = unsafe { (&raw const (*self.as_raw()).state).read_volatile() };
        if state & (1 << raw::XPRT_CLOSE_WAIT) != 0 {
            self.expedite_connect();
        }
    }

    fn connect_after(&self, delay: c_ulong) {
        // SAFETY: The queue is sunrpc's and outlives every transport.
        let queue = unsafe { raw::xprtiod_workqueue };
        // SAFETY: The work item is initialised, and disabled before it goes.
        unsafe {
            raw::queue_delayed_work_on(WORK_CPU_UNBOUND as c_int, queue, self.connect.get(), delay)
        };
    }

    /// If an attempt to connect waits for its time, it has come. Does not sleep.
    pub fn expedite_connect(&self) {
        // SAFETY: The work item is initialised, and disabled before it goes.
        if unsafe { raw::cancel_delayed_work(self.connect.get()) } {
            self.connect_after(0);
        }
    }

    /// How long to wait now; next time it will be longer.
    fn back_off(&self) -> c_ulong {
        // SAFETY: The transport is live.
        let delay = unsafe { raw::xprt_reconnect_delay(self.as_raw()) };
        // SAFETY: The transport is live, and `XPRT_LOCKED` ours.
        unsafe { raw::xprt_reconnect_backoff(self.as_raw(), MIN_RECONNECT_DELAY) };
        delay
    }

    /// What says that the work item, and not a task, owns `XPRT_LOCKED`.
    fn lock_cookie(&self) -> *mut c_void {
        self.as_raw().cast()
    }

    /// Connects, in the work item.
    fn run_connect(&self) {
        let result = T::connect(self, self);
        // SAFETY: The transport is live, and the work item is connecting it.
        unsafe { raw::xprt_clear_connecting(self.as_raw()) };
        let status = match result {
            Ok(()) => {
                self.set_connected();
                // Those that wait are to go on, not to fail.
                EAGAIN.to_errno()
            }
            Err(error) => {
                T::close(self, self);
                errno::of_attempt(error)
            }
        };
        // While the lock is ours: who gets it next may wait for a reply, or for another attempt to connect, and
        // this status is not about that.
        // SAFETY: The transport is live: `destroy` waits for the work item.
        unsafe { raw::xprt_wake_pending_tasks(self.as_raw(), status) };
        // SAFETY: The work item owns the lock under this cookie.
        unsafe { raw::xprt_unlock_connect(self.as_raw(), self.lock_cookie()) };
    }

    fn set_connected(&self) {
        self.next_cookie();
        // SAFETY: The transport is live.
        let stat = unsafe { &raw mut (*self.as_raw()).stat };
        // SAFETY: Only the work item writes these three, and before it sunrpc `connect_start`.
        let (count, time, start) = unsafe {
            (
                &mut (*stat).connect_count,
                &mut (*stat).connect_time,
                &(*stat).connect_start,
            )
        };
        *count = count.wrapping_add(1);
        *time = time.wrapping_add(jiffies().wrapping_sub(*start));
        // SAFETY: The transport is live.
        unsafe { raw::xprt_set_connected(self.as_raw()) };
    }

    /// Requests sent before this are to be sent again.
    fn next_cookie(&self) {
        let next = self.connect_cookie().wrapping_add(1);
        // SAFETY: `XPRT_LOCKED` is held, so nobody else writes; readers read the word as a whole.
        unsafe { (&raw mut (*self.as_raw()).connect_cookie).write_volatile(next) };
    }

    /// Closes the connection and tells sunrpc.
    ///
    /// # Safety
    ///
    /// The caller holds `XPRT_LOCKED`.
    pub(crate) unsafe fn disconnect(&self) {
        T::close(self, self);
        self.next_cookie();
        // SAFETY: The caller holds the lock.
        unsafe { self.reset_window() };
        // SAFETY: The transport is live.
        unsafe { raw::xprt_disconnect_done(self.as_raw()) };
    }
}

/// The work item's function.
///
/// # Safety
///
/// `work` is that of the `connect` of a live `Xprt<T>`.
pub(crate) unsafe extern "C" fn worker<T: Transport>(work: *mut work_struct) {
    let offset = offset_of!(Xprt<T>, connect) + offset_of!(raw::delayed_work, work);
    // SAFETY: The caller says what `work` is part of; `destroy` waits for it to finish.
    let xprt = unsafe { &*work.byte_sub(offset).cast::<Xprt<T>>() };
    // SAFETY: The transport is live.
    let swapper = unsafe { &raw const (*xprt.as_raw()).swapper.counter };
    // SAFETY: A counter that is changed as a whole.
    let is_way_to_swap = unsafe { swapper.read_volatile() } != 0;
    if is_way_to_swap {
        // It must not wait for memory that only swapping out gives.
        // SAFETY: May be called in any task.
        let flags = unsafe { raw::memalloc_noreclaim_save() };
        xprt.run_connect();
        // SAFETY: `flags` come from the call above.
        unsafe { raw::memalloc_noreclaim_restore(flags) };
    } else {
        // Nor for memory whose file system, to free it, sends RPCs over this very transport: evicting an
        // inode returns its delegation.
        // SAFETY: As above.
        let flags = unsafe { raw::memalloc_nofs_save() };
        xprt.run_connect();
        // SAFETY: As above.
        unsafe { raw::memalloc_nofs_restore(flags) };
    }
}
