// SPDX-License-Identifier: GPL-2.0

//! What happens to a call's credit when the task releases the call.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `release_request`
//! and `buf_free` of `struct rpc_xprt_ops`.
//!
//! sunrpc returns a credit with the request. Here the credit of a call that was sent and has no reply
//! stays taken, as [`crate::released_calls`] explains, until a reply comes that matches no request.

use crate::{
    rqst::Rqst,
    transport::Transport,
    xprt::Xprt, //
};

impl<T: Transport> Xprt<T> {
    /// Returns the credit of the request that `task` releases, unless the peer still owes the reply.
    ///
    /// # Safety
    ///
    /// The caller holds `transport_lock`. `task` still has its request, which is on no queue any more, and
    /// which is that of a reverse-direction call if `rqst` is [`None`].
    pub(crate) unsafe fn release_credit(&self, task: *mut raw::rpc_task, rqst: Option<&Rqst<T>>) {
        let stays_taken =
            |rqst: &&Rqst<T>| rqst.take_awaits_reply() && self.parts.released_calls.add();
        match rqst.filter(stays_taken) {
            // `cong` stays as it is, but the credit is not the request's any more.
            // SAFETY: The caller holds `transport_lock`, and the task has the request.
            Some(rqst) => unsafe { rqst.clear_cong() },
            // SAFETY: The caller holds the lock that this function wants, and the task has its request.
            None => unsafe { raw::xprt_release_rqst_cong(task) },
        }
    }

    /// Gives up the memory of `rqst`, in its task. May sleep.
    pub(crate) fn release_memory(&self, rqst: &Rqst<T>) {
        T::release(self, self, rqst);
        let released = self.parts.released_calls.credits();
        if released != 0 && self.fill_window(released) {
            // All credits are those of released calls. A task that waits for a credit would wait for
            // replies that the peer may never send.
            T::give_up(self, self, c"all credits are of calls that were killed");
        }
    }

    /// Counts a reply, or an error, for which `lookup` found no request. Does not sleep.
    pub fn no_matching_rqst(&self) {
        let _guard = self.transport_lock();
        if !self.parts.released_calls.replied() {
            return;
        }
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
        // SAFETY: The guard holds the lock that this function wants. It reads only the fields of task
        // and request that are set here.
        unsafe { raw::xprt_release_rqst_cong(&raw mut task) };
    }
}
