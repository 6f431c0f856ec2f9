// SPDX-License-Identifier: GPL-2.0

//! All tests that stand outside the crate, in one module for each claim.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test that panics has failed"
)]

mod completions;
mod golden;
mod requests;

use proptest::test_runner::{Config, FileFailurePersistence};

/// Returns a configuration of property tests in which what once failed stands beside the test, as
/// `requests.proptest-regressions`, and is tried first.
fn seeds_beside_tests() -> Config {
    Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        ..Config::default()
    }
}

/// Returns the words that a CPU loads from these octets.
fn words<const N: usize>(octets: &[u8]) -> [u64; N] {
    assert_eq!(octets.len(), 8 * N);
    let mut words = [0; N];
    for (word, octets) in words.iter_mut().zip(octets.chunks(8)) {
        *word = u64::from_ne_bytes(octets.try_into().unwrap());
    }
    words
}

/// Returns what an entry that was `before` has after these stores, in their order.
fn stored(before: [u8; 32], stores: uabi::cqe::Stores) -> [u8; 32] {
    let mut octets = before;
    for store in stores.first.into_iter().chain([stores.last]) {
        octets[store.offset..][..8].copy_from_slice(&store.word.to_ne_bytes());
    }
    octets
}
