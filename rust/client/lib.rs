// SPDX-License-Identifier: GPL-2.0

//! The client: an `rpc_xprt` whose connection is RPC-over-RDMA. It is the Requester, except for
//! callbacks.
//!
//! RFC 8166 (the protocol), RFC 8797 (private data), RFC 8167 (callbacks).
//!
//! # The path of an RPC
//!
//! 1. In the RPC's own task [`marshal`] decides which chunks it needs ([`chunk`]): a Read chunk or
//!    a Position-Zero Read chunk for the call, a Write chunk or a Reply chunk for the reply, or
//!    none. It takes memory regions for them, maps the memory, and writes the message into a Send
//!    buffer. Long data that stays inline is not copied: the Send refers to its pages.
//! 2. When the RPC's turn has come and it has a credit, [`send`] posts the registrations and the
//!    Send as one chain. The doorbell rings for the last Send of a burst.
//! 3. [`reply`] parses the received message, compares it with the offered chunk, and has every
//!    region of the RPC invalidated: by the server's Send With Invalidate, or else by a chain of
//!    local invalidations. Invalid regions are unmapped, and go back to the pool.
//! 4. Only then the credit window is set from the grant, the inline part is copied to the reply
//!    buffer, the Receive is posted again, and the RPC is completed. The server can no longer reach
//!    any memory of it.
//!
//! An RPC whose task is killed keeps its credit until its reply arrives, but its memory is
//! invalidated before its caller gets it back. A call that times out ends the connection: none is
//! sent twice over one connection, unless there was a reply, which sunrpc refused.
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
//! ```text
//! config            settings, and sizes for a number of credits
//! transport         the transport, its class, and the operations that sunrpc calls
//! connect           connecting, growing and closing
//! connection        a connection, and what the RDMA CM and completions report
//! connection_state  the state of a connection, for the connect worker
//! cause             what ends a connection
//! chunk             which chunks a Call needs
//! marshal, send     from an RPC, or the reply to a callback, to a Send
//! reply             from a Receive to the end of an RPC, or to a callback
//! slot              an RPC that is prepared or sent, and the invalidation of its memory
//! regions, stats    idle memory regions; counters
//! selftest          tests of the sizes of queues
//! prelude           names that many of them use
//! ```

#![forbid(unsafe_code)]

mod cause;
mod chunk;
mod config;
mod connect;
mod connection;
mod connection_state;
mod marshal;
mod prelude;
mod regions;
mod reply;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
mod send;
mod slot;
mod stats;
mod transport;

/// The prefix of log lines.
const __LOG_PREFIX: &[u8] = b"rpcrdma\0";

pub use config::register as register_sysctls;

use kernel::prelude::*;
use sunrpc::ClassRegistration;

/// Registers the transport class. It may be used at once.
pub fn register_class(module: &'static ThisModule) -> Result<ClassRegistration> {
    transport::CLASS.register(module)
}
