// SPDX-License-Identifier: GPL-2.0

//! Timeouts, by the kernel that runs.

use std::env;
use std::time::Duration;

/// `stock` on the stock kernel; longer on a kernel that checks each access to memory, and more so if its processor is emulated.
pub fn scaled(stock: Duration) -> Duration {
    match env::var("KERNEL").as_deref() {
        Ok("debug" | "rt-debug") => 5 * stock,
        Ok("uml-debug") => 2 * stock,
        _ => stock,
    }
}
