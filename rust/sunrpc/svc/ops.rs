// SPDX-License-Identifier: GPL-2.0

//! The functions that sunrpc calls: those of `struct svc_xprt_ops`.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h).
//!
//! Each turns pointers into references and calls one method. sunrpc calls all of them with a live
//! transport whose operations they are, and with the `svc_rqst` of the calling thread.

#![expect(
    clippy::missing_safety_doc,
    reason = "sunrpc is the only caller; the top of this file says what it promises"
)]

use crate::{
    svc::{
        listener::SvcClass,
        recv,
        reply::SvcResult,
        transport::{
            SvcCall,
            SvcConnection,
            SvcListener, //
        },
        xprt::SvcXprt, //
    },
    SockAddr, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    bindings::sockaddr,
    prelude::*, //
};

impl<L: SvcListener> SvcClass<L> {
    /// Creates the class of `L`. It is not registered.
    #[expect(clippy::new_without_default, reason = "statics cannot use it")]
    pub const fn new() -> Self {
        // SAFETY: `create` is for sunrpc to call, for this class.
        unsafe { Self::with_ops(L::NAME, L::IDENT, L::MAX_PAYLOAD, listener::<L>()) }
    }
}

/// Returns the operations of listeners.
const fn listener<L: SvcListener>() -> &'static cbindings::svc_xprt_ops {
    &const {
        cbindings::svc_xprt_ops {
            xpo_create: Some(create::<L>),
            xpo_accept: Some(accept::<L>),
            xpo_has_wspace: Some(always),
            xpo_recvfrom: None,
            xpo_sendto: None,
            xpo_result_payload: None,
            xpo_release_ctxt: Some(release_nothing),
            xpo_detach: Some(detach_listener::<L>),
            xpo_free: Some(free_listener::<L>),
            xpo_kill_temp_xprt: Some(ignore),
            xpo_handshake: None,
        }
    }
}

/// Returns the operations of connections.
pub(crate) const fn connection<C: SvcConnection>() -> &'static cbindings::svc_xprt_ops {
    &const {
        cbindings::svc_xprt_ops {
            xpo_create: None,
            xpo_accept: None,
            xpo_has_wspace: Some(always),
            xpo_recvfrom: Some(recvfrom::<C>),
            xpo_sendto: Some(sendto::<C>),
            xpo_result_payload: Some(result_payload::<C>),
            xpo_release_ctxt: Some(release_ctxt::<C>),
            xpo_detach: Some(detach_connection::<C>),
            xpo_free: Some(free_connection::<C>),
            xpo_kill_temp_xprt: Some(ignore),
            xpo_handshake: None,
        }
    }
}

unsafe extern "C" fn create<L: SvcListener>(
    serv: *mut cbindings::svc_serv,
    net: *mut cbindings::net,
    address: *mut sockaddr,
    len: c_int,
    _flags: c_int,
) -> *mut cbindings::svc_xprt {
    let len = usize::try_from(len).unwrap_or(0);
    // SAFETY: sunrpc gives an address of that length.
    let made = unsafe { SockAddr::from_raw(address, len) }.and_then(|address| {
        // SAFETY: This is `xpo_create`.
        unsafe { SvcXprt::<L>::listen(serv, net, &address, listener::<L>()) }
    });
    match made {
        Ok(xprt) => xprt.as_ptr(),
        Err(error) => error.to_ptr(),
    }
}

unsafe extern "C" fn accept<L: SvcListener>(
    xprt: *mut cbindings::svc_xprt,
) -> *mut cbindings::svc_xprt {
    // SAFETY: sunrpc calls this with a live transport whose operations these are, which is an
    // `SvcXprt<L>`.
    let listener = unsafe { SvcXprt::<L>::from_raw(xprt) };
    // SAFETY: This is `xpo_accept`.
    unsafe { listener.accept(connection::<L::Connection>()) }
        .map_or(ptr::null_mut(), NonNull::as_ptr)
}

unsafe extern "C" fn detach_listener<L: SvcListener>(xprt: *mut cbindings::svc_xprt) {
    // SAFETY: sunrpc calls this with a live transport whose operations these are, which is an
    // `SvcXprt<L>`.
    L::detach(unsafe { SvcXprt::<L>::from_raw(xprt) });
}

unsafe extern "C" fn free_listener<L: SvcListener>(xprt: *mut cbindings::svc_xprt) {
    // SAFETY: sunrpc calls this once, after the last reference has been dropped.
    unsafe { SvcXprt::<L>::free(xprt.cast(), |_| ()) };
}

unsafe extern "C" fn always(_xprt: *mut cbindings::svc_xprt) -> c_int {
    1
}

unsafe extern "C" fn ignore(_xprt: *mut cbindings::svc_xprt) {}

unsafe extern "C" fn release_nothing(_xprt: *mut cbindings::svc_xprt, _ctxt: *mut c_void) {}

unsafe extern "C" fn recvfrom<C: SvcConnection>(rqstp: *mut cbindings::svc_rqst) -> c_int {
    // SAFETY: The thread has a reference to the transport.
    let xprt = unsafe { SvcXprt::<C>::from_raw((*rqstp).rq_xprt) };
    // SAFETY: This is `xpo_recvfrom`.
    unsafe { xprt.recv(rqstp) }
}

unsafe extern "C" fn sendto<C: SvcConnection>(rqstp: *mut cbindings::svc_rqst) -> c_int {
    // SAFETY: sunrpc calls this with the `svc_rqst` of the calling thread, which nobody else uses.
    let (xprt, ctxt) = unsafe { ((*rqstp).rq_xprt, (*rqstp).rq_xprt_ctxt) };
    // SAFETY: The thread has a reference to the transport.
    let xprt = unsafe { SvcXprt::<C>::from_raw(xprt) };
    // SAFETY: `recv` set it, and the thread is the only one that uses it.
    let Some(call) = (unsafe { ctxt.cast::<SvcCall<C>>().as_mut() }) else {
        return ENXIO.to_errno();
    };
    let Some(message) = call.take_message() else {
        return ENXIO.to_errno();
    };
    // The Receive of the message is posted again before the Send of the reply, so the client may
    // write there before this thread has finished with the call. sunrpc reads the call no more, and
    // could not after this. The upper layer's arguments may still point there, and after this
    // function sunrpc calls `pc_release`, which has them: those of nfsd free what it allocated and
    // put what it has references to, and read none of the client's bytes (7.2, 7.3).
    // SAFETY: This is `xpo_sendto`.
    unsafe { recv::clear(rqstp) };
    // SAFETY: This is `xpo_sendto`.
    let result = unsafe { SvcResult::new(rqstp) };
    match C::reply(xprt, xprt, message, &mut call.context, result) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

unsafe extern "C" fn result_payload<C: SvcConnection>(
    rqstp: *mut cbindings::svc_rqst,
    offset: c_uint,
    len: c_uint,
) -> c_int {
    // SAFETY: sunrpc calls this with the `svc_rqst` of the calling thread, which nobody else uses.
    let (xprt, ctxt) = unsafe { ((*rqstp).rq_xprt, (*rqstp).rq_xprt_ctxt) };
    // SAFETY: The thread has a reference to the transport.
    let xprt = unsafe { SvcXprt::<C>::from_raw(xprt) };
    // SAFETY: `recv` set it, and the thread is the only one that uses it.
    let Some(call) = (unsafe { ctxt.cast::<SvcCall<C>>().as_mut() }) else {
        return 0;
    };
    xprt.result_payload(&mut call.context, offset as usize, len as usize);
    0
}

unsafe extern "C" fn release_ctxt<C: SvcConnection>(
    xprt: *mut cbindings::svc_xprt,
    ctxt: *mut c_void,
) {
    if ctxt.is_null() {
        return;
    }
    // SAFETY: sunrpc calls this with a live transport whose operations these are, which is an
    // `SvcXprt<C>`.
    let xprt = unsafe { SvcXprt::<C>::from_raw(xprt) };
    // SAFETY: `recv` gave up the box, and sunrpc gives back each context once.
    let call = unsafe { KBox::from_raw(ctxt.cast::<SvcCall<C>>()) };
    xprt.release(call);
}

unsafe extern "C" fn detach_connection<C: SvcConnection>(xprt: *mut cbindings::svc_xprt) {
    // SAFETY: sunrpc calls this with a live transport whose operations these are, which is an
    // `SvcXprt<C>`.
    let xprt = unsafe { SvcXprt::<C>::from_raw(xprt) };
    C::detach(xprt);
    // The rest takes several waits, which are not for a service thread, and cannot wait for the
    // last reference: calls may be executed.
    xprt.close_later();
}

unsafe extern "C" fn free_connection<C: SvcConnection>(xprt: *mut cbindings::svc_xprt) {
    // SAFETY: sunrpc calls this once, after the last reference has been dropped.
    unsafe { SvcXprt::<C>::free_later(xprt.cast()) };
}
