// SPDX-License-Identifier: GPL-2.0

//! How many lines about connections, and about messages, may go to the kernel log.

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
    },
};

/// Calls `line`, if one more line about connections may go to the kernel log, and says there how many could
/// not before. Peers can cause as many as they like. What they cause here keeps nobody else from logging:
/// the limit is this module's own.
pub(crate) fn log(line: impl FnOnce()) {
    static LIMIT: RateLimit = RateLimit::new();
    LIMIT.log("connections", line);
}

/// As [`log`], for a line about one message. These have a limit of their own, so that a peer which sends
/// bad ones does not hide what becomes of connections.
pub(crate) fn log_message(line: impl FnOnce()) {
    static LIMIT: RateLimit = RateLimit::new();
    LIMIT.log("messages", line);
}

/// So many lines in each interval.
pub(super) struct RateLimit {
    /// When the interval began, and how many lines there were since.
    begin_ns: Atomic<i64>,
    lines: Atomic<u32>,
    /// How many lines there could not be since the last one that there could.
    left_out: Atomic<u32>,
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
            left_out: Atomic::new(0),
        }
    }

    /// Calls `line`, if there may be one now, and says how many lines about `these` there could not be before.
    fn log(&self, these: &str, line: impl FnOnce()) {
        if let Some(left_out) = self.allows(Monotonic::ktime_get()) {
            if left_out != 0 {
                pr_info!("{left_out} lines about {these} were left out\n");
            }
            line();
        }
    }

    /// Whether there may be a line at the time `now_ns`. Then it is counted, and the result is how many there
    /// could not be before it.
    pub(super) fn allows(&self, now_ns: i64) -> Option<u32> {
        let begin = self.begin_ns.load(Relaxed);
        // Whoever is first to see the end of an interval begins the next.
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
