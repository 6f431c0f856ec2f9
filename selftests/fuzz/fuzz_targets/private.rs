// SPDX-License-Identifier: GPL-2.0

//! Any bytes as private data: the thresholds stay between the least and our own sizes.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use proto::cm_private_data::{may_invalidate, PrivateData};
use proto::plan::{Role, Thresholds};

fuzz_target!(|bytes: &[u8]| {
    let ours = PrivateData::new(4096, 8192, true).unwrap();
    let theirs = PrivateData::parse(bytes);
    let client = Thresholds::negotiate(Role::Client, ours, theirs);
    let server = Thresholds::negotiate(Role::Server, ours, theirs);
    assert!((1024..=4096).contains(&client.call) && (1024..=8192).contains(&client.reply));
    assert!((1024..=4096).contains(&server.reply) && (1024..=8192).contains(&server.call));
    match theirs {
        // What was ignored is not repeated; everything else is.
        Some(theirs) => {
            let again = theirs.emit();
            assert_eq!(bytes[..5], again[..5]);
            assert_eq!(bytes[5] & 1, again[5]);
            assert_eq!(bytes[6..8], again[6..]);
        }
        None => {
            assert_eq!(client, Thresholds::DEFAULT);
            assert!(!may_invalidate(ours, theirs));
        }
    }
});
