// SPDX-License-Identifier: GPL-2.0

//! The context of a call, from its reception until its reply is sent.

use super::call_layout::MAX_WRITE_CHUNKS;
use sunrpc::SavedReplyPages;

/// The context of a call in progress.
pub(crate) struct CallContext {
    /// The index of its message among the lent ones.
    pub(super) lent: usize,
    /// The XID, if the call has no chunks: its header need not be parsed again for the reply.
    /// Chunks are not stored: a message has room for many, and the parser's result borrows the
    /// message, which stays with the reply.
    pub(super) chunkless_xid: Option<u32>,
    /// Whether results may be reduced. RPCSEC_GSS integrity and privacy forbid it.
    pub(super) reduction: bool,
    /// The DDP-eligible results, as nfsd names them while it encodes the reply.
    pub(super) results: EligibleResults,
    /// The pages that the nfsd thread had for the reply before it was encoded.
    pub(super) saved_pages: SavedReplyPages,
}

impl CallContext {
    /// Creates an unused context.
    pub(super) fn new() -> Self {
        Self {
            lent: 0,
            chunkless_xid: None,
            reduction: false,
            results: EligibleResults::default(),
            saved_pages: SavedReplyPages::default(),
        }
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
