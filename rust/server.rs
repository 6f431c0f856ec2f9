// SPDX-License-Identifier: GPL-2.0

//! The server: an `svc_xprt` whose connection is RPC-over-RDMA.
//!
//! RFC 8166 (the protocol), RFC 8797 (private data), RFC 8167 (calls to the client).
//!
//! # The way of an RPC
//!
//! 1. [`endpoint`] queues what arrives and has a service thread come.
//! 2. [`receive`] parses it. A call without Read chunks is copied to the thread's pages and served.
//!    For others [`pull`] posts RDMA Reads, and the thread leaves; when they have completed another
//!    one comes, and exchanges its pages for those that were read.
//! 3. [`reply`] pairs the results with the chunks of the call, and posts one chain: RDMA Writes
//!    straight from the pages of the result, then the Send.
//!
//! A call keeps the Receive that it came in until its reply is about to be sent, as the reply
//! repeats the chunks in there. It goes back to the ring before the Send, so that the client, which
//! may send another call as soon as it has the reply, finds one.

#![forbid(unsafe_code)]

mod connection;
mod endpoint;
mod listener;
mod outlet;
mod pull;
mod receive;
mod reply;

use kernel::prelude::*;
use proto::private::PrivateData;

pub(crate) use connection::{
    Connection,
    REVERSE, //
};
pub(crate) use listener::{
    Listener,
    CLASS, //
};

/// What a connection is made with.
#[derive(Clone, Copy)]
struct Config {
    /// Credits to grant.
    credits: u32,
    /// The longest Send, and the longest Receive.
    inline: PrivateData,
}

impl Config {
    /// Calls in parallel.
    const CREDITS: u32 = 128;

    /// Calls to the client in parallel.
    const REVERSE_CREDITS: u32 = 2;

    /// Holds a GETATTR of NFSv4.2 with security labels, and 4 KiB of data, which 4,096 does not.
    const INLINE_BYTES: usize = 8192;

    fn new() -> Result<Self> {
        Ok(Self {
            credits: Self::CREDITS,
            inline: PrivateData::new(Self::INLINE_BYTES, Self::INLINE_BYTES, true)
                .map_err(|_| EINVAL)?,
        })
    }
}

/// RDMA Reads and Writes that may be posted at the same time. A reply to a call with as many
/// segments as its header can hold needs more than four hundred.
const TRANSFERS: u32 = 512;
