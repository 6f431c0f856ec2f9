// SPDX-License-Identifier: GPL-2.0

//! Functions and types of librdmacm, libibverbs and `verbs.c`.

use std::ffi::c_int;
use std::ffi::c_void;
use std::io::Error;
use std::io::Result;
use std::net::SocketAddrV4;
use std::ptr::NonNull;

macro_rules! opaque {
    ($($name:ident),*) => { $(
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
        }
    )* };
}

opaque!(
    RawChannel,
    RawId,
    RawContext,
    RawPd,
    RawCq,
    RawCqEvents,
    RawQp,
    RawMr,
    RawMw
);

/// An event of the connection manager: `struct peer_event` of verbs.c.
#[repr(C)]
pub(super) struct Event {
    pub(super) kind: u32,
    pub(super) status: i32,
    pub(super) id: *mut RawId,
    pub(super) private_len: u32,
    pub(super) private_data: [u8; 256],
}

/// `struct peer_completion` of verbs.c.
#[repr(C)]
#[derive(Default)]
pub(super) struct Completion {
    pub(super) id: u64,
    pub(super) status: u32,
    pub(super) length: u32,
    pub(super) received: u32,
    pub(super) invalidates: u32,
    pub(super) key: u32,
}

/// `struct peer_work` of verbs.c.
#[repr(C)]
pub(super) struct RawWork {
    pub(super) id: u64,
    pub(super) opcode: u32,
    pub(super) key: u32,
    pub(super) remote: u64,
    pub(super) local: u64,
    pub(super) length: u32,
    pub(super) lkey: u32,
}

/// `struct sockaddr_in`.
#[repr(C)]
pub(super) struct SockAddr {
    family: u16,
    port: [u8; 2],
    address: [u8; 4],
    zero: [u8; 8],
}

impl SockAddr {
    pub(super) fn new(address: SocketAddrV4) -> Self {
        Self {
            family: 2, // AF_INET
            port: address.port().to_be_bytes(),
            address: address.ip().octets(),
            zero: [0; 8],
        }
    }
}

extern "C" {
    pub(super) fn rdma_create_event_channel() -> *mut RawChannel;
    pub(super) fn rdma_destroy_event_channel(channel: *mut RawChannel);
    pub(super) fn rdma_create_id(
        channel: *mut RawChannel,
        id: *mut *mut RawId,
        context: *mut c_void,
        space: c_int,
    ) -> c_int;
    pub(super) fn rdma_destroy_id(id: *mut RawId) -> c_int;
    pub(super) fn rdma_migrate_id(id: *mut RawId, channel: *mut RawChannel) -> c_int;
    pub(super) fn rdma_bind_addr(id: *mut RawId, address: *const SockAddr) -> c_int;
    pub(super) fn rdma_listen(id: *mut RawId, backlog: c_int) -> c_int;
    pub(super) fn rdma_resolve_addr(
        id: *mut RawId,
        source: *const SockAddr,
        destination: *const SockAddr,
        timeout_ms: c_int,
    ) -> c_int;
    pub(super) fn rdma_resolve_route(id: *mut RawId, timeout_ms: c_int) -> c_int;
    pub(super) fn rdma_disconnect(id: *mut RawId) -> c_int;
    pub(super) fn rdma_destroy_qp(id: *mut RawId);
    pub(super) fn ibv_alloc_pd(context: *mut RawContext) -> *mut RawPd;
    pub(super) fn ibv_dealloc_pd(pd: *mut RawPd) -> c_int;
    pub(super) fn ibv_create_cq(
        context: *mut RawContext,
        entries: c_int,
        cookie: *mut c_void,
        events: *mut RawCqEvents,
        vector: c_int,
    ) -> *mut RawCq;
    pub(super) fn ibv_destroy_cq(cq: *mut RawCq) -> c_int;
    pub(super) fn ibv_create_comp_channel(context: *mut RawContext) -> *mut RawCqEvents;
    pub(super) fn ibv_destroy_comp_channel(events: *mut RawCqEvents) -> c_int;
    pub(super) fn ibv_destroy_qp(qp: *mut RawQp) -> c_int;
    pub(super) fn ibv_dereg_mr(mr: *mut RawMr) -> c_int;

    pub(super) fn peer_event(channel: *mut RawChannel, timeout_ms: c_int, out: *mut Event)
        -> c_int;
    pub(super) fn peer_context(id: *mut RawId) -> *mut RawContext;
    pub(super) fn peer_create_qp(
        id: *mut RawId,
        pd: *mut RawPd,
        cq: *mut RawCq,
        sends: u32,
        receives: u32,
    ) -> c_int;
    pub(super) fn peer_connect(
        id: *mut RawId,
        active: c_int,
        private_data: *const u8,
        private_len: u8,
        depth: u8,
        rnr_retries: u8,
    ) -> c_int;
    pub(super) fn peer_ask_ack_timeout(id: *mut RawId, timeout: u8) -> c_int;
    pub(super) fn peer_fall_silent(id: *mut RawId) -> c_int;
    pub(super) fn peer_post_receive(
        id: *mut RawId,
        wr: u64,
        address: u64,
        length: u32,
        lkey: u32,
    ) -> c_int;
    pub(super) fn peer_post(id: *mut RawId, work: *const RawWork) -> c_int;
    pub(super) fn peer_poll(cq: *mut RawCq, out: *mut Completion) -> c_int;
    pub(super) fn peer_wait(
        cq: *mut RawCq,
        events: *mut RawCqEvents,
        timeout_ms: c_int,
        out: *mut Completion,
    ) -> c_int;
    pub(super) fn peer_lone_qp(
        pd: *mut RawPd,
        cq: *mut RawCq,
        sends: u32,
        receives: u32,
    ) -> *mut RawQp;
    pub(super) fn peer_register(
        pd: *mut RawPd,
        memory: *mut c_void,
        length: u64,
        address: u64,
        access: c_int,
    ) -> *mut RawMr;
    pub(super) fn peer_window(pd: *mut RawPd) -> *mut RawMw;
    pub(super) fn peer_free_window(mw: *mut RawMw);
    pub(super) fn peer_next_key(mw: *mut RawMw) -> u32;
    pub(super) fn peer_bind(
        id: *mut RawId,
        mw: *mut RawMw,
        mr: *mut RawMr,
        wr: u64,
        key: u32,
    ) -> c_int;
    pub(super) fn peer_lkey(mr: *mut RawMr) -> u32;
    pub(super) fn peer_rkey(mr: *mut RawMr) -> u32;
    pub(super) fn peer_without_identification(socket: c_int) -> c_int;
}

/// `RDMA_PS_TCP`.
pub(super) const PORT_SPACE: c_int = 0x0106;

/// The values of `RDMA_CM_EVENT_...` that are used here.
pub(super) mod event {
    pub const ADDR_RESOLVED: u32 = 0;
    pub const ROUTE_RESOLVED: u32 = 2;
    pub const CONNECT_REQUEST: u32 = 4;
    pub const REJECTED: u32 = 8;
    pub const ESTABLISHED: u32 = 9;
    pub const DISCONNECTED: u32 = 10;
    pub const TIMEWAIT_EXIT: u32 = 15;
}

pub(super) fn check(result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        -1 => Err(Error::last_os_error()),
        negative => Err(Error::from_raw_os_error(-negative)),
    }
}

pub(super) fn made<T>(pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(Error::last_os_error)
}
