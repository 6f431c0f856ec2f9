// SPDX-License-Identifier: GPL-2.0

//! Credits: the congestion window, which sunrpc uses for the credits that the peer granted, and the
//! credits of calls whose task is gone.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! `release_request` and `buf_free` of `struct rpc_xprt_ops`; RFC 8166, section 3.3.1.
//!
//! `cwnd` is the number of requests that may be outstanding, `cong` the number of those that are,
//! and `rq_cong` says whether a request is one of them. `transport_lock` guards all three.
//!
//! A call that its task releases before a reply came still occupies a Receive of the peer, so its
//! credit stays taken until a reply comes that matches no request, or the connection ends. sunrpc
//! alone would return the credit (`rq_cong`) with the request.

use crate::clnt::{
    transport::DisconnectReason,
    xprt::LockedXprt, //
};
use crate::prelude::*;
use core::sync::atomic::AtomicI32;

/// Returns the value of `cwnd` that allows `credits` requests.
fn window(credits: u32) -> c_ulong {
    (credits.max(1) as c_ulong) << cbindings::RPC_CWNDSHIFT
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
        let mut rqst = cbindings::rpc_rqst {
            rq_cong: 1,
            rq_xprt: self.as_raw(),
            ..Default::default()
        };
        let mut task = cbindings::rpc_task {
            tk_rqstp: &raw mut rqst,
            ..Default::default()
        };
        // SAFETY: The caller holds the lock that this function wants. It reads only the fields of
        // task and request that are set here.
        unsafe { cbindings::xprt_release_rqst_cong(&raw mut task) };
    }

    /// Returns the number of credits in use, by calls without a reply.
    pub fn credits_in_use(&self) -> u32 {
        // SAFETY: The transport is live. Writers change the word as a whole.
        let cong = unsafe { (&raw const (*self.as_raw()).cong).read_volatile() };
        u32::try_from(cong >> cbindings::RPC_CWNDSHIFT).unwrap_or(u32::MAX)
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
        unsafe { cbindings::xprt_request_get_cong(self.as_raw(), rqst.as_raw()) }
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

impl<T: Transport> Xprt<T> {
    /// Returns the credit of the request that `task` releases, unless the peer still owes the
    /// reply.
    ///
    /// # Safety
    ///
    /// The caller holds `transport_lock`. `task` still has its request, which is on no queue any
    /// more, and which is that of a reverse-direction call if `rqst` is [`None`].
    pub(crate) unsafe fn release_credit(
        &self,
        task: *mut cbindings::rpc_task,
        rqst: Option<&Rqst<T>>,
    ) {
        let Some(rqst) = rqst else {
            // The reply to a reverse-direction call has no credit, though `rq_cong` says so.
            return;
        };
        if rqst.take_awaits_reply() && self.parts.orphaned_calls.add() {
            // `cong` stays as it is, but the credit is not the request's any more.
            // SAFETY: The caller holds `transport_lock`, and the task has the request.
            unsafe { rqst.clear_cong() }
        } else {
            // SAFETY: The caller holds the lock that this function wants, and the task has its
            // request.
            unsafe { cbindings::xprt_release_rqst_cong(task) }
        }
    }

    /// Makes the memory of `rqst` inaccessible to the peer, in the task of `rqst`. May sleep.
    pub(crate) fn release_memory(&self, rqst: &Rqst<T>) {
        T::release(self, self, rqst);
        if let Some(cookie) = self.filled_by_orphaned_calls() {
            // All credits are those of orphaned calls. A task that waits for a credit would wait
            // for replies that the peer may never send.
            let reason = DisconnectReason::CreditsOfKilledCalls;
            T::conditional_disconnect(self, self, cookie, reason);
        }
    }

    /// Returns the `connect_cookie` of the connection, if all its credits are those of orphaned
    /// calls.
    fn filled_by_orphaned_calls(&self) -> Option<u32> {
        let orphaned_calls = &self.parts.orphaned_calls;
        if orphaned_calls.credits() == 0 {
            return None;
        }
        // All belong to one connection: when it ends, they change together, with the lock held.
        let _guard = self.transport_lock();
        let orphaned = orphaned_calls.credits();
        (orphaned != 0 && self.fills_window(orphaned)).then(|| self.connect_cookie())
    }

    /// Counts a reply, or an error, for which `lookup` found no request. Does not sleep.
    pub fn no_matching_rqst(&self) {
        let _guard = self.transport_lock();
        if !self.parts.orphaned_calls.replied() {
            return;
        }
        // SAFETY: The guard holds the lock, and the request that had the credit is released.
        unsafe { self.return_credit() };
    }
}

/// The number of calls that were released before their reply came, less the number of replies that
/// matched no request.
///
/// Which reply belongs to which call does not matter, so both are counted, not matched. A reply may
/// come before its call is counted as released, as a request leaves sunrpc's receive queue first:
/// then the number is below zero for a while. A peer that replies to calls that were never sent can
/// only make this end believe that the peer has more room than it has.
///
/// Callers of all methods but [`Self::credits`] hold `transport_lock`.
pub(crate) struct OrphanedCalls(AtomicI32);

impl OrphanedCalls {
    pub(crate) const fn new() -> Self {
        Self(AtomicI32::new(0))
    }

    /// Counts a call that was sent and has no reply. Returns whether its credit stays taken.
    pub(crate) fn add(&self) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.saturating_add(1), Ordering::Relaxed);
        before >= 0
    }

    /// Counts a reply that matched no request. Returns whether it frees a credit.
    pub(crate) fn replied(&self) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.saturating_sub(1), Ordering::Relaxed);
        before > 0
    }

    /// Starts again at zero: the connection has ended, and with it all its credits.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns the number of credits that orphaned calls still take.
    pub(crate) fn credits(&self) -> u32 {
        u32::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}
