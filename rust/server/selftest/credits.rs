// SPDX-License-Identifier: GPL-2.0

//! Tests of the cost of the credit grant of a connection.

use super::super::credits::Credits;
use kernel::prelude::*;

/// Returns the number of times that the round trip is looked up during `replies` replies, one at a
/// time, to a client that has eight credits and requests `requested`.
fn looks(replies: usize, requested: u32) -> Result<usize> {
    let credits = KBox::pin_init(Credits::new(), GFP_KERNEL)?;
    credits.set_first(8);
    credits.request(requested);
    let mut looks = 0;
    for _ in 0..replies {
        let raised = credits.next_grant(1, 0, 128, || {
            looks += 1;
            // All calls that arrived took longer.
            Some(0)
        });
        if raised.is_some() {
            return Err(EINVAL);
        }
    }
    Ok(looks)
}

pub(super) fn round_trip_is_looked_up_seldom() -> Result<bool> {
    let (has_all, has_few) = (looks(80, 8)?, looks(90, 128)?);
    Ok((1..=10).contains(&has_all) && (1..=30).contains(&has_few))
}
