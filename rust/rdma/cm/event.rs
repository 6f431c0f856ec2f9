// SPDX-License-Identifier: GPL-2.0

//! Events of the connection manager.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)

use core::{
    ffi::CStr,
    ptr::NonNull, //
};
use kernel::{
    error::Result,
    str::CStrExt, //
};
use shared::addr::SockAddr;

/// An event of an [`Id`](super::Id).
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
pub struct EventId<'a>(&'a raw::rdma_cm_id);

impl<'a> EventId<'a> {
    /// Wraps the id of a callback.
    ///
    /// # Safety
    ///
    /// `id` is that of a callback that lasts for `'a`.
    pub(super) unsafe fn new(id: &'a raw::rdma_cm_id) -> Self {
        Self(id)
    }

    /// Returns the name of the device that the id is bound to. [`None`] if it is not bound.
    pub fn device_name(&self) -> Option<&'a CStr> {
        let device = NonNull::new(self.0.device)?;
        // SAFETY: A bound id keeps its device, whose name ends with a NUL and does not change
        // during the callback, as the CM holds the id's mutex.
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
unsafe fn storage_address(storage: *const raw::__kernel_sockaddr_storage) -> Result<SockAddr> {
    let len = size_of::<raw::__kernel_sockaddr_storage>();
    // SAFETY: The caller promises that `storage` is valid for reads of `len` bytes.
    unsafe { SockAddr::from_raw(storage.cast(), len) }
}

/// A C event during its callback.
pub(super) struct EventView<'a>(&'a raw::rdma_cm_event);

impl<'a> EventView<'a> {
    /// Wraps the event of a callback.
    ///
    /// # Safety
    ///
    /// `raw` is the event of a callback that lasts for `'a`.
    pub(super) unsafe fn new(raw: &'a raw::rdma_cm_event) -> Self {
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

    pub(super) fn decode(&self) -> Event<'a> {
        const STALE: i32 = raw::ib_cm_rej_reason_IB_CM_REJ_STALE_CONN as i32;
        match self.0.event {
            raw::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => Event::AddrResolved,
            raw::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR => Event::AddrError,
            raw::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => Event::RouteResolved,
            raw::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR => Event::RouteError,
            raw::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => Event::Established {
                private_data: self.private_data(),
            },
            raw::rdma_cm_event_type_RDMA_CM_EVENT_REJECTED => Event::Rejected {
                stale: self.0.status == STALE,
            },
            raw::rdma_cm_event_type_RDMA_CM_EVENT_UNREACHABLE => Event::Unreachable,
            raw::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_ERROR => Event::ConnectError,
            raw::rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED => Event::Disconnected,
            raw::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => Event::AddrChange,
            raw::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => Event::DeviceRemoval,
            _ => Event::Other,
        }
    }
}
