// SPDX-License-Identifier: GPL-2.0

//! What the tests' upper layer decides about a Send queue: a simple form of what the module above does.

use crate::{
    send::{
        Buffer,
        Buffers, //
    },
    transfer::Empty,
    Context,
    NextSend,
    ProtectionDomain,
    SendPolicy, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// One Send in sixteen asks for a completion.
const INTERVAL: u32 = 16;

pub(super) struct TestPolicy<H: Context> {
    free: Buffers<H>,
    unsignalled: u32,
    /// How many Reads and Writes may be posted now, and how many of one transfer.
    pub(super) credits: usize,
    batch: usize,
}

impl<H: Context> TestPolicy<H> {
    /// With so many Send buffers, and SQ credits.
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
            free,
            unsignalled: 0,
            credits,
            batch: credits.div_ceil(2),
        })
    }

    pub(super) fn take(&mut self) -> Option<Buffer<H>> {
        self.free.pop()
    }

    /// Credits for a batch of `count` requests.
    pub(super) fn reserve(&mut self, count: usize) -> Result<usize> {
        let batch = count.min(self.batch);
        self.credits = self.credits.checked_sub(batch).ok_or(EBUSY)?;
        Ok(batch)
    }
}

impl<H: Context> SendPolicy<H> for TestPolicy<H> {
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

    fn release(&mut self, credits: usize) {
        self.credits += credits;
    }

    fn keep(&mut self, transfer: Empty<H>) -> Option<Empty<H>> {
        Some(transfer)
    }

    fn resumes(&mut self) -> bool {
        false
    }
}
