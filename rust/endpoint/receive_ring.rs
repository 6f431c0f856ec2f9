// SPDX-License-Identifier: GPL-2.0

//! The ring of Receive buffers: posted, filled, read, reposted.
//!
//! RFC 8166, section 3.3.1: a peer may send as many messages as it has credits, so as many Receives
//! must be posted at any time. The ring has one batch less one more buffers than credits. As long
//! as fewer than a batch wait to be reposted, enough are posted, and a batch costs one doorbell. A
//! thread that answers a message returns its buffer before it sends: a batch is posted under the
//! ring's lock, so the Send cannot overtake another thread that is about to post one.
//!
//! A ring grows at once, but shrinks only as messages arrive: posted Receives cannot be taken back.

use kernel::{
    alloc::Flags,
    prelude::*,
    static_lock_class,
    sync::SpinLock, //
};
use rdma::{
    receive::{
        Buffer,
        Buffers, //
    },
    Handler,
    QueuePair, //
};

/// The Receive buffers of a connection.
#[pin_data]
pub struct ReceiveRing<H: Handler> {
    #[pin]
    ring: SpinLock<Ring<H>>,
}

struct Ring<H: Handler> {
    /// Buffers that wait to be reposted, and the size of a batch.
    spare: Buffers<H>,
    batch: usize,
    /// The number of buffers, and its target.
    depth: usize,
    wanted: usize,
    /// Whether the connection has ended, and no buffers are kept.
    closed: bool,
}

/// The name of the lock. lockdep compares addresses of names, and a literal in a generic function
/// exists once in each crate that calls it.
static LOCK_NAME: &CStr = c"rpcrdma::receive_ring";

impl<H: Handler> ReceiveRing<H> {
    /// The largest batch. Small rings have smaller ones.
    const BATCH: usize = 16;

    /// Creates an empty ring.
    pub fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            ring <- SpinLock::new(
                Ring {
                    spare: Buffers::new(),
                    batch: 0,
                    depth: 0,
                    wanted: 0,
                    closed: false,
                },
                LOCK_NAME,
                static_lock_class!()
            ),
        })
    }

    /// Posts Receives of `len` bytes until the peer may have `credits`. Takes the buffers of
    /// `reusable`, which are of that length, and allocates the others; if it fails, they go back
    /// there. Must not run at the same time as itself or [`Self::shrink`]. Sleeps if `flags` allow
    /// it.
    pub fn grow(
        &self,
        queue: &QueuePair<H>,
        credits: usize,
        len: usize,
        flags: Flags,
        reusable: &mut Buffers<H>,
    ) -> Result {
        let depth = Self::depth(credits);
        let mut ring = self.ring.lock();
        // The ring may still be larger for an earlier grant.
        let wanted = ring.wanted;
        ring.wanted = wanted.max(depth);
        let missing = depth.saturating_sub(ring.depth);
        drop(ring);
        let (posted, result) = Self::post(queue, missing, len, flags, reusable);
        let mut ring = self.ring.lock();
        ring.depth = ring.depth.saturating_add(posted);
        match result {
            Ok(()) => ring.batch = Self::batch(credits),
            Err(_) => ring.wanted = wanted,
        }
        result
    }

    /// Shrinks the ring to the size for `credits`: Receives are freed instead of reposted. Returns
    /// the number freed at once; [`Self::repost`] reports the others. Does not sleep.
    pub fn shrink(&self, queue: &QueuePair<H>, credits: usize) -> usize {
        let mut ring = self.ring.lock();
        ring.wanted = Self::depth(credits);
        ring.batch = Self::batch(credits);
        let excess = ring.depth.saturating_sub(ring.wanted);
        let freed = ring.spare.take(excess);
        ring.depth = ring.depth.saturating_sub(freed.len());
        ring.post_batch(queue);
        drop(ring);
        freed.len()
    }

    /// Posts `count` more Receives of `len` bytes, for messages that need no credits. If it fails,
    /// none was posted. Sleeps if `flags` allow it.
    pub fn add(&self, queue: &QueuePair<H>, count: usize, len: usize, flags: Flags) -> Result {
        match Self::post(queue, count, len, flags, &mut Buffers::new()) {
            (0, result) => result,
            // The queue pair was drained meanwhile.
            _ => Ok(()),
        }
    }

    /// Posts `count` buffers: those of `reusable`, and new ones. Returns the number posted, and
    /// whether that is all. The others go back to `reusable`.
    fn post(
        queue: &QueuePair<H>,
        count: usize,
        len: usize,
        flags: Flags,
        reusable: &mut Buffers<H>,
    ) -> (usize, Result) {
        let mut buffers = reusable.take(count);
        while buffers.len() < count {
            if let Err(error) = buffers.allocate(queue.pd(), len, flags) {
                reusable.append(&mut buffers);
                return (0, Err(error));
            }
        }
        let result = queue.post_receives(&mut buffers);
        let posted = count.saturating_sub(buffers.len());
        reusable.append(&mut buffers);
        (posted, result)
    }

    /// Returns the number of Receives for `credits`.
    pub fn depth(credits: usize) -> usize {
        credits
            .saturating_add(Self::batch(credits))
            .saturating_sub(1)
    }

    fn batch(credits: usize) -> usize {
        (credits / 4).clamp(2, Self::BATCH)
    }

    /// Takes back a buffer that was read, and posts a batch when there is one. Returns true if the
    /// buffer was freed instead. If the queue pair was drained, the buffers stay here.
    pub fn repost(&self, queue: &QueuePair<H>, buffer: Buffer<H>) -> bool {
        let mut ring = self.ring.lock();
        if ring.closed {
            drop(ring);
            drop(buffer);
            return false;
        }
        if ring.depth > ring.wanted {
            ring.depth = ring.depth.saturating_sub(1);
            drop(ring);
            drop(buffer);
            return true;
        }
        ring.spare.push(buffer);
        ring.post_batch(queue);
        false
    }

    /// Keeps buffers that are not posted any more, for [`Self::close`].
    pub fn keep(&self, mut buffers: Buffers<H>) {
        let mut ring = self.ring.lock();
        if !ring.closed {
            ring.spare.append(&mut buffers);
        }
        // The lock is dropped before `buffers`.
    }

    /// Returns the buffers that are not posted. None are kept from now on.
    pub fn close(&self) -> Buffers<H> {
        let mut ring = self.ring.lock();
        ring.closed = true;
        core::mem::take(&mut ring.spare)
    }
}

impl<H: Handler> Ring<H> {
    /// Posts the spare buffers if they are a batch.
    fn post_batch(&mut self, queue: &QueuePair<H>) {
        if self.spare.len() >= self.batch {
            // Buffers that cannot be posted stay.
            let _ = queue.post_receives(&mut self.spare);
        }
    }
}
