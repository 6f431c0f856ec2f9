// SPDX-License-Identifier: GPL-2.0

//! The clocks of the kernel: a coarse one that is cheap, and an exact one; and an estimate of the
//! round trip to a peer.

use kernel::time::{
    ClockSource,
    Jiffies,
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
    /// The shortest time in the present period, and in the previous one.
    present: Option<u64>,
    before: Option<u64>,
}

impl MinRtt {
    /// The length of a period in nanoseconds. Samples older than two periods are dropped, as the
    /// path may have changed.
    pub(crate) const PERIOD: u64 = 60_000_000_000;

    /// Records a Send that took `took` nanoseconds until its completion at `now`.
    pub(crate) fn record(&mut self, took: u64, now: u64) {
        let passed = now.saturating_sub(self.since);
        if passed >= Self::PERIOD {
            let last = self.present.take();
            self.before = last.filter(|_| passed < 2 * Self::PERIOD);
            self.since = now;
        }
        self.present = Some(self.present.map_or(took, |least| least.min(took)));
    }

    /// Returns the shortest time. [`None`] before the first completion.
    pub(crate) fn get(&self) -> Option<u64> {
        self.present.into_iter().chain(self.before).min()
    }
}
