// SPDX-License-Identifier: GPL-2.0

//! The policy of a connection's Send queue: the choice of signalled Sends, SQ credits, and what is
//! free for the next Send or transfer ([`Spares`]).
//!
//! The queue keeps the state of the policy under its own lock ([`rdma::SendPolicy`]), but for the
//! spares, which have a lock of their own.
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

use super::{
    receive_ring::ReceiveRing,
    spares::Spares, //
};
use kernel::{
    sync::Arc,
    time::{
        msecs_to_jiffies,
        Jiffies,
        Msecs, //
    }, //
};
use rdma::{
    send,
    transfer::EmptyTransfers,
    Context,
    NextSend,
    SqPermit, //
};

/// The policy of a connection's Send queue, and its state.
pub struct SendPolicy<H: Context> {
    spares: Arc<Spares<H>>,
    /// Buffers that a completion has returned, until all of them are put back together.
    completed: send::Buffers<H>,
    signalling: Signalling,
    /// The Receive buffers, whose lock this is, too.
    pub(super) receives: ReceiveRing<H>,
    /// Whether a caller found no credits or no room since the last completion, and waits for the
    /// next.
    starved: bool,
}

impl<H: Context> SendPolicy<H> {
    pub(super) fn new(spares: Arc<Spares<H>>) -> Self {
        Self {
            spares,
            completed: send::Buffers::new(),
            signalling: Signalling::new(),
            receives: ReceiveRing::new(),
            starved: false,
        }
    }

    /// Notes whether a caller found room for its registrations. If not, the next completion that
    /// returns something wakes it.
    pub(super) fn found_room(&mut self, found: bool) {
        self.starved |= !found;
    }

    /// Reserves SQ credits. If too few are free, the next completion that returns something wakes
    /// the caller.
    pub(super) fn reserve(&mut self, credits: usize) -> Option<SqPermit> {
        let permit = self.spares.credits.reserve(credits);
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
    type Spares = Spares<H>;

    fn spares(&self) -> &Arc<Spares<H>> {
        &self.spares
    }

    #[inline]
    fn asks_for_completion(&mut self, send: &NextSend) -> bool {
        let last_buffer = self.spares.needs_completion();
        self.signalling.asks_for_completion(send, last_buffer)
    }

    #[inline]
    fn put_back(&mut self, buffer: send::Buffer<H>) {
        self.spares.put_back(buffer);
    }

    #[inline]
    fn completed(&mut self, buffer: send::Buffer<H>) {
        self.completed.push(buffer);
    }

    #[inline]
    fn keep(&mut self, transfers: &mut EmptyTransfers<H>) {
        self.spares.keep(transfers);
    }

    #[inline]
    fn wakes_waiter(&mut self) -> bool {
        let for_buffers = self.spares.complete(&mut self.completed);
        let for_credits = core::mem::take(&mut self.starved);
        for_buffers || for_credits
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
    pub(super) const INTERVAL: u32 = 16;

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
