// SPDX-License-Identifier: GPL-2.0

//! The pool of a connection's free Send buffers.
//!
//! A connection has some buffers from the start, allocates more only when all are posted, up to its
//! limit, and may free those that it does not need for now.

use rdma::{
    send::{
        Buffer,
        Buffers, //
    },
    Context, //
};

/// The free Send buffers, and the number that may still be allocated.
pub(super) struct SendBuffers<H: Context> {
    free: Buffers<H>,
    /// The largest number of buffers, the number of those not allocated, and the length of a
    /// buffer.
    limit: usize,
    unallocated: usize,
    len: usize,
    /// Whether the last attempt to allocate a buffer failed.
    out_of_memory: bool,
}

impl<H: Context> SendBuffers<H> {
    /// Creates an empty pool for `limit` buffers of `len` bytes. The caller puts in `first` of
    /// them; the others may be allocated.
    pub(super) fn new(limit: usize, first: usize, len: usize) -> Self {
        Self {
            free: Buffers::new(),
            limit,
            unallocated: limit.saturating_sub(first),
            len,
            out_of_memory: false,
        }
    }

    /// Returns the number of free buffers.
    pub(super) fn free(&self) -> usize {
        self.free.len()
    }

    /// Returns whether none is free and the next one must come from a completion, because no more
    /// may be allocated, memory was short, or there are more than `enough` already.
    pub(super) fn needs_completion(&self, enough: usize) -> bool {
        let made = self.limit.saturating_sub(self.unallocated);
        self.free.is_empty() && (self.unallocated == 0 || self.out_of_memory || made > enough)
    }

    /// Returns whether none is free, and memory for the next one was short.
    pub(super) fn lacks_memory(&self) -> bool {
        self.free.is_empty() && self.out_of_memory
    }

    pub(super) fn take(&mut self) -> Option<Buffer<H>> {
        self.free.pop()
    }

    /// Takes a buffer if more than `left` are free.
    pub(super) fn take_spare(&mut self, left: usize) -> Option<Buffer<H>> {
        if self.free() <= left {
            return None;
        }
        self.free.pop()
    }

    /// Begins to allocate a buffer if none is free and the limit allows another. Returns its
    /// length.
    pub(super) fn begin_allocation(&mut self) -> Option<usize> {
        if !self.free.is_empty() {
            return None;
        }
        self.unallocated = self.unallocated.checked_sub(1)?;
        self.out_of_memory = false;
        Some(self.len)
    }

    /// Begins to allocate a buffer if there are fewer than `count` and the limit allows another.
    /// Returns its length.
    pub(super) fn begin_growth(&mut self, count: usize) -> Option<usize> {
        if self.limit.saturating_sub(self.unallocated) >= count {
            return None;
        }
        self.unallocated = self.unallocated.checked_sub(1)?;
        self.out_of_memory = false;
        Some(self.len)
    }

    /// Notes that the buffer of [`Self::begin_allocation`] or [`Self::begin_growth`] could not be
    /// allocated.
    pub(super) fn allocation_failed(&mut self) {
        self.unallocated = self.unallocated.saturating_add(1);
        self.out_of_memory = true;
    }

    /// Takes all free buffers except `kept`. As many may be allocated again.
    pub(super) fn shrink(&mut self, kept: usize) -> Buffers<H> {
        let mut excess = Buffers::new();
        while self.free() > kept {
            let Some(buffer) = self.free.pop() else { break };
            excess.push(buffer);
        }
        self.unallocated = self.unallocated.saturating_add(excess.len());
        excess
    }

    /// Takes all free buffers.
    pub(super) fn take_all(&mut self) -> Buffers<H> {
        core::mem::take(&mut self.free)
    }

    pub(super) fn put_back(&mut self, buffer: Buffer<H>) {
        self.free.push(buffer);
    }
}
