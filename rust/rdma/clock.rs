// SPDX-License-Identifier: GPL-2.0

//! The clocks of the kernel: a coarse one that is cheap, and an exact one; and an estimate of the
//! round trip to a peer.

use crate::prelude::*;
use kernel::time::{
    ClockSource,
    Monotonic, //
};

/// Returns the present time of the coarse clock.
pub(crate) fn now() -> Jiffies {
    // SAFETY: `jiffies` is a static of the kernel, and the timer interrupt writes the whole word.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}

/// Returns the nanoseconds of a monotonic clock.
pub(crate) fn nanoseconds() -> u64 {
    // The clock begins at zero.
    u64::try_from(Monotonic::ktime_get()).unwrap_or(0)
}

/// The shortest recent time in nanoseconds from a Send to its completion.
#[derive(Default)]
pub(crate) struct MinRtt {
    /// The beginning of the present period.
    since: u64,
    present: Samples,
    before: Samples,
}

/// The Sends that were measured in a period.
#[derive(Clone, Copy, Default)]
struct Samples {
    count: u32,
    /// The shortest time. Zero if there is none.
    shortest: u64,
}

impl MinRtt {
    /// The length of a period in nanoseconds. Samples older than two periods are dropped, as the
    /// path may have changed.
    pub(crate) const PERIOD: u64 = 60_000_000_000;

    /// The fewest samples of an estimate. On a busy machine completions are late, but hardly ever
    /// that many of them, one after another.
    pub(crate) const ENOUGH: u32 = 8;

    /// Records a Send that took `took` nanoseconds until its completion at `now`.
    pub(crate) fn record(&mut self, took: u64, now: u64) {
        let passed = now.saturating_sub(self.since);
        if passed >= Self::PERIOD {
            let last = core::mem::take(&mut self.present);
            self.before = if passed < 2 * Self::PERIOD {
                last
            } else {
                Samples::default()
            };
            self.since = now;
        }
        self.present = self.present.with(Samples {
            count: 1,
            shortest: took,
        });
    }

    /// Returns the shortest time. [`None`] if there are not [enough](Self::ENOUGH) samples.
    pub(crate) fn get(&self) -> Option<u64> {
        let all = self.present.with(self.before);
        (all.count >= Self::ENOUGH).then_some(all.shortest)
    }
}

impl Samples {
    /// Returns the samples of both.
    fn with(self, other: Self) -> Self {
        let shortest = match (self.count, other.count) {
            (0, _) => other.shortest,
            (_, 0) => self.shortest,
            _ => self.shortest.min(other.shortest),
        };
        Self {
            count: self.count.saturating_add(other.count),
            shortest,
        }
    }
}
