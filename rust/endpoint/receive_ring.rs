// SPDX-License-Identifier: GPL-2.0

//! The ring of Receive buffers: posted, filled, read, reposted.
//!
//! RFC 8166, section 3.3.1: a peer may send as many messages as it has credits, so as many Receives
//! must be posted at any time. The ring has one batch less one more buffers than credits. As long
//! as fewer than a batch wait to be reposted, enough are posted, and a batch costs one doorbell.
//!
//! A ring grows at once, but shrinks only as messages arrive: posted Receives cannot be taken back.
//!
//! # Under the lock of the Send queue
//!
//! A thread that answers a message returns its buffer before it sends. A batch is posted under the
//! lock of the ring, so the Send cannot overtake another thread that is about to post one. The next
//! lock that the thread takes is that of the Send queue, so that is the lock of the ring as well,
//! and a reply takes one ([`ResponderExt::post_reply`](super::ResponderExt::post_reply)).
//!
//! # Without a lock
//!
//! Where only completion handlers return buffers ([`HandlerReceivesExt`]), they collect
//! them in a list of their own, of which they post a batch at a time. The list has fewer buffers
//! than a batch whenever a handler returns, and the ring keeps none beside it, so enough are
//! posted. Handlers read the size of a batch without the lock. It only grows while the connection
//! is open, and an old one makes them post early, which does no harm. The first Receive that fails
//! hands the list to the ring, so that the next connection gets the buffers; from then on each
//! buffer goes there at once.

use super::send_policy::SendPolicy;
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::atomic::Relaxed, //
};
use rdma::{
    receive::{
        Buffer,
        Buffers, //
    },
    Completing,
    Context,
    Handler,
    QueuePair, //
};

/// The Receive buffers of a connection that wait to be reposted, and the numbers of all.
pub struct ReceiveRing<H: Context> {
    /// Buffers that wait to be reposted, and the size of a batch.
    spare: Buffers<H>,
    batch: usize,
    /// The number of buffers, and its target.
    depth: usize,
    wanted: usize,
    /// Whether a Receive has failed, so that handlers keep no buffers.
    failed: bool,
    /// Whether the connection has ended, and no buffers are kept.
    closed: bool,
}

/// The fate of a buffer that was read.
pub(super) enum Reposted<H: Context> {
    /// It is posted, or waits for that.
    Kept,
    /// It is to be freed, as there are too many.
    Excess(Buffer<H>),
    /// It is to be freed, as the connection has ended.
    Late(Buffer<H>),
}

impl<H: Context> ReceiveRing<H> {
    /// The largest batch. Small rings have smaller ones.
    const BATCH: usize = 16;

    /// Creates an empty ring.
    pub(super) const fn new() -> Self {
        Self {
            spare: Buffers::new(),
            batch: 0,
            depth: 0,
            wanted: 0,
            failed: false,
            closed: false,
        }
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

    /// Returns the number of buffers that handlers post together, or zero if they keep none.
    fn handler_batch(&self) -> usize {
        if self.failed {
            0
        } else {
            self.batch
        }
    }
}

impl<H: Handler> ReceiveRing<H> {
    /// Posts the spare buffers if they are a batch.
    fn post_batch(&mut self, queue: &QueuePair<H>) {
        if self.spare.len() >= self.batch {
            // Buffers that cannot be posted stay.
            let _ = queue.post_receives(&mut self.spare);
        }
    }

    /// Takes back a buffer that was read, and posts a batch when there is one. If the queue pair
    /// was drained, the buffers stay here. What is to be freed is so without the lock.
    pub(super) fn repost(&mut self, queue: &QueuePair<H>, buffer: Buffer<H>) -> Reposted<H> {
        if self.closed {
            return Reposted::Late(buffer);
        }
        if self.depth > self.wanted {
            self.depth = self.depth.saturating_sub(1);
            return Reposted::Excess(buffer);
        }
        self.spare.push(buffer);
        self.post_batch(queue);
        Reposted::Kept
    }
}

impl<H: Context> Reposted<H> {
    /// Frees what is to be freed. Returns whether there were too many.
    pub(super) fn free(self) -> bool {
        match self {
            Self::Kept => false,
            Self::Excess(buffer) => {
                drop(buffer);
                true
            }
            Self::Late(buffer) => {
                drop(buffer);
                false
            }
        }
    }
}

/// The Receive buffers of a queue pair with this module's [`SendPolicy`].
pub trait ReceiveBufferExt<H: Handler> {
    /// Posts Receives of `len` bytes until the peer may have `credits`. Takes the buffers of
    /// `reusable`, which are of that length, and allocates the others; if it fails, they go back
    /// there. Must not run at the same time as itself or [`Self::shrink_receives`]. Sleeps if
    /// `flags` allow it.
    fn grow_receives(
        &self,
        credits: usize,
        len: usize,
        flags: Flags,
        reusable: &mut Buffers<H>,
    ) -> Result;

    /// Shrinks the ring to the size for `credits`: Receives are freed instead of reposted. Returns
    /// the number freed at once; [`Self::repost`] reports the others. Does not sleep.
    fn shrink_receives(&self, credits: usize) -> usize;

    /// Posts `count` more Receives of `len` bytes, for messages that need no credits. If it fails,
    /// none was posted. Sleeps if `flags` allow it.
    fn add_receives(&self, count: usize, len: usize, flags: Flags) -> Result;

    /// Takes back a buffer that was read, and posts a batch when there is one. Returns true if the
    /// buffer was freed instead. If the queue pair was drained, the buffers are kept.
    fn repost(&self, buffer: Buffer<H>) -> bool;

    /// Keeps buffers that are not posted any more, for [`Self::close_receives`].
    fn keep_receives(&self, buffers: Buffers<H>);

    /// Returns the buffers that are not posted. None are kept from now on.
    fn close_receives(&self) -> Buffers<H>;
}

impl<H: Handler<SendPolicy = SendPolicy<H>>> ReceiveBufferExt<H> for QueuePair<H> {
    fn grow_receives(
        &self,
        credits: usize,
        len: usize,
        flags: Flags,
        reusable: &mut Buffers<H>,
    ) -> Result {
        let depth = ReceiveRing::<H>::depth(credits);
        // The ring may still be larger for an earlier grant.
        let (wanted, missing) = with_ring(self, |ring| {
            let wanted = ring.wanted;
            ring.wanted = wanted.max(depth);
            (wanted, depth.saturating_sub(ring.depth))
        });
        let (posted, result) = post(self, missing, len, flags, reusable);
        with_ring(self, |ring| {
            ring.depth = ring.depth.saturating_add(posted);
            match result {
                Ok(()) => ring.batch = ReceiveRing::<H>::batch(credits),
                Err(_) => ring.wanted = wanted,
            }
        });
        result
    }

    fn shrink_receives(&self, credits: usize) -> usize {
        let freed = with_ring(self, |ring| {
            ring.wanted = ReceiveRing::<H>::depth(credits);
            ring.batch = ReceiveRing::<H>::batch(credits);
            let excess = ring.depth.saturating_sub(ring.wanted);
            let freed = ring.spare.take(excess);
            ring.depth = ring.depth.saturating_sub(freed.len());
            ring.post_batch(self);
            freed
        });
        freed.len()
    }

    fn add_receives(&self, count: usize, len: usize, flags: Flags) -> Result {
        match post(self, count, len, flags, &mut Buffers::new()) {
            (0, result) => result,
            // The queue pair was drained meanwhile.
            _ => Ok(()),
        }
    }

    fn repost(&self, buffer: Buffer<H>) -> bool {
        with_ring(self, |ring| ring.repost(self, buffer)).free()
    }

    fn keep_receives(&self, mut buffers: Buffers<H>) {
        with_ring(self, |ring| {
            if !ring.closed {
                ring.spare.append(&mut buffers);
            }
        });
        // What is left is freed without the lock.
        drop(buffers);
    }

    fn close_receives(&self) -> Buffers<H> {
        with_ring(self, |ring| {
            ring.closed = true;
            core::mem::take(&mut ring.spare)
        })
    }
}

/// The Receive buffers of a queue pair in its completion handlers. Only for a ring that does not
/// shrink, and whose buffers all come back in handlers.
pub trait HandlerReceivesExt<H: Handler> {
    /// Does what [`ReceiveBufferExt::repost`] does, without a lock.
    fn repost_in_handler(&mut self, buffer: Buffer<H>);

    /// Keeps the buffer of a Receive that failed, and those that handlers have, for
    /// [`ReceiveBufferExt::close_receives`].
    fn keep_failed(&mut self, buffer: Buffer<H>);
}

impl<H: Handler<SendPolicy = SendPolicy<H>>> HandlerReceivesExt<H> for Completing<'_, H> {
    fn repost_in_handler(&mut self, buffer: Buffer<H>) {
        let batch = self.spares().handler_batch.load(Relaxed);
        if batch == 0 {
            return self.keep_receives(buffer.into());
        }
        let spare = self.spare_receives();
        spare.push(buffer);
        if spare.len() >= batch {
            let mut spare = core::mem::take(spare);
            // Buffers that cannot be posted stay.
            let _ = self.post_receives(&mut spare);
            *self.spare_receives() = spare;
        }
    }

    fn keep_failed(&mut self, buffer: Buffer<H>) {
        let mut buffers = core::mem::take(self.spare_receives());
        buffers.push(buffer);
        with_ring(self, |ring| ring.failed = true);
        self.keep_receives(buffers);
    }
}

/// Calls `f` with the ring, under the lock of the Send queue, and tells handlers the size of a
/// batch.
fn with_ring<H, R>(queue: &QueuePair<H>, f: impl FnOnce(&mut ReceiveRing<H>) -> R) -> R
where
    H: Handler<SendPolicy = SendPolicy<H>>,
{
    let mut sends = queue.send_queue();
    let ring = &mut sends.policy().receives;
    let result = f(ring);
    let (known, batch) = (&queue.spares().handler_batch, ring.handler_batch());
    if known.load(Relaxed) != batch {
        known.store(batch, Relaxed);
    }
    result
}

/// Posts `count` buffers: those of `reusable`, and new ones. Returns the number posted, and whether
/// that is all. The others go back to `reusable`.
fn post<H: Handler>(
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
