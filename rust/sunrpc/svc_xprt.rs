// SPDX-License-Identifier: GPL-2.0

//! Safe `svc_xprt`: what a transport of the sunrpc server has to provide and may use.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)
//!
//! A transport implements [`SvcListener`] and [`SvcConnection`], declares one static
//! [`SvcClass`](crate::SvcClass) and registers it. sunrpc makes listeners of it when an
//! administrator asks for one; each listener makes connections. Both are an [`SvcXprt`] with our
//! state in it.
//!
//! # Who calls whom, in which context, under which lock
//!
//! | method | called from | sleeps | held |
//! |---|---|---|---|
//! | [`SvcListener::listen`] | an administrator's task | yes | the service's mutex |
//! | [`SvcListener::accept`], [`SvcConnection::start`] | a service thread | yes | `XPT_BUSY` of the listener |
//! | [`SvcConnection::next`] | a service thread | no | `XPT_BUSY` |
//! | [`SvcConnection::receive`] | a service thread, several at once | yes | nothing |
//! | [`SvcConnection::result_payload`], [`SvcConnection::reply`], [`SvcConnection::release`] | the service thread of the call | yes | nothing |
//! | [`SvcConnection::caller`] | an RPC task | no | an RCU read-side section |
//! | [`SvcConnection::call`] | an RPC task | yes | `XPRT_LOCKED` of the reverse transport |
//! | `has_room` | anywhere | no | perhaps locks of sunrpc |
//! | `detach` | a service thread, or an administrator's task | yes | `XPT_BUSY`, for ever |
//! | completion and CM handlers, through [`SvcLink::with`] | the transport's own work | no | an RCU read-side section |
//!
//! # Life
//!
//! sunrpc counts references to an `svc_xprt`: one for being on its lists, one for each thread at
//! work for it, one for each call that waits to be revisited; upper layers have some, as nfsd for sessions
//! that are bound to it. `detach` ends the connection; when
//! the last reference is gone, the link is cut and the state dropped, which may sleep. Handlers
//! have no reference.

use crate::{
    memory::Stable,
    svc_link::SvcLink,
    svc_ops,
    Net,
    SockAddr,
    SvcArgs,
    SvcBackchannelClass, //
    SvcCall,
    SvcCallback,
    SvcClass,
    SvcResult,
};
use core::{
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    types::Opaque, //
};

/// The listening side of a server transport.
pub trait SvcListener: Sized + Send + Sync + 'static {
    /// The connections that it makes.
    type Connection: SvcConnection;

    /// What a connection is made from.
    type Incoming: Send;

    /// Name of the class, as administrators write it.
    const NAME: &'static CStr;

    /// `XPRT_TRANSPORT_*`.
    const IDENT: i32;

    /// The largest payload of an RPC, in bytes.
    const MAX_PAYLOAD: u32;

    /// The class, a `static` of the module.
    fn class() -> &'static SvcClass<Self>;

    /// The state of a listener that does not listen yet. May sleep.
    fn new(link: SvcLink<Self>) -> impl PinInit<Self, Error>;

    /// Starts to listen at `address`. Returns where it listens. May sleep.
    fn listen(&self, net: Net, address: &SockAddr) -> Result<SockAddr>;

    /// Takes the next peer off the queue, and says whether there are more. A peer that comes later
    /// is announced by [`SvcXprt::connection_pending`]. May sleep.
    fn next(&self) -> (Option<Self::Incoming>, bool);

    /// The state of a connection that is not accepted yet. May sleep.
    fn accept(
        &self,
        incoming: Self::Incoming,
        link: SvcLink<Self::Connection>,
    ) -> impl PinInit<Self::Connection, Error>;

    /// Stops to listen. May sleep.
    fn detach(&self);
}

/// A connection of a server transport.
pub trait SvcConnection: Sized + Send + Sync + 'static {
    /// Something that came.
    type Work;

    /// What a call comes in.
    type Message: Stable;

    /// What is noted of a call until it is answered.
    type CallContext: Send;

    /// What calls to the client are sent through. It may outlive the connection.
    type Caller: Send;

    /// Name of the class for calls to the client, and what it is called elsewhere.
    const BACKCHANNEL_NAME: &'static CStr;

    /// `XPRT_TRANSPORT_BC_*`.
    const BACKCHANNEL_IDENT: i32;

    /// netids for IPv4 and IPv6.
    const BACKCHANNEL_NETIDS: [&'static CStr; 2];

    /// Calls to the client that may be outstanding.
    const BACKCHANNEL_CREDITS: u32;

    /// Bytes of the longest such call.
    const BACKCHANNEL_PAYLOAD: usize;

    /// The class for calls to the client, a `static` of the module.
    fn backchannel_class() -> &'static SvcBackchannelClass<Self>;

    /// Something to send calls through. Does not sleep.
    fn caller(&self) -> Self::Caller;

    /// Sends a call to the client. May sleep. An error is the end of the connection.
    fn call(caller: &Self::Caller, xid: u32, call: &SvcCallback<'_>) -> Result;

    /// Accepts the peer. May sleep. If it fails, the state is dropped.
    fn start(&self, xprt: &SvcXprt<Self>) -> Result;

    /// The two ends, local and remote.
    fn addresses(&self) -> Result<(SockAddr, SockAddr)>;

    /// Takes the next piece of work off the queue. Nothing is to be taken off after it returned
    /// [`None`], nor added before, without [`SvcXprt::data_pending`]: `xprt` wants to be told of
    /// the end by [`SvcXprt::no_data`] and of the news under the same lock.
    fn next(&self, xprt: &SvcXprt<Self>) -> Option<Self::Work>;

    /// Makes a call of `work` in `args`, if it is one, and is complete. May sleep.
    fn receive(
        &self,
        xprt: &SvcXprt<Self>,
        work: Self::Work,
        args: &mut SvcArgs<'_, Self::Message>,
    ) -> Option<KBox<SvcCall<Self>>>;

    /// CallContext that `len` bytes of the reply, from `offset` on, may leave the message.
    ///
    /// It cannot fail: nfsd would then leave pages of the file among those that its thread writes
    /// replies to.
    fn result_payload(&self, context: &mut Self::CallContext, offset: usize, len: usize);

    /// Answers the call that came in `message`. May sleep. Whatever happens, the call is over.
    fn reply(
        &self,
        xprt: &SvcXprt<Self>,
        message: Self::Message,
        context: &mut Self::CallContext,
        result: SvcResult<'_>,
    ) -> Result;

    /// The call is over, answered or not. May sleep.
    fn release(&self, call: KBox<SvcCall<Self>>);

    /// Whether another call may be taken up. Does not sleep.
    fn has_room(&self) -> bool;

    /// Ends the connection: no more calls, nobody waits any more. May sleep.
    fn detach(&self);

    /// Nobody uses the connection any more. Returns when nothing of it is under DMA and no handler
    /// runs or can start. May sleep.
    fn close(&self);
}

/// A transport of the sunrpc server: `S` is the state of a listener or of a connection.
///
/// It derefs to `S`.
///
/// # Invariants
///
/// `xprt` is a live `svc_xprt`, and all is initialised, until `free`.
#[repr(C)]
pub struct SvcXprt<S: Send + Sync + 'static> {
    xprt: Opaque<raw::svc_xprt>,
    parts: Parts<S>,
}

#[pin_data]
struct Parts<S: Send + Sync + 'static> {
    link: SvcLink<S>,
    #[pin]
    state: S,
}

// SAFETY: Nothing in it belongs to a task or CPU.
unsafe impl<S: Send + Sync + 'static> Send for SvcXprt<S> {}
// SAFETY: `S` is `Sync`; of the C structure we touch what is atomic, or ours to set up.
unsafe impl<S: Send + Sync + 'static> Sync for SvcXprt<S> {}

impl<S: Send + Sync + 'static> SvcXprt<S> {
    /// Allocates a transport of class `class` for the service `serv` in `net`.
    ///
    /// # Safety
    ///
    /// `class`, `ops`, `net` and `serv` are valid as long as the transport is.
    unsafe fn create<I: PinInit<S, Error>>(
        class: *mut raw::svc_xprt_class,
        ops: &'static raw::svc_xprt_ops,
        net: *mut raw::net,
        serv: *mut raw::svc_serv,
        state: impl FnOnce(SvcLink<S>) -> I,
    ) -> Result<NonNull<Self>> {
        let mut memory = KBox::<Self>::new_uninit(GFP_KERNEL)?;
        let this = memory.as_mut_ptr();
        let at = NonNull::new(this).ok_or(ENOMEM)?;
        let link = SvcLink::new()?;
        let state = state(link.clone());
        let init = try_pin_init!(Parts {
            link,
            state <- state,
        });
        // SAFETY: The memory is that of `parts`, which stays where it is.
        unsafe { raw::compat::try_init(&raw mut (*this).parts, init) }?;
        // SAFETY: The memory is that of `xprt`.
        let xprt = unsafe { Opaque::cast_into(&raw const (*this).xprt) };
        // SAFETY: The caller vouches for the arguments.
        unsafe { raw::svc_xprt_init(net, class, xprt, serv) };
        // SAFETY: Just initialised; nobody else knows of it.
        unsafe { (*xprt).xpt_ops = ops };
        // INVARIANT: All is initialised.
        let _ = KBox::into_raw(memory);
        // SAFETY: It is complete, and `free` cuts the link.
        unsafe { at.as_ref().parts.link.tie(at) };
        Ok(at)
    }

    /// Undoes [`Self::create`] after sunrpc saw the last of the transport. `last` is called when
    /// nobody else can reach it. Sleeps.
    ///
    /// # Safety
    ///
    /// Called once, from `xpo_free`.
    pub(crate) unsafe fn free(this: *mut Self, last: impl FnOnce(&S)) {
        // SAFETY: It is live until the end of this function.
        unsafe { (*this).parts.link.cut() };
        // SAFETY: As above.
        last(unsafe { &(*this).parts.state });
        // SAFETY: Nobody can reach it any more.
        unsafe { (&raw mut (*this).parts).drop_in_place() };
        // SAFETY: The memory came from a box of `MaybeUninit`, as which it is freed.
        drop(unsafe { KBox::from_raw(this.cast::<core::mem::MaybeUninit<Self>>()) });
    }

    /// # Safety
    ///
    /// `xprt` points to the `xprt` of an `SvcXprt<S>` that is not freed during `'a`.
    pub(crate) unsafe fn from_raw<'a>(xprt: *mut raw::svc_xprt) -> &'a Self {
        // CAST: `xprt` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*xprt.cast() }
    }

    /// A reference for handlers, which does not keep the transport alive.
    pub(crate) fn link(&self) -> SvcLink<S> {
        self.parts.link.clone()
    }

    pub(crate) fn as_raw(&self) -> *mut raw::svc_xprt {
        self.xprt.get()
    }

    fn set(&self, flag: u32) {
        // SAFETY: The flags change atomically only.
        unsafe { raw::set_bit(flag, &raw mut (*self.as_raw()).xpt_flags) };
    }

    fn clear(&self, flag: u32) {
        // SAFETY: As above.
        unsafe { raw::clear_bit(flag, &raw mut (*self.as_raw()).xpt_flags) };
    }

    /// Has a thread look after the transport, if there is anything to do. Does not sleep.
    pub fn enqueue(&self) {
        // SAFETY: The transport is live.
        unsafe { raw::svc_xprt_enqueue(self.as_raw()) };
    }

    /// Has a thread close the transport. Does not sleep.
    pub fn deferred_close(&self) {
        // SAFETY: The transport is live.
        unsafe { raw::svc_xprt_deferred_close(self.as_raw()) };
    }

    /// Whether the transport is closed, or about to be.
    pub fn is_dead(&self) -> bool {
        // SAFETY: The transport is live.
        unsafe { raw::svc_xprt_is_dead(self.as_raw()) }
    }

    /// Bytes of the longest message that the service takes.
    pub fn max_message(&self) -> usize {
        // SAFETY: The service lives as long as the transport, and its sizes do not change.
        unsafe { (*(*self.as_raw()).xpt_server).sv_max_mesg as usize }
    }
}

impl<L: SvcListener> SvcXprt<L> {
    /// A peer waits to be accepted. Does not sleep.
    pub fn connection_pending(&self) {
        self.set(raw::XPT_CONN);
        self.enqueue();
    }

    /// Makes a listener. It holds the reference that sunrpc drops when it closes it.
    ///
    /// # Safety
    ///
    /// sunrpc's `xpo_create` is the caller, and these are its arguments.
    pub(crate) unsafe fn listen(
        serv: *mut raw::svc_serv,
        net: *mut raw::net,
        address: &SockAddr,
    ) -> Result<NonNull<raw::svc_xprt>> {
        // SAFETY: sunrpc vouches for its arguments; class and functions are static.
        let this = unsafe {
            Self::create(
                L::class().as_raw(),
                svc_ops::listener::<L>(),
                net,
                serv,
                L::new,
            )
        }?;
        // SAFETY: Just made.
        let listener = unsafe { this.as_ref() };
        listener.set(raw::XPT_LISTENER);
        listener.set(raw::XPT_CONG_CTRL);
        listener.set_remote_name(c"listener");
        let started = NonNull::new(net).ok_or(EINVAL).and_then(|net| {
            // SAFETY: The transport has a reference to its namespace.
            let net = unsafe { Net::from_raw(net) };
            listener.parts.state.listen(net, address)
        });
        match started {
            Ok(local) => {
                listener.set_local(&local);
                Ok(this.cast())
            }
            Err(error) => {
                // SAFETY: We are called by sunrpc.
                unsafe { L::class().get_module() };
                // SAFETY: The reference that the transport was made with.
                unsafe { raw::svc_xprt_put(this.as_ptr().cast()) };
                Err(error)
            }
        }
    }

    /// Makes a connection of the next peer.
    ///
    /// # Safety
    ///
    /// sunrpc's `xpo_accept` is the caller.
    pub(crate) unsafe fn accept(&self) -> Option<NonNull<raw::svc_xprt>> {
        // A peer that comes after this sets it again.
        self.clear(raw::XPT_CONN);
        let (incoming, more) = self.parts.state.next();
        if more {
            self.set(raw::XPT_CONN);
        }
        let incoming = incoming?;
        // SAFETY: The listener is live, and does not change these.
        let (net, serv) = unsafe { ((*self.as_raw()).xpt_net, (*self.as_raw()).xpt_server) };
        // SAFETY: A listener's namespace and service are those of its connections, each of which
        // takes a reference to the namespace.
        let this = unsafe {
            SvcXprt::<L::Connection>::create(
                L::class().as_raw(),
                svc_ops::connection::<L::Connection>(),
                net,
                serv,
                |link| self.parts.state.accept(incoming, link),
            )
        }
        .ok()?;
        // SAFETY: Just made.
        let connection = unsafe { this.as_ref() };
        connection.set(raw::XPT_CONG_CTRL);
        let started = connection
            .parts
            .state
            .addresses()
            .and_then(|(local, remote)| {
                connection.set_local(&local);
                connection.set_remote(&remote);
                if local.is_same_host(&remote) {
                    connection.set(raw::XPT_LOCAL);
                }
                connection.parts.state.start(connection)
            });
        if started.is_err() {
            // SAFETY: We are called by sunrpc.
            unsafe { L::class().get_module() };
            // SAFETY: The reference that the transport was made with.
            unsafe { raw::svc_xprt_put(this.as_ptr().cast()) };
            return None;
        }
        Some(this.cast())
    }
}

impl<C: SvcConnection> SvcXprt<C> {
    /// Something came. To be called under the lock of the queue that it was added to, and to be
    /// followed by [`Self::enqueue`] without it.
    pub fn data_pending(&self) {
        self.set(raw::XPT_DATA);
    }

    /// Whether the peer is on this very host, where waiting for memory of the other could be for ever.
    pub(crate) fn is_local(&self) -> bool {
        // SAFETY: A word of flags that is changed as a whole.
        let flags = unsafe { (&raw const (*self.as_raw()).xpt_flags).read_volatile() };
        flags & (1 << raw::XPT_LOCAL) != 0
    }

    /// Nothing is left. To be called under the lock of the queue.
    pub fn no_data(&self) {
        self.clear(raw::XPT_DATA);
    }
}

/// What sunrpc shows of a transport, set before anyone can look.
impl<S: Send + Sync + 'static> SvcXprt<S> {
    fn set_local(&self, address: &SockAddr) {
        let xprt = self.as_raw();
        // SAFETY: The transport is being made, so these two fields are ours, and the storage has room
        // for every address.
        unsafe {
            store(address, &raw mut (*xprt).xpt_local);
            (*xprt).xpt_locallen = ip_len(address);
        }
    }

    fn set_remote(&self, address: &SockAddr) {
        let xprt = self.as_raw();
        // SAFETY: As above.
        unsafe {
            store(address, &raw mut (*xprt).xpt_remote);
            (*xprt).xpt_remotelen = ip_len(address);
        }
        // SAFETY: As above.
        let text = unsafe { &mut (*xprt).xpt_remotebuf };
        // SAFETY: The buffer is as long as it says.
        unsafe { raw::rpc_ntop(address.as_raw(), text.as_mut_ptr(), text.len()) };
        // The reply cache of NFSv3 tells clients apart by their address. The port is not theirs to
        // choose, and another one after each reconnect.
        // SAFETY: The address was just stored.
        unsafe { raw::rpc_set_port((&raw mut (*xprt).xpt_remote).cast(), 0) };
    }

    fn set_remote_name(&self, name: &CStr) {
        // SAFETY: As above.
        let text = unsafe { &mut (*self.as_raw()).xpt_remotebuf };
        for (to, from) in text.iter_mut().zip(name.to_bytes_with_nul()) {
            // CAST: A byte is a character of C.
            *to = *from as kernel::ffi::c_char;
        }
    }
}

/// # Safety
///
/// `to` is valid for writes.
unsafe fn store(address: &SockAddr, to: *mut raw::__kernel_sockaddr_storage) {
    // SAFETY: A `SockAddr` is no longer than the storage.
    unsafe {
        address
            .as_raw()
            .cast::<u8>()
            .copy_to_nonoverlapping(to.cast(), address.len())
    };
}

/// How long the address is that is in a storage of its maximal length.
fn ip_len(address: &SockAddr) -> usize {
    match address.family() {
        family if family == raw::AF_INET => size_of::<raw::sockaddr_in>(),
        family if family == raw::AF_INET6 => size_of::<raw::sockaddr_in6>(),
        _ => address.len(),
    }
}

impl<S: Send + Sync + 'static> Deref for SvcXprt<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.parts.state
    }
}
