// SPDX-License-Identifier: GPL-2.0

//! Connecting, with the delay between attempts, disconnecting, and growth: the work items of a
//! transport.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `connect`,
//! `close` and `set_connect_timeout` of `struct rpc_xprt_ops`.
//!
//! A task that finds the transport not connected takes `XPRT_LOCKED` and calls `connect`, which
//! passes the lock to a work item. After a connection that brought a reply two attempts are made at
//! once: the peer may not have noticed yet that the connection has ended. Those that follow begin
//! at least [`timeouts::ATTEMPT_INTERVAL`] after the one before, which is as long as sunrpc itself
//! waits after most errors. The interval does not grow: however long the peer was away, a call that
//! waits goes on a few seconds after it is back.
//!
//! A transport frees the resources of a closed connection after [`timeouts::EXPIRY`], unless
//! another connection reuses them.
//!
//! A work item on a queue of the system, not on one of sunrpc, allocates resources for more calls
//! in parallel: what frees memory may wait for sunrpc's queues, but only the end of its transport
//! waits for this item. It does not wait for input or output, which may go over this very
//! transport.

use crate::prelude::*;
use crate::{
    clnt::{
        timeouts,
        xprt::LockedXprt, //
    },
    task,
    workqueue::CONNECT, //
};
use ext::alloc_scope::{
    NoFs,
    NoIo,
    NoReclaim, //
};
use kernel::{
    bindings::{
        work_struct,
        wq_misc_consts_WORK_CPU_UNBOUND as WORK_CPU_UNBOUND, //
    },
    time::Jiffies, //
};

/// The number of attempts to connect that are not delayed.
const IMMEDIATE_ATTEMPTS: u32 = 2;

impl<T: Transport> Xprt<T> {
    /// Records a reply of the peer: the next attempts to connect are not delayed.
    #[inline]
    pub fn reply_received(&self) {
        let attempts = &self.parts.attempts;
        if attempts.load(Ordering::Relaxed) != 0 {
            attempts.store(0, Ordering::Relaxed);
        }
    }

    /// Counts an attempt to connect, and returns its delay in jiffies.
    fn attempt_delay(&self) -> c_ulong {
        let attempts = &self.parts.attempts;
        // Only a connect counts up, and nobody replies meanwhile.
        let before = attempts.load(Ordering::Relaxed);
        attempts.store(before.saturating_add(1), Ordering::Relaxed);
        if before < IMMEDIATE_ATTEMPTS {
            return 0;
        }
        let last = self.parts.last_attempt.load(Ordering::Relaxed) as c_ulong;
        timeouts::ATTEMPT_INTERVAL.saturating_sub(timeouts::jiffies().wrapping_sub(last))
    }

    /// Starts the work item that connects.
    ///
    /// # Safety
    ///
    /// `task` owns `XPRT_LOCKED`, and the transport is marked as connecting.
    pub(crate) unsafe fn start_connect(&self, task: *mut cbindings::rpc_task) {
        // SAFETY: The caller's task owns the lock.
        let locked =
            unsafe { cbindings::xprt_lock_connect(self.as_raw(), task, self.lock_cookie()) };
        if kernel::warn_on!(!locked) {
            // Without the lock this function may do nothing; another task may try again.
            // SAFETY: The transport is live.
            unsafe { cbindings::xprt_clear_connecting(self.as_raw()) };
            return;
        }
        let delay = self.attempt_delay();
        T::connect_scheduled(self, self, delay);
        self.connect_after(delay);
        // A task that set the flag a moment ago may have found no work item to expedite.
        // SAFETY: The transport is live. The flags change by atomic operations only.
        let state = unsafe { (&raw const (*self.as_raw()).state).read_volatile() };
        if state & (1 << cbindings::XPRT_CLOSE_WAIT) != 0 {
            self.expedite_connect();
        }
    }

    fn connect_after(&self, delay: c_ulong) {
        // SAFETY: `create` initialised the work item, and `destroy` disables it before it is freed.
        // This is a transport.
        unsafe { CONNECT.queue(self.connect.get(), delay) };
    }

    /// Schedules a call of [`Transport::expire`].
    fn expire_later(&self) {
        // SAFETY: `create` initialised the `expiry`, and `destroy` disables it before it is freed.
        // This is a transport.
        unsafe { CONNECT.queue(self.expiry.get(), timeouts::EXPIRY) };
    }

    /// Returns whether there is swap on a file over this transport.
    pub fn carries_swap(&self) -> bool {
        // SAFETY: The transport is live.
        let swapper = unsafe { &raw const (*self.as_raw()).swapper.counter };
        // SAFETY: The counter changes by atomic operations only.
        unsafe { swapper.read_volatile() != 0 }
    }

    /// Starts an attempt to connect that is delayed now. Does not sleep.
    pub fn expedite_connect(&self) {
        // SAFETY: `create` initialised the work item, and `destroy` disables it before it is freed.
        if unsafe { cbindings::cancel_delayed_work(self.connect.get()) } {
            self.connect_after(0);
        }
    }

    /// Returns the value that marks the work item, and not a task, as the owner of `XPRT_LOCKED`.
    fn lock_cookie(&self) -> *mut c_void {
        self.as_raw().cast()
    }

    /// Lowers the time-outs to these.
    pub(crate) fn set_connect_timeout(&self, connect: c_ulong, reconnect: c_ulong) {
        let _guard = self.transport_lock();
        let xprt = self.as_raw();
        // SAFETY: The transport is live.
        let (timeout, connect_timeout, max_reconnect_timeout) = unsafe {
            (
                &raw mut (*xprt).timeout,
                &raw mut (*xprt).connect_timeout,
                &raw mut (*xprt).max_reconnect_timeout,
            )
        };
        // SAFETY: Only this function writes the two after `create`, with the lock held.
        let (before, max_reconnect) = unsafe { (*connect_timeout, *max_reconnect_timeout) };
        if connect < before {
            let lower = timeouts::rpc_timeout(connect.max(timeouts::MIN_CONNECT_TIMEOUT));
            // SAFETY: The lock excludes other writers. A reader may see some of the fields
            // before and some after, either of which is sound.
            unsafe { self.timeout.get().write_volatile(lower) };
            // Others read the words without the lock.
            // SAFETY: The transport is live, and the lock excludes other writers.
            unsafe { timeout.write_volatile(self.timeout.get()) };
            // SAFETY: The transport is live, and the lock excludes other writers.
            unsafe { connect_timeout.write_volatile(connect) };
        }
        // SAFETY: The transport is live, and the lock excludes other writers.
        unsafe { max_reconnect_timeout.write_volatile(reconnect.min(max_reconnect)) };
    }
}

impl<T: Transport> LockedXprt<'_, T> {
    /// Connects, in the work item.
    fn connect_now(&self) {
        let last_attempt = &self.parts.last_attempt;
        last_attempt.store(timeouts::jiffies() as usize, Ordering::Relaxed);
        let result = T::connect(self, self);
        // SAFETY: The transport is live, and the work item is the one that connects it.
        unsafe { cbindings::xprt_clear_connecting(self.as_raw()) };
        let status = match result {
            Ok(()) => {
                self.set_connected();
                // The tasks that wait are to go on, not to fail.
                EAGAIN.to_errno()
            }
            Err(error) => {
                T::close(self, self);
                self.expire_later();
                task::connect_status(error)
            }
        };
        // This comes before the lock is released: the next owner's task may wait for a reply, or
        // for another attempt to connect, and this status is not about that.
        // SAFETY: The transport is live: `destroy` waits for the work item.
        unsafe { cbindings::xprt_wake_pending_tasks(self.as_raw(), status) };
    }

    fn set_connected(&self) {
        self.next_cookie();
        // SAFETY: The transport is live.
        let stat = unsafe { &raw mut (*self.as_raw()).stat };
        // SAFETY: The transport is live.
        let (count, time, start) = unsafe {
            (
                &raw mut (*stat).connect_count,
                &raw mut (*stat).connect_time,
                &raw const (*stat).connect_start,
            )
        };
        // SAFETY: The transport is live. The owner of `XPRT_LOCKED` alone writes the word, and
        // `self` says that this is the owner.
        let took = timeouts::jiffies().wrapping_sub(unsafe { start.read_volatile() });
        // Whoever reads mountstats reads the two at any time, each as a whole.
        // SAFETY: The transport is live, and only the owner of `XPRT_LOCKED`, which this is, writes
        // the word.
        unsafe { count.write_volatile(count.read_volatile().wrapping_add(1)) };
        // SAFETY: The transport is live, and only the owner of `XPRT_LOCKED`, which this is, writes
        // the word.
        unsafe { time.write_volatile(time.read_volatile().wrapping_add(took)) };
        // SAFETY: The transport is live.
        unsafe { cbindings::xprt_set_connected(self.as_raw()) };
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
        self.reset_window(|| self.next_cookie());
        // SAFETY: The transport is live.
        unsafe { cbindings::xprt_disconnect_done(self.as_raw()) };
    }
}

/// Connects `xprt`, to whose work item [`Xprt::start_connect`] passed `XPRT_LOCKED`, and releases
/// the lock.
fn connect_and_unlock<T: Transport>(xprt: &Xprt<T>) {
    // SAFETY: The work item owns the lock until the call below.
    unsafe { xprt.assume_locked() }.connect_now();
    // SAFETY: The work item owns the lock under this cookie.
    unsafe { cbindings::xprt_unlock_connect(xprt.as_raw(), xprt.lock_cookie()) };
}

/// Runs as the work item that connects.
///
/// # Safety
///
/// `work` is that of the `connect` of a live `Xprt<T>`, and [`Xprt::start_connect`] started it.
pub(crate) unsafe extern "C" fn connect_worker<T: Transport>(work: *mut work_struct) {
    let offset = offset_of!(Xprt<T>, connect) + offset_of!(cbindings::delayed_work, work);
    // SAFETY: The caller says which structure contains `work`; `destroy` waits until this function
    // has returned.
    let xprt = unsafe { &*work.byte_sub(offset).cast::<Xprt<T>>() };
    if xprt.carries_swap() {
        // The work item must not wait for memory that only swapping out frees.
        let _scope = NoReclaim::new();
        connect_and_unlock(xprt);
    } else {
        // Nor must it wait for memory whose file system, to free it, sends RPCs over this very
        // transport: evicting an inode returns its delegation.
        let _scope = NoFs::new();
        connect_and_unlock(xprt);
    }
}

/// Runs as the work item of [`Xprt::expire_later`].
///
/// # Safety
///
/// `work` is that of the `expiry` of a live `Xprt<T>`.
pub(crate) unsafe extern "C" fn expire_worker<T: Transport>(work: *mut work_struct) {
    let offset = offset_of!(Xprt<T>, expiry) + offset_of!(cbindings::delayed_work, work);
    // SAFETY: The caller says which structure contains `work`; `destroy` waits until this function
    // has returned.
    let xprt = unsafe { &*work.byte_sub(offset).cast::<Xprt<T>>() };
    // There may be no memory for the next connection before something is swapped out over it.
    if xprt.carries_swap() {
        xprt.expire_later();
    } else {
        T::expire(xprt);
    }
}

impl<T: Transport> Xprt<T> {
    /// Schedules a call of [`Transport::grow`]. Does not sleep.
    pub fn schedule_growth(&self) {
        self.schedule_growth_after(0);
    }

    /// Schedules a call of [`Transport::grow`] after `delay`, unless one is scheduled already. Does
    /// not sleep.
    pub fn schedule_growth_after(&self, delay: Jiffies) {
        // SAFETY: The queue is the system's and is always there.
        let queue = unsafe { kernel::bindings::system_long_wq };
        // SAFETY: `create` initialised the work item, and `destroy` disables it before it is freed.
        unsafe {
            cbindings::queue_delayed_work_on(
                WORK_CPU_UNBOUND as c_int,
                queue,
                self.growth.get(),
                delay,
            )
        };
    }
}

/// Runs as the work item of [`Xprt::schedule_growth`].
///
/// # Safety
///
/// `work` is that of the `growth` of a live `Xprt<T>`.
pub(crate) unsafe extern "C" fn grow_worker<T: Transport>(work: *mut work_struct) {
    let offset = offset_of!(Xprt<T>, growth) + offset_of!(cbindings::delayed_work, work);
    // SAFETY: The caller says which structure contains `work`; `destroy` waits until this function
    // has returned.
    let xprt = unsafe { &*work.byte_sub(offset).cast::<Xprt<T>>() };
    // What a device's driver allocates, too, must not wait for what goes over the transport.
    let _scope = NoIo::new();
    T::grow(xprt, xprt, task::gfp_flags());
}
