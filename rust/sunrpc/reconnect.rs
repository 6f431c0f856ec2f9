// SPDX-License-Identifier: GPL-2.0

//! When to connect, and how to disconnect.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `connect`, `close`
//! and `set_connect_timeout` of `struct rpc_xprt_ops`.
//!
//! A task that finds the transport not connected takes `XPRT_LOCKED` and calls `connect`, which
//! passes the lock to a work item. The first attempt, and one after a connection that brought a reply,
//! is made at once; others are delayed, longer each time, up to the transport's limit.
//!
//! What a transport keeps of a closed connection for the next one it gives up after [`EXPIRY`].

use crate::{
    errno,
    timeouts::{
        jiffies,
        rpc_timeout,
        EXPIRY,
        MIN_RECONNECT_DELAY, //
    },
    transport::Transport,
    xprt::{
        LockedXprt,
        Xprt, //
    }, //
};
use core::{
    mem::offset_of,
    sync::atomic::Ordering, //
};
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
    /// Notes that the peer replied: the next attempt to connect is not delayed.
    #[inline]
    pub fn note_reply(&self) {
        let need_backoff = &self.parts.need_backoff;
        if need_backoff.load(Ordering::Relaxed) {
            need_backoff.store(false, Ordering::Relaxed);
            // SAFETY: `connect` reads the word when no completion can run any more, and nobody
            // else writes it meanwhile.
            unsafe { (&raw mut (*self.as_raw()).reestablish_timeout).write_volatile(0) };
        }
    }

    /// Whether the next attempt to connect has to be delayed. From now on it has to.
    fn need_backoff(&self) -> bool {
        self.parts.need_backoff.swap(true, Ordering::Relaxed)
    }

    /// Starts the work item that connects.
    ///
    /// # Safety
    ///
    /// `task` owns `XPRT_LOCKED`, and the transport is marked as connecting.
    pub(crate) unsafe fn start_connect(&self, task: *mut raw::rpc_task) {
        // SAFETY: The caller's task owns the lock.
        let locked = unsafe { raw::xprt_lock_connect(self.as_raw(), task, self.lock_cookie()) };
        if kernel::warn_on!(!locked) {
            // Without the lock this function may do nothing; another task may try again.
            // SAFETY: The transport is live.
            unsafe { raw::xprt_clear_connecting(self.as_raw()) };
            return;
        }
        let delay = if self.need_backoff() {
            self.back_off()
        } else {
            0
        };
        T::will_connect(self, self, delay);
        self.connect_after(delay);
        // A task that set the flag a moment ago may have found no work item to expedite.
        // SAFETY: The transport is live. The flags change by atomic operations only.
        let state = unsafe { (&raw const (*self.as_raw()).state).read_volatile() };
        if state & (1 << raw::XPRT_CLOSE_WAIT) != 0 {
            self.expedite_connect();
        }
    }

    fn connect_after(&self, delay: c_ulong) {
        // SAFETY: The queue is sunrpc's and outlives every transport.
        let queue = unsafe { raw::xprtiod_workqueue };
        // SAFETY: `create` initialised the work item, and `destroy` disables it before it is freed.
        unsafe {
            raw::queue_delayed_work_on(WORK_CPU_UNBOUND as c_int, queue, self.connect.get(), delay)
        };
    }

    /// Has [`Transport::expire`] called in a while.
    fn expire_later(&self) {
        // SAFETY: The queue is sunrpc's and outlives every transport.
        let queue = unsafe { raw::xprtiod_workqueue };
        // SAFETY: `create` initialised the work item, and `destroy` disables it before it is freed.
        unsafe {
            raw::queue_delayed_work_on(WORK_CPU_UNBOUND as c_int, queue, self.expiry.get(), EXPIRY)
        };
    }

    /// Whether there is swap on a file over this transport.
    pub fn carries_swap(&self) -> bool {
        // SAFETY: The transport is live.
        let swapper = unsafe { &raw const (*self.as_raw()).swapper.counter };
        // SAFETY: The counter changes by atomic operations only.
        unsafe { swapper.read_volatile() != 0 }
    }

    /// Makes an attempt to connect that is delayed begin now. Does not sleep.
    pub fn expedite_connect(&self) {
        // SAFETY: `create` initialised the work item, and `destroy` disables it before it is freed.
        if unsafe { raw::cancel_delayed_work(self.connect.get()) } {
            self.connect_after(0);
        }
    }

    /// The delay of this attempt. The next one will have a longer delay.
    fn back_off(&self) -> c_ulong {
        // SAFETY: The transport is live.
        let delay = unsafe { raw::xprt_reconnect_delay(self.as_raw()) };
        // SAFETY: The transport is live, and the work item owns `XPRT_LOCKED`.
        unsafe { raw::xprt_reconnect_backoff(self.as_raw(), MIN_RECONNECT_DELAY) };
        delay
    }

    /// The value that marks the work item, and not a task, as the owner of `XPRT_LOCKED`.
    fn lock_cookie(&self) -> *mut c_void {
        self.as_raw().cast()
    }

    /// Lowers the time-outs to these.
    pub(crate) fn set_connect_timeout(&self, connect: c_ulong, reconnect: c_ulong) {
        let _guard = self.transport_lock();
        // SAFETY: The lock guards them.
        let (timeout_ptr, connect_timeout, max_reconnect_timeout) = unsafe {
            (
                &mut (*self.as_raw()).timeout,
                &mut (*self.as_raw()).connect_timeout,
                &mut (*self.as_raw()).max_reconnect_timeout,
            )
        };
        if connect < *connect_timeout {
            let lower = rpc_timeout(connect.max(2 * MIN_RECONNECT_DELAY));
            // SAFETY: The lock excludes other writers. A reader may see some of the fields
            // before and some after, either of which is sound.
            unsafe { self.timeout.get().write_volatile(lower) };
            *timeout_ptr = self.timeout.get();
            *connect_timeout = connect;
        }
        *max_reconnect_timeout = reconnect.min(*max_reconnect_timeout);
    }
}

impl<T: Transport> LockedXprt<'_, T> {
    /// Connects, in the work item.
    fn connect_now(&self) {
        let result = T::connect(self, self);
        // SAFETY: The transport is live, and the work item is the one that connects it.
        unsafe { raw::xprt_clear_connecting(self.as_raw()) };
        let status = match result {
            Ok(()) => {
                self.set_connected();
                // The tasks that wait are to go on, not to fail.
                EAGAIN.to_errno()
            }
            Err(error) => {
                T::close(self, self);
                self.expire_later();
                errno::of_connect_error(error)
            }
        };
        // This comes before the lock is released: the next owner's task may wait for a reply, or for another
        // attempt to connect, and this status is not about that.
        // SAFETY: The transport is live: `destroy` waits for the work item.
        unsafe { raw::xprt_wake_pending_tasks(self.as_raw(), status) };
    }

    fn set_connected(&self) {
        self.next_cookie();
        // SAFETY: The transport is live.
        let stat = unsafe { &raw mut (*self.as_raw()).stat };
        // SAFETY: Only the work item writes the first two; sunrpc wrote `connect_start` before it called
        // `connect`.
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

    /// Changes the cookie, so that requests which were sent before are sent again.
    fn next_cookie(&self) {
        let next = self.connect_cookie().wrapping_add(1);
        // SAFETY: `XPRT_LOCKED` excludes other writers; readers read the word as a whole.
        unsafe { (&raw mut (*self.as_raw()).connect_cookie).write_volatile(next) };
    }

    /// Closes the connection and tells sunrpc. May sleep.
    pub(crate) fn disconnect(&self) {
        T::close(self, self);
        self.expire_later();
        self.next_cookie();
        self.reset_window();
        // SAFETY: The transport is live.
        unsafe { raw::xprt_disconnect_done(self.as_raw()) };
    }
}

/// Connects `xprt`, to whose work item [`Xprt::start_connect`] passed `XPRT_LOCKED`, and releases the lock.
fn connect_and_unlock<T: Transport>(xprt: &Xprt<T>) {
    // SAFETY: The work item owns the lock until the call below.
    unsafe { xprt.assume_locked() }.connect_now();
    // SAFETY: The work item owns the lock under this cookie.
    unsafe { raw::xprt_unlock_connect(xprt.as_raw(), xprt.lock_cookie()) };
}

/// The work item's function.
///
/// # Safety
///
/// `work` is that of the `connect` of a live `Xprt<T>`, and [`Xprt::start_connect`] started it.
pub(crate) unsafe extern "C" fn worker<T: Transport>(work: *mut work_struct) {
    let offset = offset_of!(Xprt<T>, connect) + offset_of!(raw::delayed_work, work);
    // SAFETY: The caller says which structure contains `work`; `destroy` waits until this function has returned.
    let xprt = unsafe { &*work.byte_sub(offset).cast::<Xprt<T>>() };
    if xprt.carries_swap() {
        // The work item must not wait for memory that only swapping out frees.
        // SAFETY: Any task may call this.
        let flags = unsafe { raw::memalloc_noreclaim_save() };
        connect_and_unlock(xprt);
        // SAFETY: `flags` come from the call above.
        unsafe { raw::memalloc_noreclaim_restore(flags) };
    } else {
        // Nor must it wait for memory whose file system, to free it, sends RPCs over this very transport:
        // evicting an inode returns its delegation.
        // SAFETY: As above.
        let flags = unsafe { raw::memalloc_nofs_save() };
        connect_and_unlock(xprt);
        // SAFETY: As above.
        unsafe { raw::memalloc_nofs_restore(flags) };
    }
}

/// The function of the work item [`Xprt::expire_later`].
///
/// # Safety
///
/// `work` is that of the `expiry` of a live `Xprt<T>`.
pub(crate) unsafe extern "C" fn expire<T: Transport>(work: *mut work_struct) {
    let offset = offset_of!(Xprt<T>, expiry) + offset_of!(raw::delayed_work, work);
    // SAFETY: The caller says which structure contains `work`; `destroy` waits until this function has returned.
    let xprt = unsafe { &*work.byte_sub(offset).cast::<Xprt<T>>() };
    // There may be no memory for the next connection before something is swapped out over it.
    if !xprt.carries_swap() {
        T::expire(xprt);
    }
}
