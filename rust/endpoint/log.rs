// SPDX-License-Identifier: GPL-2.0

//! Limits of the lines in the kernel log about connections, and about messages.

use kernel::{
    prelude::*,
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

/// Calls `line` if the limit allows another line about connections, and logs the number of lines
/// left out before it. Peers can cause any number of lines. The limit is this module's own, so its
/// lines suppress those of nobody else.
pub fn log(line: impl FnOnce()) {
    static LIMIT: RateLimit = RateLimit::new();
    LIMIT.log("connections", line);
}

/// Calls `line` as [`log`] does, for a line about a message. These have a limit of their own, so
/// that a peer that sends bad messages does not suppress lines about connections.
pub fn log_message(line: impl FnOnce()) {
    static LIMIT: RateLimit = RateLimit::new();
    LIMIT.log("messages", line);
}

/// A limit of the number of lines in each interval.
pub(super) struct RateLimit {
    /// The beginning of the interval, and the number of lines since.
    begin_ns: Atomic<i64>,
    lines: Atomic<u32>,
    /// The number of lines left out since the last one that was allowed.
    left_out: Atomic<u32>,
}

impl RateLimit {
    /// The length of an interval.
    pub(super) const INTERVAL_NS: i64 = 5 * NSEC_PER_SEC;

    /// The largest number of lines in an interval.
    pub(super) const LINES: u32 = 10;

    pub(super) const fn new() -> Self {
        Self {
            begin_ns: Atomic::new(0),
            lines: Atomic::new(0),
            left_out: Atomic::new(0),
        }
    }

    /// Calls `line` if the limit allows it, and logs the number of lines about `these` left out
    /// before it.
    fn log(&self, these: &str, line: impl FnOnce()) {
        if let Some(left_out) = self.allows(Monotonic::ktime_get()) {
            if left_out != 0 {
                pr_info!("{left_out} lines about {these} were left out\n");
            }
            line();
        }
    }

    /// Counts a line at the time `now_ns`, if the limit allows it. Returns the number of lines left
    /// out before it, or [`None`] if it is left out.
    pub(super) fn allows(&self, now_ns: i64) -> Option<u32> {
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
