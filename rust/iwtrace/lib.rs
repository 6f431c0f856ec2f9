// SPDX-License-Identifier: GPL-2.0

//! Trace points of `iwarp.ko`.
//!
//! C header: [`include/iwarp_trace.h`](srctree/include/iwarp_trace.h)
//!
//! Each event is a module of that name. [`event!`] checks whether the event is on, and only then
//! evaluates its arguments and records it:
//!
//! ```
//! use iwtrace::QpId;
//!
//! fn refused(qp: QpId, id: u64, error: kernel::error::Error) {
//!     iwtrace::event!(iwarp_wr_refused(qp, false, id, 0, error));
//! }
//! ```
//!
//! While the event is off, that is a NOP (a static key). It does not sleep, and may be called
//! anywhere.

// Kbuild passes these to rustc. rustdoc drops them when it extracts examples.
#![cfg_attr(doctest, no_std, feature(asm_goto))]
#![deny(unsafe_op_in_unsafe_fn)]

use core::net::SocketAddr;
use ext::{
    addr::SockAddr,
    events, //
};
use kernel::prelude::*;

/// Records an event if it is on: `event!(NAME(ARGUMENT, ...))`, with the arguments of the event's
/// `emit`.
#[macro_export]
macro_rules! event {
    ($name:ident($($argument:expr),* $(,)?)) => {
        if $crate::$name::is_on() {
            $crate::$name::emit($($argument),*);
        }
    };
}

/// The numbers of a queue pair, as `rdma dev` and `rdma resource show qp` have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpId {
    /// The number of its device.
    pub device: u32,
    /// Its own number.
    pub number: u32,
}

events! {
    /// The state of a queue pair changes; the numbers are those of `QpState`.
    iwarp_qp_state(qp: QpId, from: u32, to: u32) => (qp.device, qp.number, from, to);

    /// A consumer begins to connect.
    iwarp_connect(qp: QpId, local: SocketAddr, peer: SocketAddr) =>
        (qp.device, qp.number, SockAddr::from(local).as_raw(), SockAddr::from(peer).as_raw());

    /// An attempt to connect failed.
    iwarp_connect_err(qp: QpId, local: SocketAddr, peer: SocketAddr, reason: &CStr) =>
        (qp.device, qp.number, SockAddr::from(local).as_raw(), SockAddr::from(peer).as_raw(), reason.as_char_ptr());

    /// A connection is established, with these numbers of Reads.
    iwarp_established(qp: QpId, local: SocketAddr, peer: SocketAddr, ird: u16, ord: u16) =>
        (qp.device, qp.number, SockAddr::from(local).as_raw(), SockAddr::from(peer).as_raw(), ird.into(), ord.into());

    /// This end has sent a Terminate.
    iwarp_terminate_sent(qp: QpId, local: SocketAddr, peer: SocketAddr, layer: u8, etype: u8, code: u8) =>
        (qp.device, qp.number, SockAddr::from(local).as_raw(), SockAddr::from(peer).as_raw(), layer.into(), etype.into(), code.into());

    /// The peer has sent a Terminate.
    iwarp_terminate_received(qp: QpId, local: SocketAddr, peer: SocketAddr, layer: u8, etype: u8, code: u8) =>
        (qp.device, qp.number, SockAddr::from(local).as_raw(), SockAddr::from(peer).as_raw(), layer.into(), etype.into(), code.into());

    /// A connection ends: it is half-closed, or `aborted`. The error is 0 if there is none.
    iwarp_end(qp: QpId, local: SocketAddr, peer: SocketAddr, reason: &CStr, error: i32, aborted: bool) =>
        (qp.device, qp.number, SockAddr::from(local).as_raw(), SockAddr::from(peer).as_raw(), reason.as_char_ptr(), error, aborted);

    /// The Request of a peer is indicated to the consumer.
    iwarp_request_indicated(local: SocketAddr, peer: SocketAddr) => (SockAddr::from(local).as_raw(), SockAddr::from(peer).as_raw());

    /// The consumer rejects a Request.
    iwarp_request_rejected(local: SocketAddr, peer: SocketAddr) => (SockAddr::from(local).as_raw(), SockAddr::from(peer).as_raw());

    /// A peer has gone, or broke a rule, or its Request was not indicated or not decided in time.
    iwarp_request_lost(local: SocketAddr, peer: SocketAddr) => (SockAddr::from(local).as_raw(), SockAddr::from(peer).as_raw());

    /// A work request could not be posted.
    iwarp_wr_refused(qp: QpId, receive: bool, id: u64, opcode: u32, error: Error) =>
        (qp.device, qp.number, receive, id, opcode, error.to_errno());

    /// A posted work request failed, with this status of a work completion.
    iwarp_wr_failed(qp: QpId, receive: bool, id: u64, status: u32) =>
        (qp.device, qp.number, receive, id, status);

    /// A completion queue of this device had no room for a completion; it has `lost` so many.
    iwarp_cq_overrun(qp: QpId, cq: u32, id: u64, lost: u64) =>
        (qp.device, cq, qp.number, id, lost);
}
