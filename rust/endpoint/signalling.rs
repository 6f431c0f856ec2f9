// SPDX-License-Identifier: GPL-2.0

//! The choice of Sends that ask for a completion.
//!
//! No request slot waits for the completion of a Send, so most Sends are unsignalled. One in
//! [`Signalling::INTERVAL`] asks for a completion, which covers those before it (a reliable
//! connection completes in order).

use kernel::time::{
    msecs_to_jiffies,
    Jiffies,
    Msecs, //
};
use rdma::NextSend;

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
    pub(super) fn asks_for_completion(&mut self, send: &NextSend, last_buffer: bool) -> bool {
        self.unsignalled = self.unsignalled.saturating_add(1);
        let overdue = self
            .gathered_since
            .is_some_and(|since| send.now.wrapping_sub(since) >= self.max_gathered_age);
        // When the last buffer is taken, nobody may be able to post the Send that would free the
        // others. The memory of Writes is not kept longer than necessary; the few pages that are
        // part of a Send may be.
        let asks = self.unsignalled >= Self::INTERVAL || last_buffer || overdue || send.has_writes;
        if asks {
            self.unsignalled = 0;
            self.gathered_since = None;
        } else if send.has_gathered {
            self.gathered_since.get_or_insert(send.now);
        }
        asks
    }
}
