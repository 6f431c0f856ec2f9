// SPDX-License-Identifier: GPL-2.0

//! The joined machines of the property tests, with the input as their schedule.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;

use input::Input;

mod input;
#[path = "../../../rust/proto/tests/model/mod.rs"]
mod model;

impl model::Choices for Input<'_> {
    fn below(&mut self, limit: usize) -> usize {
        Input::below(self, limit)
    }
}

fuzz_target!(|octets: &[u8]| {
    let summary = model::run(&mut Input::new(octets), 2);
    assert_eq!(summary.completed, 2, "{summary:?}");
});
