// SPDX-License-Identifier: GPL-2.0

//! The server: an `svc_xprt` whose connection is RPC-over-RDMA.
//!
//! RFC 8166 (the protocol), RFC 8797 (private data), RFC 8167 (calls to the client).
//!
//! # The path of an RPC
//!
//! 1. The completion handler in [`handler`] adds the message to the work queue and enqueues the
//!    `svc_xprt`, which wakes an nfsd thread.
//! 2. [`receive`] parses the message through [`dispatch`]. nfsd executes a call without Read chunks
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
//! A file uses only files that come before it in this list:
//!
//! ```text
//! config, queue_limits, call_layout, call_pages, call_context
//! page_pool, read_budget, denied_calls, connection_state, credits
//! fifo, wait_queue, sq_credit_queue, waiting, work_queue, lent_messages
//! connection          the context of the id and of the completion queue
//! watchdog            the deadlines of posted work requests
//! post                posting a message, or queueing it
//! handler             from a completion to the work queue, and from there to the Send queue
//! send                memory for messages, the credit grant, and calls to the client
//! responder           the part of a connection that belongs to the device
//! transport           the private state of the svc_xprt
//! dispatch, rdma_read
//! receive             from the work queue to the call in a svc_rqst
//! reply               from the result in a svc_rqst to the Send
//! listener, xprt_ops  the operations that sunrpc calls
//! ```

#![forbid(unsafe_code)]

mod accept_queue;
mod call_context;
mod call_layout;
mod call_pages;
mod config;
mod connection;
mod connection_state;
mod credits;
mod denied_calls;
mod dispatch;
mod fifo;
mod handler;
mod lent_messages;
mod listener;
mod page_pool;
mod post;
mod queue_limits;
mod rdma_read;
mod read_budget;
mod receive;
mod reply;
mod responder;
#[cfg(RPCRDMA_SELFTEST)]
pub(crate) mod selftest;
mod send;
mod sq_credit_queue;
mod transport;
mod wait_queue;
mod waiting;
mod watchdog;
mod work_queue;
mod xprt_ops;

pub(crate) use config::register as register_sysctls;
pub(crate) use listener::{
    Listener,
    CLASS, //
};
pub(crate) use xprt_ops::BACKCHANNEL;
