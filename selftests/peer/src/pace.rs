// SPDX-License-Identifier: GPL-2.0

//! How long things take.

use std::env;
use std::time::Duration;

/// How long something takes that takes `stock` on the stock kernel. One that checks each access to
/// memory is that much slower.
pub fn here(stock: Duration) -> Duration {
    match env::var("KERNEL").as_deref() {
        Ok("debug") => 5 * stock,
        _ => stock,
    }
}
