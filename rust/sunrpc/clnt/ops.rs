// SPDX-License-Identifier: GPL-2.0

//! The functions that sunrpc calls: those of `struct rpc_xprt_ops`, and `setup` of the class.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h).
//!
//! Each turns pointers into references and calls one method. sunrpc calls all of them with a live
//! transport of the class of `T`, and with requests or tasks of it; each `SAFETY` comment adds what
//! sunrpc promises for its function on top of that.

#![expect(
    clippy::missing_safety_doc,
    reason = "sunrpc is the only caller; the top of this file says what it promises"
)]

use crate::prelude::*;
use crate::{
    addr,
    bc::clnt::CallbackRqst,
    clnt::{
        class::{
            Class,
            UntypedClass, //
        },
        transmit::Outgoing,
        transport, //
    },
    task, //
};
use kernel::seq_file::SeqFile;

impl<T: Transport> Class<T> {
    /// Creates the class of `T`. It is not registered.
    #[expect(clippy::new_without_default, reason = "statics cannot use it")]
    pub const fn new() -> Self {
        // SAFETY: `setup` is for sunrpc to call, for this class.
        Self::from_untyped(unsafe { UntypedClass::new(T::IDENT, T::NAME, T::NETIDS, setup::<T>) })
    }
}

/// Returns the operations of transports of `T`.
fn table<T: Transport>() -> &'static cbindings::rpc_xprt_ops {
    &const {
        cbindings::rpc_xprt_ops {
            set_buffer_size: None,
            reserve_xprt: Some(cbindings::xprt_reserve_xprt_cong),
            release_xprt: Some(release_xprt::<T>),
            alloc_slot: Some(alloc_slot::<T>),
            free_slot: Some(free_slot::<T>),
            rpcbind: Some(cbindings::rpcb_getport_async),
            set_port: Some(set_port),
            connect: Some(connect::<T>),
            get_srcaddr: Some(get_srcaddr::<T>),
            get_srcport: Some(get_srcport::<T>),
            buf_alloc: Some(buf_alloc::<T>),
            buf_free: Some(buf_free::<T>),
            prepare_request: Some(prepare_request::<T>),
            send_request: Some(send_request::<T>),
            abort_send_request: None,
            wait_for_reply_request: Some(wait_for_reply::<T>),
            timer: Some(timer::<T>),
            release_request: Some(release_request::<T>),
            close: Some(close::<T>),
            destroy: Some(destroy::<T>),
            set_connect_timeout: Some(set_connect_timeout::<T>),
            print_stats: Some(print_stats::<T>),
            enable_swap: Some(enable_swap::<T>),
            disable_swap: Some(disable_swap),
            inject_disconnect: Some(inject_disconnect::<T>),
            bc_setup: Some(bc_setup::<T>),
            bc_maxpayload: Some(bc_maxpayload::<T>),
            bc_num_slots: Some(bc_num_slots::<T>),
            bc_free_rqst: Some(bc_free_rqst::<T>),
            bc_destroy: Some(bc_destroy::<T>),
        }
    }
}

/// Returns whether `rqst` is a reverse-direction call, which is in none of the transport's slots.
///
/// # Safety
///
/// The request is in use.
unsafe fn is_callback(rqst: *const cbindings::rpc_rqst) -> bool {
    // SAFETY: The flag is set before a request is in use, and stays until its end.
    unsafe { (*rqst).rq_bc_pa_state & (1 << cbindings::RPC_BC_PA_IN_USE) != 0 }
}

unsafe extern "C" fn setup<T: Transport>(
    args: *mut cbindings::xprt_create,
) -> *mut cbindings::rpc_xprt {
    // SAFETY: sunrpc's arguments are valid for the call.
    let args = unsafe { &*args };
    let class = T::class().untyped();
    let made = class.get_module().and_then(|()| {
        Xprt::<T>::create(args, table::<T>()).inspect_err(|_| {
            // SAFETY: `get_module` took the reference; sunrpc has its own during the call.
            unsafe { class.put_module() }
        })
    });
    match made {
        Ok(xprt) => xprt.as_ptr(),
        Err(error) => error.to_ptr(),
    }
}

unsafe extern "C" fn destroy<T: Transport>(xprt: *mut cbindings::rpc_xprt) {
    // SAFETY: It is not null.
    let xprt = unsafe { NonNull::new_unchecked(xprt) };
    // SAFETY: sunrpc calls this once, after the last reference has been dropped.
    unsafe { Xprt::<T>::destroy(xprt.cast()) };
    // SAFETY: `setup` took the reference. After this the function only returns.
    unsafe { T::class().untyped().put_module() };
}

unsafe extern "C" fn alloc_slot<T: Transport>(
    xprt: *mut cbindings::rpc_xprt,
    task: *mut cbindings::rpc_task,
) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: The task is the caller, and on no queue.
    unsafe { this.alloc_slot(task) };
}

unsafe extern "C" fn free_slot<T: Transport>(
    xprt: *mut cbindings::rpc_xprt,
    rqst: *mut cbindings::rpc_rqst,
) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: `alloc_slot` gave out the request, and sunrpc has finished with it.
    unsafe { this.free_slot(rqst) };
}

unsafe extern "C" fn set_port(xprt: *mut cbindings::rpc_xprt, port: c_ushort) {
    // SAFETY: The transport is live, and sunrpc has one rpcbind query at a time for it.
    unsafe { addr::set_port(xprt, port) };
}

unsafe extern "C" fn connect<T: Transport>(
    xprt: *mut cbindings::rpc_xprt,
    task: *mut cbindings::rpc_task,
) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: `task` owns `XPRT_LOCKED`, and sunrpc marked the transport as connecting.
    unsafe { this.start_connect(task) };
}

unsafe extern "C" fn get_srcaddr<T: Transport>(
    xprt: *mut cbindings::rpc_xprt,
    text: *mut c_char,
    len: usize,
) -> c_int {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    let Some(source) = T::source(this) else {
        return task::ENOTCONN;
    };
    // SAFETY: The caller has `len` bytes of room at `text`; `source` is a whole address.
    let written = unsafe { cbindings::rpc_ntop(source.as_raw(), text, len) };
    c_int::try_from(written).unwrap_or(0)
}

unsafe extern "C" fn get_srcport<T: Transport>(xprt: *mut cbindings::rpc_xprt) -> c_ushort {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    unsafe { Xprt::<T>::from_raw(xprt) }.source_port()
}

unsafe extern "C" fn buf_alloc<T: Transport>(task: *mut cbindings::rpc_task) -> c_int {
    // SAFETY: The task has a request when it asks for its buffers.
    let rqst = unsafe { Rqst::<T>::from_raw((*task).tk_rqstp) };
    // SAFETY: The task has a reference to the transport.
    let this = unsafe { Xprt::<T>::from_raw((*rqst.as_raw()).rq_xprt) };
    // SAFETY: The task is the caller, and the request on no queue yet.
    unsafe { this.alloc_buffers(rqst) }
}

unsafe extern "C" fn buf_free<T: Transport>(task: *mut cbindings::rpc_task) {
    // SAFETY: The task still has its request, which is in a slot.
    let rqst = unsafe { Rqst::<T>::from_raw((*task).tk_rqstp) };
    // SAFETY: The task has a reference to the transport.
    let this = unsafe { Xprt::<T>::from_raw((*rqst.as_raw()).rq_xprt) };
    this.release_memory(rqst);
}

unsafe extern "C" fn prepare_request<T: Transport>(
    rqst: *mut cbindings::rpc_rqst,
    buf: *mut cbindings::xdr_buf,
) -> c_int {
    // sunrpc calls this for the call and for its reply. When it does for the reply, the call is not
    // encoded.
    // SAFETY: The caller is the request's task.
    let is_call = ptr::eq(buf, unsafe { &raw mut (*rqst).rq_snd_buf });
    // SAFETY: The caller is the request's task, so the request is in use.
    if !is_call || unsafe { is_callback(rqst) } {
        return 0;
    }
    // SAFETY: The task has a reference to the transport.
    let this = unsafe { Xprt::<T>::from_raw((*rqst).rq_xprt) };
    // SAFETY: The request is in a slot, and its task is the caller, which has not queued it.
    unsafe { this.prepare_call(Rqst::from_raw(rqst)) }
}

unsafe extern "C" fn send_request<T: Transport>(rqst: *mut cbindings::rpc_rqst) -> c_int {
    // SAFETY: The request is pinned, and its task or callback has a reference to the transport.
    let this = unsafe { Xprt::<T>::from_raw((*rqst).rq_xprt) };
    // SAFETY: The request is pinned, so it is in use.
    let request = if unsafe { is_callback(rqst) } {
        // SAFETY: The flag says so, and the request is pinned.
        Outgoing::CallbackReply(unsafe { CallbackRqst::from_raw(rqst) })
    } else {
        // SAFETY: All others are in one of the transport's slots, and the request is pinned.
        Outgoing::Call(unsafe { Rqst::from_raw(rqst) })
    };
    // SAFETY: The caller owns `XPRT_LOCKED`.
    unsafe { this.assume_locked() }.transmit(request)
}

unsafe extern "C" fn release_xprt<T: Transport>(
    xprt: *mut cbindings::rpc_xprt,
    task: *mut cbindings::rpc_task,
) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: The caller holds `transport_lock`, which guards the owner of `XPRT_LOCKED`.
    if ptr::eq(unsafe { (*xprt).snd_task }, task) {
        // SAFETY: `task` owns `XPRT_LOCKED` until the call below.
        unsafe { this.assume_locked() }.flush_before_unlock();
    }
    // SAFETY: The arguments are sunrpc's own.
    unsafe { cbindings::xprt_release_xprt_cong(xprt, task) };
}

unsafe extern "C" fn release_request<T: Transport>(task: *mut cbindings::rpc_task) {
    // SAFETY: The task still has its request, which is on no queue any more.
    let rqst = unsafe { (*task).tk_rqstp };
    // SAFETY: The task still has its request, and a reference to the transport.
    let this = unsafe { Xprt::<T>::from_raw((*rqst).rq_xprt) };
    // SAFETY: The task still has its request, so the request is in use.
    let in_slot = if unsafe { is_callback(rqst) } {
        None
    } else {
        // SAFETY: All requests but those of reverse-direction calls are in one of the slots.
        Some(unsafe { Rqst::from_raw(rqst) })
    };
    // SAFETY: The caller holds `transport_lock`.
    unsafe { this.release_credit(task, in_slot) };
}

unsafe extern "C" fn wait_for_reply<T: Transport>(task: *mut cbindings::rpc_task) {
    // SAFETY: The task, which is the caller, has sent its request.
    let rqst = unsafe { (*task).tk_rqstp };
    // SAFETY: The task has a reference to the transport.
    let this = unsafe { Xprt::<T>::from_raw((*rqst).rq_xprt) };
    // SAFETY: sunrpc promises the rest. The reply to a reverse-direction call has none, so the
    // request is in a slot.
    unsafe { this.wait_for_reply(task, Rqst::from_raw(rqst)) };
}

unsafe extern "C" fn timer<T: Transport>(
    xprt: *mut cbindings::rpc_xprt,
    task: *mut cbindings::rpc_task,
) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: The task is the caller, which waited for the reply to its request. The reply to a
    // reverse-direction call has none, so the request is in a slot.
    unsafe { this.reply_timed_out(Rqst::from_raw((*task).tk_rqstp)) };
}

unsafe extern "C" fn close<T: Transport>(xprt: *mut cbindings::rpc_xprt) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: The caller owns `XPRT_LOCKED`.
    unsafe { this.assume_locked() }.disconnect();
}

unsafe extern "C" fn set_connect_timeout<T: Transport>(
    xprt: *mut cbindings::rpc_xprt,
    connect: c_ulong,
    reconnect: c_ulong,
) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    unsafe { Xprt::<T>::from_raw(xprt) }.set_connect_timeout(connect, reconnect);
}

unsafe extern "C" fn print_stats<T: Transport>(
    xprt: *mut cbindings::rpc_xprt,
    seq: *mut cbindings::seq_file,
) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // CAST: Both types are what C calls `struct seq_file`.
    // SAFETY: It is the caller's, for the time of the call.
    let seq = unsafe { SeqFile::from_raw(seq.cast()) };
    transport::print_stats(this, seq);
}

unsafe extern "C" fn enable_swap<T: Transport>(xprt: *mut cbindings::rpc_xprt) -> c_int {
    // SAFETY: sunrpc calls this with a live transport. The counter changes by atomic operations
    // only.
    unsafe { kernel::bindings::atomic_inc((&raw mut (*xprt).swapper).cast()) };
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    T::prepare_for_swap(this, this, task::gfp_flags());
    // Not an error if there is no memory: sunrpc would take the transport for one that carries swap
    // all the same.
    0
}

unsafe extern "C" fn disable_swap(xprt: *mut cbindings::rpc_xprt) {
    // SAFETY: sunrpc calls this with a live transport, for which it called `enable_swap` before.
    // The counter changes by atomic operations only.
    unsafe { kernel::bindings::atomic_dec((&raw mut (*xprt).swapper).cast()) };
}

unsafe extern "C" fn inject_disconnect<T: Transport>(xprt: *mut cbindings::rpc_xprt) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    T::inject_disconnect(this, this);
}

unsafe extern "C" fn bc_setup<T: Transport>(
    xprt: *mut cbindings::rpc_xprt,
    min_reqs: c_uint,
) -> c_int {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    match this.parts.bc_pool.reserve(min_reqs as usize) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

unsafe extern "C" fn bc_maxpayload<T: Transport>(xprt: *mut cbindings::rpc_xprt) -> usize {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    T::callback_max_payload(this).min(CallbackRqst::MAX_LEN)
}

unsafe extern "C" fn bc_num_slots<T: Transport>(_xprt: *mut cbindings::rpc_xprt) -> c_uint {
    T::CALLBACK_SLOTS
}

unsafe extern "C" fn bc_free_rqst<T: Transport>(rqst: *mut cbindings::rpc_rqst) {
    // SAFETY: It is a request that `deliver_callback` queued, and sunrpc has finished with it. The
    // caller is a task of the callback service or an RPC task, either of which may wait for the
    // transport's destruction.
    unsafe { Xprt::<T>::free_callback(rqst) };
}

unsafe extern "C" fn bc_destroy<T: Transport>(xprt: *mut cbindings::rpc_xprt, _max_reqs: c_uint) {
    // SAFETY: sunrpc calls this with a live transport of this class, which is an `Xprt<T>`.
    unsafe { Xprt::<T>::from_raw(xprt) }
        .parts
        .bc_pool
        .free_idle();
}
