// SPDX-License-Identifier: GPL-2.0

//! The policy of a Send queue in the tests: a simple form of that of the module above.

use crate::prelude::*;
use crate::{
    send::{
        Buffer,
        Buffers, //
    },
    transfer::EmptyTransfers,
    NextSend,
    SendPolicy,
    SqCredits,
    SqPermit, //
};

/// The interval of signalled Sends.
const INTERVAL: u32 = 16;

pub(super) struct TestPolicy<H: Context> {
    spares: Arc<()>,
    free: Buffers<H>,
    unsignalled: u32,
    /// The SQ credits, and the number of those for one batch.
    pub(super) credits: SqCredits,
    batch: usize,
}

impl<H: Context> TestPolicy<H> {
    /// Creates a policy with that many Send buffers and SQ credits.
    pub(super) fn new(
        pd: &Arc<ProtectionDomain<H>>,
        buffers: usize,
        credits: usize,
    ) -> Result<Self> {
        let mut free = Buffers::new();
        for _ in 0..buffers {
            free.push(Buffer::new(pd, 4_096, GFP_KERNEL)?);
        }
        Ok(Self {
            spares: Arc::new((), GFP_KERNEL)?,
            free,
            unsignalled: 0,
            credits: SqCredits::new(credits)?,
            batch: credits.div_ceil(2),
        })
    }

    pub(super) fn take(&mut self) -> Option<Buffer<H>> {
        self.free.pop()
    }

    /// Reserves credits for a batch of up to `count` requests.
    pub(super) fn reserve(&self, count: usize) -> Result<SqPermit> {
        self.credits.reserve(count.min(self.batch)).ok_or(EBUSY)
    }
}

impl<H: Context> SendPolicy<H> for TestPolicy<H> {
    type Spares = ();

    fn spares(&self) -> &Arc<()> {
        &self.spares
    }

    fn asks_for_completion(&mut self, send: &NextSend) -> bool {
        self.unsignalled += 1;
        let asks = self.unsignalled >= INTERVAL || send.has_writes || self.free.is_empty();
        if asks {
            self.unsignalled = 0;
        }
        asks
    }

    fn put_back(&mut self, buffer: Buffer<H>) {
        self.free.push(buffer);
    }

    fn completed(&mut self, buffer: Buffer<H>) {
        self.free.push(buffer);
    }

    fn keep(&mut self, _transfers: &mut EmptyTransfers<H>) {}

    fn wakes_waiter(&mut self) -> bool {
        false
    }
}
