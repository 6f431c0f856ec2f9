// SPDX-License-Identifier: GPL-2.0

//! The joined machines of the property tests, with the input as their schedule.

#![no_main]

use libfuzzer_sys::fuzz_target;

use input::Input;

mod input;
#[path = "../../proto/tests/model/mod.rs"]
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
