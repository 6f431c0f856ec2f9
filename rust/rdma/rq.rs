// SPDX-License-Identifier: GPL-2.0

//! The Receive queue of a queue pair.

use crate::in_flight::InFlight;

/// The state of the Receive side of a queue pair.
pub(crate) struct RqState {
    /// Whether posting is allowed: from creation to the drain.
    pub(crate) open: bool,
    /// Whether the queue pair is drained, so that a late completion must be ignored.
    pub(crate) drained: bool,
    /// The number of Receives that may still be posted.
    pub(crate) room: usize,
    /// The posted Receives.
    pub(crate) posted: InFlight,
}

impl RqState {
    /// Creates the state of a queue with room for that many Receives.
    pub(crate) const fn new(room: usize) -> Self {
        Self {
            open: true,
            drained: false,
            room,
            posted: InFlight::new(),
        }
    }
}
