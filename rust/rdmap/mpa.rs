// SPDX-License-Identifier: GPL-2.0

//! MPA (RFC 5044, RFC 6581): DDP Segments in a TCP stream.
//!
//! [`startup`] is how both ends begin: a Request, a Reply, and who may send first. From then on the stream is a row of
//! [FPDUs](frame), each of which carries one DDP Segment (the ULPDU), its length and a [`crc`]. A receiver that asked
//! for them finds [markers](marker) every 512 octets of the stream.

pub mod crc;
pub mod frame;
pub mod marker;
pub mod startup;
