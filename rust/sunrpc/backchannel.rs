// SPDX-License-Identifier: GPL-2.0

//! Calls in the reverse direction: the server calls, the client's callback service replies.
//!
//! C header: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h); RFC 8167.
//!
//! A [`CallbackRqst`] is an `rpc_rqst` with a page for the call and a page for the reply. The
//! transport copies a call to it, sunrpc queues it to the service, a thread of which executes it
//! and sends the reply through the transport like any request; then sunrpc calls `bc_free_rqst`.
//! The request has a reference to the transport from the moment it is queued until then.

use crate::{
    bc_rqst::{
        CallbackError,
        CallbackRqst, //
    },
    rqst::HasSlot,
    xprt::Xprt, //
};
use core::ptr::NonNull;
use kernel::prelude::*;

impl<T: HasSlot> Xprt<T> {
    /// Passes a reverse-direction call to the callback service. Does not sleep; copies `call`.
    pub fn deliver_callback(&self, call: &[u8]) -> Result<(), CallbackError> {
        // The service reads XID and direction without looking at the length.
        let (Some((xid, _)), 8..=CallbackRqst::MAX_LEN) = (call.split_first_chunk(), call.len())
        else {
            return Err(CallbackError::Size);
        };
        let pool = &self.parts.bc_pool;
        let mut rqst = pool.take()?;
        let xid = u32::from_ne_bytes(*xid);
        let filled = rqst.fill(self.as_raw(), self.connect_cookie(), xid, call);
        if filled.is_err() {
            pool.put(rqst);
            return Err(CallbackError::Size);
        }
        let rqst = KBox::into_raw(rqst);
        // SAFETY: The request is complete, and nobody else has it.
        if unsafe { self.enqueue_callback(rqst.cast()) } {
            return Ok(());
        }
        // SAFETY: It was a box, and was not queued.
        pool.put(unsafe { KBox::from_raw(rqst) });
        Err(CallbackError::NoService)
    }

    /// Passes a request to the callback service, with a reference to the transport. Returns false
    /// if there is no service.
    ///
    /// `xprt_enqueue_bc_request` is not used. If there is no service, it frees the request at once,
    /// with the transport's reference, which may be the last; and to drop the last one, a
    /// completion handler would have to wait for a lock whose holder may wait for that handler.
    /// Whoever provides the service has a reference as long as `bc_serv` is set. This function
    /// therefore takes a reference only if there is a service, and drops none.
    ///
    /// # Safety
    ///
    /// `rqst` is a complete request that the caller gives up if the result is true.
    unsafe fn enqueue_callback(&self, rqst: *mut raw::rpc_rqst) -> bool {
        let _guard = self.bc_pa_lock();
        // SAFETY: The lock guards it.
        let Some(service) = NonNull::new(unsafe { (*self.as_raw()).bc_serv }) else {
            return false;
        };
        // SAFETY: The transport is live.
        if unsafe { raw::xprt_get(self.as_raw()) }.is_null() {
            return false;
        }
        // SAFETY: The service decrements it when it takes the call.
        unsafe { kernel::bindings::atomic_inc((&raw mut (*self.as_raw()).bc_slot_count).cast()) };
        // SAFETY: sunrpc removes the service from the transport, under the lock, before it frees
        // the service.
        let (queue, pool) = unsafe {
            (
                &raw mut (*service.as_ptr()).sv_cb_list,
                (*service.as_ptr()).sv_pools,
            )
        };
        // SAFETY: The request is the queue's from here on.
        unsafe { raw::lwq_enqueue(&raw mut (*rqst).rq_bc_list, queue) };
        // SAFETY: A service has at least one pool.
        unsafe { raw::svc_pool_wake_idle_thread(pool) };
        true
    }

    /// Takes a request back whose reply was sent, or that is not to have one, and drops its
    /// reference to the transport. May destroy the transport.
    ///
    /// # Safety
    ///
    /// [`Self::deliver_callback`] queued `rqst`, sunrpc has finished with it, and the caller is a
    /// task that may wait for the destruction of the transport.
    pub(crate) unsafe fn free_callback(rqst: *mut raw::rpc_rqst) {
        // SAFETY: The caller has the request.
        let xprt = unsafe { (*rqst).rq_xprt };
        // CAST: `rqst` is the first field of `CallbackRqst`, which is `repr(C)`.
        // SAFETY: `deliver_callback` made it of a box, and the caller gives it up.
        let rqst = unsafe { KBox::from_raw(rqst.cast::<CallbackRqst>()) };
        // SAFETY: The transport is an `Xprt<T>`, and live, as the request has a reference.
        unsafe { Self::from_raw(xprt) }.parts.bc_pool.put(rqst);
        // No reference to the transport may be in use here, as this may free it.
        // SAFETY: `enqueue_callback` took the reference for the request.
        unsafe { raw::xprt_put(xprt) };
    }
}
