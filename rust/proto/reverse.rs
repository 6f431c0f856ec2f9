// SPDX-License-Identifier: GPL-2.0

//! Reverse direction: the server calls the client (RFC 8167).
//!
//! One connection, the same header, but transactions and credits of their own. There are no
//! chunks in this direction: a server does not expose memory, and the callbacks of NFS have no
//! DDP-eligible data item (RFC 8267). So every header has the same 28 bytes.

use crate::error::Misuse;
use crate::header::{self, Body};

/// A message of the reverse direction, either a Call or a Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Transaction, in the server's own number space.
    pub xid: u32,
    /// Credits: requested by a Call, granted by a Reply.
    pub credits: u32,
    /// The RPC message.
    pub payload: &'a [u8],
}

/// The header of a message of the reverse direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Transaction, in the server's own number space.
    pub xid: u32,
    /// Credits: requested by a Call, granted by a Reply. At least one.
    pub credits: u32,
}

impl Header {
    /// Bytes on the wire.
    pub const WIRE_LEN: usize = header::MIN_LEN;

    /// Writes the header to the front of `out` and returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Misuse> {
        header::Call {
            xid: self.xid,
            credits: self.credits,
            body: Body::Msg,
            read: &[],
            write: &[],
            reply: None,
        }
        .emit(out)
    }
}
