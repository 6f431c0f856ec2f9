// SPDX-License-Identifier: GPL-2.0

//! The transport itself: sunrpc's part, ours, and the implementor's, in one allocation.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! rpc_xprt`.

use crate::{
    abandoned::Abandoned,
    addr,
    backchannel::{
        CallbackError,
        Callbacks, //
    },
    connect,
    ops,
    slot::Slots,
    Net,
    PendingReply,
    SockAddr,
    Transport,
    XprtLink, //
};
use core::{
    mem::{
        align_of,
        size_of, //
    },
    ops::Deref,
    ptr::NonNull,
    sync::atomic::{
        AtomicBool,
        AtomicU64,
        Ordering, //
    },
};
use kernel::{
    ffi::{
        c_uint,
        c_ulong, //
    },
    prelude::*,
    sync::{
        rcu,
        SpinLock,
        SpinLockGuard, //
    },
    types::Opaque, //
};

/// Seconds of them are what the limits below are told in.
const HZ: c_ulong = kernel::bindings::CONFIG_HZ as c_ulong;

/// One minute to send a call and get its reply, without a retransmission.
static DEFAULT_TIMEOUT: raw::rpc_timeout = timeout(60 * HZ);
const BIND_TIMEOUT: c_ulong = 60 * HZ;
const IDLE_TIMEOUT: c_ulong = 5 * 60 * HZ;
/// The least delay between attempts to connect, other than none.
pub(crate) const MIN_RECONNECT_DELAY: c_ulong = 5 * HZ;

const fn timeout(value: c_ulong) -> raw::rpc_timeout {
    raw::rpc_timeout {
        to_initval: value,
        to_maxval: value,
        to_increment: 0,
        to_retries: 0,
        to_exponential: 0,
    }
}

/// A transport of the sunrpc client.
///
/// It derefs to `T`.
///
/// # Invariants
///
/// * `xprt` is a live `rpc_xprt` made by `xprt_alloc` with room for all of `Self`.
/// * `connect` is an initialised work item whose function is [`connect::worker`].
/// * `timeout` is what `xprt.timeout` points to, or not used.
/// * `parts` is initialised until `destroy`.
#[repr(C)]
pub struct Xprt<T: Transport> {
    xprt: Opaque<raw::rpc_xprt>,
    pub(crate) connect: Opaque<raw::delayed_work>,
    timeout: Opaque<raw::rpc_timeout>,
    pub(crate) parts: Parts<T>,
}

/// What Rust initialises and drops.
#[pin_data]
pub(crate) struct Parts<T: Transport> {
    link: XprtLink<T>,
    /// No reply came since the last attempt to connect.
    need_backoff: AtomicBool,
    /// Something was sent that the transport may not have told its device of.
    unflushed: AtomicBool,
    /// Bytes that were allocated for buffers of requests.
    allocated: AtomicU64,
    pub(crate) abandoned: Abandoned,
    #[pin]
    transport: T,
    pub(crate) slots: Slots<T>,
    #[pin]
    pub(crate) callbacks: Callbacks,
}

// SAFETY: Nothing in it belongs to a task or CPU.
unsafe impl<T: Transport> Send for Xprt<T> {}
// SAFETY: The parts are `Sync`; of the C structures we touch what sunrpc's locks, named where we
// do, give us.
unsafe impl<T: Transport> Sync for Xprt<T> {}

/// What sunrpc counts, for mountstats.
pub(crate) struct Counters {
    pub(crate) bind_count: c_ulong,
    pub(crate) connect_count: c_ulong,
    pub(crate) connect_seconds: c_ulong,
    pub(crate) idle_seconds: c_ulong,
    pub(crate) sends: c_ulong,
    pub(crate) recvs: c_ulong,
    pub(crate) bad_xids: c_ulong,
    pub(crate) req_u: u64,
    pub(crate) bklog_u: u64,
    pub(crate) hardway_register: u64,
}

impl<T: Transport> Xprt<T> {
    /// Waits until nothing is under way, then connects anew when there is something to send. Does
    /// not sleep: the work is done by [`Transport::close`], later.
    pub fn force_disconnect(&self) {
        // SAFETY: The transport is live.
        unsafe { raw::xprt_force_disconnect(self.as_raw()) };
    }

    /// Whether sunrpc takes the transport for connected.
    #[inline]
    pub fn is_connected(&self) -> bool {
        // SAFETY: The transport is live.
        unsafe { raw::xprt_connected(self.as_raw()) != 0 }
    }

    /// Changes with every connect and close.
    #[inline]
    pub fn connect_cookie(&self) -> u32 {
        // SAFETY: A word that its writers, under `XPRT_LOCKED`, change as a whole.
        unsafe { (&raw const (*self.as_raw()).connect_cookie).read_volatile() }
    }

    /// Limits the requests under way to what the peer granted. To be called before the reply that
    /// brought the grant is completed, as that is when senders that wait look again. Takes `transport_lock`.
    pub fn set_window(&self, credits: u32) {
        let window = window(credits);
        // SAFETY: The transport is live.
        let cwnd = unsafe { &raw mut (*self.as_raw()).cwnd };
        // SAFETY: As above; writers change the word as a whole.
        if unsafe { cwnd.read_volatile() } == window {
            return;
        }
        let _guard = self.transport_lock();
        // SAFETY: The lock guards the window.
        unsafe { cwnd.write_volatile(window) };
    }

    /// CallContext that something was sent, with `more` to come or not.
    ///
    /// This and [`Self::flush`] are for the owner of `XPRT_LOCKED`.
    pub(crate) fn set_unflushed(&self, more: bool) {
        self.parts.unflushed.store(more, Ordering::Relaxed);
    }

    /// Has the transport tell its device of all that was sent.
    pub(crate) fn flush(&self) -> Result {
        if !self.parts.unflushed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.set_unflushed(false);
        self.parts.transport.flush()
    }

    /// How many requests are queued to be sent.
    pub(crate) fn queued_sends(&self) -> i64 {
        // SAFETY: The transport is live.
        let queued = unsafe { &raw const (*self.as_raw()).xmit_queuelen.counter };
        // SAFETY: A counter that is changed as a whole.
        unsafe { queued.read_volatile() }
    }

    /// Finds the request that waits for the reply `xid` (in host order) and pins it. Takes `queue_lock`, as does
    /// the end of the pin.
    pub fn lookup(&self, xid: u32) -> Option<PendingReply<T>> {
        let _guard = self.queue_lock();
        // SAFETY: The lock is held.
        let rqst = unsafe { raw::xprt_lookup_rqst(self.as_raw(), xid.to_be()) };
        // SAFETY: The lock is held. Requests on the receive queue of this transport come from its
        // `slots`: those of reverse-direction calls expect no reply.
        unsafe { PendingReply::pin(NonNull::new(rqst)?) }
    }

    /// A reply came, or an error, to a call that nobody waits for: [`Self::lookup`] found none. Does
    /// not sleep.
    pub fn no_matching_rqst(&self) {
        let _guard = self.transport_lock();
        if !self.parts.abandoned.answered() {
            return;
        }
        // sunrpc takes credits back from requests only. This one is for nothing else.
        let mut rqst = raw::rpc_rqst {
            rq_cong: 1,
            rq_xprt: self.as_raw(),
            ..Default::default()
        };
        let mut task = raw::rpc_task {
            tk_rqstp: &raw mut rqst,
            ..Default::default()
        };
        // SAFETY: The lock is held. Of task and request no more is used than what is set.
        unsafe { raw::xprt_release_rqst_cong(&raw mut task) };
    }

    /// Lets those send again that were told [`crate::SendError::Again`]. Does not sleep.
    #[inline]
    pub fn write_space(&self) {
        // SAFETY: The transport is live.
        unsafe { raw::xprt_write_space(self.as_raw()) };
    }

    /// The peer answered: the next attempt to connect need not wait.
    #[inline]
    pub fn note_reply(&self) {
        if self.parts.need_backoff.load(Ordering::Relaxed) {
            self.parts.need_backoff.store(false, Ordering::Relaxed);
            // SAFETY: `connect` reads the word when no completion can run any more, and nobody
            // else writes it meanwhile.
            unsafe { (&raw mut (*self.as_raw()).reestablish_timeout).write_volatile(0) };
        }
    }

    /// Calls `f` for each slot, whether a request is in it or not.
    pub fn for_each_slot(&self, mut f: impl FnMut(&T::Slot)) {
        for rqst in self.parts.slots.iter() {
            f(rqst.slot());
        }
    }

    /// Calls `f` with the server's address as text, for the log. `f` must not sleep.
    ///
    /// The name that the mount gave is gone before the transport is.
    pub fn with_address_text(&self, f: impl FnOnce(&CStr)) {
        let _reading = rcu::read_lock();
        // SAFETY: The transport is live, and has the string from the start.
        if let Some(text) = unsafe { addr::text(self.as_raw()) } {
            f(text);
        }
    }

    /// Where to connect to. The port may be known only at connect time.
    pub fn address(&self) -> Result<SockAddr> {
        // Not `addrlen`, which sysfs sets to zero with any address that is not of IPv4.
        // SAFETY: The transport is live, and the whole storage initialised.
        unsafe {
            let addr = &raw const (*self.as_raw()).addr;
            SockAddr::from_raw(addr.cast(), size_of::<raw::__kernel_sockaddr_storage>())
        }
    }

    /// The network namespace.
    pub fn net(&self) -> Result<Net> {
        // SAFETY: Set when the transport was made, and not changed.
        let net = NonNull::new(unsafe { (*self.as_raw()).xprt_net }).ok_or(EINVAL)?;
        // SAFETY: The transport has a reference.
        Ok(unsafe { Net::from_raw(net) })
    }

    /// A reference for handlers, which does not keep the transport alive.
    pub fn link(&self) -> XprtLink<T> {
        self.parts.link.clone()
    }

    /// Gives a reverse-direction call to the callback service. Does not sleep; copies `call`.
    pub fn deliver_callback(&self, call: &[u8]) -> Result<(), CallbackError> {
        self.parts.callbacks.deliver(self, call)
    }
}

/// A window of `credits` requests, as `cwnd` tells it.
fn window(credits: u32) -> c_ulong {
    (credits.max(1) as c_ulong) << raw::RPC_CWNDSHIFT
}

impl<T: Transport> Xprt<T> {
    /// Makes a transport for `args`, which owns a module reference.
    pub(crate) fn create(args: &raw::xprt_create) -> Result<NonNull<raw::rpc_xprt>> {
        const { assert!(align_of::<Self>() <= align_of::<u64>()) };

        if args.addrlen > size_of::<raw::__kernel_sockaddr_storage>() {
            return Err(EBADF);
        }
        let slots = T::slots();
        // SAFETY: sunrpc says which namespace. The size has room for `Self`.
        let raw = unsafe {
            raw::xprt_alloc(
                args.net,
                size_of::<Self>(),
                0,
                c_uint::try_from(slots).unwrap_or(c_uint::MAX),
            )
        };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        let this = raw.cast::<Self>();
        let result = Self::init(this, args, slots);
        if let Err(error) = result {
            // SAFETY: Nobody else has seen the transport; its `parts` are not initialised.
            unsafe { Self::free(this) };
            return Err(error);
        }
        Ok(raw)
    }

    fn init(this: NonNull<Self>, args: &raw::xprt_create, slots: usize) -> Result {
        // SAFETY: `xprt_alloc` initialised it, and nobody else has seen it.
        let xprt = unsafe { &mut *this.as_ptr().cast::<raw::rpc_xprt>() };
        xprt.ops = ops::table::<T>();
        xprt.xprt_class = T::class().untyped().as_raw();
        xprt.timeout = &raw const DEFAULT_TIMEOUT;
        xprt.connect_timeout = DEFAULT_TIMEOUT.to_initval;
        xprt.max_reconnect_timeout = DEFAULT_TIMEOUT.to_maxval;
        xprt.bind_timeout = BIND_TIMEOUT;
        xprt.reestablish_timeout = 0;
        xprt.idle_timeout = IDLE_TIMEOUT;
        xprt.max_payload = T::max_payload();
        // Side protocols take the address for that of a TCP service.
        xprt.prot = raw::IPPROTO_TCP as i32;
        xprt.set_resvport(0);
        // SAFETY: sunrpc gives `addrlen` bytes at `dstaddr`, and `create` found that they fit.
        unsafe {
            args.dstaddr
                .cast::<u8>()
                .copy_to_nonoverlapping((&raw mut xprt.addr).cast(), args.addrlen)
        };
        xprt.addrlen = args.addrlen;
        addr::format(xprt, T::NAME, T::NETIDS)?;

        // SAFETY: The memory is `Self`'s.
        let (connect, parts) = unsafe {
            (
                &raw mut (*this.as_ptr()).connect,
                &raw mut (*this.as_ptr()).parts,
            )
        };
        // SAFETY: The function takes this item for what it is, the `connect` of an `Xprt<T>`.
        unsafe { raw::init_delayed_work(Opaque::cast_into(connect), Some(connect::worker::<T>)) };
        let init = try_pin_init!(Parts {
            // SAFETY: Nobody has a link before the transport is complete, and `destroy` cuts it.
            link: unsafe { XprtLink::new(this) }?,
            need_backoff: AtomicBool::new(false),
            unflushed: AtomicBool::new(false),
            allocated: AtomicU64::new(0),
            abandoned: Abandoned::new(),
            transport <- T::new(),
            slots: Slots::new(slots)?,
            callbacks <- Callbacks::new(),
        });
        // SAFETY: The memory is that of `parts`, which stays where it is.
        unsafe { raw::compat::try_init(parts, init) }?;

        // Last, as a port makes the transport ready to be connected.
        // SAFETY: `addr` is initialised.
        if unsafe { raw::rpc_get_port((&raw const xprt.addr).cast()) } != 0 {
            // SAFETY: The transport is live.
            unsafe { raw::xprt_set_bound(xprt) };
        }
        Ok(())
    }

    /// Undoes [`Self::create`] after sunrpc saw the last of the transport.
    ///
    /// # Safety
    ///
    /// Called once, from `destroy`.
    pub(crate) unsafe fn destroy(this: NonNull<Self>) {
        // SAFETY: `destroy` is called on a live transport.
        let xprt = unsafe { this.as_ref() };
        // Whoever has a link still may expedite_connect it.
        // SAFETY: The work item is initialised.
        unsafe { raw::disable_delayed_work_sync(xprt.connect.get()) };
        xprt.parts.transport.close(xprt);
        xprt.parts.link.cut();
        // SAFETY: No task, work item, handler or link can reach it any more.
        unsafe { (&raw mut (*this.as_ptr()).parts).drop_in_place() };
        // SAFETY: As above, and the parts are dropped.
        unsafe { Self::free(this) };
    }

    /// # Safety
    ///
    /// `this` has an initialised `xprt`, to which nobody has a reference, and no `parts`.
    unsafe fn free(this: NonNull<Self>) {
        let raw = this.as_ptr().cast::<raw::rpc_xprt>();
        // SAFETY: The caller has the only reference.
        addr::free(unsafe { &mut (*raw).address_strings });
        // SAFETY: As above.
        unsafe { raw::xprt_free(raw) };
    }

    /// # Safety
    ///
    /// `xprt` is that of a live `Xprt<T>`, for `'a`.
    pub(crate) unsafe fn from_raw<'a>(xprt: *mut raw::rpc_xprt) -> &'a Self {
        // CAST: `xprt` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*xprt.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut raw::rpc_xprt {
        self.xprt.get()
    }

    /// Whether the next attempt to connect has to wait; from now on it has.
    pub(crate) fn need_backoff(&self) -> bool {
        self.parts.need_backoff.swap(true, Ordering::Relaxed)
    }

    /// Takes back all credits, as a new connection starts with one (RFC 8166, section 3.3.3).
    ///
    /// # Safety
    ///
    /// The caller holds `XPRT_LOCKED`.
    pub(crate) unsafe fn reset_window(&self) {
        let _guard = self.transport_lock();
        self.parts.abandoned.forget();
        for rqst in self.parts.slots.iter() {
            // SAFETY: Both locks are held.
            unsafe { rqst.forget_credit() };
        }
        // SAFETY: The lock guards both.
        let (cong, cwnd) = unsafe {
            (
                &raw mut (*self.as_raw()).cong,
                &raw mut (*self.as_raw()).cwnd,
            )
        };
        // SAFETY: As above.
        unsafe { cong.write_volatile(0) };
        // SAFETY: As above.
        unsafe { cwnd.write_volatile(window(1)) };
    }

    /// Whether all that the peer grants is taken by calls that nobody waits for.
    pub(crate) fn is_abandoned(&self) -> bool {
        let abandoned = self.parts.abandoned.count();
        if abandoned == 0 {
            return false;
        }
        // SAFETY: The transport is live.
        let cwnd = unsafe { &raw const (*self.as_raw()).cwnd };
        // SAFETY: As above; writers change the word as a whole.
        let now = unsafe { cwnd.read_volatile() };
        now <= window(abandoned)
    }

    /// Lowers the time-outs to those asked for.
    pub(crate) fn set_connect_timeout(&self, connect: c_ulong, reconnect: c_ulong) {
        let _guard = self.transport_lock();
        // SAFETY: The lock guards them.
        let (timeout_ptr, connect_timeout, max_reconnect_timeout) = unsafe {
            (
                &mut (*self.as_raw()).timeout,
                &mut (*self.as_raw()).connect_timeout,
                &mut (*self.as_raw()).max_reconnect_timeout,
            )
        };
        if connect < *connect_timeout {
            let lower = timeout(connect.max(2 * MIN_RECONNECT_DELAY));
            // SAFETY: Under the lock we are the only writer. A reader may see some of the fields
            // before and some after, either of which is sound.
            unsafe { self.timeout.get().write_volatile(lower) };
            *timeout_ptr = self.timeout.get();
            *connect_timeout = connect;
        }
        *max_reconnect_timeout = reconnect.min(*max_reconnect_timeout);
    }

    pub(crate) fn count_allocated(&self, bytes: usize) {
        if bytes != 0 {
            self.parts
                .allocated
                .fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        // SAFETY: Counters; each is read as a whole.
        let stat = unsafe { (&raw const (*self.as_raw()).stat).read_volatile() };
        let idle_seconds = if self.is_connected() {
            // SAFETY: As above.
            let last_used = unsafe { (&raw const (*self.as_raw()).last_used).read_volatile() };
            jiffies().wrapping_sub(last_used) / HZ
        } else {
            0
        };
        Counters {
            bind_count: stat.bind_count,
            connect_count: stat.connect_count,
            connect_seconds: stat.connect_time / HZ,
            idle_seconds,
            sends: stat.sends,
            recvs: stat.recvs,
            bad_xids: stat.bad_xids,
            req_u: stat.req_u,
            bklog_u: stat.bklog_u,
            hardway_register: self.parts.allocated.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn transport_lock(&self) -> SpinLockGuard<'_, ()> {
        // SAFETY: The transport is live for `&self`.
        unsafe { lock(&raw mut (*self.as_raw()).transport_lock) }
    }

    pub(crate) fn reserve_lock(&self) -> SpinLockGuard<'_, ()> {
        // SAFETY: As above.
        unsafe { lock(&raw mut (*self.as_raw()).reserve_lock) }
    }

    pub(crate) fn bc_pa_lock(&self) -> SpinLockGuard<'_, ()> {
        // SAFETY: As above.
        unsafe { lock(&raw mut (*self.as_raw()).bc_pa_lock) }
    }

    fn queue_lock(&self) -> SpinLockGuard<'_, ()> {
        // SAFETY: As above.
        unsafe { lock(&raw mut (*self.as_raw()).queue_lock) }
    }
}

impl<T: Transport> Deref for Xprt<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.parts.transport
    }
}

/// Takes a spin lock that C initialised.
///
/// # Safety
///
/// `lock` is one, and stays allocated until it is released, after which `'a` may be over.
pub(crate) unsafe fn lock<'a>(lock: *mut raw::spinlock_t) -> SpinLockGuard<'a, ()> {
    // CAST: Both types are what C calls `spinlock_t`.
    // SAFETY: The caller vouches for it.
    unsafe { SpinLock::from_raw(lock.cast()) }.lock()
}

/// Now.
pub(crate) fn jiffies() -> c_ulong {
    // SAFETY: The word always exists, and is changed as a whole.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}
