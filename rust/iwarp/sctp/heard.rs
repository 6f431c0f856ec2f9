// SPDX-License-Identifier: GPL-2.0

//! What arrived from a peer: data, the end, or a broken rule.

use kernel::alloc::KVVec;
use rdmap::sctp::chunk::Chunk;

/// What was heard.
pub(super) enum Heard {
    /// Nothing more, for now.
    Nothing,
    /// The user data of a chunk.
    Data(Data),
    /// The peer will say no more, and the association ends in order.
    End,
    /// The association is lost, or never was.
    Lost,
    /// The peer is none for DDP.
    Wrong,
}

/// The user data of a chunk, in a buffer that is to be [given back](super::peer::Peer::give_back).
pub(super) struct Data {
    pub(super) buffer: KVVec<u8>,
    pub(super) len: usize,
    /// Payload protocol identifier.
    pub(super) ppid: u32,
    /// Sent for unordered delivery.
    pub(super) unordered: bool,
    /// This is all of it.
    pub(super) whole: bool,
}

impl Data {
    /// The octets.
    pub(super) fn octets(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// The chunk. [`None`] if it is none that RFC 5043 knows, which are whole.
    pub(super) fn chunk(&self) -> Option<Chunk<'_>> {
        match self.whole {
            true => Chunk::parse(self.ppid, self.unordered, self.octets()).ok(),
            false => None,
        }
    }
}
