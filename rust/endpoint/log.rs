// SPDX-License-Identifier: GPL-2.0

//! How much of connections may go to the kernel log.

use kernel::{
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    time::{
        ClockSource,
        Monotonic,
        NSEC_PER_SEC, //
    },
};

/// Whether one more line about connections may go to the kernel log. Peers can cause as many as they
/// like. What they cause here keeps nobody else from logging: the limit is this module's own.
pub(crate) fn may_log() -> bool {
    static LIMIT: RateLimit = RateLimit::new();
    LIMIT.allows(Monotonic::ktime_get())
}

/// So many lines in each interval.
pub(super) struct RateLimit {
    /// When the interval began, and how many lines there were since.
    begin_ns: Atomic<i64>,
    lines: Atomic<u32>,
}

impl RateLimit {
    /// How long an interval is.
    pub(super) const INTERVAL_NS: i64 = 5 * NSEC_PER_SEC;

    /// How many lines there may be in an interval.
    pub(super) const LINES: u32 = 10;

    pub(super) const fn new() -> Self {
        Self {
            begin_ns: Atomic::new(0),
            lines: Atomic::new(0),
        }
    }

    /// Whether there may be a line at the time `now_ns`. Then it is counted.
    pub(super) fn allows(&self, now_ns: i64) -> bool {
        let begin = self.begin_ns.load(Relaxed);
        // Whoever is first to see the end of an interval begins the next.
        if now_ns.saturating_sub(begin) >= Self::INTERVAL_NS
            && self.begin_ns.cmpxchg(begin, now_ns, Relaxed) == Ok(begin)
        {
            self.lines.store(0, Relaxed);
        }
        self.lines.load(Relaxed) < Self::LINES && self.lines.fetch_add(1, Relaxed) < Self::LINES
    }
}
