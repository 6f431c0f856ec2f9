// SPDX-License-Identifier: GPL-2.0

//! The joined machines of the property tests, with the input as their schedule.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../proto/tests/model/mod.rs"]
mod model;

/// Choices from the input; when it ends, from a generator, so that every run comes to its end.
struct Input<'a> {
    bytes: &'a [u8],
    random: usize,
}

impl model::Choices for Input<'_> {
    fn below(&mut self, limit: usize) -> usize {
        let number = match (self.bytes, limit) {
            ([first, rest @ ..], ..=256) => {
                self.bytes = rest;
                usize::from(*first)
            }
            ([first, second, rest @ ..], _) => {
                self.bytes = rest;
                usize::from(*first) << 8 | usize::from(*second)
            }
            _ => {
                let factor = 0x5851_f42d_4c95_7f2d;
                self.random = self
                    .random
                    .wrapping_mul(factor)
                    .wrapping_add(1442695040888963407);
                self.random >> 33
            }
        };
        number % limit
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input { bytes, random: 1 };
    let summary = model::run(&mut input, 2);
    assert_eq!(summary.completed, 2, "{summary:?}");
});
