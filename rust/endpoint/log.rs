// SPDX-License-Identifier: GPL-2.0

//! Limits of the lines in the kernel log about connections, and about messages.

use kernel::prelude::*;
use rdma::rate_limit::RateLimit;

/// Calls `line` if the limit allows another line about connections, and logs the number of lines
/// left out before it. Peers can cause any number of lines. The limit is this module's own, so its
/// lines suppress those of nobody else.
pub fn log(line: impl FnOnce()) {
    static LIMIT: RateLimit = RateLimit::new();
    log_within(&LIMIT, "connections", line);
}

/// Calls `line` as [`log`] does, for a line about a message. These have a limit of their own, so
/// that a peer that sends bad messages does not suppress lines about connections.
pub fn log_message(line: impl FnOnce()) {
    static LIMIT: RateLimit = RateLimit::new();
    log_within(&LIMIT, "messages", line);
}

/// Calls `line` if the limit allows it, and logs the number of lines about `these` left out before
/// it.
fn log_within(limit: &RateLimit, these: &str, line: impl FnOnce()) {
    if let Some(left_out) = limit.allows() {
        if left_out != 0 {
            pr_info!("{left_out} lines about {these} were left out\n");
        }
        line();
    }
}
