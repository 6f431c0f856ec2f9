// SPDX-License-Identifier: GPL-2.0

//! The counters of a transport: the RDMA part of its `xprt:` line in `/proc/self/mountstats`.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// A counter that only grows.
pub(crate) struct Counter(Atomic<i64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n as i64, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed) as u64
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters of a transport, over all its connections.
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) const fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }
        }
    };
}

counters! {
    /// Read chunks, including Position-Zero Read chunks.
    read_chunks,
    /// Write chunks offered.
    write_chunks,
    /// Reply chunks offered.
    reply_chunks,
    /// Bytes of memory offered for replies.
    offered_bytes,
    /// Reply bytes that the server wrote by RDMA Write.
    reply_bytes,
    /// Call bytes copied into Send buffers.
    pullup_bytes,
    /// Reply bytes copied out of Receive buffers.
    fixup_bytes,
    /// Calls that could not be marshalled.
    failed_marshals,
    /// Malformed messages, which were dropped, and replies that made their RPC fail.
    bad_replies,
    /// Long Calls: those in a Position-Zero Read chunk.
    long_calls,
    /// Memory regions allocated.
    regions,
    /// Memory regions that the server could still reach when their connection was closed.
    broken_regions,
    /// Memory regions invalidated by a local invalidation.
    local_invalidations,
    /// Calls and callback replies that found no free Send buffer.
    empty_send_queue,
}

impl Counters {
    /// Returns the values that mountstats shows.
    pub(super) fn snapshot(&self) -> sunrpc::Stats {
        sunrpc::Stats {
            read_chunks: self.read_chunks.get(),
            write_chunks: self.write_chunks.get(),
            reply_chunks: self.reply_chunks.get(),
            total_rdma_request: self.offered_bytes.get(),
            total_rdma_reply: self.reply_bytes.get(),
            pullup_copy: self.pullup_bytes.get(),
            fixup_copy: self.fixup_bytes.get(),
            failed_marshal: self.failed_marshals.get(),
            bad_reply: self.bad_replies.get(),
            nomsg_call: self.long_calls.get(),
            mrs_recycled: self.broken_regions.get(),
            // Always zero, as in the in-tree module.
            mrs_orphaned: 0,
            mrs_allocated: self.regions.get(),
            local_inv_needed: self.local_invalidations.get(),
            empty_sendctx_q: self.empty_send_queue.get(),
        }
    }
}
