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

/// A counter that only grows, and that is added to by one after the other. So adding needs no
/// atomic operation; of two that add at the same time, one would be lost.
pub(crate) struct SerialCounter(Counter);

impl SerialCounter {
    const fn new() -> Self {
        Self(Counter::new())
    }

    #[inline]
    pub(crate) fn add(&self, n: u64) {
        let Self(Counter(value)) = self;
        value.store(value.load(Relaxed).wrapping_add(n as i64), Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.get()
    }
}

macro_rules! counters {
    ($(#[$group_doc:meta])* $group:ident: $counter:ident { $($(#[$doc:meta])* $name:ident),* $(,)? }) => {
        $(#[$group_doc])*
        pub(crate) struct $group {
            $($(#[$doc])* pub(crate) $name: $counter,)*
        }

        impl $group {
            const fn new() -> Self {
                Self { $($name: $counter::new(),)* }
            }
        }
    };
}

counters! {
    /// The counters of senders, which add one after the other, as they own `XPRT_LOCKED`.
    #[repr(align(64))]
    SendCounters: SerialCounter {
        /// Read chunks, including Position-Zero Read chunks.
        read_chunks,
        /// Write chunks offered.
        write_chunks,
        /// Reply chunks offered.
        reply_chunks,
        /// Bytes of memory offered for replies.
        offered_bytes,
        /// Call bytes copied into Send buffers.
        pullup_bytes,
        /// Long Calls: those in a Position-Zero Read chunk.
        long_calls,
    }
}

counters! {
    /// The counters of completion handlers, which add one after the other: those of a connection
    /// run one at a time, and the last connection is drained before there is another.
    #[repr(align(64))]
    ReplyCounters: SerialCounter {
        /// Reply bytes that the server wrote by RDMA Write.
        reply_bytes,
        /// Reply bytes copied out of Receive buffers.
        fixup_bytes,
    }
}

counters! {
    /// The counters that most RPCs leave alone, of any context.
    #[repr(align(64))]
    RareCounters: Counter {
        /// Calls that could not be marshalled.
        failed_marshals,
        /// Malformed messages, which were dropped, and replies that made their RPC fail.
        bad_replies,
        /// Memory regions allocated.
        regions,
        /// Memory regions that the server could still reach when their connection was closed.
        broken_regions,
        /// Memory regions invalidated by a local invalidation.
        local_invalidations,
        /// Calls and callback replies that found no free Send buffer.
        empty_send_queue,
    }
}

/// The counters of a transport, over all its connections.
///
/// Each group has cache lines of its own, as other processors write the others.
pub(crate) struct Counters {
    pub(crate) sends: SendCounters,
    pub(crate) replies: ReplyCounters,
    pub(crate) rare: RareCounters,
}

impl Counters {
    pub(crate) const fn new() -> Self {
        Self {
            sends: SendCounters::new(),
            replies: ReplyCounters::new(),
            rare: RareCounters::new(),
        }
    }

    /// Returns the values that mountstats shows.
    pub(super) fn snapshot(&self) -> sunrpc::Stats {
        sunrpc::Stats {
            read_chunks: self.sends.read_chunks.get(),
            write_chunks: self.sends.write_chunks.get(),
            reply_chunks: self.sends.reply_chunks.get(),
            total_rdma_request: self.sends.offered_bytes.get(),
            total_rdma_reply: self.replies.reply_bytes.get(),
            pullup_copy: self.sends.pullup_bytes.get(),
            fixup_copy: self.replies.fixup_bytes.get(),
            failed_marshal: self.rare.failed_marshals.get(),
            bad_reply: self.rare.bad_replies.get(),
            nomsg_call: self.sends.long_calls.get(),
            mrs_recycled: self.rare.broken_regions.get(),
            // Always zero, as in the in-tree module.
            mrs_orphaned: 0,
            mrs_allocated: self.rare.regions.get(),
            local_inv_needed: self.rare.local_invalidations.get(),
            empty_sendctx_q: self.rare.empty_send_queue.get(),
        }
    }
}
