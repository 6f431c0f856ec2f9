// SPDX-License-Identifier: GPL-2.0

//! The methods that a transport of the sunrpc server has to provide, and the functions of `struct
//! svc_xprt_ops` that call them.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h).
//!
//! Each function turns pointers into references and calls one method. sunrpc calls all of them with
//! a live transport whose operations they are, and with the `svc_rqst` of the calling thread.
//!
//! Those in which a thread uses the device of the connection are scopes without file systems
//! ([`NoFs`]): the removal of a device waits for such threads, and a file system that frees memory
//! may wait for an RPC over that very device, where the server is a client, too.

#![expect(
    clippy::missing_safety_doc,
    reason = "sunrpc is the only caller; the top of this file says what it promises"
)]

use crate::prelude::*;
use crate::{
    bc::svc::SvcCallback,
    clnt::class::SvcBackchannelClass,
    memory::Stable,
    svc::{
        listener::SvcClass,
        recv::{
            self,
            SvcArgs, //
        },
        reply::SvcResult,
        xprt::WeakSvcXprt, //
    },
    Net, //
};
use ext::alloc_scope::NoFs;
use kernel::bindings::sockaddr;

/// A connection, with the types that belong to each of its calls.
pub trait HasSvcCall: Sized + Send + Sync + 'static {
    /// The message that a call comes in.
    type Message: Stable;

    /// The connection's own state of a call.
    type CallContext: Send;
}

/// A call from its arrival to its reply: the connection's context of it, and the message that
/// sunrpc reads it from.
///
/// While sunrpc works on the call, the connection can access the context only. Safe code therefore
/// cannot take the message away while sunrpc reads it.
pub struct SvcCall<C: HasSvcCall> {
    /// The context.
    pub context: C::CallContext,
    message: Option<C::Message>,
}

impl<C: HasSvcCall> SvcCall<C> {
    /// Creates a call without a message, as it is before and after sunrpc works on it.
    pub fn new(context: C::CallContext) -> Self {
        Self {
            context,
            message: None,
        }
    }

    /// Takes the message, if there was no reply.
    pub fn take_message(&mut self) -> Option<C::Message> {
        self.message.take()
    }

    pub(crate) fn set_message(&mut self, message: C::Message) {
        self.message = Some(message);
    }
}

/// The listening side of a server transport.
pub trait SvcListener: Sized + Send + Sync + 'static {
    /// The connections that it makes.
    type Connection: SvcConnection;

    /// A peer that waits to be accepted.
    type Incoming: Send;

    /// Name of the class, as an administrator writes it.
    const NAME: &'static CStr;

    /// `XPRT_TRANSPORT_*`.
    const IDENT: i32;

    /// The largest payload of an RPC, in bytes.
    const MAX_PAYLOAD: u32;

    /// Returns the class, a `static` of the module.
    fn class() -> &'static SvcClass<Self>;

    /// Makes the state of a listener that does not listen yet. May sleep.
    fn new(weak: WeakSvcXprt<Self>) -> impl PinInit<Self, Error>;

    /// Starts to listen at `address`. Returns the address at which it listens. May sleep.
    fn listen(&self, net: Net, address: &SockAddr) -> Result<SockAddr>;

    /// Takes the next peer off the queue, and says whether there are more. A peer that comes later
    /// is announced by [`SvcXprt::connection_pending`]. May sleep.
    fn next(&self) -> (Option<Self::Incoming>, bool);

    /// Returns the address of a peer that waits to be accepted.
    fn peer(incoming: &Self::Incoming) -> Result<SockAddr>;

    /// Reports that `peer` was not accepted, because of `error`.
    fn rejected(&self, peer: &Result<SockAddr>, error: Error);

    /// Makes the state of a connection that is not accepted yet. May sleep.
    fn accept(
        &self,
        incoming: Self::Incoming,
        weak: WeakSvcXprt<Self::Connection>,
    ) -> impl PinInit<Self::Connection, Error>;

    /// Handles the expiry of the timer that [`SvcXprt::start_timer`] started, on the work queue
    /// `svcrdma`, perhaps after [`Self::detach`]. May sleep. May start it again.
    fn timer_expired(&self, xprt: &SvcXprt<Self>);

    /// Stops listening. May sleep.
    fn detach(&self);
}

/// A connection of a server transport.
pub trait SvcConnection: HasSvcCall {
    /// The listener that makes it.
    type Listener: Send + Sync + 'static;

    /// A received message or another event that a service thread handles.
    type Work;

    /// The sender of calls to the client. It may outlive the connection.
    type Caller: Send;

    /// Name of the class for calls to the client, and the protocol in its address strings.
    const BACKCHANNEL_NAME: &'static CStr;

    /// `XPRT_TRANSPORT_BC_*`.
    const BACKCHANNEL_IDENT: i32;

    /// netids for IPv4 and IPv6.
    const BACKCHANNEL_NETIDS: [&'static CStr; 2];

    /// Calls to the client that may be outstanding.
    const BACKCHANNEL_CREDITS: u32;

    /// Bytes of the longest such call.
    const BACKCHANNEL_PAYLOAD: usize;

    /// Returns the class for calls to the client, a `static` of the module.
    fn backchannel_class() -> &'static SvcBackchannelClass<Self>;

    /// Returns the sender of calls to the client, or [`None`] after [`Self::close`]. Does not
    /// sleep.
    fn caller(&self) -> Option<Self::Caller>;

    /// Sends a call to the client. May sleep. [`EAGAIN`] says that it may be sent in a while,
    /// [`EMSGSIZE`] that it never can be, any other error that the connection has ended.
    fn call(caller: &Self::Caller, xid: u32, call: &SvcCallback<'_>) -> Result;

    /// Accepts the peer. May sleep. If it fails, the state is dropped.
    fn start(&self, xprt: &SvcXprt<Self>) -> Result;

    /// Returns the two addresses, local and remote.
    fn addresses(&self) -> Result<(SockAddr, SockAddr)>;

    /// Takes the next piece of work off the queue.
    ///
    /// If the queue is empty, it calls [`SvcXprt::no_data`] and returns [`None`]. Whoever adds work
    /// calls [`SvcXprt::data_pending`]. Both calls are made under the lock of the queue.
    fn next(&self, xprt: &SvcXprt<Self>) -> Option<Self::Work>;

    /// Puts the call of `work` into `args`, if `work` is a call, and complete. May sleep.
    fn receive(
        &self,
        xprt: &SvcXprt<Self>,
        work: Self::Work,
        args: &mut SvcArgs<'_, Self::Message>,
    ) -> Option<KBox<SvcCall<Self>>>;

    /// Records in `context` that `len` bytes of the reply, from `offset` on, may leave the message.
    /// The reply is in the first `pages` pages of the thread so far.
    ///
    /// It cannot fail: nfsd would then leave pages of the file among those that its thread writes
    /// replies to.
    fn result_payload(
        &self,
        context: &mut Self::CallContext,
        offset: usize,
        len: usize,
        pages: usize,
    );

    /// Replies to the call that came in `message`. May sleep. There is no second attempt if it
    /// fails.
    fn reply(
        &self,
        xprt: &SvcXprt<Self>,
        message: Self::Message,
        context: &mut Self::CallContext,
        result: SvcResult<'_>,
    ) -> Result;

    /// Takes back a call that sunrpc has finished with, whether it has a reply or not. May sleep.
    fn release(&self, call: KBox<SvcCall<Self>>);

    /// Handles the expiry of the timer that [`SvcXprt::start_timer`] started, on the work queue
    /// `svcrdma`. May sleep. May start it again.
    fn timer_expired(&self, xprt: &SvcXprt<Self>);

    /// Ends the connection: no more calls arrive, and nothing is posted any more, or only to be
    /// flushed. May sleep. May be called again, also while another call runs, and before
    /// [`Self::start`] has returned.
    fn detach(&self);

    /// Releases the connection's resources of the device, and its calls that no thread has taken.
    /// Threads may be in other methods meanwhile, which then have what they use for as long as they
    /// run; and sunrpc may be working on calls, whose replies are dropped. Called after
    /// [`Self::detach`], and again when nobody uses the connection any more: when that call returns
    /// no memory of it is under DMA and no handler runs or can start. May sleep.
    fn close(&self);
}

impl<L: SvcListener> SvcClass<L> {
    /// Creates the class of `L`. It is not registered.
    #[expect(clippy::new_without_default, reason = "statics cannot use it")]
    pub const fn new() -> Self {
        // SAFETY: `create` is for sunrpc to call, for this class.
        unsafe { Self::with_ops(L::NAME, L::IDENT, L::MAX_PAYLOAD, listener_ops::<L>()) }
    }
}

/// Returns the operations of listeners.
const fn listener_ops<L: SvcListener>() -> &'static cbindings::svc_xprt_ops {
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
pub(crate) const fn connection_ops<C: SvcConnection>() -> &'static cbindings::svc_xprt_ops {
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
        unsafe { SvcXprt::<L>::listen(serv, net, &address, listener_ops::<L>()) }
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
    let _scope = NoFs::new();
    // SAFETY: This is `xpo_accept`.
    unsafe { listener.accept(connection_ops::<L::Connection>()) }
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
    let _scope = NoFs::new();
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
    let _scope = NoFs::new();
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
    // SAFETY: Both point into the same array of the thread.
    let pages = unsafe { (*rqstp).rq_next_page.offset_from((*rqstp).rq_respages) };
    let pages = usize::try_from(pages).unwrap_or(0);
    xprt.result_payload(&mut call.context, offset as usize, len as usize, pages);
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
