// SPDX-License-Identifier: GPL-2.0

//! The policy of a connection's Send queue: its pool of Send buffers, the choice of signalled
//! Sends, SQ credits, and spare transfers.
//!
//! The queue keeps its state under its own lock ([`rdma::SendPolicy`]), so that an RPC takes one
//! lock to get a buffer and credits, and one to post.
//!
//! # Send buffers
//!
//! A connection has some buffers from the start, allocates more only when all are posted, up to its
//! limit, and may free those that it does not need for now.
//!
//! # Signalled Sends
//!
//! No request slot waits for the completion of a Send, so most Sends are unsignalled. One in
//! [`Signalling::INTERVAL`] asks for a completion, which covers those before it (a reliable
//! connection completes in order).
//!
//! # SQ credits
//!
//! SQ credits are space in the Send queue for RDMA Reads and Writes. Sends have space of their own,
//! one for each Send buffer. A transfer owns its credits ([`SqPermit`]).

use kernel::time::{
    msecs_to_jiffies,
    Jiffies,
    Msecs, //
};
use rdma::{
    send,
    transfer::{
        EmptyTransfer,
        EmptyTransfers, //
    },
    Context,
    NextSend,
    SqCredits,
    SqPermit, //
};

/// The policy of a connection's Send queue, and its state.
pub struct SendPolicy<H: Context> {
    pub(super) buffers: SendBuffers<H>,
    signalling: Signalling,
    pub(super) credits: SqCredits,
    pub(super) transfers: SpareTransfers<H>,
    /// Whether a caller found no buffer, credits or room since the last completion, and waits for
    /// the next.
    starved: bool,
}

impl<H: Context> SendPolicy<H> {
    pub(super) fn new(buffers: SendBuffers<H>, credits: SqCredits) -> Self {
        Self {
            buffers,
            signalling: Signalling::new(),
            credits,
            transfers: SpareTransfers::new(),
            starved: false,
        }
    }

    /// Takes a free Send buffer. If there is none, the next completion that returns something wakes
    /// the caller.
    pub(super) fn take_buffer(&mut self) -> Option<send::Buffer<H>> {
        let buffer = self.buffers.take();
        self.starved |= buffer.is_none();
        buffer
    }

    /// Notes whether a caller found room for its registrations. If not, the next completion that
    /// returns something wakes it.
    pub(super) fn found_room(&mut self, found: bool) {
        self.starved |= !found;
    }

    /// Takes a free Send buffer if more are free than one completion can cover.
    pub(super) fn take_spare_buffer(&mut self) -> Option<send::Buffer<H>> {
        // CAST: A small number.
        self.buffers.take_spare(Signalling::INTERVAL as usize)
    }

    /// Returns the most requests of one transfer that are posted at the same time: half of all SQ
    /// credits, so that two long transfers alternate.
    pub(super) fn batch(&self) -> usize {
        self.credits.total().div_ceil(2)
    }

    /// Reserves SQ credits. If too few are free, the next completion that returns something wakes
    /// the caller.
    pub(super) fn reserve(&mut self, credits: usize) -> Option<SqPermit> {
        let permit = self.credits.reserve(credits);
        self.starved |= permit.is_none();
        permit
    }

    /// Changes `permit` to one for `credits`. If too few are free, gives all of them back, and the
    /// next completion that returns something wakes the caller.
    pub(super) fn resize(&mut self, permit: SqPermit, credits: usize) -> Option<SqPermit> {
        let permit = permit.resize(credits);
        self.starved |= permit.is_none();
        permit
    }
}

impl<H: Context> rdma::SendPolicy<H> for SendPolicy<H> {
    #[inline]
    fn asks_for_completion(&mut self, send: &NextSend) -> bool {
        // CAST: A small number.
        let last_buffer = self.buffers.needs_completion(Signalling::INTERVAL as usize);
        self.signalling.asks_for_completion(send, last_buffer)
    }

    #[inline]
    fn put_back(&mut self, buffer: send::Buffer<H>) {
        self.buffers.put_back(buffer);
    }

    #[inline]
    fn keep(&mut self, transfer: EmptyTransfer<H>) -> Option<EmptyTransfer<H>> {
        self.transfers.keep(transfer)
    }

    #[inline]
    fn wakes_waiter(&mut self) -> bool {
        core::mem::take(&mut self.starved)
    }
}

/// The free Send buffers, and the number that may still be allocated.
pub(super) struct SendBuffers<H: Context> {
    free: send::Buffers<H>,
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
            free: send::Buffers::new(),
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

    pub(super) fn take(&mut self) -> Option<send::Buffer<H>> {
        self.free.pop()
    }

    /// Takes a buffer if more than `left` are free.
    pub(super) fn take_spare(&mut self, left: usize) -> Option<send::Buffer<H>> {
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
    pub(super) fn shrink(&mut self, kept: usize) -> send::Buffers<H> {
        let mut excess = send::Buffers::new();
        while self.free() > kept {
            let Some(buffer) = self.free.pop() else { break };
            excess.push(buffer);
        }
        self.unallocated = self.unallocated.saturating_add(excess.len());
        excess
    }

    /// Takes all free buffers.
    pub(super) fn take_all(&mut self) -> send::Buffers<H> {
        core::mem::take(&mut self.free)
    }

    pub(super) fn put_back(&mut self, buffer: send::Buffer<H>) {
        self.free.push(buffer);
    }
}

/// The Sends since the last one that asked for a completion.
pub(super) struct Signalling {
    unsignalled: u32,
    /// When the oldest memory that no completion will cover became part of a Send.
    gathered_since: Option<Jiffies>,
    /// [`Self::MAX_GATHERED_AGE_MS`] in jiffies.
    max_gathered_age: Jiffies,
}

impl Signalling {
    /// The most Sends that one completion covers.
    const INTERVAL: u32 = 16;

    /// The age of memory that is part of a Send at which the next Send asks for a completion. Until
    /// then the memory can be neither migrated nor offlined.
    ///
    /// When there is no next Send, the server posts a barrier. A client cannot, as it may post no
    /// RDMA Write, and keeps the memory until its connection is closed: a completion for each such
    /// Send, or for the last of a burst, would cost one more interrupt for most WRITEs that are
    /// sent inline.
    pub(super) const MAX_GATHERED_AGE_MS: Msecs = 1_000;

    pub(super) fn new() -> Self {
        Self {
            unsignalled: 0,
            gathered_since: None,
            max_gathered_age: msecs_to_jiffies(Self::MAX_GATHERED_AGE_MS),
        }
    }

    /// Returns whether `send` asks for a completion. If `last_buffer`, no Send buffer is free, and
    /// the next one must come from a completion.
    #[inline]
    pub(super) fn asks_for_completion(&mut self, send: &NextSend, last_buffer: bool) -> bool {
        self.unsignalled = self.unsignalled.saturating_add(1);
        let overdue = self
            .gathered_since
            .is_some_and(|since| send.now.wrapping_sub(since) >= self.max_gathered_age);
        // When the last buffer is taken, or the room for registrations, nobody may be able to post
        // the Send that would free the others. The memory of Writes is not kept longer than
        // necessary; the few pages that are part of a Send may be.
        let asks = self.unsignalled >= Self::INTERVAL
            || last_buffer
            || send.lacks_room
            || overdue
            || send.has_writes;
        if asks {
            self.unsignalled = 0;
            self.gathered_since = None;
        } else if send.has_gathered {
            self.gathered_since.get_or_insert(send.now);
        }
        asks
    }
}

/// The empty transfers of a connection.
pub(super) struct SpareTransfers<H: Context> {
    kept: EmptyTransfers<H>,
    /// The number of bytes that may be added.
    budget: usize,
}

impl<H: Context> SpareTransfers<H> {
    /// The largest number of bytes: a few long transfers, or many short ones.
    const BYTES: usize = 96 << 10;

    pub(super) fn new() -> Self {
        Self {
            kept: EmptyTransfers::new(),
            budget: Self::BYTES,
        }
    }

    pub(super) fn take(&mut self) -> Option<EmptyTransfer<H>> {
        let transfer = self.kept.pop()?;
        self.budget = self.budget.saturating_add(transfer.footprint());
        Some(transfer)
    }

    /// Takes all transfers.
    pub(super) fn take_all(&mut self) -> EmptyTransfers<H> {
        self.budget = Self::BYTES;
        core::mem::take(&mut self.kept)
    }

    /// Keeps `transfer`, or returns it if the pool is full.
    pub(super) fn keep(&mut self, transfer: EmptyTransfer<H>) -> Option<EmptyTransfer<H>> {
        let Some(budget) = self.budget.checked_sub(transfer.footprint()) else {
            return Some(transfer);
        };
        self.budget = budget;
        self.kept.push(transfer);
        None
    }
}
