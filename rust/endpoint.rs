// SPDX-License-Identifier: GPL-2.0

//! What both sides of rpcrdma share above verbs: Receives that are posted again in batches, Send
//! buffers, which Sends ask for a completion, SQ credits, and what goes to the log.
//!
//! # Lock order
//!
//! ```text
//! slot state  >  (inside rdma) sends, deferred_dereg
//! receive ring  >  (inside rdma) receives
//! sunrpc's transport_lock  >  active, then alone  >  sends: the doorbell for what a sender left behind
//! connection state: innermost, held for a step of the state machine or a look at it
//! sunrpc's transport_lock  >  the client's credits: the window that a reply or a growth opens
//! the client's credits, reusable resources and region pool: otherwise each alone
//! what lets one growth of a client's connection at a time  >  the two of these and the sends, receive ring and receives of it
//! the server's responder, lent messages, work queue, free calls, page pool, rejected calls: each alone; the page pool also in the middle of allocations
//! (inside rdma) sinks: alone
//! (inside rdma) ended  >  the CM's locks, receives, sends, slot state, deferred_dereg; no handler takes it
//! the listener's id  >  all that the connection manager and sunrpc lock
//! ```
//!
//! What this module decides about a Send queue is kept under the queue's own lock, `sends`
//! ([`SendPolicy`]).
//!
//! The lock of the listener's id is a mutex, as are the queue of connections that wait to be accepted,
//! what lets one growth at a time, and (inside rdma) what lets one drain at a time; of these, handlers take only
//! that of the queue. All others are spin locks taken in process context.
//! None of those is held across a call into `sunrpc` or the connection manager
//! (but for the flag that says whether the server's queue is empty), nor while a
//! value is dropped whose drop sleeps ([`rdma::mr::Idle`]).

#![forbid(unsafe_code)]

mod log;
mod queue;
mod receive_ring;
#[cfg(RPCRDMA_SELFTEST)]
pub(crate) mod selftest;
mod send_buffers;
mod send_policy;
mod signalling;
mod spare_transfers;
mod sq_credits;

pub(crate) use log::{
    log,
    log_message, //
};
pub(crate) use queue::{
    Parameters,
    Responding,
    SendBuffering,
    UnpostedReads, //
};
pub(crate) use receive_ring::ReceiveRing;
pub(crate) use send_policy::SendPolicy;

/// Fewer bytes of data than these are copied to a Send: that costs less than to map them.
pub(crate) const WORTH_INSERTING: usize = 1024;
