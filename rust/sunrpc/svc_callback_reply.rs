// SPDX-License-Identifier: GPL-2.0

//! The client's replies to the server's calls, which come in as messages of the connection.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h); RFC 8167.

use crate::{
    memory::Stable,
    spin_lock::lock,
    svc_args::SvcArgs,
    svc_transport::SvcConnection,
    svc_xprt::SvcXprt,
    task::fail_task,
    xdr_buf::XdrBuf, //
};
use core::ptr::NonNull;
use kernel::{
    ffi::{
        c_int,
        c_ulong, //
    },
    prelude::*, //
};

/// A callback whose reply was copied, or to which the client replied with an RDMA_ERROR.
pub struct SvcCallbackReply {
    xid: u32,
    /// Bytes of the reply. [`None`] after an RDMA_ERROR.
    copied: Option<usize>,
}

impl SvcCallbackReply {
    /// Returns the callback `xid` (in host order), if there is one, after an RDMA_ERROR.
    pub fn failed(xid: u32) -> Self {
        Self { xid, copied: None }
    }
}

impl<C: SvcConnection> SvcXprt<C> {
    /// Copies `reply` to the buffer of the callback `xid` (in host order) that waits for it, if
    /// there is one. The client grants `credits`. Takes `queue_lock` and `transport_lock`, one at a
    /// time.
    pub fn copy_callback_reply<M: Stable>(
        &self,
        args: &SvcArgs<'_, M>,
        xid: u32,
        credits: u32,
        reply: &[u8],
    ) -> Option<SvcCallbackReply> {
        let (xprt, copied) = self.with_callback(args, xid, |xprt, rqst| {
            // SAFETY: The task of a request that waits for its reply keeps the buffers.
            let buf = unsafe { XdrBuf::from_raw(&raw const (*rqst).rq_rcv_buf) };
            (xprt, buf.copy_in(0, reply))
        })?;
        let credits = credits.clamp(1, C::BACKCHANNEL_CREDITS);
        // SAFETY: `xprt` is live, as in `with_callback`.
        let _guard = unsafe { lock(&raw mut (*xprt).transport_lock) };
        // SAFETY: `xprt` is live, and the guard holds the lock of the window.
        unsafe { (*xprt).cwnd = (credits as c_ulong) << raw::RPC_CWNDSHIFT };
        let copied = Some(copied);
        Some(SvcCallbackReply { xid, copied })
    }

    /// Completes a callback. This gives its credit to the next callback, so a Receive for the reply
    /// to that must have been posted. Takes `queue_lock`.
    pub fn complete_callback<M: Stable>(&self, args: &SvcArgs<'_, M>, reply: SvcCallbackReply) {
        self.with_callback(args, reply.xid, |_, rqst| {
            // SAFETY: `with_callback` found the request on the receive queue, so its task is live.
            let task = unsafe { (*rqst).rq_task };
            if reply.copied.is_none() {
                // SAFETY: `with_callback` found the request on the receive queue, so its task is
                // live.
                unsafe { fail_task(task, EIO.to_errno()) };
            }
            let copied = c_int::try_from(reply.copied.unwrap_or(0)).unwrap_or(c_int::MAX);
            // SAFETY: The request is on the receive queue, and `with_callback` holds `queue_lock`.
            unsafe { raw::xprt_complete_rqst(task, copied) };
        });
    }

    /// Calls `f` with the transport and the request that waits for the reply `xid`, under
    /// `queue_lock`, if there is one and the thread of `args` receives from `self`.
    fn with_callback<M: Stable, R>(
        &self,
        args: &SvcArgs<'_, M>,
        xid: u32,
        f: impl FnOnce(*mut raw::rpc_xprt, *mut raw::rpc_rqst) -> R,
    ) -> Option<R> {
        if !args.receive_from(self.as_raw()) {
            return None;
        }
        // SAFETY: The thread has a reference to `self`; the field is set once, and `self` keeps a
        // reference to that transport until its own last reference is dropped.
        let xprt = unsafe { (&raw const (*self.as_raw()).xpt_bc_xprt).read_volatile() };
        if xprt.is_null() {
            return None;
        }
        // SAFETY: `self`, to which the thread has a reference, keeps a reference to this transport.
        let _guard = unsafe { lock(&raw mut (*xprt).queue_lock) };
        // SAFETY: The guard holds `queue_lock`.
        let rqst = NonNull::new(unsafe { raw::xprt_lookup_rqst(xprt, xid.to_be()) })?;
        Some(f(xprt, rqst.as_ptr()))
    }
}
