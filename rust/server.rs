// SPDX-License-Identifier: GPL-2.0

//! The server: an `svc_xprt` whose connection is RPC-over-RDMA.
//!
//! RFC 8166 (the protocol), RFC 8797 (private data), RFC 8167 (calls to the client).
//!
//! # The path of an RPC
//!
//! 1. The completion handler in [`handler`] adds the message to the work queue and enqueues the
//!    `svc_xprt`, which wakes an nfsd thread.
//! 2. [`receive`] parses the message. nfsd executes a call without Read chunks
//!    from the Receive buffer. For any other call [`rdma_read`] posts RDMA Reads, and the thread is
//!    free for other work. When the Reads have completed, a thread exchanges pages of its own for
//!    the pages that were read.
//! 3. [`reply`] pairs the results with the Write chunks of the call, and posts one chain of work
//!    requests: RDMA Writes from the pages of the result, then the Send. Long data that is not
//!    reduced is gathered from the same pages by the Send.
//!
//! A call keeps its Receive buffer until its reply is about to be sent, as the reply repeats the
//! chunks of the call. The Receive is posted again before the Send: when the client has the reply
//! it may send another call, which needs a Receive.
//!
//! # Files
//!
//! ```text
//! config        sysctls, counters, and the limits of a connection
//! listener      the listening svc_xprt and its queue of connection requests
//! transport     the connected svc_xprt: the operations that sunrpc calls
//! connection    the context of a connection, shared by its id and its completion queue
//! cause         what ends a connection
//! handler       completions and CM events: to the queues, and from there to the Send queue
//! waiting       the queues of work for threads, and of what waits for credits or pages
//! responder     the part of a connection that belongs to the device
//! receive       from a message to a call in a svc_rqst; the decision about each message
//! call          the layout, pages and context of a call
//! rdma_read     RDMA Reads of a call, the pool of pages and its budget
//! reply         from the result in a svc_rqst to RDMA Writes and a Send
//! send          posting messages, the credit grant in replies, calls to the client
//! credits       the credit grant
//! watchdog      the deadlines of posted work requests and of silent clients
//! denied_calls  calls whose chunks the client denied access to
//! ```

#![forbid(unsafe_code)]

mod call;
mod cause;
mod config;
mod connection;
mod credits;
mod denied_calls;
mod handler;
mod listener;
mod rdma_read;
mod receive;
mod reply;
mod responder;
#[cfg(RPCRDMA_SELFTEST)]
pub(crate) mod selftest;
mod send;
mod transport;
mod waiting;
mod watchdog;

pub(crate) use config::register as register_sysctls;
pub(crate) use listener::{
    Listener,
    CLASS, //
};
pub(crate) use transport::BACKCHANNEL;
