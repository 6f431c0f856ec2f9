// SPDX-License-Identifier: GPL-2.0

//! The server's end of the reverse direction: a transport for calls to the client, over the
//! client's connection.
//!
//! C headers: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h),
//! [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h); RFC 8167.
//!
//! An upper layer of the server that wants to call its client makes an `rpc_xprt` of this class,
//! for an [`SvcXprt`]. The `rpc_xprt` cannot connect: it is connected as long as the `svc_xprt` is.
//! sunrpc keeps it with the `svc_xprt`, and finds it there for the next call.
//!
//! [`SvcConnection::call`] sends the calls. The replies come in as messages of the connection,
//! which passes them to [`SvcXprt::copy_callback_reply`] and [`SvcXprt::complete_callback`].

use crate::prelude::*;
use crate::{
    addr,
    clnt::{
        class::{
            SvcBackchannelClass,
            UntypedClass, //
        },
        timeouts::DEFAULT_TIMEOUT,
        xprt::lock, //
    },
    memory::Stable,
    svc::{
        recv::SvcArgs,
        transport::connection_ops,
        xprt::WeakSvcXprt, //
    },
    task, //
};
use kernel::sync::atomic::{
    Atomic,
    Release, //
};

/// A call to the client, while it is sent.
pub struct SvcCallback<'a> {
    pub(crate) buf: XdrBuf<'a>,
}

impl SvcCallback<'_> {
    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.buf.total_len()
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies it to `dst`. Returns the number of bytes copied.
    pub fn copy_out(&self, dst: &mut [u8]) -> Result<usize> {
        self.buf.copy_out(0, dst)
    }
}

impl<C: SvcConnection> SvcBackchannelClass<C> {
    /// Creates the class. It is not registered.
    #[expect(clippy::new_without_default, reason = "statics cannot use it")]
    pub const fn new() -> Self {
        let (ident, name) = (C::BACKCHANNEL_IDENT, C::BACKCHANNEL_NAME);
        // SAFETY: `setup` is for sunrpc to call, for this class.
        Self::from_untyped(unsafe { UntypedClass::new(ident, name, [c"", c""], setup::<C>) })
    }
}

/// An `rpc_xprt` for calls to the client of a connection `C`.
///
/// # Invariants
///
/// `xprt` is a live `rpc_xprt` made by `xprt_alloc` with room for all of `Self`, which has a
/// reference to the module.
#[repr(C)]
struct BcXprt<C: SvcConnection> {
    xprt: Opaque<cbindings::rpc_xprt>,
    weak: WeakSvcXprt<C>,
}

/// Returns the operations of such a transport.
fn table<C: SvcConnection>() -> &'static cbindings::rpc_xprt_ops {
    &const {
        cbindings::rpc_xprt_ops {
            set_buffer_size: None,
            reserve_xprt: Some(cbindings::xprt_reserve_xprt_cong),
            release_xprt: Some(cbindings::xprt_release_xprt_cong),
            alloc_slot: Some(cbindings::xprt_alloc_slot),
            free_slot: Some(cbindings::xprt_free_slot),
            rpcbind: None,
            set_port: None,
            connect: None,
            get_srcaddr: None,
            get_srcport: None,
            buf_alloc: Some(buf_alloc),
            buf_free: Some(buf_free),
            prepare_request: None,
            send_request: Some(send_request::<C>),
            abort_send_request: None,
            wait_for_reply_request: Some(cbindings::xprt_wait_for_reply_request_def),
            timer: None,
            // This returns the credit of a call that timed out, too. If the client still replies to
            // it, the client has had one call more than it granted; but a client that never replies
            // would block all callbacks.
            release_request: Some(cbindings::xprt_release_rqst_cong),
            close: Some(close),
            destroy: Some(destroy::<C>),
            set_connect_timeout: None,
            print_stats: Some(print_stats),
            enable_swap: None,
            disable_swap: None,
            inject_disconnect: None,
            bc_setup: None,
            bc_maxpayload: None,
            bc_num_slots: None,
            bc_free_rqst: None,
            bc_destroy: None,
        }
    }
}

/// Makes a transport.
///
/// # Safety
///
/// sunrpc calls it, with a module reference for the time of the call, and with a reference to the
/// `svc_xprt` that `bc_xprt` names.
unsafe extern "C" fn setup<C: SvcConnection>(
    args: *mut cbindings::xprt_create,
) -> *mut cbindings::rpc_xprt {
    // SAFETY: sunrpc's arguments are valid for the call.
    match unsafe { create::<C>(&*args) } {
        Ok(xprt) => xprt.as_ptr(),
        Err(error) => error.to_ptr(),
    }
}

/// # Safety
///
/// As for [`setup`].
unsafe fn create<C: SvcConnection>(
    args: &cbindings::xprt_create,
) -> Result<NonNull<cbindings::rpc_xprt>> {
    let svc = NonNull::new(args.bc_xprt).ok_or(EINVAL)?;
    // SAFETY: sunrpc has a reference to it.
    let ops = unsafe { (*svc.as_ptr()).xpt_ops };
    if !ptr::eq(ops, connection_ops::<C>()) {
        return Err(EINVAL);
    }
    // SAFETY: Its operations are those of an `SvcXprt<C>`.
    let connection = unsafe { SvcXprt::<C>::from_raw(svc.as_ptr()) };
    if !addr::fits(args) {
        return Err(EBADF);
    }
    let class = C::backchannel_class().untyped();
    class.get_module()?;
    // SAFETY: sunrpc gives a live namespace. The size has room for `BcXprt`.
    let raw = unsafe {
        cbindings::xprt_alloc(
            args.net,
            size_of::<BcXprt<C>>(),
            C::BACKCHANNEL_CREDITS,
            C::BACKCHANNEL_CREDITS,
        )
    };
    let Some(raw) = NonNull::new(raw) else {
        // SAFETY: `get_module` took the reference; sunrpc has its own during the call.
        unsafe { class.put_module() };
        return Err(ENOMEM);
    };
    // SAFETY: The memory is that of `weak`.
    unsafe { (&raw mut (*raw.as_ptr().cast::<BcXprt<C>>()).weak).write(connection.downgrade()) };

    // SAFETY: `xprt_alloc` initialised it, and nobody else has seen it.
    let xprt = unsafe { &mut *raw.as_ptr() };
    xprt.ops = table::<C>();
    xprt.xprt_class = class.as_raw();
    xprt.timeout = &raw const DEFAULT_TIMEOUT;
    xprt.bind_timeout = 0;
    xprt.reestablish_timeout = 0;
    xprt.idle_timeout = 0;
    xprt.max_payload = C::BACKCHANNEL_PAYLOAD;
    xprt.prot = C::BACKCHANNEL_IDENT;
    xprt.set_resvport(0);
    // SAFETY: `args` is sunrpc's, and its address fits.
    unsafe { addr::set(xprt, args) };
    if let Err(error) = addr::format(xprt, C::BACKCHANNEL_NAME, C::BACKCHANNEL_NETIDS) {
        // SAFETY: Nobody else has seen it.
        unsafe { destroy::<C>(xprt) };
        return Err(error);
    }
    // SAFETY: The transport is live.
    unsafe { cbindings::xprt_set_bound(xprt) };
    // SAFETY: The transport is live, and nobody else has seen it. There will be no attempt to
    // connect.
    unsafe { cbindings::xprt_set_connected(xprt) };
    xprt.bc_xprt = svc.as_ptr();
    // SAFETY: The `svc_xprt` is live: sunrpc has a reference to it. Until it is freed the word
    // changes only here, once; sunrpc takes no lock to read it, and reads it as a whole.
    let xpt_bc_xprt = unsafe { Atomic::from_ptr(&raw mut (*svc.as_ptr()).xpt_bc_xprt) };
    // sunrpc has seen that the word is null, but under no lock: two NFSv4.1 clients that bind to
    // one connection at the same time both come here. The connection can have only one transport,
    // as replies are looked up in that one. The client that is late is told that its callback path
    // is down; when it binds again, sunrpc finds the transport that is there. `Release`: whoever
    // reads the pointer also reads what was written to the transport before.
    if xpt_bc_xprt
        .cmpxchg(ptr::null_mut(), raw.as_ptr(), Release)
        .is_err()
    {
        // SAFETY: Nobody else has seen it.
        unsafe { destroy::<C>(raw.as_ptr()) };
        return Err(EAGAIN);
    }
    // sunrpc drops this reference when it frees the `svc_xprt`, to which the caller of this
    // function has a reference of its own.
    // SAFETY: The transport is live: `xprt_alloc` made it with the reference that the caller gets.
    unsafe { cbindings::xprt_get(raw.as_ptr()) };
    Ok(raw)
}

/// Frees it.
///
/// # Safety
///
/// sunrpc calls it, or [`create`] for a transport that nobody else has seen.
unsafe extern "C" fn destroy<C: SvcConnection>(xprt: *mut cbindings::rpc_xprt) {
    // SAFETY: This is called once, when nobody else can reach the transport any more.
    unsafe { (&raw mut (*xprt.cast::<BcXprt<C>>()).weak).drop_in_place() };
    // SAFETY: This is called once, when nobody else can reach the transport any more.
    addr::free(unsafe { &mut (*xprt).address_strings });
    // SAFETY: Nobody else can reach the transport any more, and its weak reference and strings are
    // dropped.
    unsafe { cbindings::xprt_free(xprt) };
    // SAFETY: `create` took the reference. After this the function only returns.
    unsafe { C::backchannel_class().untyped().put_module() };
}

/// Tells sunrpc that the transport is not connected any more.
///
/// # Safety
///
/// sunrpc calls it.
unsafe extern "C" fn close(xprt: *mut cbindings::rpc_xprt) {
    // SAFETY: The transport is live.
    unsafe { cbindings::xprt_disconnect_done(xprt) };
}

/// Prints nothing: sunrpc shows the counters of mounts only.
///
/// # Safety
///
/// sunrpc calls it.
unsafe extern "C" fn print_stats(_xprt: *mut cbindings::rpc_xprt, _seq: *mut cbindings::seq_file) {}

/// Allocates call and reply in one buffer.
///
/// # Safety
///
/// sunrpc calls it.
unsafe extern "C" fn buf_alloc(task: *mut cbindings::rpc_task) -> c_int {
    // SAFETY: The task has a request, which nobody else uses yet.
    let rqst = unsafe { &mut *(*task).tk_rqstp };
    let Some(len) = rqst.rq_callsize.checked_add(rqst.rq_rcvsize) else {
        return EINVAL.to_errno();
    };
    let Ok(memory) = KVec::<u8>::with_capacity(len, GFP_NOWAIT | __GFP_NOWARN) else {
        return ENOMEM.to_errno();
    };
    let (base, _, _) = memory.into_raw_parts();
    rqst.rq_buffer = base.cast();
    rqst.rq_rbuffer = base.wrapping_add(rqst.rq_callsize).cast();
    0
}

/// Undoes [`buf_alloc`].
///
/// # Safety
///
/// sunrpc calls it.
unsafe extern "C" fn buf_free(task: *mut cbindings::rpc_task) {
    // SAFETY: The task has a request.
    let buffer = unsafe { (*(*task).tk_rqstp).rq_buffer };
    // SAFETY: `buf_alloc` allocated it. The connection copies a call before it sends that.
    unsafe { cbindings::kfree(buffer) };
}

/// Sends a call.
///
/// # Safety
///
/// sunrpc calls it.
unsafe extern "C" fn send_request<C: SvcConnection>(rqst: *mut cbindings::rpc_rqst) -> c_int {
    // SAFETY: This is `send_request`.
    let status = unsafe { send_callback::<C>(rqst) };
    if status == task::ENOTCONN {
        // There will be no other connection for this transport. But until a thread closes the
        // `svc_xprt`, this transport counts as connected, and sunrpc would send the call again at
        // once. Now the call fails, and nfsd looks for another connection.
        // SAFETY: The request is pinned, and so is its transport.
        unsafe { cbindings::xprt_disconnect_done((*rqst).rq_xprt) };
    }
    status
}

/// # Safety
///
/// As for [`send_request`].
unsafe fn send_callback<C: SvcConnection>(rqst: *mut cbindings::rpc_rqst) -> c_int {
    // SAFETY: The request is pinned, and its transport is a `BcXprt<C>`.
    let weak = unsafe { &(*(*rqst).rq_xprt.cast::<BcXprt<C>>()).weak };
    let caller = weak.with(|xprt| (!xprt.is_dead()).then(|| C::caller(xprt)).flatten());
    let Some(caller) = caller.flatten() else {
        return task::ENOTCONN;
    };
    // Until the first reply there is one credit (RFC 8167), which is how sunrpc initialises the
    // window.
    // SAFETY: The request is pinned, and so is its transport.
    if !unsafe { cbindings::xprt_request_get_cong((*rqst).rq_xprt, rqst) } {
        return task::EBADSLT;
    }
    // SAFETY: The request is pinned, so sunrpc does not change its XID.
    let xid = u32::from_be(unsafe { (*rqst).rq_xid });
    let call = SvcCallback {
        // SAFETY: The task keeps the buffers while the request is pinned.
        buf: unsafe { XdrBuf::from_raw(&raw const (*rqst).rq_snd_buf) },
    };
    // SAFETY: Any context but an NMI may call this.
    let now = unsafe { cbindings::ktime_get() };
    // SAFETY: The request is pinned. Only senders write the word, and sunrpc lets one send at a
    // time (`XPRT_LOCKED`). The task of the call may read it, as a whole.
    unsafe { (&raw mut (*rqst).rq_xtime).write_volatile(now) };
    match C::call(&caller, xid, &call) {
        Ok(()) => (),
        // sunrpc tries again after a quarter of a second.
        Err(EAGAIN) => return task::ENOBUFS,
        Err(EMSGSIZE) => {
            // The call fails, and no other: an error would end the task that is sending, which may
            // be that of another call, and would leave this one at the head of the queue. So sunrpc
            // is told that it was sent, and wakes its task.
            // SAFETY: The request is pinned. Its task therefore lives, and has started.
            unsafe { task::set_rpc_status((*rqst).rq_task, EIO.to_errno()) };
            return 0;
        }
        Err(_) => return task::ENOTCONN,
    }
    // SAFETY: The request is pinned.
    let total = unsafe { &raw mut (*rqst).rq_xmit_bytes_sent };
    // SAFETY: The request is pinned. Only senders write the word, and sunrpc lets one send at a
    // time (`XPRT_LOCKED`). The task may read the word now: the reply may be here already.
    unsafe { total.write_volatile(total.read_volatile().wrapping_add(call.len())) };
    0
}

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
        unsafe { (*xprt).cwnd = (credits as c_ulong) << cbindings::RPC_CWNDSHIFT };
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
                unsafe { task::fail_task(task, EIO.to_errno()) };
            }
            let copied = c_int::try_from(reply.copied.unwrap_or(0)).unwrap_or(c_int::MAX);
            // SAFETY: The request is on the receive queue, and `with_callback` holds `queue_lock`.
            unsafe { cbindings::xprt_complete_rqst(task, copied) };
        });
    }

    /// Calls `f` with the transport and the request that waits for the reply `xid`, under
    /// `queue_lock`, if there is one and the thread of `args` receives from `self`.
    fn with_callback<M: Stable, R>(
        &self,
        args: &SvcArgs<'_, M>,
        xid: u32,
        f: impl FnOnce(*mut cbindings::rpc_xprt, *mut cbindings::rpc_rqst) -> R,
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
        let rqst = NonNull::new(unsafe { cbindings::xprt_lookup_rqst(xprt, xid.to_be()) })?;
        Some(f(xprt, rqst.as_ptr()))
    }
}
