// SPDX-License-Identifier: GPL-2.0

//! What a transport counted: the RDMA part of its line in `/proc/self/mountstats`.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// A number that only grows.
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
    /// Read chunks, Position-Zero ones included.
    read_chunks,
    /// Write chunks offered.
    write_chunks,
    /// Reply chunks offered.
    reply_chunks,
    /// Bytes of memory offered for replies.
    offered_bytes,
    /// Bytes that came by RDMA Write.
    reply_bytes,
    /// Bytes of Calls copied to Send buffers.
    pullup_bytes,
    /// Reply bytes copied out of Receives.
    fixup_bytes,
    /// Calls that could not be put together.
    failed_marshals,
    /// Messages dropped because they were no good, and replies that made their call fail.
    bad_replies,
    /// Calls in a Position-Zero Read chunk.
    long_calls,
    /// Regions allocated.
    regions,
    /// Regions that the server could still reach when their connection ended.
    broken_regions,
    /// Regions that had to be invalidated here.
    local_invalidations,
    /// Times that no Send buffer was free.
    empty_send_queue,
}

impl Counters {
    /// As mountstats shows them.
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
            // To destroy a region always succeeds.
            mrs_orphaned: 0,
            mrs_allocated: self.regions.get(),
            local_inv_needed: self.local_invalidations.get(),
            empty_sendctx_q: self.empty_send_queue.get(),
        }
    }
}
