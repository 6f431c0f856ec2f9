// SPDX-License-Identifier: GPL-2.0

//! The connection manager: ids, events, connecting.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)
//!
//! Calls here start something. How a lookup or an attempt to connect went comes as an [`Event`], always
//! (the CM has time limits of its own for address, route and connection).

pub(crate) mod event;

pub use event::{
    Event,
    EventId, //
};

use crate::{
    context::Context,
    device::Limits,
    error::not_connected, //
};
use core::ptr::{
    addr_of_mut,
    null,
    null_mut,
    NonNull, //
};
use kernel::{
    bindings,
    error::{
        code::{
            EINVAL,
            ENODEV, //
        },
        from_err_ptr,
        to_result,
        Result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
};
use shared::addr::{
    Net,
    SockAddr, //
};

/// What to ask for when connecting.
pub struct ConnectParameters<'a> {
    /// For the peer's upper layer; at most 56 bytes arrive on every fabric.
    pub private_data: &'a [u8],
    /// RDMA Reads by the peer that we are ready to answer at the same time.
    pub responder_resources: u8,
    /// RDMA Reads that this end posts at the same time, at most: how many the device works on at once.
    pub initiator_depth: u8,
    /// How often the device sends again before it gives up.
    pub retry_count: u8,
    /// How often the peer's device tries again when we have no Receive posted.
    pub rnr_retry_count: u8,
}

impl ConnectParameters<'_> {
    /// Points to `private_data`.
    fn as_raw(&self) -> Result<raw::rdma_conn_param> {
        Ok(raw::rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: u8::try_from(self.private_data.len())?,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            ..Default::default()
        })
    }
}

/// A connection identifier.
///
/// # Invariants
///
/// `ptr` came from `rdma_create_id` with the address of `shared`'s value as context and
/// `event_callback::<H>` as handler, and is destroyed only in `drop`. When `shared.bound` is true, the id's
/// device is set, and neither that nor its addresses change any more.
pub struct Id<H: Context> {
    ptr: NonNull<raw::rdma_cm_id>,
    /// Whether it has a queue pair, or soon will.
    has_queue: Atomic<bool>,
    /// Whether a peer asked for it.
    adopted: bool,
    /// Whether it asked a peer.
    asked: Atomic<bool>,
    shared: KBox<Shared<H>>, // Dropped after `ptr` is destroyed: events use it.
}

/// What an id shares with its events.
struct Shared<H: Context> {
    /// Whether the id is bound to a device. Until the CM says so it sets device and addresses in a task of its own.
    bound: Atomic<bool>,
    context: Arc<H>,
}

impl<H: Context> Shared<H> {
    fn new(context: Arc<H>, bound: bool) -> Result<KBox<Self>> {
        let shared = Self {
            bound: Atomic::new(bound),
            context,
        };
        Ok(KBox::new(shared, GFP_KERNEL)?)
    }
}

// SAFETY: The CM has its own locks, but for the connection of an id that is about to ask or to be
// answered: `adopted` and `asked` keep calls apart that would meet there.
unsafe impl<H: Context> Send for Id<H> {}
// SAFETY: As above.
unsafe impl<H: Context> Sync for Id<H> {}

impl<H: Context> Id<H> {
    /// Makes an id for a reliable connection in `net`. Events go to `context` from now on. Sleeps.
    pub fn new(net: &Net, context: Arc<H>) -> Result<Arc<Self>> {
        let shared = Shared::new(context, false)?;
        // SAFETY: The CM takes a reference to `net`. The context lives as long as the id: the value
        // made below destroys the id before it gives up `shared`, and nothing moves what is in the box.
        let ptr = from_err_ptr(unsafe {
            raw::rdma_create_id(
                net.as_raw(),
                Some(event_callback::<H>),
                (&raw const *shared).cast_mut().cast(),
                raw::rdma_ucm_port_space_RDMA_PS_TCP,
                raw::ib_qp_type_IB_QPT_RC,
            )
        })?;
        // INVARIANT: Just made so.
        let id = Self {
            ptr: NonNull::new(ptr).ok_or(EINVAL)?,
            has_queue: Atomic::new(false),
            adopted: false,
            asked: Atomic::new(false),
            shared,
        };
        Ok(Arc::new(id, GFP_KERNEL)?)
    }

    /// Starts to look up the device that leads to `destination`. Sleeps.
    pub fn resolve_address(&self, destination: &SockAddr, timeout_ms: u32) -> Result {
        let timeout = i32::try_from(timeout_ms)? as usize;
        // SAFETY: `ptr` is live by the type invariants. The CM copies the address, which it only
        // reads.
        to_result(unsafe {
            raw::rdma_resolve_addr(
                self.as_raw(),
                null_mut(),
                destination.as_raw().cast_mut(),
                timeout,
            )
        })
    }

    /// Starts to look up the path. The address must have been resolved. Sleeps.
    pub fn resolve_route(&self, timeout_ms: u32) -> Result {
        // SAFETY: `ptr` is live by the type invariants.
        to_result(unsafe { raw::rdma_resolve_route(self.as_raw(), timeout_ms as usize) })
    }

    /// Starts to connect. The id must have a queue pair. Sleeps; waits for the id's handler, so not to be
    /// called there.
    pub(crate) fn connect(&self, parameters: &ConnectParameters<'_>) -> Result {
        let mut conn = parameters.as_raw()?;
        // SAFETY: `ptr` is live by the type invariants; the CM copies the private data.
        to_result(unsafe { raw::rdma_connect(self.as_raw(), &mut conn) })?;
        // If that fails, the CM destroys what it had made by then.
        self.asked.store(true, Release);
        Ok(())
    }

    /// Starts to end the connection, if there is one. An error means that there was nothing to end or that
    /// the peer was faster: both are what the caller wants. Sleeps.
    pub(crate) fn disconnect(&self) -> Result {
        if !self.adopted && !self.asked.load(Acquire) {
            return Err(not_connected());
        }
        // SAFETY: `ptr` is live by the type invariants, and the CM's connection lives as long.
        to_result(unsafe { raw::rdma_disconnect(self.as_raw()) })
    }

    /// Has the device wait for an acknowledgement for 4.096 us times 2 to the power of `most` at most before it sends again. Without
    /// this it waits for as long as the peer asked in its request, which may be hours. For an id that a peer asked for,
    /// before [`Self::accept`]. iWARP has no such timeout, and is left alone. Sleeps.
    pub fn limit_ack_timeout(&self, most: u8) {
        if !self.adopted || self.is_iwarp() {
            return;
        }
        // SAFETY: `ptr` is live by the type invariants. The CM set the route before it reported the request, and no longer
        // changes it.
        let asked = unsafe {
            let path = (*self.as_raw()).route.path_rec;
            path.as_ref().map(|path| path.packet_life_time)
        };
        // What is sent and what acknowledges it take the path's time each.
        if asked.is_none_or(|time| time >= most) {
            // SAFETY: As above. It fails for no id of a reliable connection.
            unsafe { raw::rdma_set_ack_timeout(self.as_raw(), most) };
        }
    }

    /// Has the peer's device wait as long as `timer` says before it sends again a message that found no Receive: 12 is 0.64 ms. Without
    /// this it is 0, the longest time, 0.66 s. For an id that a peer asked for, before [`Self::accept`]. On iWARP it is never used. Sleeps.
    pub fn set_rnr_timer(&self, timer: u8) {
        // SAFETY: `ptr` is live by the type invariants. It fails for no id of a reliable connection.
        unsafe { raw::rdma_set_min_rnr_timer(self.as_raw(), timer) };
    }

    /// Says yes to the peer that the id came from. [`EINVAL`] if there is none. Sleeps; waits for the id's
    /// handler, so not to be called there.
    pub(crate) fn accept(&self, parameters: &ConnectParameters<'_>) -> Result {
        if !self.adopted {
            return Err(EINVAL);
        }
        let mut conn = parameters.as_raw()?;
        // SAFETY: `ptr` is live by the type invariants. Nobody holds the lock who waits for us.
        unsafe { raw::rdma_lock_handler(self.as_raw()) };
        // SAFETY: The lock is held, as the call wants it. The CM copies what `conn` points to.
        let result = to_result(unsafe { raw::rdma_accept(self.as_raw(), &mut conn) });
        // SAFETY: The lock was taken above.
        unsafe { raw::rdma_unlock_handler(self.as_raw()) };
        result
    }

    /// Says no to the peer that the id came from, if there is one. Sleeps.
    pub fn reject(&self) {
        if !self.adopted {
            return;
        }
        // CAST: The reason is a small number.
        let reason = raw::ib_cm_rej_reason_IB_CM_REJ_NO_RESOURCES as u8;
        // SAFETY: `ptr` is live by the type invariants. An error means that the peer is gone.
        unsafe { raw::rdma_reject(self.as_raw(), null(), 0, reason) };
    }

    /// Whether the device speaks iWARP.
    pub fn is_iwarp(&self) -> bool {
        // SAFETY: A bound id keeps its device; the port is one of it.
        self.device().is_ok_and(|device| unsafe {
            raw::rdma_protocol_iwarp(device.as_ptr(), (*self.as_raw()).port_num)
        })
    }

    /// The far end of a connection. [`ENODEV`] before the id is bound to a device.
    pub fn remote_address(&self) -> Result<SockAddr> {
        self.device()?;
        // SAFETY: `ptr` is live by the type invariants, and its addresses do not change any more.
        unsafe { remote_address(self.ptr) }
    }

    /// The limits of the device behind the id. [`ENODEV`] before it is bound to one.
    pub fn limits(&self) -> Result<Limits> {
        // SAFETY: A bound id keeps its device.
        unsafe { Limits::of(self.device()?, self.is_iwarp()) }
    }

    /// The local end of a connection. [`ENODEV`] before the id is bound to a device.
    pub fn local_address(&self) -> Result<SockAddr> {
        self.device()?;
        // SAFETY: `ptr` is live by the type invariants, and its addresses do not change any more.
        unsafe { local_address(self.ptr) }
    }

    /// Takes over an id that the CM made for a peer.
    ///
    /// # Safety
    ///
    /// `ptr` is live and belongs to nobody else, and none of its events is delivered meanwhile,
    /// except the one that the caller is in.
    pub(crate) unsafe fn adopt(ptr: NonNull<raw::rdma_cm_id>, adopter: Adopter<H>) -> Self {
        let Adopter(shared) = adopter;
        // SAFETY: The caller keeps events away.
        let id = unsafe { &mut *ptr.as_ptr() };
        id.context = (&raw const *shared).cast_mut().cast();
        id.event_handler = Some(event_callback::<H>);
        // INVARIANT: Made so by now, if not from the start. A peer asked over a device.
        Self {
            ptr,
            has_queue: Atomic::new(false),
            adopted: true,
            asked: Atomic::new(false),
            shared,
        }
    }

    /// Says that somebody makes its queue pair. [`EINVAL`] if somebody did.
    pub(crate) fn claim_queue(&self) -> Result {
        match self.has_queue.xchg(true, Acquire) {
            true => Err(EINVAL),
            false => Ok(()),
        }
    }

    /// Says that there is none any more.
    pub(crate) fn release_queue(&self) {
        self.has_queue.store(false, Release);
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut raw::rdma_cm_id {
        self.ptr.as_ptr()
    }

    #[inline]
    pub(crate) fn context(&self) -> &Arc<H> {
        &self.shared.context
    }

    pub(crate) fn device(&self) -> Result<NonNull<raw::ib_device>> {
        if !self.shared.bound.load(Acquire) {
            return Err(ENODEV);
        }
        // SAFETY: `ptr` is live by the type invariants, and its device does not change any more.
        NonNull::new(unsafe { (*self.as_raw()).device }).ok_or(ENODEV)
    }
}

/// What an id is adopted with.
pub(crate) struct Adopter<H: Context>(KBox<Shared<H>>);

impl<H: Context> Adopter<H> {
    /// Events will go to `context`. Sleeps.
    pub(crate) fn new(context: Arc<H>) -> Result<Self> {
        Ok(Self(Shared::new(context, true)?))
    }
}

/// The far end of `id`.
///
/// # Safety
///
/// `id` is live, and its addresses do not change during the call.
pub(crate) unsafe fn remote_address(id: NonNull<raw::rdma_cm_id>) -> Result<SockAddr> {
    // SAFETY: The caller vouches for `id`. The storage holds a whole `sockaddr_storage`.
    unsafe {
        let storage = addr_of_mut!((*id.as_ptr()).route.addr.dst_addr);
        SockAddr::from_raw(
            storage.cast_const().cast::<bindings::sockaddr>(),
            core::mem::size_of::<raw::__kernel_sockaddr_storage>(),
        )
    }
}

/// The local end of `id`.
///
/// # Safety
///
/// `id` is live, and its addresses do not change during the call.
pub(crate) unsafe fn local_address(id: NonNull<raw::rdma_cm_id>) -> Result<SockAddr> {
    // SAFETY: The caller vouches for `id`. The storage holds a whole `sockaddr_storage`, filled in
    // when the id is bound to an address.
    unsafe {
        let storage = addr_of_mut!((*id.as_ptr()).route.addr.src_addr);
        SockAddr::from_raw(
            storage.cast_const().cast::<bindings::sockaddr>(),
            core::mem::size_of::<raw::__kernel_sockaddr_storage>(),
        )
    }
}

impl<H: Context> Drop for Id<H> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants, and not used after this. Event handlers that run
        // are waited for; the crate's documentation forbids to drop the last reference in one.
        unsafe { destroy(self.as_raw()) };
    }
}

/// Destroys `id`. Waits for event handlers that run. Sleeps.
///
/// The CM lets the removal of the device go on a moment before it puts its reference to the entry of
/// the GID table. A work item frees the entry, with the lock of the table, which the removal may
/// have freed by then. So the device stays registered until that work item is queued: the removal
/// flushes its queue later on.
///
/// # Safety
///
/// `id` is live, and is not used after this. The caller is not one of its event handlers.
pub(crate) unsafe fn destroy(id: *mut raw::rdma_cm_id) {
    // SAFETY: The id is live. The CM may set the device meanwhile.
    let device = unsafe { (&raw const (*id).device).read_volatile() };
    // SAFETY: The removal of a device waits for all ids that are of it, as this one is.
    let keeps = !device.is_null() && unsafe { raw::ib_device_try_get(device) };
    // SAFETY: The caller promises it.
    unsafe { raw::rdma_destroy_id(id) };
    if keeps {
        // SAFETY: The reference was taken above.
        unsafe { raw::ib_device_put(device) };
    }
}

/// # Safety
///
/// Only the CM calls this, for the id of an [`Id`] and with a valid event.
unsafe extern "C" fn event_callback<H: Context>(
    id: *mut raw::rdma_cm_id,
    event: *mut raw::rdma_cm_event,
) -> c_int {
    // SAFETY: The context of such an id is a `Shared<H>` that lives until the id is destroyed, which
    // waits for this call.
    let shared = unsafe { &*(*id).context.cast::<Shared<H>>() };
    // SAFETY: The event is valid during the call.
    let event = unsafe { event::EventView::new(&*event) };
    let event = event.decode();
    // SAFETY: The id is live, and its handler's mutex is held during the call.
    let id = unsafe { EventId::new(&*id) };
    if matches!(event, Event::AddrResolved) {
        // INVARIANT: The CM has set device and addresses before it says so, and does not change them again.
        shared.bound.store(true, Release);
    }
    shared.context.cm_event(event, &id);
    // Zero: the id stays; `Id` destroys it.
    0
}
