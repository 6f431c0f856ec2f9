// SPDX-License-Identifier: GPL-2.0

//! The client: an `rpc_xprt` whose connection is RPC-over-RDMA. It is the Requester, except for
//! callbacks.
//!
//! RFC 8166 (the protocol), RFC 8797 (private data), RFC 8167 (callbacks).
//!
//! # The path of an RPC
//!
//! 1. In the RPC's own task [`marshal`] decides which chunks it needs ([`plan`]), maps them with
//!    memory regions, and writes the message.
//! 2. When the RPC's turn has come and it has a credit, [`send`] posts the registrations and the
//!    Send as one chain. The doorbell rings for the last Send of a burst.
//! 3. [`reply`] parses the received message, compares it with the offered chunk, and has every
//!    region of the RPC invalidated: by the server's Send With Invalidate, or else by a chain of
//!    local invalidations.
//! 4. Only then does the [`matched_reply`] complete the RPC. The server can no longer reach any
//!    memory of it.
//!
//! # Concurrency
//!
//! sunrpc serialises `send`, `connect` and `close` (`XPRT_LOCKED`). The completion handlers of a
//! connection run one at a time, in parallel with these. `prepare` and `release` run in the RPC's
//! own task, in parallel with all others. They share the [`slot`] of the RPC and the
//! [`connection`].
//!
//! # Files
//!
//! A file uses only files that come before it in this list:
//!
//! ```text
//! config, stats, resources, region_pool, chunk, plan, connection_state
//! connection          transport and connection
//! prepared_call, matched_reply
//! slot
//! marshal, send       from an RPC to a Send
//! reply, handler      from a completion to an RPC
//! queue_limits, growth, connect
//! xprt_ops            the operations that sunrpc calls
//! ```

#![forbid(unsafe_code)]

mod chunk;
mod config;
mod connect;
mod connection;
mod connection_state;
mod growth;
mod handler;
mod marshal;
mod matched_reply;
mod plan;
mod prepared_call;
mod queue_limits;
mod region_pool;
mod reply;
mod resources;
mod send;
mod slot;
mod stats;
mod xprt_ops;

pub(crate) use config::register as register_sysctls;
pub(crate) use xprt_ops::CLASS;
