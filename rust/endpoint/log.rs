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

/// How long an interval is.
const INTERVAL_NS: i64 = 5 * NSEC_PER_SEC;

/// How many lines may be logged in an interval.
const LINES: u32 = 10;

/// When the interval began, and how many lines were logged since.
static BEGIN_NS: Atomic<i64> = Atomic::new(0);
static LOGGED: Atomic<u32> = Atomic::new(0);

/// Whether one more line about connections may go to the kernel log. Peers can cause as many as they
/// like. What they cause here keeps nobody else from logging: the limit is this module's own.
pub(crate) fn may_log() -> bool {
    let now = Monotonic::ktime_get();
    let begin = BEGIN_NS.load(Relaxed);
    // Whoever is first to see the end of an interval begins the next.
    if now.saturating_sub(begin) >= INTERVAL_NS
        && BEGIN_NS.cmpxchg(begin, now, Relaxed) == Ok(begin)
    {
        LOGGED.store(0, Relaxed);
    }
    LOGGED.load(Relaxed) < LINES && LOGGED.fetch_add(1, Relaxed) < LINES
}
