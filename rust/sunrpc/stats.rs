// SPDX-License-Identifier: GPL-2.0

//! The transport's line in mountstats.
//!
//! User-space tools parse it by position: ten numbers that sunrpc counts, then seventeen that the
//! transport counts.

use crate::{
    ops::source_port,
    Transport,
    Xprt, //
};
use kernel::{
    seq_file::SeqFile,
    seq_print, //
};

/// What an RDMA transport counts since its creation, in the order of the line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Calls with a Read chunk.
    pub read_chunks: u64,
    /// Calls that offered a Write chunk.
    pub write_chunks: u64,
    /// Calls that offered a Reply chunk.
    pub reply_chunks: u64,
    /// Bytes of memory that the peer was given to write replies to.
    pub total_rdma_request: u64,
    /// Bytes of replies that the peer wrote.
    pub total_rdma_reply: u64,
    /// Bytes copied to send a call inline.
    pub pullup_copy: u64,
    /// Bytes copied out of inline replies.
    pub fixup_copy: u64,
    /// Calls that could not be marshalled.
    pub failed_marshal: u64,
    /// Messages that were no good, and replies that made their call fail.
    pub bad_reply: u64,
    /// Calls sent without an inline part.
    pub nomsg_call: u64,
    /// Regions that ended with their connection, while the peer could still reach them.
    pub mrs_recycled: u64,
    /// Regions that could not be recovered.
    pub mrs_orphaned: u64,
    /// Regions allocated.
    pub mrs_allocated: u64,
    /// Regions that were invalidated locally, of calls that were answered or given up.
    pub local_inv_needed: u64,
    /// Calls that found no send context.
    pub empty_sendctx_q: u64,
}

/// Writes the line.
pub(crate) fn print<T: Transport>(xprt: &Xprt<T>, seq: &SeqFile) {
    let general = xprt.counters();
    let own = T::stats(xprt, xprt);

    seq_print!(
        seq,
        "\txprt:\t{} {} {} {} {} {} {} {} {} {} {} ",
        T::NAME,
        source_port(xprt),
        general.bind_count,
        general.connect_count,
        general.connect_seconds,
        general.idle_seconds,
        general.sends,
        general.recvs,
        general.bad_xids,
        general.req_u,
        general.bklog_u,
    );
    seq_print!(
        seq,
        "{} {} {} {} {} {} {} {} {} {} {} ",
        own.read_chunks,
        own.write_chunks,
        own.reply_chunks,
        own.total_rdma_request,
        own.total_rdma_reply,
        own.pullup_copy,
        own.fixup_copy,
        general.hardway_register,
        own.failed_marshal,
        own.bad_reply,
        own.nomsg_call,
    );
    // The last column lost its meaning long ago; parsers still count on it.
    seq_print!(
        seq,
        "{} {} {} {} {} 0\n",
        own.mrs_recycled,
        own.mrs_orphaned,
        own.mrs_allocated,
        own.local_inv_needed,
        own.empty_sendctx_q,
    );
}
