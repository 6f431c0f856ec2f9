// SPDX-License-Identifier: GPL-2.0

//! Safe in-kernel verbs and RDMA CM for reliable connections. The upper layer owns every buffer by
//! value.
//!
//! Nothing here knows what is sent, nor decides when: see [`SendPolicy`].
//!
//! # Who owns what
//!
//! ```text
//! cm::Id  <-  ProtectionDomain  <-  regions, Receive and Send buffers
//!    ^                ^
//!    +------- QueuePair (with its completion queue)
//! ```
//!
//! An arrow points at what is kept alive. The [`cm::Id`] is destroyed last; the RDMA CM
//! holds back the removal of a device until every id bound to it is destroyed, so
//! nothing made here can outlive its device, and no second registration with the
//! core is needed. An upper layer that sees [`cm::Event::DeviceRemoval`] tears its
//! connection down; the device waits for it.
//!
//! # What the device may touch
//!
//! * A Receive buffer is moved into [`QueuePair::post_receives`] and comes back in
//!   [`Handler::received`] or [`Handler::receive_failed`].
//! * A Send buffer is moved into [`QueuePair::post_send`]; the queue pair takes it
//!   back when a completion covers it.
//! * Memory that is inserted into a Send, and that of Reads and Writes, is owned by what was posted
//!   ([`transfer`]) until a completion covers that, or the queue pair is drained and destroyed; if the device
//!   lost the completion of a Read, until the [`QueuePair`] is freed.
//! * Registered memory is an [`mr::Registered`] list. The only ways out are a
//!   remote invalidation, a local one that completed, be it a request of its own or
//!   part of a Read, and dropping it, which deregisters. All three end with the
//!   memory unmapped and its owners ([`memory::Piece`]) released, in that order.
//!
//! So no buffer under DMA is reachable by safe code, whatever the order in which
//! an upper layer drops its values.
//!
//! # Contexts
//!
//! [`Handler`] methods run in the completion queue's worker (process context,
//! never two at a time for one queue pair) or, for CM events, under the id's mutex
//! in the CM's worker or in the task that removes the device. If the device lost the completion of
//! an invalidation, [`Handler::invalidate_failed`] runs in the task that drains the queue pair. They must not
//! sleep for long, and must not drop the last reference to the id, the protection domain or the queue pair.
//! They may drop regions, as an upper layer does whose connection has ended meanwhile. That
//! deregisters them, and sleeps, but for the device alone; and the queue pair keeps the protection
//! domain that they have a reference to.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod cm;
pub mod device;
pub mod error;
pub mod listener;
pub mod mr;
pub mod qp;
pub mod receive;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
pub mod send;
pub mod transfer;

mod chain;
mod clock;
mod context;
mod cq;
mod dma;
mod in_flight;
mod invalidation;
mod lock_names;
mod pd;
mod registration;
mod round_trip;
mod rq;
mod scatter;
mod sink;
mod sq;
mod wc;

/// What lines in the log begin with.
const __LOG_PREFIX: &[u8] = b"rpcrdma\0";

pub use context::{
    Context,
    QueueEvent, //
};
pub use pd::ProtectionDomain;
pub use qp::{
    BatchMemory,
    Handler,
    Invalidated,
    QueuePair,
    ReadHandler, //
};
pub use shared::{
    addr,
    memory, //
};
pub use sq::{
    NextSend,
    SendPolicy, //
};
pub use wc::WcStatus;
