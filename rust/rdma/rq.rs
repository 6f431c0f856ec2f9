// SPDX-License-Identifier: GPL-2.0

//! The Receive queue of a queue pair: what is posted there.

use crate::in_flight::InFlight;

/// The Receive side of a queue pair.
pub(crate) struct State {
    /// Whether posting is allowed: from creation to the drain.
    pub(crate) open: bool,
    /// Whether no completion has anything to bring any more.
    pub(crate) drained: bool,
    /// Receives that may still be posted.
    pub(crate) room: usize,
    /// Those that are.
    pub(crate) posted: InFlight,
}

impl State {
    /// With room for so many Receives.
    pub(crate) const fn new(room: usize) -> Self {
        Self {
            open: true,
            drained: false,
            room,
            posted: InFlight::new(),
        }
    }
}
