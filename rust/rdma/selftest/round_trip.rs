// SPDX-License-Identifier: GPL-2.0

//! Tests of the estimate of the round trip to a peer.

use crate::clock::MinRtt;
use kernel::error::Result;

/// Records `count` Sends that take `took` each, and returns the estimate.
fn after(least: &mut MinRtt, count: u32, took: u64, now: u64) -> Option<u64> {
    for _ in 0..count {
        least.record(took, now);
    }
    least.get()
}

pub(super) fn old_round_trips_are_forgotten() -> Result<bool> {
    const PERIOD: u64 = MinRtt::PERIOD;
    let mut least = MinRtt::default();
    let none_yet = least.get().is_none();
    let mut after = |took, now| after(&mut least, MinRtt::ENOUGH, took, now);
    let found = [
        after(7, PERIOD),
        after(9, PERIOD + 1),
        after(20, 2 * PERIOD),
        after(20, 3 * PERIOD),
        after(30, 9 * PERIOD),
    ];
    Ok(none_yet && found == [Some(7), Some(7), Some(7), Some(20), Some(30)])
}

pub(super) fn few_round_trips_are_no_estimate() -> Result<bool> {
    const PERIOD: u64 = MinRtt::PERIOD;
    let mut least = MinRtt::default();
    let found = [
        after(&mut least, MinRtt::ENOUGH - 1, 9, PERIOD),
        after(&mut least, 1, 3, 2 * PERIOD),
        after(&mut least, 1, 5, 4 * PERIOD),
    ];
    Ok(found == [None, Some(3), None])
}
