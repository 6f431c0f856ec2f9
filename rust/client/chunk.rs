// SPDX-License-Identifier: GPL-2.0

//! The chunks of one RPC, in the memory that its slot has for them.
//!
//! RFC 8166, sections 3.4.3 and 3.4.4. `proto` encodes and compares chunks; here their segments are
//! kept without an allocation for each RPC.

use kernel::prelude::*;
use proto::{
    chunk::Segment,
    reply::Offer, //
};
use rdma::mr;

/// A chunk: the segments of one Read, Write or Reply chunk.
///
/// # Invariants
///
/// `len` is at most [`Chunk::MAX`].
#[derive(Clone, Copy)]
pub(crate) struct Chunk {
    segments: [Segment; Self::MAX],
    len: usize,
}

impl Chunk {
    /// The most segments. The head, pages and tail of an `xdr_buf` are three. A device that
    /// registers less than 1 MiB at once needs more for the pages: nine, if it registers 32 pages.
    pub(super) const MAX: usize = 11;

    /// A chunk without segments.
    pub(super) const EMPTY: Self = Self {
        segments: [Segment {
            handle: 0,
            length: 0,
            offset: 0,
        }; Self::MAX],
        len: 0,
    };

    /// Adds a registered memory region. Returns [`EINVAL`] if the chunk has [`Self::MAX`] segments
    /// already.
    pub(super) fn push(&mut self, region: mr::Segment) -> Result {
        let place = self.segments.get_mut(self.len).ok_or(EINVAL)?;
        *place = Segment {
            handle: region.rkey,
            length: region.len,
            offset: region.iova,
        };
        // INVARIANT: `segments` has an element at `len`, so `len` was less than `MAX`.
        self.len += 1;
        Ok(())
    }

    /// Returns the segments.
    pub(super) fn as_slice(&self) -> &[Segment] {
        self.segments.get(..self.len).unwrap_or(&[])
    }

    /// Returns the number of bytes that the segments cover together.
    pub(super) fn covered(&self) -> u64 {
        self.as_slice()
            .iter()
            .map(|segment| u64::from(segment.length))
            .sum()
    }
}

/// The chunk that a Call offers to the Responder for the reply.
pub(crate) enum Offered {
    /// None.
    Nothing,
    /// A Write chunk for the DDP-eligible result.
    Write(Chunk),
    /// A Reply chunk for the whole reply.
    Reply(Chunk),
}

impl Offered {
    /// Calls `f` with the offer in the form that `proto` encodes and compares.
    pub(super) fn with<R>(&self, f: impl FnOnce(&Offer<'_>) -> R) -> R {
        let (write, reply) = match self {
            Self::Nothing => (None, None),
            Self::Write(chunk) => (Some([chunk.as_slice()]), None),
            Self::Reply(chunk) => (None, Some(chunk.as_slice())),
        };
        f(&Offer {
            write: write.as_ref().map_or(&[], |one| one),
            reply,
        })
    }
}
