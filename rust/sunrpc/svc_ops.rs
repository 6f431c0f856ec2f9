// SPDX-License-Identifier: GPL-2.0

//! What sunrpc calls: the functions of `struct svc_xprt_ops`.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h).
//!
//! Each turns pointers into references and calls a method. All are called by sunrpc with a live
//! transport of the kind that its table was given to, and with the `svc_rqst` of the calling
//! thread.

#![expect(
    clippy::missing_safety_doc,
    reason = "sunrpc is the only caller; what it promises stands above"
)]

use crate::{
    SockAddr,
    SvcArgs,
    SvcCall,
    SvcConnection,
    SvcListener,
    SvcResult,
    SvcXprt, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    bindings::sockaddr,
    ffi::{
        c_int,
        c_uint,
        c_void, //
    },
    prelude::*, //
};

/// The functions for listeners, and to make one.
pub(crate) const fn listener<L: SvcListener>() -> &'static raw::svc_xprt_ops {
    &const {
        raw::svc_xprt_ops {
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

/// The functions for connections.
pub(crate) const fn connection<C: SvcConnection>() -> &'static raw::svc_xprt_ops {
    &const {
        raw::svc_xprt_ops {
            xpo_create: None,
            xpo_accept: None,
            xpo_has_wspace: Some(has_wspace::<C>),
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
    serv: *mut raw::svc_serv,
    net: *mut raw::net,
    address: *mut sockaddr,
    len: c_int,
    _flags: c_int,
) -> *mut raw::svc_xprt {
    let len = usize::try_from(len).unwrap_or(0);
    // SAFETY: sunrpc gives an address of that length.
    let made = unsafe { SockAddr::from_raw(address, len) }.and_then(|address| {
        // SAFETY: This is `xpo_create`.
        unsafe { SvcXprt::<L>::listen(serv, net, &address) }
    });
    match made {
        Ok(xprt) => xprt.as_ptr(),
        Err(error) => error.to_ptr(),
    }
}

unsafe extern "C" fn accept<L: SvcListener>(xprt: *mut raw::svc_xprt) -> *mut raw::svc_xprt {
    // SAFETY: See the top.
    let listener = unsafe { SvcXprt::<L>::from_raw(xprt) };
    // SAFETY: This is `xpo_accept`.
    unsafe { listener.accept() }.map_or(ptr::null_mut(), NonNull::as_ptr)
}

unsafe extern "C" fn detach_listener<L: SvcListener>(xprt: *mut raw::svc_xprt) {
    // SAFETY: See the top.
    L::detach(unsafe { SvcXprt::<L>::from_raw(xprt) });
}

unsafe extern "C" fn free_listener<L: SvcListener>(xprt: *mut raw::svc_xprt) {
    // SAFETY: Called once, after the last reference is gone.
    unsafe { SvcXprt::<L>::free(xprt.cast(), |_| ()) };
}

unsafe extern "C" fn always(_xprt: *mut raw::svc_xprt) -> c_int {
    1
}

unsafe extern "C" fn ignore(_xprt: *mut raw::svc_xprt) {}

unsafe extern "C" fn release_nothing(_xprt: *mut raw::svc_xprt, _ctxt: *mut c_void) {}

unsafe extern "C" fn has_wspace<C: SvcConnection>(xprt: *mut raw::svc_xprt) -> c_int {
    // SAFETY: See the top.
    c_int::from(unsafe { SvcXprt::<C>::from_raw(xprt) }.has_room())
}

unsafe extern "C" fn recvfrom<C: SvcConnection>(rqstp: *mut raw::svc_rqst) -> c_int {
    // SAFETY: See the top. The thread is the only one to change these.
    let rqst = unsafe { &mut *rqstp };
    // No page of the reply is in use yet.
    rqst.rq_next_page = rqst.rq_respages;
    rqst.rq_xprt_ctxt = ptr::null_mut();
    // SAFETY: The thread has a reference to the transport.
    let xprt = unsafe { SvcXprt::<C>::from_raw(rqst.rq_xprt) };
    let work = C::next(xprt, xprt);
    // SAFETY: We were called with `XPT_BUSY`, and look at nothing that it guards any more.
    unsafe { raw::svc_xprt_received(xprt.as_raw()) };
    let Some(work) = work else {
        return 0;
    };
    // SAFETY: This is `xpo_recvfrom`.
    let mut args = unsafe { SvcArgs::new(rqstp) };
    let Some(mut call) = C::receive(xprt, xprt, work, &mut args) else {
        return 0;
    };
    let len = c_int::try_from(args.len()).unwrap_or(0);
    match args.take_message() {
        Some(message) => call.set_message(message),
        // Nothing was put there.
        None => {
            xprt.release(call);
            return 0;
        }
    }
    // SAFETY: As above.
    let rqst = unsafe { &mut *rqstp };
    rqst.rq_xprt_ctxt = KBox::into_raw(call).cast();
    // As sunrpc tells its RPC-over-RDMA transports from others.
    rqst.rq_prot = raw::IPPROTO_MAX;
    // SAFETY: Both are live.
    unsafe { raw::svc_xprt_copy_addrs(rqstp, xprt.as_raw()) };
    // There are no ports here that only root could use.
    // SAFETY: The flags change atomically only.
    unsafe { raw::set_bit(raw::RQ_SECURE, &raw mut (*rqstp).rq_flags) };
    // The flags are the thread's. What is said of the last call stays until it is said of this one.
    let set_local = match xprt.is_local() {
        true => raw::set_bit,
        false => raw::clear_bit,
    };
    // SAFETY: As above.
    unsafe { set_local(raw::RQ_LOCAL, &raw mut (*rqstp).rq_flags) };
    len
}

unsafe extern "C" fn sendto<C: SvcConnection>(rqstp: *mut raw::svc_rqst) -> c_int {
    // SAFETY: See the top.
    let (xprt, ctxt) = unsafe { ((*rqstp).rq_xprt, (*rqstp).rq_xprt_ctxt) };
    // SAFETY: The thread has a reference to the transport.
    let xprt = unsafe { SvcXprt::<C>::from_raw(xprt) };
    // SAFETY: `recvfrom` put it there, and the thread is the only one that uses it.
    let Some(call) = (unsafe { ctxt.cast::<SvcCall<C>>().as_mut() }) else {
        return ENXIO.to_errno();
    };
    // From here on nobody reads the call any more.
    let Some(message) = call.take_message() else {
        return ENXIO.to_errno();
    };
    // SAFETY: This is `xpo_sendto`.
    let result = unsafe { SvcResult::new(rqstp) };
    match C::reply(xprt, xprt, message, &mut call.context, result) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

unsafe extern "C" fn result_payload<C: SvcConnection>(
    rqstp: *mut raw::svc_rqst,
    offset: c_uint,
    len: c_uint,
) -> c_int {
    // SAFETY: See the top.
    let (xprt, ctxt) = unsafe { ((*rqstp).rq_xprt, (*rqstp).rq_xprt_ctxt) };
    // SAFETY: The thread has a reference to the transport.
    let xprt = unsafe { SvcXprt::<C>::from_raw(xprt) };
    // SAFETY: As in `sendto`.
    let Some(call) = (unsafe { ctxt.cast::<SvcCall<C>>().as_mut() }) else {
        return 0;
    };
    xprt.result_payload(&mut call.context, offset as usize, len as usize);
    0
}

unsafe extern "C" fn release_ctxt<C: SvcConnection>(xprt: *mut raw::svc_xprt, ctxt: *mut c_void) {
    if ctxt.is_null() {
        return;
    }
    // SAFETY: See the top.
    let xprt = unsafe { SvcXprt::<C>::from_raw(xprt) };
    // SAFETY: `recvfrom` gave up the box, and sunrpc gives back each context once.
    let call = unsafe { KBox::from_raw(ctxt.cast::<SvcCall<C>>()) };
    xprt.release(call);
}

unsafe extern "C" fn detach_connection<C: SvcConnection>(xprt: *mut raw::svc_xprt) {
    // SAFETY: See the top.
    C::detach(unsafe { SvcXprt::<C>::from_raw(xprt) });
}

unsafe extern "C" fn free_connection<C: SvcConnection>(xprt: *mut raw::svc_xprt) {
    // SAFETY: Called once, after the last reference is gone.
    unsafe { SvcXprt::<C>::free(xprt.cast(), C::close) };
}
