// SPDX-License-Identifier: GPL-2.0

//! MPA (RFC 5044, RFC 6581): DDP Segments in a TCP stream.
//!
//! [`startup`] is the connection set-up: a Request and a Reply. From then on the stream is a
//! sequence of [FPDUs](frame), each of which carries one DDP Segment (the ULPDU), its length and a
//! [`crc`]. A receiver may ask for [markers](marker) every 512 octets of the stream.

pub mod announcement;
pub mod crc;
pub mod frame;
pub mod marker;
pub mod startup;
