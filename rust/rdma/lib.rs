// SPDX-License-Identifier: GPL-2.0

//! Safe in-kernel verbs and RDMA CM for reliable connections. The upper layer owns every buffer by
//! value.
//!
//! Nothing here knows the contents of messages, or decides when to send them: see [`SendPolicy`].
//!
//! # Who owns what
//!
//! ```text
//! cm::Id  <-  ProtectionDomain  <-  regions, Receive and Send buffers
//!    ^                ^
//!    +------- QueuePair (with its completion queue)
//! ```
//!
//! An arrow points at the object that is kept alive. The [`cm::Id`] is destroyed last; the RDMA CM
//! delays the removal of a device until every id bound to it is destroyed, so no object of this
//! crate can outlive its device, and no second registration with the core is needed. An upper layer
//! that gets [`cm::Event::DeviceRemoval`] tears its connection down; the removal waits for that.
//!
//! # What the device may touch
//!
//! * A Receive buffer is moved into [`QueuePair::post_receives`] and comes back in
//!   [`Handler::received`] or [`Handler::receive_failed`].
//! * A Send buffer is moved into [`QueuePair::post_send`]; the queue pair takes it
//!   back when a completion covers it.
//! * Memory that is gathered into a Send, and that of Reads and Writes, is owned by the posted
//!   [`transfer`] until a completion covers it, or the queue pair is drained and destroyed; if the
//!   device lost the completion of a Read, until the [`QueuePair`] is freed.
//! * Registered memory is owned by an [`mr::Registered`] list until a remote invalidation, a
//!   completed local one, as a request of its own or part of a Read, or the drop of the list, which
//!   deregisters. All three end with the memory unmapped and its owners ([`memory::Piece`])
//!   released, in that order.
//!
//! So safe code can reach no buffer under DMA, whatever the order in which an upper layer drops its
//! values.
//!
//! # Contexts
//!
//! [`Handler`] methods run in the completion queue's worker (process context, never two at a time
//! for one queue pair) or, for CM events, under the id's mutex in the CM's worker or in the task
//! that removes the device. If the device lost the completion of an invalidation,
//! [`Handler::invalidate_failed`] runs in the task that drains the queue pair. They must not sleep
//! for long, and must not drop the last reference to the id, the protection domain or the queue
//! pair. They may drop regions, as an upper layer does whose connection has ended meanwhile. That
//! deregisters them, which sleeps, but waits only for the device; and the queue pair keeps the
//! protection domain that the regions refer to.

// Kbuild passes this to rustc. rustdoc drops it when it extracts examples.
#![cfg_attr(doctest, no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod cm;
pub mod device;
pub mod listener;
pub mod mr;
pub mod qp;
pub mod receive;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
pub mod send;
pub mod transfer;

mod chain;
mod client;
mod clock;
mod cq;
mod dma;
mod handler;
mod in_flight;
mod pd;
mod prelude;
mod read_mr_pool;
mod registration;
mod sq;
mod sq_credits;

/// The prefix of log lines.
const __LOG_PREFIX: &[u8] = b"rpcrdma\0";

pub use client::ClientRegistration;
pub use cq::WcStatus;
pub use ext::{
    addr,
    atomic_cell,
    errno,
    memory,
    rate_limit,
    zeroed, //
};
pub use handler::{
    Context,
    Handler,
    QueueEvent,
    ReadHandler, //
};
pub use pd::ProtectionDomain;
pub use qp::{
    BatchMemory,
    Completing,
    Invalidated,
    NotPosted,
    QueuePair, //
};
pub use sq::{
    NextSend,
    SendPolicy, //
};
pub use sq_credits::{
    SqCredits,
    SqPermit, //
};

/// Names of locks in types that are generic over the upper layer.
///
/// lockdep expects that locks with the same key have the same name, and compares addresses. The key
/// in a generic type exists once, but a literal once in each crate that creates such values for a
/// handler of its own.
mod lock_names {
    use kernel::str::CStr;

    pub(crate) static DEFERRED_DEREG: &CStr = c"rdma::deferred_dereg";
    pub(crate) static ENDED: &CStr = c"rdma::ended";
    pub(crate) static RECEIVES: &CStr = c"rdma::receives";
    pub(crate) static ROUTE_QUERY: &CStr = c"rdma::route_query";
    pub(crate) static SENDS: &CStr = c"rdma::sends";
    pub(crate) static READ_MRS: &CStr = c"rdma::read_mrs";
}
