// SPDX-License-Identifier: GPL-2.0

//! The credit of a call that its task releases.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! `release_request` and `buf_free` of `struct rpc_xprt_ops`.
//!
//! sunrpc returns a credit with the request. Here the credit of a call that was sent and has no
//! reply stays taken, as [`crate::orphaned_calls`] explains, until a reply comes that matches no
//! request.

use crate::{
    rqst::Rqst,
    transport::Transport,
    xprt::Xprt, //
};

impl<T: Transport> Xprt<T> {
    /// Returns the credit of the request that `task` releases, unless the peer still owes the
    /// reply.
    ///
    /// # Safety
    ///
    /// The caller holds `transport_lock`. `task` still has its request, which is on no queue any
    /// more, and which is that of a reverse-direction call if `rqst` is [`None`].
    pub(crate) unsafe fn release_credit(&self, task: *mut raw::rpc_task, rqst: Option<&Rqst<T>>) {
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
            unsafe { raw::xprt_release_rqst_cong(task) }
        }
    }

    /// Makes the memory of `rqst` inaccessible to the peer, in the task of `rqst`. May sleep.
    pub(crate) fn release_memory(&self, rqst: &Rqst<T>) {
        T::release(self, self, rqst);
        if let Some(cookie) = self.filled_by_orphaned_calls() {
            // All credits are those of released calls. A task that waits for a credit would wait
            // for replies that the peer may never send.
            T::conditional_disconnect(
                self,
                self,
                cookie,
                c"all credits are of calls that were killed",
            );
        }
    }

    /// Returns the `connect_cookie` of the connection, if all its credits are those of released
    /// calls.
    fn filled_by_orphaned_calls(&self) -> Option<u32> {
        let orphaned_calls = &self.parts.orphaned_calls;
        if orphaned_calls.credits() == 0 {
            return None;
        }
        // All belong to one connection: when it ends, they change together, with the lock held.
        let _guard = self.transport_lock();
        let released = orphaned_calls.credits();
        (released != 0 && self.fills_window(released)).then(|| self.connect_cookie())
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
