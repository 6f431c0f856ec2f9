// SPDX-License-Identifier: GPL-2.0

//! DDP over SCTP (RFC 5043): DDP Segments in unordered DATA chunks, and sessions of a stream.
//!
//! SCTP keeps the boundaries of its messages and protects them with CRC32C, so a [`chunk`] is a
//! sequence number and a segment. It delivers in any order: the [`window`] of sequence numbers
//! records which chunks arrived. A [`session`] begins with an Initiate and its answer, and ends
//! with a Terminate from at least one side.

pub mod chunk;
pub mod session;
pub mod window;
