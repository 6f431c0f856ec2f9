// SPDX-License-Identifier: GPL-2.0

//! The server: an `svc_xprt` whose connection is RPC-over-RDMA.
//!
//! RFC 8166 (the protocol), RFC 8797 (private data), RFC 8167 (calls to the client).
//!
//! # The way of an RPC
//!
//! 1. [`endpoint`] queues what arrives and has a service thread come.
//! 2. [`receive`] parses it. A call without Read chunks is served from where it arrived. For others
//!    [`pull`] posts RDMA Reads, and the thread leaves; when they have completed another one comes,
//!    and exchanges its pages for those that were read.
//! 3. [`reply`] pairs the results with the chunks of the call, and posts one chain: RDMA Writes
//!    straight from the pages of the result, then the Send. Data that has no chunk is part of the Send,
//!    from the same pages.
//!
//! A call keeps the Receive that it came in until its reply is about to be sent, as the reply
//! repeats the chunks in there. It goes back to the ring before the Send, so that the client, which
//! may send another call as soon as it has the reply, finds one.

#![forbid(unsafe_code)]

mod config;
mod connection;
mod endpoint;
mod listener;
mod page_pool;
mod rdma_read;
mod receive;
mod rejected_calls;
mod reply;
mod send;

pub(crate) use config::register as register_sysctls;
pub(crate) use connection::BACKCHANNEL;
pub(crate) use listener::{
    Listener,
    CLASS, //
};
