// SPDX-License-Identifier: GPL-2.0

//! The clocks of the kernel: a coarse one that costs nothing, and an exact one.

use kernel::time::{
    ClockSource,
    Jiffies,
    Monotonic, //
};

/// The time now.
pub(crate) fn now() -> Jiffies {
    // SAFETY: The word is always there, and the timer interrupt changes it as a whole.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}

/// Nanoseconds on a clock that only goes forward.
pub(crate) fn nanoseconds() -> u64 {
    // It began at zero.
    u64::try_from(Monotonic::ktime_get()).unwrap_or(0)
}
