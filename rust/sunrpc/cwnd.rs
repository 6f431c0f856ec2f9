// SPDX-License-Identifier: GPL-2.0

//! The congestion window, which sunrpc uses for the credits that the peer granted.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h); RFC 8166,
//! section 3.3.1.
//!
//! `cwnd` is the number of requests that may be outstanding, `cong` the number of those that are,
//! and `rq_cong` says whether a request is one of them. `transport_lock` guards all three.

use crate::{
    rqst::{
        HasSlot,
        Rqst, //
    },
    xprt::{
        LockedXprt,
        Xprt, //
    }, //
};
use kernel::ffi::c_ulong;

/// Returns the value of `cwnd` that allows `credits` requests.
fn window(credits: u32) -> c_ulong {
    (credits.max(1) as c_ulong) << raw::RPC_CWNDSHIFT
}

impl<T: HasSlot> Xprt<T> {
    /// Sets the congestion window to the `credits` that the peer granted. To be called before the
    /// reply that brought the grant is completed, as that wakes the senders that wait for a credit.
    /// Takes `transport_lock`.
    ///
    /// If that is a change, `present` says how many they are by now: [`Self::open_window`] may have
    /// been called since. It runs with `transport_lock` held, and must not sleep.
    pub fn set_window(&self, credits: u32, present: impl FnOnce() -> u32) {
        if self.cwnd() == window(credits) {
            return;
        }
        let _guard = self.transport_lock();
        let window = window(present());
        // SAFETY: The transport is live, and the lock guards the window.
        unsafe { (&raw mut (*self.as_raw()).cwnd).write_volatile(window) };
    }

    /// Lets `f` set the congestion window, by calling its argument with the number of credits, and
    /// wakes a sender that waits for one. Does nothing if `connect_cookie` is not that of the
    /// present connection.
    ///
    /// `f` runs with `transport_lock` held. Does not sleep.
    pub fn open_window(&self, connect_cookie: u32, f: impl FnOnce(&dyn Fn(u32))) {
        let _guard = self.transport_lock();
        // If the connection ends from here on, that resets the window, and waits for the lock.
        if self.connect_cookie() != connect_cookie {
            return;
        }
        f(&|credits| {
            // SAFETY: The transport is live, and the guard holds the lock of the window.
            unsafe { (&raw mut (*self.as_raw()).cwnd).write_volatile(window(credits)) };
        });
        // sunrpc wakes a sender when a credit is returned, so one is taken for that.
        // SAFETY: The transport is live.
        let cong = unsafe { &raw mut (*self.as_raw()).cong };
        // SAFETY: The transport is live, and the guard holds the lock of the counter.
        unsafe { cong.write_volatile(cong.read_volatile().wrapping_add(window(1))) };
        // SAFETY: The guard holds `transport_lock`, and no request has the credit that was just
        // counted.
        unsafe { self.return_credit() };
    }

    /// Returns a credit, and makes sunrpc wake a sender that waits for one. Does not sleep.
    ///
    /// # Safety
    ///
    /// The caller holds `transport_lock`. `cong` counts a credit that no request has.
    pub(crate) unsafe fn return_credit(&self) {
        // sunrpc takes credits back from requests only. This request serves nothing else.
        let mut rqst = raw::rpc_rqst {
            rq_cong: 1,
            rq_xprt: self.as_raw(),
            ..Default::default()
        };
        let mut task = raw::rpc_task {
            tk_rqstp: &raw mut rqst,
            ..Default::default()
        };
        // SAFETY: The caller holds the lock that this function wants. It reads only the fields of
        // task and request that are set here.
        unsafe { raw::xprt_release_rqst_cong(&raw mut task) };
    }

    /// Returns the number of credits in use, by calls without a reply.
    pub fn credits_in_use(&self) -> u32 {
        // SAFETY: The transport is live. Writers change the word as a whole.
        let cong = unsafe { (&raw const (*self.as_raw()).cong).read_volatile() };
        u32::try_from(cong >> raw::RPC_CWNDSHIFT).unwrap_or(u32::MAX)
    }

    fn cwnd(&self) -> c_ulong {
        // SAFETY: The transport is live. Writers change the word as a whole.
        unsafe { (&raw const (*self.as_raw()).cwnd).read_volatile() }
    }

    /// Returns whether `credits` are at least as many as the peer granted.
    pub(crate) fn fills_window(&self, credits: u32) -> bool {
        self.cwnd() <= window(credits)
    }
}

impl<T: HasSlot> LockedXprt<'_, T> {
    /// Gets a credit for `rqst`, if it has none. Returns false if the window is full: then sunrpc
    /// wakes its task when a credit is returned.
    pub(crate) fn request_get_cong(&self, rqst: &Rqst<T>) -> bool {
        // SAFETY: Transport and request are live.
        unsafe { raw::xprt_request_get_cong(self.as_raw(), rqst.as_raw()) }
    }

    /// Takes back all credits, as a new connection begins with one (RFC 8166, section 3.3.3). Calls
    /// `f`, which must not sleep, with `transport_lock` held all the while.
    pub(crate) fn reset_window(&self, f: impl FnOnce()) {
        let _guard = self.transport_lock();
        f();
        self.parts.orphaned_calls.reset();
        for rqst in self.parts.slots.iter() {
            // SAFETY: The guard holds `transport_lock`, and `self` says that `XPRT_LOCKED` is
            // owned.
            unsafe { rqst.clear_cong() };
        }
        // SAFETY: The lock guards both.
        let (cong, cwnd) = unsafe {
            (
                &raw mut (*self.as_raw()).cong,
                &raw mut (*self.as_raw()).cwnd,
            )
        };
        // SAFETY: The transport is live, and the guard holds the lock of the counter.
        unsafe { cong.write_volatile(0) };
        // SAFETY: The transport is live, and the guard holds the lock of the window.
        unsafe { cwnd.write_volatile(window(1)) };
    }
}
