// SPDX-License-Identifier: GPL-2.0

//! What sunrpc calls: the functions of `struct rpc_xprt_ops`, and `setup` of the class.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h).
//!
//! Each turns pointers into references and calls a method. All are called by sunrpc with a live
//! transport of the class of `T`, and with requests or tasks of it; each `SAFETY` comment adds what
//! its function is promised on top of that.

#![expect(
    clippy::missing_safety_doc,
    reason = "sunrpc is the only caller; what it promises stands above"
)]

use crate::{
    addr,
    errno,
    pending_reply::end_task,
    stats,
    CallbackRqst,
    Rqst,
    SendError,
    Transport,
    Xprt, //
};
use core::ptr::{
    self,
    NonNull, //
};
use kernel::{
    alloc::{
        flags::__GFP_NOWARN,
        Flags, //
    },
    ffi::{
        c_char,
        c_int,
        c_uint,
        c_ulong,
        c_ushort, //
    },
    prelude::*,
    seq_file::SeqFile, //
};

/// The functions for transports of `T`.
pub(crate) fn table<T: Transport>() -> &'static raw::rpc_xprt_ops {
    &const {
        raw::rpc_xprt_ops {
            set_buffer_size: None,
            reserve_xprt: Some(raw::xprt_reserve_xprt_cong),
            release_xprt: Some(release_xprt::<T>),
            alloc_slot: Some(alloc_slot::<T>),
            free_slot: Some(free_slot::<T>),
            rpcbind: Some(raw::rpcb_getport_async),
            set_port: Some(set_port),
            connect: Some(connect::<T>),
            get_srcaddr: Some(get_srcaddr::<T>),
            get_srcport: Some(get_srcport::<T>),
            buf_alloc: Some(buf_alloc::<T>),
            buf_free: Some(buf_free::<T>),
            prepare_request: Some(prepare_request::<T>),
            send_request: Some(send_request::<T>),
            abort_send_request: None,
            wait_for_reply_request: Some(raw::xprt_wait_for_reply_request_def),
            timer: Some(timer::<T>),
            release_request: Some(release_request::<T>),
            close: Some(close::<T>),
            destroy: Some(destroy::<T>),
            set_connect_timeout: Some(set_connect_timeout::<T>),
            print_stats: Some(print_stats::<T>),
            enable_swap: Some(enable_swap),
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

/// Makes a transport.
///
/// # Safety
///
/// sunrpc calls it, with a module reference for the time of the call.
pub(crate) unsafe extern "C" fn setup<T: Transport>(
    args: *mut raw::xprt_create,
) -> *mut raw::rpc_xprt {
    // SAFETY: They are valid for the call.
    let args = unsafe { &*args };
    let class = T::class().untyped();
    let made = class.get_module().and_then(|()| {
        Xprt::<T>::create(args).inspect_err(|_| {
            // SAFETY: The reference was taken above; sunrpc still has its own.
            unsafe { class.put_module() }
        })
    });
    match made {
        Ok(xprt) => xprt.as_ptr(),
        Err(error) => error.to_ptr(),
    }
}

unsafe extern "C" fn destroy<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: It is not null.
    let xprt = unsafe { NonNull::new_unchecked(xprt) };
    // SAFETY: Called once, after the last reference is gone.
    unsafe { Xprt::<T>::destroy(xprt.cast()) };
    // SAFETY: `setup` took the reference. What is left of this function is to return.
    unsafe { T::class().untyped().put_module() };
}

unsafe extern "C" fn alloc_slot<T: Transport>(xprt: *mut raw::rpc_xprt, task: *mut raw::rpc_task) {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    let _guard = this.reserve_lock();
    let slots = &this.parts.slots;
    // SAFETY: The task is the caller, and on no queue yet.
    let (tk_rqstp, tk_status) = unsafe { (&raw mut (*task).tk_rqstp, &raw mut (*task).tk_status) };
    // SAFETY: The lock is held.
    let Some(slot) = (unsafe { slots.take() }) else {
        // SAFETY: As above. The status comes first: it is the waker's as soon as the task waits.
        unsafe { tk_status.write(EAGAIN.to_errno()) };
        // SAFETY: The lock is held, as sunrpc's own slot table does it.
        unsafe { raw::xprt_add_backlog(xprt, task) };
        return;
    };
    // SAFETY: As above.
    unsafe { tk_rqstp.write(slot.as_ref().as_raw()) };
    // SAFETY: As above.
    unsafe { tk_status.write(0) };
    // SAFETY: The lock is held.
    let taken = unsafe { slots.taken() } as c_ulong;
    // SAFETY: The counter is written under the lock only.
    let max_slots = unsafe { &mut (*xprt).stat.max_slots };
    *max_slots = taken.max(*max_slots);
}

unsafe extern "C" fn free_slot<T: Transport>(xprt: *mut raw::rpc_xprt, rqst: *mut raw::rpc_rqst) {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    let _guard = this.reserve_lock();
    // SAFETY: The request is done. If a task waits, the slot is zeroed and becomes that one's.
    if unsafe { raw::xprt_wake_up_backlog(xprt, rqst) } {
        return;
    }
    // SAFETY: Nobody else knows the slot.
    unsafe { ptr::write_bytes(rqst, 0, 1) };
    // SAFETY: `rqst` is not null.
    let slot = unsafe { NonNull::new_unchecked(rqst) };
    // SAFETY: The lock is held, and `alloc_slot` took the slot.
    unsafe { this.parts.slots.put(slot.cast::<Rqst<T>>()) };
}

unsafe extern "C" fn set_port(xprt: *mut raw::rpc_xprt, port: c_ushort) {
    // SAFETY: The transport is live, and sunrpc asks for its port once at a time.
    unsafe { addr::set_port(xprt, port) };
}

unsafe extern "C" fn connect<T: Transport>(xprt: *mut raw::rpc_xprt, task: *mut raw::rpc_task) {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: `task` owns `XPRT_LOCKED`, and sunrpc marked the transport as connecting.
    unsafe { this.start_connect(task) };
}

unsafe extern "C" fn get_srcaddr<T: Transport>(
    xprt: *mut raw::rpc_xprt,
    text: *mut c_char,
    len: usize,
) -> c_int {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    let Some(source) = T::source(this) else {
        return errno::ENOTCONN;
    };
    // SAFETY: The caller has `len` bytes of room at `text`; `source` is a whole address.
    let written = unsafe { raw::rpc_ntop(source.as_raw(), text, len) };
    c_int::try_from(written).unwrap_or(0)
}

unsafe extern "C" fn get_srcport<T: Transport>(xprt: *mut raw::rpc_xprt) -> c_ushort {
    // SAFETY: See the top.
    source_port(unsafe { Xprt::<T>::from_raw(xprt) })
}

/// The local port, or zero without a connection. May sleep.
pub(crate) fn source_port<T: Transport>(this: &Xprt<T>) -> c_ushort {
    T::source(this).map_or(0, |source| {
        // SAFETY: `source` is a whole address.
        unsafe { raw::rpc_get_port(source.as_raw()) }
    })
}

unsafe extern "C" fn buf_alloc<T: Transport>(task: *mut raw::rpc_task) -> c_int {
    // SAFETY: The task has a request when it asks for its buffers.
    let rqst = unsafe { Rqst::<T>::from_raw((*task).tk_rqstp) };
    // SAFETY: The task is the caller, and the request on no queue yet.
    match unsafe { rqst.provide(task_flags()) } {
        Ok(allocated) => {
            // SAFETY: The task has a reference to the transport.
            let this = unsafe { Xprt::<T>::from_raw((*rqst.as_raw()).rq_xprt) };
            this.count_allocated(allocated);
            0
        }
        // The one error after which sunrpc tries again.
        Err(_) => ENOMEM.to_errno(),
    }
}

/// How the current task may allocate.
fn task_flags() -> Flags {
    // SAFETY: Only looks at the current task.
    if unsafe { raw::rpc_task_gfp_mask() } == kernel::bindings::GFP_KERNEL {
        GFP_KERNEL
    } else {
        // A worker, on which write-back may depend. sunrpc would have it try harder, with a flag
        // that the `kernel` crate does not know; it tries again in a moment instead.
        GFP_NOWAIT | __GFP_NOWARN
    }
}

unsafe extern "C" fn buf_free<T: Transport>(task: *mut raw::rpc_task) {
    // SAFETY: The task still has its request.
    let rqst = unsafe { (*task).tk_rqstp };
    // SAFETY: It is a request of the transport, which the task has a reference to.
    let this = unsafe { Xprt::<T>::from_raw((*rqst).rq_xprt) };
    // SAFETY: The request stays the task's until this returns.
    T::release(this, this, unsafe { Rqst::from_raw(rqst) });
    if this.is_abandoned() {
        // Who waits for a credit would wait for replies that the peer may owe for ever.
        this.force_disconnect();
    }
}

unsafe extern "C" fn prepare_request<T: Transport>(
    rqst: *mut raw::rpc_rqst,
    buf: *mut raw::xdr_buf,
) -> c_int {
    // SAFETY: The caller is the request's task.
    let (xprt, state, call) = unsafe {
        (
            (*rqst).rq_xprt,
            (*rqst).rq_bc_pa_state,
            &raw mut (*rqst).rq_snd_buf,
        )
    };
    // It is asked for the reply's place as well, but that alone says too little.
    if ptr::eq(buf, call) && state & (1 << raw::RPC_BC_PA_IN_USE) == 0 {
        // SAFETY: See the top.
        let this = unsafe { Xprt::<T>::from_raw(xprt) };
        // SAFETY: It is a request of a slot, and its task waits for us.
        let rqst = unsafe { Rqst::<T>::from_raw(rqst) };
        // SAFETY: Nobody sends the request before its task has queued it.
        if unsafe { rqst.fill_reply_pages() }.is_ok() {
            let errno = match T::prepare(this, this, rqst) {
                Err(SendError::TooBig) => EMSGSIZE.to_errno(),
                Err(SendError::Io) => EIO.to_errno(),
                _ => return 0,
            };
            // The error keeps the call off the queue, but is not looked at by whoever asked.
            // SAFETY: The task is the caller.
            unsafe { end_task(rqst.task(), errno) };
            return errno;
        }
    }
    0
}

unsafe extern "C" fn release_xprt<T: Transport>(
    xprt: *mut raw::rpc_xprt,
    task: *mut raw::rpc_task,
) {
    // SAFETY: The caller holds `transport_lock`, which guards the owner of `XPRT_LOCKED`.
    let owned = ptr::eq(unsafe { (*xprt).snd_task }, task);
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // The last of a burst rings by itself, unless sunrpc dropped what should have come after it.
    if owned && this.flush().is_err() {
        // As `xprt_force_disconnect` does it, which takes the lock that is held.
        // SAFETY: A word of flags that is changed by atomic operations only.
        unsafe { raw::set_bit(raw::XPRT_CLOSE_WAIT, &raw mut (*xprt).state) };
    }
    // SAFETY: The caller's call is passed on.
    unsafe { raw::xprt_release_xprt_cong(xprt, task) };
}

unsafe extern "C" fn release_request<T: Transport>(task: *mut raw::rpc_task) {
    // SAFETY: The task still has its request, which is on no queue any more.
    let raw = unsafe { (*task).tk_rqstp };
    // SAFETY: As above.
    let (xprt, state) = unsafe { ((*raw).rq_xprt, (*raw).rq_bc_pa_state) };
    if state & (1 << raw::RPC_BC_PA_IN_USE) == 0 {
        // SAFETY: See the top.
        let this = unsafe { Xprt::<T>::from_raw(xprt) };
        // SAFETY: All requests but those of reverse-direction calls are in one of the slots.
        let rqst = unsafe { Rqst::<T>::from_raw(raw) };
        if rqst.take_unanswered() && this.parts.abandoned.abandon() {
            // The window is as it was, but it is not the request's any more.
            // SAFETY: The caller holds `transport_lock`, and its task has the request.
            return unsafe { rqst.forget_credit() };
        }
    }
    // SAFETY: The caller's call is passed on.
    unsafe { raw::xprt_release_rqst_cong(task) };
}

unsafe extern "C" fn send_request<T: Transport>(rqst: *mut raw::rpc_rqst) -> c_int {
    // SAFETY: The request is pinned.
    let (xprt, state) = unsafe { ((*rqst).rq_xprt, (*rqst).rq_bc_pa_state) };
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    if !this.is_connected() {
        return errno::ENOTCONN;
    }
    // The request itself is one of those that are queued.
    let more = this.queued_sends() > 1;
    let sent = if state & (1 << raw::RPC_BC_PA_IN_USE) != 0 {
        // SAFETY: Requests of reverse-direction calls are marked so, and no others. It is pinned.
        let reply = unsafe { CallbackRqst::from_raw(rqst) };
        if !reply.is_of_connection(this) {
            // The peer has no Receive for it and will call again (RFC 8167, section 4), so it is dropped.
            // An error would be that of whose task is sending.
            return 0;
        }
        let sent = send_or_wait(this, || T::send_callback_reply(this, this, reply, more));
        // One that cannot be sent the peer would wait for, and again the error would be another's. The
        // connection's end tells it.
        sent.map_err(|error| match error {
            SendError::TooBig | SendError::Io => SendError::Disconnected.into(),
            error => error.into(),
        })
    } else {
        // SAFETY: All others are in one of the transport's slots. It is pinned, and the caller
        // owns `XPRT_LOCKED`.
        unsafe { send_call(this, rqst, more) }
    };
    let error = match sent {
        Ok(()) => {
            // SAFETY: The request is pinned, and its call does not change.
            let len = unsafe { (*rqst).rq_snd_buf.len } as usize;
            // SAFETY: Nobody else sends the request now.
            let total = unsafe { &mut (*rqst).rq_xmit_bytes_sent };
            *total = total.wrapping_add(len);
            this.set_unflushed(more);
            return 0;
        }
        Err(error) => error,
    };
    // Nothing more is sent after an error.
    let errno = match error {
        NotSent::Error(SendError::Disconnected) => None,
        _ if this.flush().is_err() => None,
        NotSent::NoCredit => Some(errno::EBADSLT),
        NotSent::Error(SendError::Again) => Some(EAGAIN.to_errno()),
        NotSent::Error(SendError::NoBuffers) => Some(errno::ENOBUFS),
        NotSent::Error(SendError::TooBig) => Some(EMSGSIZE.to_errno()),
        NotSent::Error(SendError::Io) => Some(EIO.to_errno()),
    };
    errno.unwrap_or_else(|| {
        // SAFETY: The caller owns `XPRT_LOCKED`.
        unsafe { this.disconnect() };
        errno::ENOTCONN
    })
}

/// Why a request was not sent.
enum NotSent {
    /// The peer granted no credit for it yet.
    NoCredit,
    /// What the transport says.
    Error(SendError),
}

impl From<SendError> for NotSent {
    fn from(error: SendError) -> Self {
        Self::Error(error)
    }
}

/// Sends a call, if it may be sent at all.
///
/// # Safety
///
/// `rqst` is in a slot of `this` and pinned; the caller owns `XPRT_LOCKED`.
unsafe fn send_call<T: Transport>(
    this: &Xprt<T>,
    raw: *mut raw::rpc_rqst,
    more: bool,
) -> Result<(), NotSent> {
    // SAFETY: The caller says so.
    let rqst = unsafe { Rqst::<T>::from_raw(raw) };
    // SAFETY: Transport and request are live.
    if !unsafe { raw::xprt_request_get_cong(this.as_raw(), raw) } {
        return Err(NotSent::NoCredit);
    }
    // SAFETY: The request is pinned, and only its sender uses the field.
    if unsafe { (*raw).rq_connect_cookie } == this.connect_cookie() {
        // RFC 8166, section 3.3.1: a call sent twice on one connection would use a credit that was
        // not granted.
        return Err(SendError::Disconnected.into());
    }
    // SAFETY: The caller owns `XPRT_LOCKED`.
    if unsafe { rqst.fill_reply_pages() }.is_err() {
        return Err(SendError::NoBuffers.into());
    }
    let reply_expected = rqst.reply_expected();
    // SAFETY: May be called anywhere outside of NMIs.
    let now = unsafe { raw::ktime_get() };
    // SAFETY: The request is pinned; the time is read when a reply to it is found.
    unsafe { (&raw mut (*raw).rq_xtime).write_volatile(now) };
    // Before it is sent, as the reply may overtake us.
    rqst.set_unanswered(true);
    let sent = send_or_wait(this, || T::send(this, this, rqst, more));
    sent.inspect_err(|_| rqst.set_unanswered(false))?;
    if !reply_expected {
        // The peer never says when it has a buffer for the next call again. Start over.
        this.force_disconnect();
    }
    Ok(())
}

/// Calls `send`, and again if it has to wait.
///
/// What it lacks may come back after it looked, but before sunrpc knows that somebody waits, and
/// then nobody would be woken. So waiting is announced first, and the second look decides.
fn send_or_wait<T: Transport>(
    this: &Xprt<T>,
    send: impl Fn() -> Result<(), SendError>,
) -> Result<(), SendError> {
    let first = send();
    if first != Err(SendError::Again) {
        return first;
    }
    // SAFETY: The transport is live.
    unsafe { raw::xprt_wait_for_buffer_space(this.as_raw()) };
    let second = send();
    if second != Err(SendError::Again) {
        this.write_space();
    }
    second
}

unsafe extern "C" fn timer<T: Transport>(xprt: *mut raw::rpc_xprt, task: *mut raw::rpc_task) {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: The task is the caller's, and waits for the answer to its request.
    let cookie = unsafe { (*(*task).tk_rqstp).rq_connect_cookie };
    // A peer that does not answer is gone, or will not find the call: on a reliable connection
    // there is nothing to retransmit but over a new one. Perhaps there is a new one by now.
    if cookie == this.connect_cookie() {
        T::unanswered(this, this);
    }
}

unsafe extern "C" fn close<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: The caller owns `XPRT_LOCKED`.
    unsafe { this.disconnect() };
}

unsafe extern "C" fn set_connect_timeout<T: Transport>(
    xprt: *mut raw::rpc_xprt,
    connect: c_ulong,
    reconnect: c_ulong,
) {
    // SAFETY: See the top.
    unsafe { Xprt::<T>::from_raw(xprt) }.set_connect_timeout(connect, reconnect);
}

unsafe extern "C" fn print_stats<T: Transport>(xprt: *mut raw::rpc_xprt, seq: *mut raw::seq_file) {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // CAST: Both types are what C calls `struct seq_file`.
    // SAFETY: It is the caller's for the call.
    let seq = unsafe { SeqFile::from_raw(seq.cast()) };
    stats::print(this, seq);
}

unsafe extern "C" fn enable_swap(xprt: *mut raw::rpc_xprt) -> c_int {
    // SAFETY: See the top.
    unsafe { kernel::bindings::atomic_inc((&raw mut (*xprt).swapper).cast()) };
    0
}

unsafe extern "C" fn disable_swap(xprt: *mut raw::rpc_xprt) {
    // SAFETY: See the top. `enable_swap` came before.
    unsafe { kernel::bindings::atomic_dec((&raw mut (*xprt).swapper).cast()) };
}

unsafe extern "C" fn inject_disconnect<T: Transport>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    T::inject_disconnect(this, this);
}

unsafe extern "C" fn bc_setup<T: Transport>(xprt: *mut raw::rpc_xprt, min_reqs: c_uint) -> c_int {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    match this.parts.callbacks.prepare::<T>(min_reqs as usize) {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

unsafe extern "C" fn bc_maxpayload<T: Transport>(xprt: *mut raw::rpc_xprt) -> usize {
    // SAFETY: See the top.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    T::callback_max_payload(this).min(CallbackRqst::MAX_LEN)
}

unsafe extern "C" fn bc_num_slots<T: Transport>(_xprt: *mut raw::rpc_xprt) -> c_uint {
    T::CALLBACK_SLOTS
}

unsafe extern "C" fn bc_free_rqst<T: Transport>(rqst: *mut raw::rpc_rqst) {
    // SAFETY: It is a request that `Callbacks::deliver` queued.
    let xprt = unsafe { (*rqst).rq_xprt };
    // SAFETY: See the top; the request has a reference to the transport.
    let this = unsafe { Xprt::<T>::from_raw(xprt) };
    // SAFETY: sunrpc is done with the request.
    unsafe { this.parts.callbacks.recycle(rqst) };
    // SAFETY: `Callbacks::deliver` took the reference for the request. We are in a task of the
    // callback service or an RPC task, either of which may wait for the transport's destruction.
    unsafe { raw::xprt_put(xprt) };
}

unsafe extern "C" fn bc_destroy<T: Transport>(xprt: *mut raw::rpc_xprt, _max_reqs: c_uint) {
    // SAFETY: See the top.
    unsafe { Xprt::<T>::from_raw(xprt) }.parts.callbacks.trim();
}
