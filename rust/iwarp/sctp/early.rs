// SPDX-License-Identifier: GPL-2.0

//! Segments that have overtaken the Accept (RFC 5043, section 6.6): they arrive before there is a
//! stream for them.

use kernel::prelude::*;

/// The greatest number of chunks that are kept, and of their octets.
const MAX_EARLY_CHUNKS: usize = 64;
const MAX_EARLY_OCTETS: usize = 256 * 1024;

/// Segments that arrived before the stream was open.
pub(super) struct EarlySegments {
    chunks: KVec<(u32, KVec<u8>)>,
    octets: usize,
}

impl EarlySegments {
    /// Creates an empty list.
    pub(super) const fn new() -> Self {
        Self {
            chunks: KVec::new(),
            octets: 0,
        }
    }

    /// Keeps a segment. `ENOSPC` if the limit is reached.
    pub(super) fn push(&mut self, ppid: u32, octets: &[u8]) -> Result {
        let all = self.octets.saturating_add(octets.len());
        if self.chunks.len() == MAX_EARLY_CHUNKS || all > MAX_EARLY_OCTETS {
            return Err(ENOSPC);
        }
        let mut copy = KVec::with_capacity(octets.len(), GFP_KERNEL)?;
        copy.extend_from_slice(octets, GFP_KERNEL)?;
        self.chunks.push((ppid, copy), GFP_KERNEL)?;
        self.octets = all;
        Ok(())
    }

    /// Takes a segment. They were sent unordered, so it does not matter which.
    pub(super) fn pop(&mut self) -> Option<(u32, KVec<u8>)> {
        self.chunks.pop()
    }
}
