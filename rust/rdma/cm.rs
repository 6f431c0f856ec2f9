// SPDX-License-Identifier: GPL-2.0

//! The connection manager: ids, events, connecting.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)
//!
//! Calls here start operations. The result of a lookup or an attempt to connect always arrives as
//! an [`Event`] (the CM has timeouts of its own for address, route and connection).

use crate::prelude::*;
use crate::{
    client::{
        Device,
        RouteQuery, //
    },
    device::Limits,
    lock_names, //
};
use core::ptr::addr_of_mut;
use ext::{
    addr::SockAddr,
    alloc_scope::NoFs,
    net::Net, //
};
use kernel::{
    bindings,
    static_lock_class,
    sync::{
        atomic::{
            Acquire,
            Release, //
        },
        Mutex, //
    }, //
};

/// The parameters of a connection request or its acceptance.
pub struct ConnectParameters<'a> {
    /// Data for the peer's upper layer. Every fabric delivers at least 56 bytes.
    pub private_data: &'a [u8],
    /// The number of RDMA Reads of the peer that this end answers at the same time.
    pub responder_resources: u8,
    /// The number of RDMA Reads that the device of this end executes at the same time.
    pub initiator_depth: u8,
    /// The number of retransmissions of the device before it fails a request.
    pub retry_count: u8,
    /// The number of retries of the peer's device when this end has no Receive posted.
    pub rnr_retry_count: u8,
}

impl ConnectParameters<'_> {
    /// Returns the C structure, which points to `private_data`.
    fn as_raw(&self) -> Result<cbindings::rdma_conn_param> {
        Ok(cbindings::rdma_conn_param {
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
/// `event_callback::<H>` as handler, and is destroyed only in `drop`. When `shared.bound` is true,
/// the id's device is set, and neither that nor its addresses change any more.
///
/// # Examples
///
/// ```
/// # use kernel::{prelude::*, sync::Arc};
/// use rdma::{
///     addr::SockAddr,
///     cm::Id,
///     Context, //
/// };
/// use sunrpc::Net;
///
/// /// Begins to connect. `context` gets `Event::AddrResolved` or `Event::AddrError`.
/// fn begin<H: Context>(net: &Net, server: &SockAddr, context: Arc<H>) -> Result<Arc<Id<H>>> {
///     let id = Id::new(net, context)?;
///     id.resolve_address(server, 5_000)?;
///     Ok(id)
/// }
/// ```
pub struct Id<H: Context> {
    ptr: NonNull<cbindings::rdma_cm_id>,
    /// Whether it has a queue pair, or is about to.
    has_queue: Atomic<bool>,
    /// Whether it was made for a peer's request.
    adopted: bool,
    /// Whether it has sent a connection request.
    asked: Atomic<bool>,
    shared: Pin<KBox<Shared<H>>>, // Dropped after `ptr` is destroyed: events use it.
}

/// The data that an id shares with its event handler.
#[pin_data]
struct Shared<H: Context> {
    /// Whether the id is bound to a device. Until the CM reports that, it sets device and addresses
    /// in a task of its own.
    bound: Atomic<bool>,
    /// The query for a route, from before it begins until the CM has reported its end.
    #[pin]
    route_query: Mutex<Option<RouteQuery>>,
    context: Arc<H>,
}

impl<H: Context> Shared<H> {
    fn new(context: Arc<H>, bound: bool) -> Result<Pin<KBox<Self>>> {
        KBox::pin_init(
            pin_init!(Self {
                bound: Atomic::new(bound),
                route_query <- Mutex::new(None, lock_names::ROUTE_QUERY, static_lock_class!()),
                context,
            }),
            GFP_KERNEL,
        )
    }

    /// Lets the device be removed again. Called when the CM does not query a route any more.
    fn end_route_query(&self) {
        let query = self.route_query.lock().take();
        drop(query);
    }
}

// SAFETY: The CM has its own locks, except for the CM connection that it creates or destroys while
// an id requests or is accepted: `adopted` and `asked` keep other calls from using that.
unsafe impl<H: Context> Send for Id<H> {}
// SAFETY: The CM has its own locks, except for the CM connection that it creates or destroys while
// an id requests or is accepted: `adopted` and `asked` keep other calls from using that. Device and
// addresses are read only when they do not change any more.
unsafe impl<H: Context> Sync for Id<H> {}

impl<H: Context> Id<H> {
    /// Creates an id for a reliable connection in `net`. Events go to `context` from now on.
    /// Sleeps.
    pub fn new(net: &Net, context: Arc<H>) -> Result<Arc<Self>> {
        let shared = Shared::new(context, false)?;
        // SAFETY: The CM takes a reference to `net`, which is live. The context lives as long as
        // the id: the value made below destroys the id before it drops `shared`, and the contents
        // of the box do not move.
        let ptr = from_err_ptr(unsafe {
            cbindings::rdma_create_id(
                net.as_raw(),
                Some(event_callback::<H>),
                (&raw const *shared).cast_mut().cast(),
                cbindings::rdma_ucm_port_space_RDMA_PS_TCP,
                cbindings::ib_qp_type_IB_QPT_RC,
            )
        })?;
        // INVARIANT: The id was just created with this context and handler, and is not bound.
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
            cbindings::rdma_resolve_addr(
                self.as_raw(),
                null_mut(),
                destination.as_raw().cast_mut(),
                timeout,
            )
        })
    }

    /// Starts to look up the path. The address must have been resolved. `ENOTCONN` if the device is
    /// being removed. Sleeps. A removal of the device that begins after this waits for the end
    /// of the lookup, or of the id.
    pub fn resolve_route(&self, timeout_ms: u32) -> Result {
        let query = RouteQuery::begin(Device::find(self.device()?)?)?;
        {
            let mut running = self.shared.route_query.lock();
            if running.is_some() {
                return Err(EINVAL);
            }
            *running = Some(query);
        }
        let timeout = timeout_ms as usize;
        // SAFETY: `ptr` is live by the type invariants.
        let started = to_result(unsafe { cbindings::rdma_resolve_route(self.as_raw(), timeout) });
        if started.is_err() {
            self.shared.end_route_query();
        }
        started
    }

    /// Starts to connect. The id must have a queue pair. Sleeps, and waits for the id's handler, so
    /// it must not be called there.
    pub(crate) fn connect(&self, parameters: &ConnectParameters<'_>) -> Result {
        let mut conn = parameters.as_raw()?;
        // SAFETY: `ptr` is live by the type invariants; the CM copies the private data.
        to_result(unsafe { cbindings::rdma_connect(self.as_raw(), &mut conn) })?;
        // Not set on failure: the CM has destroyed its connection then.
        self.asked.store(true, Release);
        Ok(())
    }

    /// Starts to end the connection, if there is one. An error means that there is none, or that
    /// the peer has ended it. Sleeps.
    pub(crate) fn disconnect(&self) -> Result {
        if !self.adopted && !self.asked.load(Acquire) {
            return Err(enotconn());
        }
        // SAFETY: `ptr` is live by the type invariants, and so is the CM's connection, as the id
        // was adopted or has sent a request.
        to_result(unsafe { cbindings::rdma_disconnect(self.as_raw()) })
    }

    /// Limits the local ACK timeout to 4.096 us * 2^`most`. Without a limit it is what the peer
    /// asked for in its request, which may be hours. Only for an id made for a peer, before
    /// [`Self::accept`]. Has no effect on iWARP, which has no such timeout. Sleeps.
    pub fn limit_ack_timeout(&self, most: u8) {
        if !self.adopted || self.is_iwarp() {
            return;
        }
        // SAFETY: `ptr` is live by the type invariants. The CM set the route before it reported the
        // request, and no longer changes it.
        let asked = unsafe {
            let path = (*self.as_raw()).route.path_rec;
            path.as_ref().map(|path| path.packet_life_time)
        };
        // The timeout is twice the path's time: for the message and its acknowledgement.
        if asked.is_none_or(|time| time >= most) {
            // SAFETY: `ptr` is live by the type invariants. The call fails for no id of a reliable
            // connection.
            unsafe { cbindings::rdma_set_ack_timeout(self.as_raw(), most) };
        }
    }

    /// Sets the RNR timer: the time after which the peer's device retransmits a message that found
    /// no Receive; 12 is 0.64 ms. The default is 0, the longest time, 0.66 s. Only for an id made
    /// for a peer, before [`Self::accept`]. Has no effect on iWARP. Sleeps.
    pub fn set_rnr_timer(&self, timer: u8) {
        // SAFETY: `ptr` is live by the type invariants. The call fails for no id of a reliable
        // connection.
        unsafe { cbindings::rdma_set_min_rnr_timer(self.as_raw(), timer) };
    }

    /// Accepts the peer that the id was made for. [`EINVAL`] if there is none. Sleeps, and waits
    /// for the id's handler, so it must not be called there.
    pub(crate) fn accept(&self, parameters: &ConnectParameters<'_>) -> Result {
        if !self.adopted {
            return Err(EINVAL);
        }
        let mut conn = parameters.as_raw()?;
        // SAFETY: `ptr` is live by the type invariants. No holder of the lock waits for this task,
        // as the method must not be called in a handler.
        unsafe { cbindings::rdma_lock_handler(self.as_raw()) };
        // SAFETY: The lock is held, as the call demands. The CM copies the data that `conn` points
        // to, which `parameters` keeps during the call.
        let result = to_result(unsafe { cbindings::rdma_accept(self.as_raw(), &mut conn) });
        // SAFETY: The lock was taken above, by this task.
        unsafe { cbindings::rdma_unlock_handler(self.as_raw()) };
        result
    }

    /// Rejects the peer that the id was made for, if there is one. Sleeps.
    pub fn reject(&self) {
        if !self.adopted {
            return;
        }
        // CAST: The reason is a small number.
        let reason = cbindings::ib_cm_rej_reason_IB_CM_REJ_NO_RESOURCES as u8;
        // SAFETY: `ptr` is live by the type invariants, and there is no private data. An error
        // means that the peer has gone.
        unsafe { cbindings::rdma_reject(self.as_raw(), null(), 0, reason) };
    }

    /// Returns whether the device speaks iWARP.
    pub fn is_iwarp(&self) -> bool {
        // SAFETY: `device` succeeded, so the id is bound, and by the type invariants device and
        // port are set and do not change. The id keeps the device.
        self.device().is_ok_and(|device| unsafe {
            cbindings::rdma_protocol_iwarp(device.as_ptr(), (*self.as_raw()).port_num)
        })
    }

    /// Returns the address of the peer. [`ENODEV`] before the id is bound to a device.
    pub fn remote_address(&self) -> Result<SockAddr> {
        self.device()?;
        // SAFETY: `ptr` is live by the type invariants; the id is bound, so its addresses do not
        // change any more.
        unsafe { remote_address(self.ptr) }
    }

    /// Returns the limits of the device. [`ENODEV`] before the id is bound to one.
    pub fn limits(&self) -> Result<Limits> {
        // SAFETY: `device` succeeded, so the id is bound, and keeps the device.
        unsafe { Limits::of(self.device()?, self.is_iwarp()) }
    }

    /// Returns the local address. [`ENODEV`] before the id is bound to a device.
    pub fn local_address(&self) -> Result<SockAddr> {
        self.device()?;
        // SAFETY: `ptr` is live by the type invariants; the id is bound, so its addresses do not
        // change any more.
        unsafe { local_address(self.ptr) }
    }

    /// Takes over an id that the CM made for a peer.
    ///
    /// # Safety
    ///
    /// `ptr` is live and belongs to nobody else, and none of its events is delivered during the
    /// call, except the one that the caller handles.
    pub(crate) unsafe fn adopt(ptr: NonNull<cbindings::rdma_cm_id>, adopter: Adopter<H>) -> Self {
        let Adopter(shared) = adopter;
        // SAFETY: The caller promises that `ptr` is live, belongs to nobody else, and has no other
        // event delivered, so nobody else accesses these fields.
        let id = unsafe { &mut *ptr.as_ptr() };
        id.context = (&raw const *shared).cast_mut().cast();
        id.event_handler = Some(event_callback::<H>);
        // INVARIANT: Context and handler were just set. The id of a peer's request is bound to the
        // device that the request came over.
        Self {
            ptr,
            has_queue: Atomic::new(false),
            adopted: true,
            asked: Atomic::new(false),
            shared,
        }
    }

    /// Claims the right to create the queue pair of the id. [`EINVAL`] if it is taken.
    pub(crate) fn claim_queue(&self) -> Result {
        if self.has_queue.xchg(true, Acquire) {
            Err(EINVAL)
        } else {
            Ok(())
        }
    }

    /// Releases the right to create the queue pair: there is none any more.
    pub(crate) fn release_queue(&self) {
        self.has_queue.store(false, Release);
    }

    #[inline]
    pub(crate) fn as_raw(&self) -> *mut cbindings::rdma_cm_id {
        self.ptr.as_ptr()
    }

    #[inline]
    pub(crate) fn context(&self) -> &Arc<H> {
        &self.shared.context
    }

    pub(crate) fn device(&self) -> Result<NonNull<cbindings::ib_device>> {
        if !self.shared.bound.load(Acquire) {
            return Err(ENODEV);
        }
        // SAFETY: `ptr` is live by the type invariants; the id is bound, so its device does not
        // change any more.
        NonNull::new(unsafe { (*self.as_raw()).device }).ok_or(ENODEV)
    }
}

/// The preallocated data for [`Id::adopt`].
pub(crate) struct Adopter<H: Context>(Pin<KBox<Shared<H>>>);

impl<H: Context> Adopter<H> {
    /// Allocates it. Events will go to `context`. Sleeps.
    pub(crate) fn new(context: Arc<H>) -> Result<Self> {
        Ok(Self(Shared::new(context, true)?))
    }
}

/// Returns the address of the peer of `id`.
///
/// # Safety
///
/// `id` is live, and its addresses do not change during the call.
pub(crate) unsafe fn remote_address(id: NonNull<cbindings::rdma_cm_id>) -> Result<SockAddr> {
    // SAFETY: The caller promises that `id` is live and its address does not change. The field is a
    // whole `sockaddr_storage`.
    unsafe {
        let storage = addr_of_mut!((*id.as_ptr()).route.addr.dst_addr);
        SockAddr::from_raw(
            storage.cast_const().cast::<bindings::sockaddr>(),
            core::mem::size_of::<cbindings::__kernel_sockaddr_storage>(),
        )
    }
}

/// Returns the local address of `id`.
///
/// # Safety
///
/// `id` is live, and its addresses do not change during the call.
pub(crate) unsafe fn local_address(id: NonNull<cbindings::rdma_cm_id>) -> Result<SockAddr> {
    // SAFETY: The caller promises that `id` is live and its address does not change. The field is a
    // whole `sockaddr_storage`.
    unsafe {
        let storage = addr_of_mut!((*id.as_ptr()).route.addr.src_addr);
        SockAddr::from_raw(
            storage.cast_const().cast::<bindings::sockaddr>(),
            core::mem::size_of::<cbindings::__kernel_sockaddr_storage>(),
        )
    }
}

impl<H: Context> Drop for Id<H> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants, and not used after this. The call waits for
        // running event handlers; the crate's documentation forbids to drop the last reference in
        // one.
        unsafe { destroy(self.as_raw()) };
    }
}

/// Destroys `id`. Waits for running event handlers. Sleeps.
///
/// The CM lets the removal of the device continue a moment before it puts its reference to the
/// entry of the GID table. A work item frees the entry under the lock of the table, which the
/// removal may have freed by then. So a reference keeps the device registered until that work item
/// is queued: the removal flushes its queue later.
///
/// # Safety
///
/// `id` is live, and is not used after this. The caller is not one of its event handlers.
pub(crate) unsafe fn destroy(id: *mut cbindings::rdma_cm_id) {
    // SAFETY: The caller promises that the id is live. The CM may set the device at the same time,
    // so it is read once.
    let device = unsafe { (&raw const (*id).device).read_volatile() };
    // SAFETY: The removal of a device waits for all ids that are bound to it, of which this is one,
    // so the device is live.
    let keeps = !device.is_null() && unsafe { cbindings::ib_device_try_get(device) };
    // SAFETY: The caller promises that the id is live, is not used after this, and that this is not
    // one of its event handlers.
    unsafe { cbindings::rdma_destroy_id(id) };
    if keeps {
        // SAFETY: The reference was taken above, and is put once.
        unsafe { cbindings::ib_device_put(device) };
    }
}

/// Passes an event of an id to its context.
///
/// # Safety
///
/// Only the CM calls this, for the id of an [`Id`] and with a valid event.
unsafe extern "C" fn event_callback<H: Context>(
    id: *mut cbindings::rdma_cm_id,
    event: *mut cbindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By the invariants of [`Id`] the context is a `Shared<H>`, which lives until the id is
    // destroyed, and that waits for this call.
    let shared = unsafe { &*(*id).context.cast::<Shared<H>>() };
    // SAFETY: The CM passes an event that is valid during the call.
    let event = unsafe { EventView::new(&*event) };
    // The removal of the device waits for this, and a file system that frees memory may wait for an
    // RPC over the device.
    let _scope = NoFs::new();
    let event = event.decode();
    // SAFETY: The CM calls this with a live id, whose mutex it holds during the call.
    let id = unsafe { EventId::new(&*id) };
    if matches!(event, Event::AddrResolved) {
        // INVARIANT: The CM has set device and addresses before it reports this event, and does not
        // change them again.
        shared.bound.store(true, Release);
    }
    match event {
        Event::RouteResolved | Event::RouteError => shared.end_route_query(),
        // The CM would go on to use the device of an id that may be destroyed meanwhile.
        Event::DeviceRemoval => {
            kernel::warn_on!(shared.route_query.lock().is_some());
        }
        _ => (),
    }
    shared.context.cm_event(event, &id);
    // Zero: the id stays; `Id` destroys it.
    0
}

/// An event of an [`Id`].
pub enum Event<'a> {
    /// The address leads to a device; the id is bound to it.
    AddrResolved,
    /// The address does not lead to a device.
    AddrError,
    /// There is a path to the peer.
    RouteResolved,
    /// There is no path to the peer.
    RouteError,
    /// The connection is established.
    Established {
        /// The private data of the peer, perhaps padded with zeroes.
        private_data: &'a [u8],
    },
    /// The peer rejected the connection request.
    Rejected {
        /// Whether the reason is a stale connection, which the peer will drop soon.
        stale: bool,
    },
    /// The peer did not answer. After the connection was established: the path to it has changed.
    Unreachable,
    /// Connecting failed half-way.
    ConnectError,
    /// The connection ended.
    Disconnected,
    /// The local address moved to another device.
    AddrChange,
    /// The device waits for the id to be destroyed.
    DeviceRemoval,
    /// An event that a connected id does not act on.
    Other,
}

/// The id of an event, during its callback.
pub struct EventId<'a>(&'a cbindings::rdma_cm_id);

impl<'a> EventId<'a> {
    /// Wraps the id of a callback.
    ///
    /// # Safety
    ///
    /// `id` is that of a callback that lasts for `'a`.
    unsafe fn new(id: &'a cbindings::rdma_cm_id) -> Self {
        Self(id)
    }

    /// Returns the name of the device that the id is bound to. [`None`] if it is not bound.
    pub fn device_name(&self) -> Option<&'a CStr> {
        let device = NonNull::new(self.0.device)?;
        // SAFETY: A bound id keeps its device, whose name always ends with a NUL within its array;
        // ib_device_rename() may write another one over it meanwhile.
        Some(unsafe { CStr::from_char_ptr((&raw const (*device.as_ptr()).name).cast()) })
    }

    /// Returns the local address.
    pub fn local_address(&self) -> Result<SockAddr> {
        // SAFETY: The reference makes the whole `sockaddr_storage` valid, and the CM does not
        // change it during a callback.
        unsafe { storage_address(&raw const self.0.route.addr.src_addr) }
    }

    /// Returns the address of the peer.
    pub fn remote_address(&self) -> Result<SockAddr> {
        // SAFETY: The reference makes the whole `sockaddr_storage` valid, and the CM does not
        // change it during a callback.
        unsafe { storage_address(&raw const self.0.route.addr.dst_addr) }
    }
}

/// Copies a socket address.
///
/// # Safety
///
/// `storage` is valid for reads of a whole `sockaddr_storage`.
unsafe fn storage_address(
    storage: *const cbindings::__kernel_sockaddr_storage,
) -> Result<SockAddr> {
    let len = size_of::<cbindings::__kernel_sockaddr_storage>();
    // SAFETY: The caller promises that `storage` is valid for reads of `len` bytes.
    unsafe { SockAddr::from_raw(storage.cast(), len) }
}

/// A C event during its callback.
struct EventView<'a>(&'a cbindings::rdma_cm_event);

impl<'a> EventView<'a> {
    /// Wraps the event of a callback.
    ///
    /// # Safety
    ///
    /// `raw` is the event of a callback that lasts for `'a`.
    unsafe fn new(raw: &'a cbindings::rdma_cm_event) -> Self {
        Self(raw)
    }

    fn private_data(&self) -> &'a [u8] {
        // SAFETY: Connection events, for which this is called, set the `conn` arm.
        let conn = unsafe { &self.0.param.conn };
        if conn.private_data.is_null() {
            return &[];
        }
        // SAFETY: The CM passes pointer and length of a buffer that lives as long as the callback,
        // which lasts for `'a` by the contract of `new`.
        unsafe {
            core::slice::from_raw_parts(
                conn.private_data.cast(),
                usize::from(conn.private_data_len),
            )
        }
    }

    fn decode(&self) -> Event<'a> {
        const STALE: i32 = cbindings::ib_cm_rej_reason_IB_CM_REJ_STALE_CONN as i32;
        match self.0.event {
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => Event::AddrResolved,
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR => Event::AddrError,
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => Event::RouteResolved,
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR => Event::RouteError,
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => Event::Established {
                private_data: self.private_data(),
            },
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => Event::Rejected {
                stale: self.0.status == STALE,
            },
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE => Event::Unreachable,
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR => Event::ConnectError,
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => Event::Disconnected,
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => Event::AddrChange,
            cbindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => Event::DeviceRemoval,
            _ => Event::Other,
        }
    }
}
