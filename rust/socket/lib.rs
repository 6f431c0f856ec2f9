// SPDX-License-Identifier: GPL-2.0

//! Sockets of the kernel for an iWARP device: TCP, with frames in and octets out, and SCTP
//! ([`sctp`]), whose chunks are frames already.
//!
//! Nothing here knows RDMA. A user has a worker per connection, which is the only one to send and
//! to receive; callbacks only wake it ([`Events`]). No call waits for a peer.
//!
//! # Callbacks
//!
//! TCP and SCTP call four functions of a socket for events ([`callbacks`] replaces them). The rules
//! that make this sound stand there, in one place.
//!
//! # The receive queue
//!
//! The queue of a socket does not change while its lock is held, except by the holder ([`queue`]).
//! So a worker finds a whole frame there, sums it, copies it to its destination and only then gives
//! it back: nothing is placed before it was verified, and nothing is copied twice. A frame that
//! exceeds the window is reassembled in memory of this crate ([`receive`]). SCTP has whole chunks
//! in its queue, which stay there until they are taken, with or without the lock ([`sctp`]).
//!
//! # Lifetimes
//!
//! A socket holds a reference to its network namespace from the start, and its children inherit
//! that, so neither timers nor packets find a namespace that is gone. TCP copies octets that are
//! sent, or has references to [pages](Pages) of this crate; memory of a consumer is used during a
//! call only.
//!
//! A socket that was closed may be there for a while, as TCP still delivers octets that it took; by
//! then it has C's own callbacks again.
//!
//! # IPsec
//!
//! Security associations are the host's, below these protocols. Nothing here looks at one, so one
//! that expires while a connection is idle ends nothing: TCP and SCTP retransmit packets that
//! cannot be sent meanwhile (RFC 5040, section 8.2.2).
// Argues for P8.2.2-4.

// Kbuild passes this to rustc. rustdoc drops it when it extracts examples.
#![cfg_attr(doctest, no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

// The prefix of lines in the log.
const __LOG_PREFIX: &[u8] = b"iwarp\0";

mod callbacks;
mod connection;
mod listener;
pub mod parameters;
mod prelude;
mod queue;
mod receive;
pub mod sctp;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
mod send;
mod socket;

pub use callbacks::{
    Event,
    Events, //
};
pub use connection::{
    ConnState,
    Settings,
    TcpConn, //
};
pub use ext::{
    borrowed,
    net::Net, //
};
pub use listener::{
    Accepted,
    Listener, //
};
pub use receive::{
    Frame,
    Frames,
    Next,
    MAX_FRAME,
    MAX_HEAD, //
};
pub use send::{
    Pages,
    SendBuf,
    Then,
    MAX_PIECES, //
};

/// Waits for callbacks of sockets that are closed by now. Sleeps.
///
/// A listener's callbacks run under RCU only ([`callbacks`], rule 4), so the module calls this when
/// its last socket is gone.
pub fn wait_for_callbacks() {
    // SAFETY: The caller may sleep. Not every kernel has a safe function for it.
    unsafe { kernel::bindings::synchronize_rcu() };
}
