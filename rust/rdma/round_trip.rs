// SPDX-License-Identifier: GPL-2.0

//! How long the round trip to a peer is.

/// The least time, in nanoseconds, that a Send took of late until its completion.
#[derive(Default)]
pub(crate) struct LeastRoundTrip {
    /// When the present period began.
    since: u64,
    /// The least time in the present period, and in the one before.
    present: Option<u64>,
    before: Option<u64>,
}

impl LeastRoundTrip {
    /// Nanoseconds of a period. What is older than two is forgotten: packets may go another way by then.
    pub(crate) const PERIOD: u64 = 60_000_000_000;

    /// A Send took so many nanoseconds until its completion, which came at the time `now`.
    pub(crate) fn add(&mut self, took: u64, now: u64) {
        let passed = now.saturating_sub(self.since);
        if passed >= Self::PERIOD {
            let last = self.present.take();
            self.before = last.filter(|_| passed < 2 * Self::PERIOD);
            self.since = now;
        }
        self.present = Some(self.present.map_or(took, |least| least.min(took)));
    }

    /// The least time. [`None`] before the first completion.
    pub(crate) fn get(&self) -> Option<u64> {
        self.present.into_iter().chain(self.before).min()
    }
}
