// SPDX-License-Identifier: GPL-2.0

//! Receive buffers that go round: posted, filled, read, posted again.
//!
//! RFC 8166, section 3.3.1: a peer may send as many messages as it has credits,
//! so that many Receives must stand at any time. The ring has [`ReceiveRing::BATCH`]
//! more buffers than that; as long as fewer than a batch wait to be posted
//! again, the promise holds, and a batch costs one doorbell.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use rdma::{
    receive::{
        Buffer,
        Buffers, //
    },
    Handler,
    ProtectionDomain,
    QueuePair, //
};

/// The Receive buffers of a connection.
#[pin_data]
pub(crate) struct ReceiveRing<H: Handler> {
    #[pin]
    spare: SpinLock<Buffers<H>>,
}

impl<H: Handler> ReceiveRing<H> {
    /// How many buffers wait before they are posted again.
    pub(crate) const BATCH: usize = 16;

    /// An empty ring.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            spare <- new_spinlock!(Buffers::new(), "rpcrdma::receive_ring"),
        })
    }

    /// Allocates and posts Receives of `len` bytes so that the peer may have `credits`. Sleeps.
    pub(crate) fn fill(
        &self,
        queue: &QueuePair<H>,
        pd: &Arc<ProtectionDomain<H>>,
        credits: usize,
        len: usize,
    ) -> Result {
        let mut buffers = Buffers::new();
        for _ in 0..Self::depth(credits) {
            buffers.allocate(pd, len, GFP_KERNEL)?;
        }
        queue.post_receives(&mut buffers)
    }

    /// How many Receives the ring posts for `credits`.
    pub(crate) fn depth(credits: usize) -> usize {
        credits.saturating_add(Self::BATCH)
    }

    /// Takes back a buffer that was read, and posts a batch when there is one. If the queue pair
    /// is at its end the buffers stay here.
    pub(crate) fn recycle(&self, queue: &QueuePair<H>, buffer: Buffer<H>) {
        let mut spare = self.spare.lock();
        spare.push(buffer);
        if spare.len() >= Self::BATCH {
            let mut batch = core::mem::take(&mut *spare);
            drop(spare);
            if queue.post_receives(&mut batch).is_err() {
                self.spare.lock().append(&mut batch);
            }
        }
    }

    /// Frees what is not posted.
    pub(crate) fn clear(&self) {
        let spare = core::mem::take(&mut *self.spare.lock());
        drop(spare);
    }
}
