// SPDX-License-Identifier: GPL-2.0

//! The transport itself: sunrpc's part, this crate's, and the implementor's, in one allocation.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! rpc_xprt`.

use crate::{
    addr,
    bc_pool::BcPool,
    orphaned_calls::OrphanedCalls,
    rqst::HasSlot,
    slot_table::SlotTable,
    spin_lock::lock,
    weak::Weak,
    Net,
    SockAddr, //
};
use core::{
    mem::size_of,
    ops::Deref,
    ptr::NonNull,
    sync::atomic::{
        AtomicBool,
        AtomicU32,
        AtomicU64,
        AtomicUsize, //
    }, //
};
use kernel::{
    prelude::*,
    sync::{
        rcu,
        SpinLockGuard, //
    },
    types::{
        NotThreadSafe,
        Opaque, //
    }, //
};
use shared::trace::Peer;

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
    xprt: Opaque<raw::rpc_xprt>,
    pub(crate) connect: Opaque<raw::delayed_work>,
    pub(crate) expiry: Opaque<raw::delayed_work>,
    pub(crate) growth: Opaque<raw::delayed_work>,
    pub(crate) timeout: Opaque<raw::rpc_timeout>,
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
        unsafe { raw::xprt_force_disconnect(self.as_raw()) };
    }

    /// Returns whether sunrpc takes the transport for connected.
    #[inline]
    pub fn is_connected(&self) -> bool {
        // SAFETY: The transport is live.
        unsafe { raw::xprt_connected(self.as_raw()) != 0 }
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
        unsafe { raw::xprt_write_space(self.as_raw()) };
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
            SockAddr::from_raw(addr.cast(), size_of::<raw::__kernel_sockaddr_storage>())
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
    pub(crate) unsafe fn from_raw<'a>(xprt: *mut raw::rpc_xprt) -> &'a Self {
        // CAST: `xprt` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*xprt.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut raw::rpc_xprt {
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
