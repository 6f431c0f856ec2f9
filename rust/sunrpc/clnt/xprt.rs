// SPDX-License-Identifier: GPL-2.0

//! The transport itself, from its creation to its destruction: sunrpc's part, this crate's, and the
//! implementor's, in one allocation.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! rpc_xprt` and `struct xprt_create`.

use crate::prelude::*;
use crate::{
    addr,
    bc::clnt::BcPool,
    clnt::{
        connect,
        credits::OrphanedCalls,
        slots::SlotTable,
        timeouts, //
    },
    weak::Weak,
    Net, //
};
use core::sync::atomic::{
    AtomicU32,
    AtomicU64,
    AtomicUsize, //
};
use ext::trace::Peer;
use kernel::{
    static_lock_class,
    sync::{
        rcu,
        SpinLock,
        SpinLockGuard, //
    },
    types::NotThreadSafe, //
};

/// A transport of the sunrpc client.
///
/// It derefs to `T`.
///
/// # Invariants
///
/// * `xprt` is a live `rpc_xprt` made by `xprt_alloc` with room for all of `Self`.
/// * `connect`, `expiry` and `growth` are initialised work items whose functions take them for
///   those of an `Xprt<T>`.
/// * `timeout` is what `xprt.timeout` points to, or not used.
/// * `parts` is initialised until `destroy`.
#[repr(C)]
pub struct Xprt<T: HasSlot> {
    xprt: Opaque<cbindings::rpc_xprt>,
    pub(crate) connect: Opaque<cbindings::delayed_work>,
    pub(crate) expiry: Opaque<cbindings::delayed_work>,
    pub(crate) growth: Opaque<cbindings::delayed_work>,
    pub(crate) timeout: Opaque<cbindings::rpc_timeout>,
    pub(crate) parts: Parts<T>,
}

/// The fields that Rust initialises and drops.
#[pin_data]
pub(crate) struct Parts<T: HasSlot> {
    pub(crate) weak: WeakXprt<T>,
    /// The number of attempts to connect since the last reply.
    pub(crate) attempts: AtomicU32,
    /// The beginning of the last attempt to connect, in jiffies.
    pub(crate) last_attempt: AtomicUsize,
    /// Set if something was sent that the transport may not have notified its device of.
    pub(crate) need_flush: AtomicBool,
    /// Bytes that were allocated for buffers of requests.
    pub(crate) allocated: AtomicU64,
    pub(crate) orphaned_calls: OrphanedCalls,
    #[pin]
    pub(crate) transport: T,
    pub(crate) slots: SlotTable<T>,
    #[pin]
    pub(crate) bc_pool: BcPool,
}

/// A reference to an [`Xprt`] that does not keep it alive, for completion and event handlers.
pub type WeakXprt<T> = Weak<Xprt<T>>;

// SAFETY: Nothing in it belongs to a task or CPU.
unsafe impl<T: HasSlot> Send for Xprt<T> {}
// SAFETY: The parts are `Sync`; of the C structures this crate accesses what sunrpc's locks, named
// where it does, allow.
unsafe impl<T: HasSlot> Sync for Xprt<T> {}

impl<T: HasSlot> Xprt<T> {
    /// Makes sunrpc close the connection, and connect again when there is something to send. Does
    /// not sleep: sunrpc calls `Transport::close` later, when no send or connect runs.
    pub fn force_disconnect(&self) {
        // SAFETY: The transport is live.
        unsafe { cbindings::xprt_force_disconnect(self.as_raw()) };
    }

    /// Returns whether sunrpc takes the transport for connected.
    #[inline]
    pub fn is_connected(&self) -> bool {
        // SAFETY: The transport is live.
        unsafe { cbindings::xprt_connected(self.as_raw()) != 0 }
    }

    /// Returns a number that changes with every connect and close.
    #[inline]
    pub fn connect_cookie(&self) -> u32 {
        // SAFETY: Writers own `XPRT_LOCKED`, and change the word as a whole.
        unsafe { (&raw const (*self.as_raw()).connect_cookie).read_volatile() }
    }

    /// Wakes a sender that got `SendError::Again`. Does not sleep.
    #[inline]
    pub fn write_space(&self) {
        // SAFETY: The transport is live.
        unsafe { cbindings::xprt_write_space(self.as_raw()) };
    }

    /// Calls `f` for each slot, whether a request is in it or not.
    pub fn for_each_slot(&self, mut f: impl FnMut(&T::Slot)) {
        for rqst in self.parts.slots.iter() {
            f(rqst.slot());
        }
    }

    /// Calls `f` with the server's address and port as text, for traces and the log. `f` must not
    /// sleep.
    ///
    /// The transport outlives the name that the mount gave, so the log has the address.
    pub fn with_peer(&self, f: impl FnOnce(Peer<'_>)) {
        let _reading = rcu::read_lock();
        // SAFETY: The transport is live, and has the strings from the start.
        if let Some(peer) = unsafe { addr::peer(self.as_raw()) } {
            f(peer);
        }
    }

    /// Returns the server's address. Its port may be known only at connect time.
    pub fn address(&self) -> Result<SockAddr> {
        // Not `addrlen`, which sysfs sets to zero with any address that is not of IPv4.
        // SAFETY: The transport is live, and the whole storage initialised.
        unsafe {
            let addr = &raw const (*self.as_raw()).addr;
            SockAddr::from_raw(
                addr.cast(),
                size_of::<cbindings::__kernel_sockaddr_storage>(),
            )
        }
    }

    /// Returns the network namespace.
    pub fn net(&self) -> Result<Net> {
        // SAFETY: `create` set it, and nobody changes it.
        let net = NonNull::new(unsafe { (*self.as_raw()).xprt_net }).ok_or(EINVAL)?;
        // SAFETY: The transport has a reference.
        Ok(unsafe { Net::from_raw(net) })
    }

    /// Returns a reference for handlers that does not keep the transport alive.
    pub fn downgrade(&self) -> WeakXprt<T> {
        self.parts.weak.clone()
    }

    /// # Safety
    ///
    /// `xprt` is that of a live `Xprt<T>`, for `'a`.
    pub(crate) unsafe fn from_raw<'a>(xprt: *mut cbindings::rpc_xprt) -> &'a Self {
        // CAST: `xprt` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*xprt.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut cbindings::rpc_xprt {
        self.xprt.get()
    }

    /// Returns the transport, for the owner of `XPRT_LOCKED`.
    ///
    /// # Safety
    ///
    /// The calling task or work item owns `XPRT_LOCKED`, and keeps it as long as the result is in
    /// use.
    pub(crate) unsafe fn assume_locked(&self) -> LockedXprt<'_, T> {
        // INVARIANT: The caller promises it.
        LockedXprt(self, NotThreadSafe)
    }

    pub(crate) fn transport_lock(&self) -> SpinLockGuard<'_, ()> {
        // SAFETY: The transport is live for `&self`.
        unsafe { lock(&raw mut (*self.as_raw()).transport_lock) }
    }

    pub(crate) fn reserve_lock(&self) -> SpinLockGuard<'_, ()> {
        // SAFETY: The transport is live for `&self`.
        unsafe { lock(&raw mut (*self.as_raw()).reserve_lock) }
    }

    pub(crate) fn bc_pa_lock(&self) -> SpinLockGuard<'_, ()> {
        // SAFETY: The transport is live for `&self`.
        unsafe { lock(&raw mut (*self.as_raw()).bc_pa_lock) }
    }

    pub(crate) fn queue_lock(&self) -> SpinLockGuard<'_, ()> {
        // SAFETY: The transport is live for `&self`.
        unsafe { lock(&raw mut (*self.as_raw()).queue_lock) }
    }
}

impl<T: HasSlot> Deref for Xprt<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.parts.transport
    }
}

/// A transport whose `XPRT_LOCKED` the current task or work item owns.
///
/// sunrpc takes and releases the bit lock, so this type does neither; it carries the promise of
/// [`Xprt::assume_locked`] to the methods that need it.
///
/// # Invariants
///
/// The current task or work item owns `XPRT_LOCKED`. No other gets the value, which is not `Send`,
/// nor a reference to it, as it is not `Sync`.
pub(crate) struct LockedXprt<'a, T: HasSlot>(&'a Xprt<T>, NotThreadSafe);

impl<T: HasSlot> Deref for LockedXprt<'_, T> {
    type Target = Xprt<T>;

    #[inline]
    fn deref(&self) -> &Xprt<T> {
        self.0
    }
}

impl<T: Transport> Xprt<T> {
    /// Creates a transport with the functions `ops` for `args`. The caller has taken a module
    /// reference for it.
    pub(crate) fn create(
        args: &cbindings::xprt_create,
        ops: &'static cbindings::rpc_xprt_ops,
    ) -> Result<NonNull<cbindings::rpc_xprt>> {
        const { assert!(align_of::<Self>() <= align_of::<u64>()) };

        if !addr::fits(args) {
            return Err(EBADF);
        }
        let slots = T::slots();
        // SAFETY: sunrpc gives a live namespace. The size has room for `Self`.
        let raw = unsafe {
            cbindings::xprt_alloc(
                args.net,
                size_of::<Self>(),
                0,
                c_uint::try_from(slots).unwrap_or(c_uint::MAX),
            )
        };
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        let this = raw.cast::<Self>();
        let result = Self::init(this, args, ops, slots);
        if let Err(error) = result {
            // SAFETY: Nobody else has seen the transport; its `parts` are not initialised.
            unsafe { Self::free(this) };
            return Err(error);
        }
        Ok(raw)
    }

    fn init(
        this: NonNull<Self>,
        args: &cbindings::xprt_create,
        ops: &'static cbindings::rpc_xprt_ops,
        slots: usize,
    ) -> Result {
        // SAFETY: `xprt_alloc` initialised it, and nobody else has seen it.
        let xprt = unsafe { &mut *this.as_ptr().cast::<cbindings::rpc_xprt>() };
        xprt.ops = ops;
        xprt.xprt_class = T::class().untyped().as_raw();
        xprt.timeout = &raw const timeouts::DEFAULT_TIMEOUT;
        xprt.connect_timeout = timeouts::DEFAULT_TIMEOUT.to_initval;
        xprt.max_reconnect_timeout = timeouts::DEFAULT_TIMEOUT.to_maxval;
        xprt.bind_timeout = timeouts::BIND_TIMEOUT;
        xprt.reestablish_timeout = 0;
        xprt.idle_timeout = timeouts::IDLE_TIMEOUT;
        xprt.max_payload = T::max_payload();
        // Side protocols use the address as that of a TCP service.
        xprt.prot = cbindings::IPPROTO_TCP as i32;
        xprt.set_resvport(0);
        // SAFETY: `args` is sunrpc's, and `create` found that the address fits.
        unsafe { addr::set(xprt, args) };
        addr::format(xprt, T::NAME, T::NETIDS)?;

        // SAFETY: The memory is `Self`'s.
        let (connect, expiry, growth, parts) = unsafe {
            (
                &raw mut (*this.as_ptr()).connect,
                &raw mut (*this.as_ptr()).expiry,
                &raw mut (*this.as_ptr()).growth,
                &raw mut (*this.as_ptr()).parts,
            )
        };
        // SAFETY: The function expects the `connect` of an `Xprt<T>`, which this is. The class is
        // static.
        unsafe {
            cbindings::init_delayed_work(
                Opaque::cast_into(connect),
                Some(connect::connect_worker::<T>),
                static_lock_class!().as_ptr(),
            )
        };
        // SAFETY: The function expects the `expiry` of an `Xprt<T>`, which this is. The class is
        // static.
        unsafe {
            cbindings::init_delayed_work(
                Opaque::cast_into(expiry),
                Some(connect::expire_worker::<T>),
                static_lock_class!().as_ptr(),
            )
        };
        // SAFETY: The function expects the `growth` of an `Xprt<T>`, which this is. The class is
        // static.
        unsafe {
            cbindings::init_delayed_work(
                Opaque::cast_into(growth),
                Some(connect::grow_worker::<T>),
                static_lock_class!().as_ptr(),
            )
        };
        let init = try_pin_init!(Parts {
            weak: WeakXprt::new()?,
            attempts: AtomicU32::new(0),
            last_attempt: AtomicUsize::new(0),
            need_flush: AtomicBool::new(false),
            allocated: AtomicU64::new(0),
            orphaned_calls: OrphanedCalls::new(),
            transport <- T::new(slots),
            slots: SlotTable::new(slots)?,
            bc_pool <- BcPool::new(T::CALLBACK_SLOTS),
        });
        // SAFETY: The memory is that of `parts`, which stays where it is.
        unsafe { ext::compat::try_init(parts, init) }?;
        // SAFETY: The transport is complete, and `destroy` revokes the weak references.
        unsafe { this.as_ref().parts.weak.set(this) };

        // This comes last, as a port makes the transport ready to be connected.
        // SAFETY: `addr` is initialised.
        if unsafe { cbindings::rpc_get_port((&raw const (*this.as_ref().as_raw()).addr).cast()) }
            != 0
        {
            // SAFETY: The transport is live.
            unsafe { cbindings::xprt_set_bound(this.as_ref().as_raw()) };
        }
        Ok(())
    }

    /// Undoes [`Self::create`] after sunrpc has dropped the last reference. Sleeps.
    ///
    /// # Safety
    ///
    /// `this` is a live transport, and `destroy` of its operations calls this once.
    pub(crate) unsafe fn destroy(this: NonNull<Self>) {
        // SAFETY: The caller says that the transport is live.
        let xprt = unsafe { this.as_ref() };
        // A handler that has a weak reference may still want to expedite an attempt to connect.
        // SAFETY: `init` initialised the work item.
        unsafe { cbindings::disable_delayed_work_sync(xprt.connect.get()) };
        // SAFETY: `init` initialised the work item.
        unsafe { cbindings::disable_delayed_work_sync(xprt.expiry.get()) };
        // SAFETY: `init` initialised the work item.
        unsafe { cbindings::disable_delayed_work_sync(xprt.growth.get()) };
        // No connect, send or other close runs: sunrpc took `XPRT_LOCKED` for good before it called
        // `destroy`.
        xprt.parts.transport.close(xprt);
        xprt.parts.weak.revoke();
        // SAFETY: No task, work item, handler or weak reference can reach it any more.
        unsafe { (&raw mut (*this.as_ptr()).parts).drop_in_place() };
        // SAFETY: No task, work item, handler or weak reference can reach the transport any more,
        // and the parts are dropped.
        unsafe { Self::free(this) };
    }

    /// # Safety
    ///
    /// `this` has an initialised `xprt`, to which nobody has a reference, and no `parts`.
    unsafe fn free(this: NonNull<Self>) {
        let raw = this.as_ptr().cast::<cbindings::rpc_xprt>();
        // SAFETY: The caller has the only reference.
        addr::free(unsafe { &mut (*raw).address_strings });
        // SAFETY: The caller has the only reference.
        unsafe { cbindings::xprt_free(raw) };
    }
}

/// Takes a spin lock that C initialised.
///
/// # Safety
///
/// `lock` is one, and stays allocated until the guard has released it, after which `'a` may be
/// over.
pub(crate) unsafe fn lock<'a>(lock: *mut cbindings::spinlock_t) -> SpinLockGuard<'a, ()> {
    // CAST: Both types are what C calls `spinlock_t`.
    // SAFETY: The caller vouches for the lock.
    unsafe { SpinLock::from_raw(lock.cast()) }.lock()
}
