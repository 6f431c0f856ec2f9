// SPDX-License-Identifier: GPL-2.0

//! Received chunks and the end of an association.

use kernel::alloc::KVVec;
use rdmap::sctp::chunk::Chunk;

/// The outcome of receiving.
pub(super) enum RecvOutcome {
    /// There is nothing more for now.
    Nothing,
    /// User data of a chunk.
    Data(ChunkData),
    /// The peer sends nothing more, and the association ends in order.
    End,
    /// The association is lost, or was never up.
    Lost,
    /// The peer does not speak DDP.
    Violation,
}

/// The user data of a chunk, in a buffer that is to be
/// [returned](super::association::DdpAssociation::return_buffer).
pub(super) struct ChunkData {
    pub(super) buffer: KVVec<u8>,
    pub(super) len: usize,
    /// Payload protocol identifier.
    pub(super) ppid: u32,
    /// It was sent for unordered delivery.
    pub(super) unordered: bool,
    /// It is the whole chunk.
    pub(super) whole: bool,
}

impl ChunkData {
    /// Returns the octets.
    pub(super) fn octets(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }

    /// Parses the chunk. Returns [`None`] if it is not one of RFC 5043, all of which are whole.
    pub(super) fn chunk(&self) -> Option<Chunk<'_>> {
        match self.whole {
            true => Chunk::parse(self.ppid, self.unordered, self.octets()).ok(),
            false => None,
        }
    }
}
