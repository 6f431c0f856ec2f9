// SPDX-License-Identifier: GPL-2.0

//! A call on the server: its layout in memory when an nfsd thread gets it, access to its pages, its
//! context until the reply, and the policy for accepting calls.
//!
//! RFC 8166, sections 3.4.5 and 3.5.3.
//!
//! The usual call has one Read chunk and an inline message. That chunk gets pages of its own, so
//! the argument begins at the start of a page. For every other call with Read chunks the Payload
//! stream is assembled in consecutive pages. The same happens to a call without Read chunks whose
//! head would be too long for sunrpc.

use crate::prelude::*;
use proto::{
    call::{
        Call,
        Outline,
        Policy, //
    },
    chunk::Limits,
    header::Body,
    rpc::CallHeader,
    xdr, //
};
use rdma::receive::LentReceive;
use sunrpc::SavedReplyPages;

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
        max_read_bytes: u64::try_from(max_read_bytes).unwrap_or(u64::MAX),
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

/// Fills `out` with the bytes of `pages` that begin at `at`.
pub(super) fn copy_out(pages: &[Page], at: usize, out: &mut [u8]) -> Result {
    let end = at.checked_add(out.len()).ok_or(EINVAL)?;
    let mut done = 0_usize;
    for_each_run(pages, at, end, |page, offset, len| {
        let to = done.saturating_add(len);
        page.copy_out(offset, out.get_mut(done..to).ok_or(EINVAL)?)?;
        done = to;
        Ok(())
    })
}

/// Copies `bytes` to `pages`, beginning at byte `at`.
pub(super) fn copy_in(pages: &[Page], at: usize, mut bytes: &[u8]) -> Result {
    let end = at.checked_add(bytes.len()).ok_or(EINVAL)?;
    for_each_run(pages, at, end, |page, offset, len| {
        let (part, rest) = bytes.split_at_checked(len).ok_or(EINVAL)?;
        bytes = rest;
        page.copy_in(offset, part)
    })
}

/// Zeroes the XDR padding from `at` to `end`, at most three bytes.
pub(super) fn zero_padding(pages: &[Page], at: usize, end: usize) -> Result {
    for_each_run(pages, at, end, |page, offset, len| {
        page.copy_in(offset, [0; 4].get(..len).ok_or(EINVAL)?)
    })
}

/// Calls `f` for each page that holds some of the bytes from `at` to `end`, with the offset and
/// length of these bytes in the page.
fn for_each_run(
    pages: &[Page],
    mut at: usize,
    end: usize,
    mut f: impl FnMut(&Page, usize, usize) -> Result,
) -> Result {
    while at < end {
        let page = pages.get(at / PAGE_SIZE).ok_or(EINVAL)?;
        let offset = at % PAGE_SIZE;
        let len = (PAGE_SIZE - offset).min(end - at);
        f(page, offset, len)?;
        at = at.saturating_add(len);
    }
    Ok(())
}

/// The part of a call that its reply depends on. The call is parsed once, but the parser's result
/// borrows the message.
#[derive(Clone, Copy)]
pub(super) enum ParsedCall {
    /// A call without chunks, with this XID.
    WithoutChunks(u32),
    /// Any call.
    Outline(Outline),
}

impl ParsedCall {
    /// Returns that of `call`.
    pub(super) fn of(call: &Call<'_>) -> Self {
        if call.lists.is_empty() {
            Self::WithoutChunks(call.xid)
        } else {
            Self::Outline(call.outline())
        }
    }

    /// Returns the call in `message`, as far as its reply depends on it.
    pub(super) fn call<'a>(&self, message: &'a [u8]) -> Option<Call<'a>> {
        match self {
            Self::WithoutChunks(xid) => Some(Call::without_chunks(*xid)),
            Self::Outline(outline) => outline.call(message),
        }
    }
}

/// The context of a call in progress.
pub(crate) struct CallContext {
    /// The Receive of its message, while the memory of that is lent to sunrpc. Also in the list of
    /// [`LentReceives`](super::responder::LentReceives).
    pub(super) lent: Arc<LentReceive<ServerConn>>,
    /// The part of the call that the reply depends on.
    pub(super) parsed: ParsedCall,
    /// Whether results may be reduced. RPCSEC_GSS integrity and privacy forbid it.
    pub(super) reduction: bool,
    /// The DDP-eligible results, as nfsd names them while it encodes the reply.
    pub(super) results: EligibleResults,
    /// The pages that the nfsd thread had for the reply before it was encoded.
    pub(super) saved_pages: SavedReplyPages,
}

impl CallContext {
    /// Creates an unused context with this place for a Receive.
    pub(super) fn new(lent: Arc<LentReceive<ServerConn>>) -> Self {
        Self {
            lent,
            parsed: ParsedCall::WithoutChunks(0),
            reduction: false,
            results: EligibleResults::default(),
            saved_pages: SavedReplyPages::default(),
        }
    }

    /// Keeps the Receive of `message` here, and returns its memory, to be lent to sunrpc.
    pub(super) fn lend(&self, message: Message<ServerConn>) -> MessageMemory {
        let (memory, receive) = message.split();
        // A call has one message, so there is no Receive here; if there were, it would be freed.
        drop(self.lent.put(receive));
        memory
    }

    /// Returns the message that [`Self::lend`] kept, unless its connection has ended. sunrpc does
    /// not read its `memory` any more.
    pub(super) fn take_back(&self, memory: MessageMemory) -> Option<Message<ServerConn>> {
        self.lent.take()?.join(memory)
    }

    /// Forgets the results and frees the saved pages.
    pub(super) fn clear(&mut self) {
        self.results.count = 0;
        self.saved_pages.clear();
    }
}

/// The offset and length of each DDP-eligible result of a reply.
#[derive(Default)]
pub(super) struct EligibleResults {
    results: [(usize, usize); MAX_WRITE_CHUNKS],
    count: usize,
}

impl EligibleResults {
    /// Adds a result. There are never more Write chunks than entries, so a result without an entry
    /// stays in the Payload stream.
    pub(super) fn add(&mut self, offset: usize, len: usize) {
        if let Some(free) = self.results.get_mut(self.count) {
            *free = (offset, len);
            self.count = self.count.saturating_add(1);
        }
    }

    /// Iterates over the results in the order of the reply.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.results.iter().take(self.count).copied()
    }
}
