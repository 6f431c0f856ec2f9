// SPDX-License-Identifier: GPL-2.0

//! The pool of a connection's Send buffers that are free.
//!
//! A connection has some buffers from the start, and makes more only when all are posted, up to its limit.

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
    /// How many buffers may still be made, and how long each is.
    unmade: usize,
    len: usize,
}

impl<H: Context> SendBuffers<H> {
    /// An empty pool for buffers of `len` bytes. Beyond those that are put in, `unmade` may be made.
    pub(super) fn new(unmade: usize, len: usize) -> Self {
        Self {
            free: Buffers::new(),
            unmade,
            len,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    pub(super) fn take(&mut self) -> Option<Buffer<H>> {
        self.free.pop()
    }

    /// As [`Self::take`], but leaves so many free buffers.
    pub(super) fn take_spare(&mut self, left: usize) -> Option<Buffer<H>> {
        if self.free.len() <= left {
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
        Some(self.len)
    }

    /// The buffer of the last [`Self::begin_making`] was not made.
    pub(super) fn not_made(&mut self) {
        self.unmade = self.unmade.saturating_add(1);
    }

    /// Takes all that are free.
    pub(super) fn take_all(&mut self) -> Buffers<H> {
        core::mem::take(&mut self.free)
    }

    pub(super) fn put_back(&mut self, buffer: Buffer<H>) {
        self.free.push(buffer);
    }
}
