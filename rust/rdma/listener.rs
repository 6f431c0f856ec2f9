// SPDX-License-Identifier: GPL-2.0

//! Listening for peers that want a connection.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)
//!
//! The connection manager makes an id for each peer and reports it on the listening one. The upper
//! layer [adopts](Request::adopt) it, which gives it a context of its own before the next event;
//! what is not adopted is turned away.

use crate::{
    cm::{
        self,
        Adopter,
        Id, //
    },
    context::Context, //
};
use core::{
    cell::Cell,
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::{
        code::EINVAL,
        from_err_ptr,
        to_result,
        Result, //
    },
    prelude::*,
    sync::{
        Arc,
        UniqueArc, //
    },
};
use shared::addr::{
    Net,
    SockAddr, //
};

/// An upper layer that listens.
pub trait Listen: Sized + Send + Sync + 'static {
    /// The context of the connections.
    type Connection: Context;

    /// A peer wants a connection. CM worker.
    ///
    /// An adopted id must not be dropped before this returned.
    fn connect_request(&self, request: &Request<'_, Self::Connection>);

    /// The address is at another device now, and no more connection requests arrive here. A new listener
    /// may get them. CM worker.
    fn address_changed(&self);

    /// No more connection requests arrive: the device is being removed, which waits until the listener is
    /// dropped; or the upper layer could not listen again after [`Self::address_changed`].
    fn listener_lost(&self);
}

/// A peer that wants a connection.
pub struct Request<'a, H: Context> {
    ptr: NonNull<raw::rdma_cm_id>,
    conn: &'a raw::rdma_conn_param,
    adopted: Cell<bool>,
    _handler: PhantomData<fn() -> H>,
}

impl<H: Context> Request<'_, H> {
    /// What the peer sent along. May be padded with zeroes.
    pub fn private_data(&self) -> &[u8] {
        if self.conn.private_data.is_null() {
            return &[];
        }
        // SAFETY: The CM gives pointer and length of a buffer that lasts as long as the callback.
        unsafe {
            core::slice::from_raw_parts(
                self.conn.private_data.cast(),
                usize::from(self.conn.private_data_len),
            )
        }
    }

    /// The peer.
    pub fn remote_address(&self) -> Result<SockAddr> {
        // SAFETY: The id is live during the callback, and bound.
        unsafe { cm::remote_address(self.ptr) }
    }

    /// RDMA Reads that the peer answers at the same time.
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
        // SAFETY: The request is of an id that nobody owns yet, whose handlers the CM keeps
        // from running until this one has returned.
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
pub struct Listener<L: Listen> {
    ptr: NonNull<raw::rdma_cm_id>,
    _context: Arc<L>, // Dropped after `ptr` is destroyed: events use it.
}

// SAFETY: The CM has its own locks; an id may be used from any task.
unsafe impl<L: Listen> Send for Listener<L> {}
// SAFETY: As above.
unsafe impl<L: Listen> Sync for Listener<L> {}

impl<L: Listen> Listener<L> {
    /// Listens at `address` in `net`, to IPv6 alone if it is one of IPv6. Requests go to `context`
    /// from now on. Sleeps.
    pub fn new(net: &Net, address: &SockAddr, backlog: u16, context: Arc<L>) -> Result<Self> {
        // SAFETY: The CM takes a reference to `net`. The context lives as long as the id: the value
        // made below destroys the id before it gives up `context`.
        let ptr = from_err_ptr(unsafe {
            raw::rdma_create_id(
                net.as_raw(),
                Some(event_callback::<L>),
                Arc::as_ptr(&context).cast_mut().cast(),
                raw::rdma_ucm_port_space_RDMA_PS_TCP,
                raw::ib_qp_type_IB_QPT_RC,
            )
        })?;
        // INVARIANT: Just made so.
        let this = Self {
            ptr: NonNull::new(ptr).ok_or(EINVAL)?,
            _context: context,
        };
        // SAFETY: The id is live. IPv4 and IPv6 have a listener each.
        to_result(unsafe { raw::rdma_set_afonly(this.ptr.as_ptr(), 1) })?;
        // SAFETY: The id is live. The CM copies the address, which it only reads.
        to_result(unsafe { raw::rdma_bind_addr(this.ptr.as_ptr(), address.as_raw().cast_mut()) })?;
        // SAFETY: The id is live, and bound.
        to_result(unsafe { raw::rdma_listen(this.ptr.as_ptr(), c_int::from(backlog)) })?;
        Ok(this)
    }

    /// Where it listens; with the port that was chosen, if none was asked for.
    pub fn local_address(&self) -> Result<SockAddr> {
        // SAFETY: The id is live, and bound.
        unsafe { cm::local_address(self.ptr) }
    }
}

impl<L: Listen> Drop for Listener<L> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants, and not used after this. Event handlers that run
        // are waited for, and none drops this.
        unsafe { cm::destroy(self.ptr.as_ptr()) };
    }
}

/// # Safety
///
/// Only the CM calls this, for an id made by [`Listener::new`] or one that it made for a peer of
/// that, and with a valid event.
unsafe extern "C" fn event_callback<L: Listen>(
    id: *mut raw::rdma_cm_id,
    event: *mut raw::rdma_cm_event,
) -> c_int {
    // SAFETY: The context of both is an `L` that lives until the listener is destroyed, which
    // waits for this call.
    let context = unsafe { &*(*id).context.cast::<L>() };
    // SAFETY: The event is valid during the call.
    let event = unsafe { &*event };
    match event.event {
        raw::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => {
            let Some(ptr) = NonNull::new(id) else {
                return 0;
            };
            let request = Request {
                ptr,
                // SAFETY: This event fills in the `conn` arm.
                conn: unsafe { &event.param.conn },
                adopted: Cell::new(false),
                _handler: PhantomData,
            };
            context.connect_request(&request);
            // Anything but zero has the CM destroy the id, which turns the peer away.
            c_int::from(!request.adopted.get())
        }
        raw::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => {
            context.address_changed();
            0
        }
        raw::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => {
            context.listener_lost();
            0
        }
        _ => 0,
    }
}
