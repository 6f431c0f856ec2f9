// SPDX-License-Identifier: GPL-2.0

//! The clocks of the kernel: a coarse one that is cheap, and an exact one.

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
