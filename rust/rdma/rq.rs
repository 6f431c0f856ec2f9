// SPDX-License-Identifier: GPL-2.0

//! The Receive queue of a queue pair: which Receives are posted there.

use crate::in_flight::InFlight;

/// The Receive side of a queue pair.
pub(crate) struct State {
    /// Whether posting is allowed: from creation to the drain.
    pub(crate) open: bool,
    /// Whether the queue pair is drained, so that a completion which comes now must be ignored.
    pub(crate) drained: bool,
    /// Receives that may still be posted.
    pub(crate) room: usize,
    /// Receives that are posted.
    pub(crate) posted: InFlight,
}

impl State {
    /// The state of a queue with room for so many Receives.
    pub(crate) const fn new(room: usize) -> Self {
        Self {
            open: true,
            drained: false,
            room,
            posted: InFlight::new(),
        }
    }
}
