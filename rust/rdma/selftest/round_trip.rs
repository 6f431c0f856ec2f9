// SPDX-License-Identifier: GPL-2.0

//! Tests of the estimate of the round trip to a peer.

use crate::clock::MinRtt;
use kernel::error::Result;

pub(super) fn old_round_trips_are_forgotten() -> Result<bool> {
    const PERIOD: u64 = MinRtt::PERIOD;
    let mut least = MinRtt::default();
    let none_yet = least.get().is_none();
    let mut after = |took, now| {
        least.record(took, now);
        least.get()
    };
    let found = [
        after(7, PERIOD),
        after(9, PERIOD + 1),
        after(20, 2 * PERIOD),
        after(20, 3 * PERIOD),
        after(30, 9 * PERIOD),
    ];
    Ok(none_yet && found == [Some(7), Some(7), Some(7), Some(20), Some(30)])
}
