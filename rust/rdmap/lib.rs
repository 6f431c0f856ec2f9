// SPDX-License-Identifier: GPL-2.0

//! RDMAP and DDP without I/O: the engine of a software iWARP device.
//!
//! RFC 5040 (RDMAP) with RFC 7306 (atomic operations and immediate data), and RFC 5041 (DDP), with
//! the protocols below them: RFC 5044 (MPA, over TCP), RFC 5043 (SCTP) and RFC 6581 (the
//! negotiation of Reads). Octets, numbers and states go in; views, placements and actions come out.
//! There is no clock, no lock, no socket, no allocation and no kernel interface in this crate, so
//! host tests and fuzzers reach all of it.
//!
//! Guarantees of this crate:
//!
//! - No panic, whatever the peer sends and whatever the caller passes.
//! - Decoders borrow. They never read outside the octets given.
//! - Nothing is sized by a number from the wire: the creator of a queue supplies its memory.
//! - It never touches the memory of messages. It says where octets go to or come from; the caller
//!   copies them, and carries out atomic operations.
//!
//! Layers, from the bottom: [`mpa`] and [`sctp`] find DDP Segments in what TCP and SCTP deliver,
//! [`header`], [`atomic`] and [`terminate`] parse them, [`stag`] decides which memory may be
//! accessed, and [`fault`] maps refusals to codes on the wire. [`rx`] and [`tx`] are the receive
//! half and the transmit half of a stream above them, over a lower layer protocol (LLP) whose
//! [`order`] is a parameter. [`cm`] keeps the order of iw_cm's events.
// Argues for P3.1-1.

// Kbuild passes `no_std` itself. The unit tests need `std`.
#![cfg_attr(not(any(test, CONFIG_RUST)), no_std)]
#![forbid(unsafe_code)]
// Numbers come from a peer, so code that could panic is refused.
#![cfg_attr(
    not(test),
    warn(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used
    )
)]

pub mod atomic;
pub mod cm;
pub mod enhanced;
pub mod fault;
pub mod header;
pub mod mpa;
pub mod order;
pub mod ring;
pub mod rx;
pub mod sctp;
pub mod serial;
pub mod stag;
pub mod terminate;
pub mod tx;
pub mod wire;
#[cfg(test)]
mod wraparound;
