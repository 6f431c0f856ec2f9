// SPDX-License-Identifier: GPL-2.0

//! Memory that a server writes results to.

use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::Client;
use crate::verbs::Access;
use crate::verbs::Region;

/// Each byte of the memory, before the server writes to it.
pub const UNWRITTEN: u8 = 0xA5;

/// Memory that the server may write to.
pub fn target(client: &Client, length: usize) -> Result<Region, String> {
    client.region_with(&vec![UNWRITTEN; length], Access::Write)
}

/// Expects that the server wrote `data` at the start of `region`, and nothing else.
pub fn expect_written(region: &Region, data: &[u8]) -> Outcome {
    let mut expected = data.to_vec();
    expected.resize(region.len(), UNWRITTEN);
    expect_eq("memory", region.bytes(0, region.len()), expected)
}
