// SPDX-License-Identifier: GPL-2.0

//! Which Sends ask for a completion.
//!
//! No request slot has to wait until a Send has completed, so most Sends ask for no completion. One in
//! [`Signalling::INTERVAL`] does, and covers those before it (a reliable connection completes in order).

use kernel::time::{
    msecs_to_jiffies,
    Jiffies,
    Msecs, //
};
use rdma::NextSend;

/// What was sent since the last Send that asked for a completion.
pub(super) struct Signalling {
    unsignalled: u32,
    /// Since when a Send has memory that no Send after it covers.
    lent_since: Option<Jiffies>,
    /// [`Self::LEND_MS`].
    lend: Jiffies,
}

impl Signalling {
    /// How many Sends one completion covers at most.
    pub(super) const INTERVAL: u32 = 16;

    /// How old memory that is part of a Send may be when the next Send asks for a completion for it.
    /// Until then it cannot be migrated, nor offlined.
    ///
    /// When there is no next Send, the server flushes the queue. A client cannot, as it may post no
    /// RDMA Write, and keeps the memory until its connection is closed: a completion for each such
    /// Send, or for the last of a burst, would interrupt a processor once more for most WRITEs that
    /// are sent inline.
    pub(super) const LEND_MS: Msecs = 1_000;

    pub(super) fn new() -> Self {
        Self {
            unsignalled: 0,
            lent_since: None,
            lend: msecs_to_jiffies(Self::LEND_MS),
        }
    }

    /// Whether `send` asks for a completion. `last_buffer` says that no Send buffer is free, and that the next one is to
    /// come from a completion.
    pub(super) fn asks_for_completion(&mut self, send: &NextSend, last_buffer: bool) -> bool {
        self.unsignalled = self.unsignalled.saturating_add(1);
        let overdue = self
            .lent_since
            .is_some_and(|since| send.now.wrapping_sub(since) >= self.lend);
        // With the last buffer gone perhaps nobody can post the Send that would free the others. What
        // Writes are of is not kept longer than it takes; the few pages that are part of a Send may be.
        let asks = self.unsignalled >= Self::INTERVAL || last_buffer || overdue || send.has_writes;
        if asks {
            self.unsignalled = 0;
            self.lent_since = None;
        } else if send.has_inserted {
            self.lent_since.get_or_insert(send.now);
        }
        asks
    }
}
