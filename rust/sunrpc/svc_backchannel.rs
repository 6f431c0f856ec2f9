// SPDX-License-Identifier: GPL-2.0

//! Calls of the server to its client, over the client's connection.
//!
//! C headers: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h),
//! [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h); RFC 8167.
//!
//! An upper layer of the server that wants to call back makes an `rpc_xprt` of the class registered
//! here, for an `svc_xprt` of ours. It cannot connect: it is as connected as that one is. sunrpc
//! keeps it with the `svc_xprt`, and finds it there for the next caller.
//!
//! Calls go out through a [`SvcConnection::Caller`]; replies come in as messages of the connection,
//! whose transport gives them to [`SvcXprt::answer_callback`].

use crate::{
    addr,
    class::{
        ClassRegistration,
        UntypedClass, //
    },
    errno,
    memory::Stable,
    pending_reply::fail_task,
    svc_link::SvcLink,
    svc_ops,
    xdr_buf::XdrBuf,
    xprt::lock,
    SvcArgs,
    SvcConnection,
    SvcXprt, //
};
use core::{
    marker::PhantomData,
    mem::size_of,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    alloc::flags::__GFP_NOWARN,
    ffi::{
        c_int,
        c_ulong, //
    },
    prelude::*,
    sync::atomic::{
        Atomic,
        Release, //
    },
    types::Opaque, //
};

const HZ: c_ulong = kernel::bindings::CONFIG_HZ as c_ulong;

/// One minute to call the client and get its reply, without a retransmission.
static TIMEOUT: raw::rpc_timeout = raw::rpc_timeout {
    to_initval: 60 * HZ,
    to_maxval: 60 * HZ,
    to_increment: 0,
    to_retries: 0,
    to_exponential: 0,
};

/// A call to the client, while it is sent.
pub struct SvcCallback<'a> {
    buf: XdrBuf<'a>,
}

impl SvcCallback<'_> {
    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.buf.total_len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies it to `dst`. Returns how many bytes there were.
    pub fn copy_out(&self, dst: &mut [u8]) -> Result<usize> {
        self.buf.copy_out(0, dst)
    }
}

/// A callback whose reply is in its place, or that the client could make no sense of.
pub struct AnsweredCallback {
    xid: u32,
    copied: Option<usize>,
}

impl AnsweredCallback {
    /// That with this XID (in host order), if there is one, with an RDMA_ERROR.
    pub fn failed(xid: u32) -> Self {
        Self { xid, copied: None }
    }
}

/// The class of `rpc_xprt`s for calls over connections `C`, to be a `static` of the module.
pub struct SvcBackchannelClass<C: SvcConnection> {
    untyped: UntypedClass,
    _connection: PhantomData<fn() -> C>,
}

impl<C: SvcConnection> SvcBackchannelClass<C> {
    /// The class, not registered.
    #[expect(clippy::new_without_default, reason = "statics cannot use it")]
    pub const fn new() -> Self {
        let (ident, name) = (C::BACKCHANNEL_IDENT, C::BACKCHANNEL_NAME);
        Self {
            // SAFETY: `setup` is for sunrpc to call, for this class.
            untyped: unsafe { UntypedClass::new(ident, name, [c"", c""], setup::<C>) },
            _connection: PhantomData,
        }
    }

    /// Makes the class known to sunrpc, until the returned value is dropped.
    ///
    /// [`EEXIST`] if there is another with this ident.
    pub fn register(&'static self, module: &'static ThisModule) -> Result<ClassRegistration> {
        self.untyped.register(module)
    }
}

/// An `rpc_xprt` that calls back over a connection `C`.
///
/// # Invariants
///
/// `xprt` is a live `rpc_xprt` made by `xprt_alloc` with room for all of `Self`, which has a
/// reference to the module.
#[repr(C)]
struct Reverse<C: SvcConnection> {
    xprt: Opaque<raw::rpc_xprt>,
    link: SvcLink<C>,
}

/// The functions of such a transport.
fn table<C: SvcConnection>() -> &'static raw::rpc_xprt_ops {
    &const {
        raw::rpc_xprt_ops {
            set_buffer_size: None,
            reserve_xprt: Some(raw::xprt_reserve_xprt_cong),
            release_xprt: Some(raw::xprt_release_xprt_cong),
            alloc_slot: Some(raw::xprt_alloc_slot),
            free_slot: Some(raw::xprt_free_slot),
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
            wait_for_reply_request: Some(raw::xprt_wait_for_reply_request_def),
            timer: None,
            // Also of a call whose time is over. Its answer may come yet, so the client may have one call more
            // than it granted then; one that never answers would keep all others waiting.
            release_request: Some(raw::xprt_release_rqst_cong),
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
unsafe extern "C" fn setup<C: SvcConnection>(args: *mut raw::xprt_create) -> *mut raw::rpc_xprt {
    // SAFETY: They are valid for the call.
    match unsafe { create::<C>(&*args) } {
        Ok(xprt) => xprt.as_ptr(),
        Err(error) => error.to_ptr(),
    }
}

/// # Safety
///
/// As for [`setup`].
unsafe fn create<C: SvcConnection>(args: &raw::xprt_create) -> Result<NonNull<raw::rpc_xprt>> {
    let svc = NonNull::new(args.bc_xprt).ok_or(EINVAL)?;
    // SAFETY: sunrpc has a reference to it.
    let ops = unsafe { (*svc.as_ptr()).xpt_ops };
    if !ptr::eq(ops, svc_ops::connection::<C>()) {
        return Err(EINVAL);
    }
    // SAFETY: Its functions say what it is.
    let connection = unsafe { SvcXprt::<C>::from_raw(svc.as_ptr()) };
    if args.addrlen > size_of::<raw::__kernel_sockaddr_storage>() {
        return Err(EBADF);
    }
    let class = &C::backchannel_class().untyped;
    class.get_module()?;
    // SAFETY: sunrpc says which namespace. The size has room for `Reverse`.
    let raw = unsafe {
        raw::xprt_alloc(
            args.net,
            size_of::<Reverse<C>>(),
            C::BACKCHANNEL_CREDITS,
            C::BACKCHANNEL_CREDITS,
        )
    };
    let Some(raw) = NonNull::new(raw) else {
        // SAFETY: The reference taken above; sunrpc's own keeps the module during `setup`.
        unsafe { class.put_module() };
        return Err(ENOMEM);
    };
    // SAFETY: The memory is that of `link`.
    unsafe { (&raw mut (*raw.as_ptr().cast::<Reverse<C>>()).link).write(connection.link()) };

    // SAFETY: `xprt_alloc` initialised it, and nobody else has seen it.
    let xprt = unsafe { &mut *raw.as_ptr() };
    xprt.ops = table::<C>();
    xprt.xprt_class = class.as_raw();
    xprt.timeout = &raw const TIMEOUT;
    xprt.bind_timeout = 0;
    xprt.reestablish_timeout = 0;
    xprt.idle_timeout = 0;
    xprt.max_payload = C::BACKCHANNEL_PAYLOAD;
    xprt.prot = C::BACKCHANNEL_IDENT;
    xprt.set_resvport(0);
    // SAFETY: sunrpc gives `addrlen` bytes at `dstaddr`, and they fit.
    unsafe {
        args.dstaddr
            .cast::<u8>()
            .copy_to_nonoverlapping((&raw mut xprt.addr).cast(), args.addrlen)
    };
    xprt.addrlen = args.addrlen;
    if let Err(error) = addr::format(xprt, C::BACKCHANNEL_NAME, C::BACKCHANNEL_NETIDS) {
        // SAFETY: Nobody else has seen it.
        unsafe { destroy::<C>(xprt) };
        return Err(error);
    }
    // SAFETY: The transport is live.
    unsafe { raw::xprt_set_bound(xprt) };
    // SAFETY: As above. There will be no attempt to connect.
    unsafe { raw::xprt_set_connected(xprt) };
    xprt.bc_xprt = svc.as_ptr();
    // SAFETY: The `svc_xprt` is live, as above. Until it is freed the word changes only here, once;
    // sunrpc, which does not wait for us, reads it as a whole.
    let place = unsafe { Atomic::from_ptr(&raw mut (*svc.as_ptr()).xpt_bc_xprt) };
    // sunrpc has seen that the place is empty, but under no lock: two NFSv4.1 clients that bind to
    // one connection at the same time both come here. It can have one transport only, as replies
    // are looked for in that one. The client that is late is told that its callback path is down;
    // when it binds again, sunrpc finds the transport that is there.
    // `Release`: who finds the transport finds all that was done to it here.
    if place
        .cmpxchg(ptr::null_mut(), raw.as_ptr(), Release)
        .is_err()
    {
        // SAFETY: Nobody else has seen it.
        unsafe { destroy::<C>(raw.as_ptr()) };
        return Err(EAGAIN);
    }
    // The `svc_xprt` gives this reference back when it is freed, which the caller's keeps from
    // happening before we return.
    // SAFETY: The transport is live: it was made with the reference that goes to the caller.
    unsafe { raw::xprt_get(raw.as_ptr()) };
    Ok(raw)
}

/// Frees it.
///
/// # Safety
///
/// sunrpc calls it, or [`create`] for one that nobody else has seen.
unsafe extern "C" fn destroy<C: SvcConnection>(xprt: *mut raw::rpc_xprt) {
    // SAFETY: Called once, when nobody else can reach it any more.
    unsafe { (&raw mut (*xprt.cast::<Reverse<C>>()).link).drop_in_place() };
    // SAFETY: As above.
    addr::free(unsafe { &mut (*xprt).address_strings });
    // SAFETY: As above.
    unsafe { raw::xprt_free(xprt) };
    // SAFETY: `setup` took the reference. What is left of this function is to return.
    unsafe { C::backchannel_class().untyped.put_module() };
}

/// The connection ends, and this with it.
///
/// # Safety
///
/// sunrpc calls it.
unsafe extern "C" fn close(xprt: *mut raw::rpc_xprt) {
    // SAFETY: The transport is live.
    unsafe { raw::xprt_disconnect_done(xprt) };
}

/// Only clients have a place to show them.
///
/// # Safety
///
/// sunrpc calls it.
unsafe extern "C" fn print_stats(_xprt: *mut raw::rpc_xprt, _seq: *mut raw::seq_file) {}

/// One allocation for the call and its reply.
///
/// # Safety
///
/// sunrpc calls it.
unsafe extern "C" fn buf_alloc(task: *mut raw::rpc_task) -> c_int {
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
unsafe extern "C" fn buf_free(task: *mut raw::rpc_task) {
    // SAFETY: The task has a request.
    let buffer = unsafe { (*(*task).tk_rqstp).rq_buffer };
    // SAFETY: It came from `buf_alloc`. A call is copied before it is sent.
    unsafe { raw::kfree(buffer) };
}

/// Sends a call.
///
/// # Safety
///
/// sunrpc calls it.
unsafe extern "C" fn send_request<C: SvcConnection>(rqst: *mut raw::rpc_rqst) -> c_int {
    // SAFETY: This is `send_request`.
    let status = unsafe { send_callback::<C>(rqst) };
    if status == errno::ENOTCONN {
        // The connection comes back no more, but as long as no thread has closed its transport, this
        // one is connected, and sunrpc would have the call sent again at once. Now it fails, and nfsd
        // sees to another.
        // SAFETY: The request is pinned, and so is its transport.
        unsafe { raw::xprt_disconnect_done((*rqst).rq_xprt) };
    }
    status
}

/// # Safety
///
/// As for [`send_request`].
unsafe fn send_callback<C: SvcConnection>(rqst: *mut raw::rpc_rqst) -> c_int {
    // SAFETY: The request is pinned, and its transport is a `Reverse<C>`.
    let link = unsafe { &(*(*rqst).rq_xprt.cast::<Reverse<C>>()).link };
    let caller = link.with(|xprt| (!xprt.is_dead()).then(|| C::caller(xprt)));
    let Some(caller) = caller.flatten() else {
        return errno::ENOTCONN;
    };
    // Until the first reply the window begins at one, as sunrpc made it (RFC 8167).
    // SAFETY: The request is pinned, and so is its transport.
    if !unsafe { raw::xprt_request_get_cong((*rqst).rq_xprt, rqst) } {
        return errno::EBADSLT;
    }
    // SAFETY: As above.
    let xid = u32::from_be(unsafe { (*rqst).rq_xid });
    let call = SvcCallback {
        // SAFETY: The task keeps the buffers while the request is pinned.
        buf: unsafe { XdrBuf::from_raw(&raw const (*rqst).rq_snd_buf) },
    };
    // SAFETY: The field is the sender's.
    unsafe { (*rqst).rq_xtime = raw::ktime_get() };
    if C::call(&caller, xid, &call).is_err() {
        return errno::ENOTCONN;
    }
    // SAFETY: As above.
    let sent = unsafe { &mut (*rqst).rq_xmit_bytes_sent };
    *sent = sent.wrapping_add(call.len());
    0
}

impl<C: SvcConnection> SvcXprt<C> {
    /// Copies `reply` to the place of the callback `xid` (in host order) that waits for it, if there is one.
    /// `credits` are what the client grants. Takes `queue_lock` and `transport_lock`, one at a time.
    pub fn answer_callback<M: Stable>(
        &self,
        args: &SvcArgs<'_, M>,
        xid: u32,
        credits: u32,
        reply: &[u8],
    ) -> Option<AnsweredCallback> {
        let (xprt, copied) = self.with_callback(args, xid, |xprt, rqst| {
            // SAFETY: The request waits for its reply, which is why its place is there.
            let place = unsafe { XdrBuf::from_raw(&raw const (*rqst).rq_rcv_buf) };
            (xprt, place.copy_in(0, reply))
        })?;
        let credits = credits.clamp(1, C::BACKCHANNEL_CREDITS);
        // SAFETY: As in `with_callback`.
        let _guard = unsafe { lock(&raw mut (*xprt).transport_lock) };
        // SAFETY: As above; the lock guards the window.
        unsafe { (*xprt).cwnd = (credits as c_ulong) << raw::RPC_CWNDSHIFT };
        let copied = Some(copied);
        Some(AnsweredCallback { xid, copied })
    }

    /// Completes a callback. Whoever waits for its credit may call next, so there has to be a Receive for
    /// the reply to that. Takes `queue_lock`.
    pub fn complete_callback<M: Stable>(&self, args: &SvcArgs<'_, M>, answered: AnsweredCallback) {
        self.with_callback(args, answered.xid, |_, rqst| {
            // SAFETY: The request waits for its reply, so its task is live.
            let task = unsafe { (*rqst).rq_task };
            if answered.copied.is_none() {
                // SAFETY: As above.
                unsafe { fail_task(task, EIO.to_errno()) };
            }
            let copied = c_int::try_from(answered.copied.unwrap_or(0)).unwrap_or(c_int::MAX);
            // SAFETY: As above; `queue_lock` is held.
            unsafe { raw::xprt_complete_rqst(task, copied) };
        });
    }

    /// Calls `f` with the transport and the request that waits for the reply `xid`, under `queue_lock`, if
    /// `args` are of a thread that receives from `self`.
    fn with_callback<M: Stable, R>(
        &self,
        args: &SvcArgs<'_, M>,
        xid: u32,
        f: impl FnOnce(*mut raw::rpc_xprt, *mut raw::rpc_rqst) -> R,
    ) -> Option<R> {
        if !args.are_of(self.as_raw()) {
            return None;
        }
        // SAFETY: The thread has a reference to `self`; the field is set once, and what it names is kept until
        // the last reference goes.
        let xprt = unsafe { (&raw const (*self.as_raw()).xpt_bc_xprt).read_volatile() };
        if xprt.is_null() {
            return None;
        }
        // SAFETY: As above.
        let _guard = unsafe { lock(&raw mut (*xprt).queue_lock) };
        // SAFETY: The lock is held.
        let rqst = NonNull::new(unsafe { raw::xprt_lookup_rqst(xprt, xid.to_be()) })?;
        Some(f(xprt, rqst.as_ptr()))
    }
}
