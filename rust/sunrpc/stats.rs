// SPDX-License-Identifier: GPL-2.0

//! The numbers that an RDMA transport counts.

/// The counters of an RDMA transport since its creation, in the order of its line in mountstats.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Calls with a Read chunk.
    pub read_chunks: u64,
    /// Calls that offered a Write chunk.
    pub write_chunks: u64,
    /// Calls that offered a Reply chunk.
    pub reply_chunks: u64,
    /// Bytes of memory that calls offered for their replies.
    pub total_rdma_request: u64,
    /// Bytes of replies that the peer wrote.
    pub total_rdma_reply: u64,
    /// Bytes copied to send a call inline.
    pub pullup_copy: u64,
    /// Bytes copied out of inline replies.
    pub fixup_copy: u64,
    /// Calls that could not be marshalled.
    pub failed_marshal: u64,
    /// Messages that broke the protocol, and replies that made their call fail.
    pub bad_reply: u64,
    /// Calls sent without an inline part.
    pub nomsg_call: u64,
    /// Memory regions that the peer could still access when their connection ended.
    pub mrs_recycled: u64,
    /// Memory regions that could not be freed.
    pub mrs_orphaned: u64,
    /// Memory regions allocated.
    pub mrs_allocated: u64,
    /// Memory regions that were invalidated locally, after a reply or because the task released its
    /// call.
    pub local_inv_needed: u64,
    /// Calls that found no send context.
    pub empty_sendctx_q: u64,
}
