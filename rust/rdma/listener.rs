// SPDX-License-Identifier: GPL-2.0

//! Listening for connection requests.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)
//!
//! The connection manager creates an id for each peer and reports it on the listening one. The
//! upper layer [adopts](Request::adopt) it, which gives it a context of its own before the next
//! event. Requests that are not adopted are rejected.

use crate::cm::{
    self,
    Adopter, //
};
use crate::prelude::*;
use core::{
    cell::Cell,
    marker::PhantomData, //
};
use ext::{
    addr::SockAddr,
    alloc_scope::NoFs,
    net::Net, //
};
use kernel::sync::UniqueArc;

/// The upper layer of a listening id.
pub trait Listen: Sized + Send + Sync + 'static {
    /// The context of the connections.
    type Connection: Context;

    /// Handles a connection request. Called in a CM worker.
    ///
    /// An adopted id must not be dropped before this returns.
    fn connect_request(&self, request: &Request<'_, Self::Connection>);

    /// Handles the move of the address to another device: no more connection requests arrive here,
    /// but a new listener may get them. Called in a CM worker.
    fn address_changed(&self);

    /// Handles the end of the listener: the device is being removed, which waits until the listener
    /// is dropped; or the upper layer could not listen again after [`Self::address_changed`].
    fn listener_lost(&self);
}

/// A connection request.
pub struct Request<'a, H: Context> {
    ptr: NonNull<cbindings::rdma_cm_id>,
    conn: &'a cbindings::rdma_conn_param,
    adopted: Cell<bool>,
    _handler: PhantomData<fn() -> H>,
}

impl<H: Context> Request<'_, H> {
    /// Returns the private data of the peer, perhaps padded with zeroes.
    pub fn private_data(&self) -> &[u8] {
        if self.conn.private_data.is_null() {
            return &[];
        }
        // SAFETY: The CM passes pointer and length of a buffer that lives as long as the callback,
        // and so longer than the request.
        unsafe {
            core::slice::from_raw_parts(
                self.conn.private_data.cast(),
                usize::from(self.conn.private_data_len),
            )
        }
    }

    /// Returns the address of the peer.
    pub fn remote_address(&self) -> Result<SockAddr> {
        // SAFETY: The CM keeps the id live during the callback, and it is bound, so its addresses
        // do not change.
        unsafe { cm::remote_address(self.ptr) }
    }

    /// Returns the number of RDMA Reads that the peer answers at the same time.
    pub fn initiator_depth(&self) -> u8 {
        self.conn.initiator_depth
    }

    /// Takes the id, whose events go to `context` from now on. [`EINVAL`] the second time. Sleeps.
    pub fn adopt(&self, context: Arc<H>) -> Result<Arc<Id<H>>> {
        let place = UniqueArc::new_uninit(GFP_KERNEL)?;
        let adopter = Adopter::new(context)?;
        if self.adopted.replace(true) {
            return Err(EINVAL);
        }
        // SAFETY: `adopted` says that nobody owns the id of the request yet, and the CM runs no
        // other handler of it until this one has returned.
        let id = unsafe { Id::adopt(self.ptr, adopter) };
        Ok(place.write(id).into())
    }
}

/// A listening id. Dropping it sleeps, and waits for its handlers.
///
/// # Invariants
///
/// `ptr` came from `rdma_create_id` with the address of `_context`'s value as context and
/// `event_callback::<L>` as handler, and is destroyed only in `drop`.
pub struct CmListener<L: Listen> {
    ptr: NonNull<cbindings::rdma_cm_id>,
    _context: Arc<L>, // Dropped after `ptr` is destroyed: events use it.
}

// SAFETY: The CM has its own locks; any task may use or destroy an id.
unsafe impl<L: Listen> Send for CmListener<L> {}
// SAFETY: The CM has its own locks; any task may use an id, and its addresses do not change while
// it listens.
unsafe impl<L: Listen> Sync for CmListener<L> {}

impl<L: Listen> CmListener<L> {
    /// Listens at `address` in `net`, an IPv6 address without IPv4. Requests go to `context` from
    /// now on. Sleeps.
    pub fn new(net: &Net, address: &SockAddr, backlog: u16, context: Arc<L>) -> Result<Self> {
        // SAFETY: The CM takes a reference to `net`, which is live. The context lives as long as
        // the id: the value made below destroys the id before it drops `context`.
        let ptr = from_err_ptr(unsafe {
            cbindings::rdma_create_id(
                net.as_raw(),
                Some(event_callback::<L>),
                Arc::as_ptr(&context).cast_mut().cast(),
                cbindings::rdma_ucm_port_space_RDMA_PS_TCP,
                cbindings::ib_qp_type_IB_QPT_RC,
            )
        })?;
        // INVARIANT: The id was just created with this context and handler.
        let this = Self {
            ptr: NonNull::new(ptr).ok_or(EINVAL)?,
            _context: context,
        };
        // SAFETY: The id is live by the type invariants. IPv4 and IPv6 have a listener each.
        to_result(unsafe { cbindings::rdma_set_afonly(this.ptr.as_ptr(), 1) })?;
        // SAFETY: The id is live by the type invariants. The CM copies the address, which it only
        // reads.
        to_result(unsafe {
            cbindings::rdma_bind_addr(this.ptr.as_ptr(), address.as_raw().cast_mut())
        })?;
        // SAFETY: The id is live by the type invariants, and was bound above.
        to_result(unsafe { cbindings::rdma_listen(this.ptr.as_ptr(), c_int::from(backlog)) })?;
        Ok(this)
    }

    /// Returns the local address, with the port that the CM chose if none was requested.
    pub fn local_address(&self) -> Result<SockAddr> {
        // SAFETY: The id is live by the type invariants and bound since `new`, so its address does
        // not change.
        unsafe { cm::local_address(self.ptr) }
    }
}

impl<L: Listen> Drop for CmListener<L> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants, and not used after this. The call waits for
        // running event handlers, none of which drops the listener: they have only a context.
        unsafe { cm::destroy(self.ptr.as_ptr()) };
    }
}

/// Passes an event of a listening id to its context.
///
/// # Safety
///
/// Only the CM calls this, for an id made by [`CmListener::new`] or one that it made for a peer of
/// that, and with a valid event.
unsafe extern "C" fn event_callback<L: Listen>(
    id: *mut cbindings::rdma_cm_id,
    event: *mut cbindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By the invariants of [`CmListener`] the context of both is an `L`, which lives until
    // the listener is destroyed, and that waits for this call.
    let context = unsafe { &*(*id).context.cast::<L>() };
    // SAFETY: The CM passes an event that is valid during the call.
    let event = unsafe { &*event };
    // The removal of the device waits for this, and a file system that frees memory may wait for an
    // RPC over the device.
    let _scope = NoFs::new();
    match event.event {
        cbindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => {
            let Some(ptr) = NonNull::new(id) else {
                return 0;
            };
            let request = Request {
                ptr,
                // SAFETY: The CM sets the `conn` arm for this event.
                conn: unsafe { &event.param.conn },
                adopted: Cell::new(false),
                _handler: PhantomData,
            };
            context.connect_request(&request);
            // Not zero: the CM destroys the id, which rejects the peer.
            c_int::from(!request.adopted.get())
        }
        cbindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => {
            context.address_changed();
            0
        }
        cbindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => {
            context.listener_lost();
            0
        }
        _ => 0,
    }
}
