// SPDX-License-Identifier: GPL-2.0

//! The receipt of a call in a service thread.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! `xpo_recvfrom` of `struct svc_xprt_ops`.

use crate::{
    svc_args::SvcArgs,
    svc_transport::SvcConnection,
    svc_xprt::SvcXprt, //
};
use core::ptr;
use kernel::{
    ffi::c_int,
    prelude::*, //
};

impl<C: SvcConnection> SvcXprt<C> {
    /// Receives a call in the thread of `rqstp`. Returns its length, or zero if there is none. May
    /// sleep.
    ///
    /// # Safety
    ///
    /// `xpo_recvfrom` is the caller, and `rqstp` its argument.
    pub(crate) unsafe fn recv(&self, rqstp: *mut raw::svc_rqst) -> c_int {
        // SAFETY: The caller promises that it is the thread's, which is the only one to change
        // these fields.
        let rqst = unsafe { &mut *rqstp };
        // No page of the reply is in use yet.
        rqst.rq_next_page = rqst.rq_respages;
        rqst.rq_xprt_ctxt = ptr::null_mut();
        let work = C::next(self, self);
        // SAFETY: sunrpc set `XPT_BUSY` for this thread, which accesses nothing that it guards any
        // more.
        unsafe { raw::svc_xprt_received(self.as_raw()) };
        let Some(work) = work else {
            return 0;
        };
        // SAFETY: `xpo_recvfrom` is the caller.
        let mut args = unsafe { SvcArgs::new(rqstp) };
        let Some(mut call) = C::receive(self, self, work, &mut args) else {
            return 0;
        };
        let len = c_int::try_from(args.len()).unwrap_or(0);
        match args.take_message() {
            Some(message) => call.set_message(message),
            // `receive` has set no call.
            None => {
                C::release(self, call);
                return 0;
            }
        }
        // SAFETY: The caller promises that it is the thread's, which is the only one to change
        // these fields.
        let rqst = unsafe { &mut *rqstp };
        rqst.rq_xprt_ctxt = KBox::into_raw(call).cast();
        // This value tells sunrpc that the transport is one for RPC-over-RDMA.
        rqst.rq_prot = raw::IPPROTO_MAX;
        // SAFETY: Both are live.
        unsafe { raw::svc_xprt_copy_addrs(rqstp, self.as_raw()) };
        // No port of such a transport is reserved for root.
        // SAFETY: The flags change by atomic operations only.
        unsafe { raw::set_bit(raw::RQ_SECURE, &raw mut (*rqstp).rq_flags) };
        // The flags are the thread's, and those of its last call remain until they are changed.
        let set_local = if self.is_local() {
            raw::set_bit
        } else {
            raw::clear_bit
        };
        // SAFETY: The `svc_rqst` is the thread's. The flags change by atomic operations only.
        unsafe { set_local(raw::RQ_LOCAL, &raw mut (*rqstp).rq_flags) };
        len
    }
}
