// SPDX-License-Identifier: GPL-2.0

//! The server: an `svc_xprt` whose connection is RPC-over-RDMA.
//!
//! RFC 8166 (the protocol), RFC 8797 (private data), RFC 8167 (calls to the client).
//!
//! # The path of an RPC
//!
//! A name in brackets is a queue. Nothing holds a thread while it waits there.
//!
//! ```text
//! a Receive completes               handler; drops what is cut off, and RDMA_DONE
//!   v
//! [received]                   A
//!   v
//! parse                             receive; a malformed message is dropped or refused,
//!   |                               a reply to a callback goes to sunrpc
//!   +-- nfsd can read it from the Receive buffer ---------+
//!   v                                                     |
//! SQ credits? -- no --> [Reads for SQ credits]      B     |
//!   |    ^                v                               |
//!   |    |              [ready Reads]               C     |
//!   |<---|----------------+                               |
//!   |    +----------------+                               |
//!   v                     |                               |
//! page budget? - no --> [Reads for pages]           D     |
//!   v                                                     |
//! post RDMA Reads                   rdma_read             |
//!   v   all have completed                                |
//! [read]                       A    goes before [received]|
//!   v                                                     |
//! begin the call <----------------------------------------+
//!   |                               the message is lent to sunrpc; pages that were read are
//!   v                               exchanged for as many of the thread's own
//! nfsd executes it
//!   v
//! lay out the reply                 reply
//!   v
//! Send buffer? -- no --> [Sends for buffers]        E
//!   |<---------------------+
//!   v
//! SQ credits? --- no --> [Sends for SQ credits]     B
//!   |<---------------------+
//!   v
//! post the Receive again, then RDMA Writes, in batches if they are many, and the Send
//!   v   a completion covers the Send
//! Send buffer, SQ credits and pages are free again
//! ```
//!
//! | | waits until | and holds |
//! | --- | --- | --- |
//! | A | a thread is free, and fewer than four Sends wait in B and E | its pages, if it was read |
//! | B | a completion frees credits. Its handler, or a thread after an attempt of its own, posts Sends and reserves credits for Reads, in turn. A Send without RDMA Writes needs none; Reads that need more than was reserved come back | a Send: its buffer, and the pages that it sends |
//! | C | a thread is free, to allocate memory | SQ credits |
//! | D | another call of the connection has been read, and a thread is free, which begins with the SQ credits again. If calls wait here, later ones come here at once | nothing |
//! | E | a completion frees a buffer; its handler goes on with the Send | the pages that it sends |
//!
//! Each of them holds its message, too, and with that a Receive: the reply repeats the chunks of
//! the call. The Receive is posted again before the Send: when the client has the reply it may send
//! another call, which needs a Receive. When the connection ends, all queues are emptied.
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
//! waiting       what waits, where, for what, and who serves it
//! work_queue    the elements of these queues, whose order is in proto::work_queue
//! responder     the part of a connection that belongs to the device
//! receive       from a message to a call in a svc_rqst; the decision about each message
//! call          the layout, pages and context of a call
//! rdma_read     RDMA Reads of a call, the pool of pages and its budget
//! reply         from the result in a svc_rqst to RDMA Writes and a Send
//! send          posting messages, the credit grant in replies, calls to the client
//! credits       the credit grant
//! watchdog      the deadlines of posted work requests and of silent clients
//! denied_calls  calls whose chunks the client denied access to
//! prelude       names that many of them use
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
mod malformed;
mod prelude;
mod rdma_read;
mod receive;
mod reply;
mod responder;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
mod send;
mod transport;
mod waiting;
mod watchdog;
mod work_queue;

/// The prefix of log lines.
const __LOG_PREFIX: &[u8] = b"rpcrdma\0";

pub use config::register as register_sysctls;

use kernel::prelude::*;
use listener::Listener;
use sunrpc::{
    ClassRegistration,
    SvcRegistration, //
};

/// The registrations of the transport classes: for clients, and for calls to them.
pub struct Classes {
    _backchannel: ClassRegistration,
    _server: SvcRegistration<Listener>,
}

/// Registers the transport classes. They may be used at once.
pub fn register_classes(module: &'static ThisModule) -> Result<Classes> {
    Ok(Classes {
        _backchannel: transport::BACKCHANNEL.register(module)?,
        _server: listener::CLASS.register(module)?,
    })
}
