// SPDX-License-Identifier: GPL-2.0

//! Timeouts, by the kernel that runs.

use std::env;
use std::time::Duration;

/// `stock` on the stock kernel; longer on the debug kernel, which checks each access to memory.
pub fn scaled(stock: Duration) -> Duration {
    match env::var("KERNEL").as_deref() {
        Ok("debug") => 5 * stock,
        _ => stock,
    }
}
