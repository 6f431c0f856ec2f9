// SPDX-License-Identifier: GPL-2.0

//! All tests that stand outside the crate, in one module for each claim.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics has failed"
)]

mod cm;
mod codec;
mod golden;
mod halves;
mod llp;
mod model;
mod oracle;
mod planted;
mod rx;
mod sessions;
mod streams;
mod tx;

use proptest::test_runner::{Config, FileFailurePersistence};

/// The slots of a stream, in vectors.
pub struct Queues;

impl rdmap::rx::Slots for Queues {
    type Receives = Vec<rdmap::rx::Receive>;
    type Inbound = Vec<rdmap::rx::InboundSlot>;
    type Outstanding = Vec<rdmap::rx::Outstanding>;
}

impl rdmap::tx::Slots for Queues {
    type Requests = Vec<rdmap::tx::Posted>;
    type Responses = Vec<rdmap::rx::InboundRequest>;
}

/// Returns a configuration of property tests in which what once failed stands beside the test, as
/// `cm.proptest-regressions`, and is tried first.
fn seeds_beside_tests() -> Config {
    Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        ..Config::default()
    }
}
