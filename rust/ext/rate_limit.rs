// SPDX-License-Identifier: GPL-2.0

//! A limit of the number of lines in the kernel log, of which peers can cause any number.

use kernel::{
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    time::{
        ClockSource,
        Monotonic,
        NSEC_PER_SEC, //
    }, //
};

/// A limit of the number of lines in each interval.
pub struct RateLimit {
    // The beginning of the interval, and the number of lines since.
    begin_ns: Atomic<i64>,
    lines: Atomic<u32>,
    // The number of lines left out since the last one that was allowed.
    left_out: Atomic<u32>,
}

impl RateLimit {
    /// The length of an interval.
    pub const INTERVAL_NS: i64 = 5 * NSEC_PER_SEC;

    /// The largest number of lines in an interval.
    pub const LINES: u32 = 10;

    /// Creates a limit.
    #[expect(clippy::new_without_default, reason = "it is one of a static")]
    pub const fn new() -> Self {
        Self {
            begin_ns: Atomic::new(0),
            lines: Atomic::new(0),
            left_out: Atomic::new(0),
        }
    }

    /// Counts a line now, if the limit allows it. Returns the number of lines left out before it,
    /// or [`None`] if it is left out. May be called in any context.
    pub fn allows(&self) -> Option<u32> {
        self.allows_at(Monotonic::ktime_get())
    }

    /// Does what [`Self::allows`] does, at the time `now_ns`.
    pub fn allows_at(&self, now_ns: i64) -> Option<u32> {
        let begin = self.begin_ns.load(Relaxed);
        // The first caller after the end of an interval begins the next.
        if now_ns.saturating_sub(begin) >= Self::INTERVAL_NS
            && self.begin_ns.cmpxchg(begin, now_ns, Relaxed) == Ok(begin)
        {
            self.lines.store(0, Relaxed);
        }
        if self.lines.load(Relaxed) < Self::LINES && self.lines.fetch_add(1, Relaxed) < Self::LINES
        {
            return Some(self.left_out.xchg(0, Relaxed));
        }
        self.left_out.add(1, Relaxed);
        None
    }
}
