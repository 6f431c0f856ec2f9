// SPDX-License-Identifier: GPL-2.0

//! The pool of a connection's Send buffers that are free.
//!
//! A connection has some buffers from the start, makes more only when all are posted, up to its limit, and may give up those that it
//! does not need for now.

use rdma::{
    send::{
        Buffer,
        Buffers, //
    },
    Context, //
};

/// Free Send buffers, and how many more there may be.
pub(super) struct SendBuffers<H: Context> {
    free: Buffers<H>,
    /// How many buffers there may be, how many of them may still be made, and how long each is.
    limit: usize,
    unmade: usize,
    len: usize,
    /// The last one could not be made.
    short: bool,
}

impl<H: Context> SendBuffers<H> {
    /// An empty pool for `limit` buffers of `len` bytes. `first` of them are put in; the others may be made.
    pub(super) fn new(limit: usize, first: usize, len: usize) -> Self {
        Self {
            free: Buffers::new(),
            limit,
            unmade: limit.saturating_sub(first),
            len,
            short: false,
        }
    }

    /// How many are free.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Whether none is free and the next one is to come from a completion: if no more may be made or there was no memory for one, or if
    /// there are more than `enough` already.
    pub(super) fn needs_completion(&self, enough: usize) -> bool {
        let made = self.limit.saturating_sub(self.unmade);
        self.free.is_empty() && (self.unmade == 0 || self.short || made > enough)
    }

    /// Whether none is free, and there was no memory for the next one.
    pub(super) fn lacks_memory(&self) -> bool {
        self.free.is_empty() && self.short
    }

    pub(super) fn take(&mut self) -> Option<Buffer<H>> {
        self.free.pop()
    }

    /// As [`Self::take`], but leaves so many free buffers.
    pub(super) fn take_spare(&mut self, left: usize) -> Option<Buffer<H>> {
        if self.free() <= left {
            return None;
        }
        self.free.pop()
    }

    /// If there is no buffer but may be another, lets the caller make one of the length returned.
    pub(super) fn begin_making(&mut self) -> Option<usize> {
        if !self.free.is_empty() {
            return None;
        }
        self.unmade = self.unmade.checked_sub(1)?;
        self.short = false;
        Some(self.len)
    }

    /// If there are fewer than `count` buffers, and may be more, lets the caller make one of the length returned.
    pub(super) fn begin_adding(&mut self, count: usize) -> Option<usize> {
        if self.limit.saturating_sub(self.unmade) >= count {
            return None;
        }
        self.unmade = self.unmade.checked_sub(1)?;
        self.short = false;
        Some(self.len)
    }

    /// The buffer of the last [`Self::begin_making`] or [`Self::begin_adding`] was not made.
    pub(super) fn not_made(&mut self) {
        self.unmade = self.unmade.saturating_add(1);
        self.short = true;
    }

    /// Takes what is free but for `kept` buffers. As many may be made again.
    pub(super) fn give_up(&mut self, kept: usize) -> Buffers<H> {
        let mut excess = Buffers::new();
        while self.free() > kept {
            let Some(buffer) = self.free.pop() else { break };
            excess.push(buffer);
        }
        self.unmade = self.unmade.saturating_add(excess.len());
        excess
    }

    /// Takes all that are free.
    pub(super) fn take_all(&mut self) -> Buffers<H> {
        core::mem::take(&mut self.free)
    }

    pub(super) fn put_back(&mut self, buffer: Buffer<H>) {
        self.free.push(buffer);
    }
}
