// SPDX-License-Identifier: GPL-2.0

//! The layer above verbs that client and server share: Receives that are reposted in batches, Send
//! buffers, the choice of signalled Sends, SQ credits, the limits of log lines, and the form of the
//! tables of what ends a connection.
//!
//! # Lock order
//!
//! ```text
//! (client) slot state     > (rdma) sends, deferred_dereg
//! (rdma) sends            > (rdma) receives; spares
//! (sunrpc) transport_lock > (client) active
//! (sunrpc) transport_lock > (rdma) sends         to ring the doorbell for deferred Sends
//! (sunrpc) transport_lock > (client) credits     to open the congestion window
//! (client) growth         > (client) credits, region pool; (rdma) sends, receives;
//!                           spares
//! (rdma) ended            > the CM's locks; (client) slot state;
//!                           (rdma) receives, sends, deferred_dereg
//! id of the listener      > all locks of the connection manager and of sunrpc
//! any, in allocations     > (server) page pool   taken by its shrinker
//! connection state        innermost: held for a step of the state machine, or a read of it
//! ```
//!
//! Otherwise the client's credits, reusable resources and region pool, the server's list of calls,
//! work queue, page pool and denied calls, and the pool of regions in rdma are each taken alone.
//!
//! The decisions of this module about a Send queue are state under the queue's own lock, `sends`
//! ([`SendPolicy`]), and so are the Receive buffers that wait to be reposted. That lock is held
//! while the device is notified, so free Send buffers and empty transfers, which RPCs need before,
//! are elsewhere ([`Spares`]): most of them are taken without a lock.
//!
//! The lock of the listener's id is a mutex, and so are `accept_queue` of the server, `growth`
//! of the client and `ended` of rdma; of these, handlers take only `accept_queue`. All others
//! are spin locks, taken in process context with interrupts on. No spin lock is held across a call
//! into `sunrpc` or the connection manager, except to set or clear the flag that tells sunrpc
//! whether the server has work, nor while a value is dropped whose drop sleeps
//! ([`rdma::mr::Idle`]).

#![forbid(unsafe_code)]

mod causes;
mod log;
mod queue;
mod receive_ring;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
mod send_policy;
mod spares;

/// The prefix of log lines.
const __LOG_PREFIX: &[u8] = b"rpcrdma\0";

pub use log::{
    log,
    log_message, //
};
pub use queue::{
    Parameters,
    ResponderExt,
    SendBufferExt,
    UnpostedReads, //
};
pub use receive_ring::{
    HandlerReceivesExt,
    ReceiveBufferExt,
    ReceiveRing, //
};
pub use send_policy::SendPolicy;
pub use spares::Spares;

/// The shortest data that a Send gathers from its pages. Shorter data is copied, which costs less
/// than mapping it.
pub const GATHER_MIN_BYTES: usize = 1024;
