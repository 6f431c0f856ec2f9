// SPDX-License-Identifier: GPL-2.0

//! The layout of a call in memory when an nfsd thread gets it, and the policy for accepting calls.
//!
//! RFC 8166, sections 3.4.5 and 3.5.3.
//!
//! The usual call has one Read chunk and an inline message. That chunk gets pages of its own, so
//! the argument begins at the start of a page. For every other call with Read chunks the Payload
//! stream is assembled in consecutive pages. The same happens to a call without Read chunks whose
//! head would be too long for sunrpc.

use kernel::page::PAGE_SIZE;
use proto::{
    call::{
        Call,
        Policy, //
    },
    chunk::Limits,
    header::Body,
    rpc::CallHeader,
    xdr, //
};

/// The largest number of chunks in a Write list. NFS pairs them with the operations of a COMPOUND.
pub(super) const MAX_WRITE_CHUNKS: usize = 16;

/// Returns the policy for accepting calls. At most `max_read_bytes` are read for one call.
pub(super) fn policy(max_read_bytes: usize) -> Policy {
    Policy {
        limits: Limits {
            // The length of a Receive is limit enough; `proto` checks the Positions.
            read_segments: usize::MAX,
            write_chunks: MAX_WRITE_CHUNKS,
            segments: usize::MAX,
        },
        max_pull: u64::try_from(max_read_bytes).unwrap_or(u64::MAX),
        reverse: true,
    }
}

/// Returns whether sunrpc accepts a contiguous head of `len` bytes.
///
/// Over sockets the head is at most a page. sunrpc copies the part of an RPCSEC_GSS context token
/// that is in the head to a single page. A flavor that allows `reduction` does not look at the
/// arguments.
pub(super) fn fits_head(len: usize, reduction: bool) -> bool {
    len <= PAGE_SIZE || reduction
}

/// The contents of a call's pages after its RDMA Reads.
#[derive(Clone, Copy)]
pub(super) enum CallLayout {
    /// A Read chunk of `len` bytes, XDR padding included, that belongs at `position` of the inline
    /// message.
    ReadChunk { position: usize, len: usize },
    /// The Payload stream, of `len` bytes.
    PayloadStream { len: usize },
}

impl CallLayout {
    /// Returns the layout of `call`, or [`None`] if it is too large for `max_pages`.
    pub(super) fn of(call: &Call<'_>, max_pages: usize) -> Option<Self> {
        let mut chunks = call.chunks().filter(|(_, length)| *length > 0);
        let head_fits = |position| {
            let position = usize::try_from(position).unwrap_or(usize::MAX);
            let header = CallHeader::parse(call.payload);
            fits_head(position, header.is_some_and(|header| header.reduction))
        };
        let layout = match (call.body, chunks.next(), chunks.next()) {
            (Body::Msg, Some((position, length)), None) if head_fits(position) => Self::ReadChunk {
                position: usize::try_from(position).ok()?,
                len: usize::try_from(xdr::roundup_u64(length)).ok()?,
            },
            _ => Self::PayloadStream {
                len: usize::try_from(call.message_len()).ok()?,
            },
        };
        // `rq_maxpages` exceeds what the longest call needs.
        (layout.pages() < max_pages).then_some(layout)
    }

    /// Returns the number of pages.
    pub(super) fn pages(self) -> usize {
        match self {
            Self::ReadChunk { len, .. } | Self::PayloadStream { len } => len.div_ceil(PAGE_SIZE),
        }
    }
}
