// SPDX-License-Identifier: GPL-2.0

//! Creation and destruction of a transport.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! xprt_create`.

use crate::{
    addr,
    bc_pool::BcPool,
    growth,
    orphaned_calls::OrphanedCalls,
    reconnect,
    slot_table::SlotTable,
    timeouts::{
        BIND_TIMEOUT,
        DEFAULT_TIMEOUT,
        IDLE_TIMEOUT, //
    },
    transport::Transport,
    xprt::{
        Parts,
        WeakXprt,
        Xprt, //
    }, //
};
use core::{
    mem::{
        align_of,
        size_of, //
    },
    ptr::NonNull,
    sync::atomic::{
        AtomicBool,
        AtomicU32,
        AtomicU64,
        AtomicUsize, //
    }, //
};
use kernel::{
    ffi::c_uint,
    prelude::*,
    static_lock_class,
    types::Opaque, //
};

impl<T: Transport> Xprt<T> {
    /// Creates a transport with the functions `ops` for `args`. The caller has taken a module
    /// reference for it.
    pub(crate) fn create(
        args: &raw::xprt_create,
        ops: &'static raw::rpc_xprt_ops,
    ) -> Result<NonNull<raw::rpc_xprt>> {
        const { assert!(align_of::<Self>() <= align_of::<u64>()) };

        if !addr::fits(args) {
            return Err(EBADF);
        }
        let slots = T::slots();
        // SAFETY: sunrpc gives a live namespace. The size has room for `Self`.
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
        args: &raw::xprt_create,
        ops: &'static raw::rpc_xprt_ops,
        slots: usize,
    ) -> Result {
        // SAFETY: `xprt_alloc` initialised it, and nobody else has seen it.
        let xprt = unsafe { &mut *this.as_ptr().cast::<raw::rpc_xprt>() };
        xprt.ops = ops;
        xprt.xprt_class = T::class().untyped().as_raw();
        xprt.timeout = &raw const DEFAULT_TIMEOUT;
        xprt.connect_timeout = DEFAULT_TIMEOUT.to_initval;
        xprt.max_reconnect_timeout = DEFAULT_TIMEOUT.to_maxval;
        xprt.bind_timeout = BIND_TIMEOUT;
        xprt.reestablish_timeout = 0;
        xprt.idle_timeout = IDLE_TIMEOUT;
        xprt.max_payload = T::max_payload();
        // Side protocols use the address as that of a TCP service.
        xprt.prot = raw::IPPROTO_TCP as i32;
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
            raw::init_delayed_work(
                Opaque::cast_into(connect),
                Some(reconnect::worker::<T>),
                static_lock_class!().as_ptr(),
            )
        };
        // SAFETY: The function expects the `expiry` of an `Xprt<T>`, which this is. The class is
        // static.
        unsafe {
            raw::init_delayed_work(
                Opaque::cast_into(expiry),
                Some(reconnect::expire::<T>),
                static_lock_class!().as_ptr(),
            )
        };
        // SAFETY: The function expects the `growth` of an `Xprt<T>`, which this is. The class is
        // static.
        unsafe {
            raw::init_delayed_work(
                Opaque::cast_into(growth),
                Some(growth::worker::<T>),
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
        unsafe { raw::compat::try_init(parts, init) }?;
        // SAFETY: The transport is complete, and `destroy` revokes the weak references.
        unsafe { this.as_ref().parts.weak.set(this) };

        // This comes last, as a port makes the transport ready to be connected.
        // SAFETY: `addr` is initialised.
        if unsafe { raw::rpc_get_port((&raw const (*this.as_ref().as_raw()).addr).cast()) } != 0 {
            // SAFETY: The transport is live.
            unsafe { raw::xprt_set_bound(this.as_ref().as_raw()) };
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
        unsafe { raw::disable_delayed_work_sync(xprt.connect.get()) };
        // SAFETY: `init` initialised the work item.
        unsafe { raw::disable_delayed_work_sync(xprt.expiry.get()) };
        // SAFETY: `init` initialised the work item.
        unsafe { raw::disable_delayed_work_sync(xprt.growth.get()) };
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
        let raw = this.as_ptr().cast::<raw::rpc_xprt>();
        // SAFETY: The caller has the only reference.
        addr::free(unsafe { &mut (*raw).address_strings });
        // SAFETY: The caller has the only reference.
        unsafe { raw::xprt_free(raw) };
    }
}
