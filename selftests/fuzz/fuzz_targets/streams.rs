// SPDX-License-Identifier: GPL-2.0

//! Two ends of a stream joined, with the input as their schedule, over a lower layer of each kind.

#![no_main]

use libfuzzer_sys::fuzz_target;
use rdmap::order::Arrival;
use rdmap::sctp::window::Bits;
use rdmap::sctp::window::Window;

#[path = "../../rdmap/tests/model/mod.rs"]
mod model;

/// Choices from the input; when it ends, from a generator, so that every run comes to its end.
struct Input<'a> {
    octets: &'a [u8],
    random: usize,
}

impl model::Choices for Input<'_> {
    fn below(&mut self, limit: usize) -> usize {
        let number = match (self.octets, limit) {
            ([first, rest @ ..], ..=256) => {
                self.octets = rest;
                usize::from(*first)
            }
            ([first, second, rest @ ..], _) => {
                self.octets = rest;
                usize::from(u16::from_be_bytes([*first, *second]))
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

fuzz_target!(|octets: &[u8]| {
    let Some((first, octets)) = octets.split_first() else {
        return;
    };
    let mut input = Input { octets, random: 1 };
    let wrong = usize::from(first >> 1);
    let wrong = model::WRONGS
        .get(wrong % 16)
        .map(|(wrong, code)| (*wrong, *code));
    let does = wrong.map(|(wrong, _)| wrong);
    let summary = match first & 1 {
        0 => model::run::<Arrival>(&mut input, 4, does),
        _ => model::run::<Window<Box<Bits>>>(&mut input, 4, does),
    };
    // Who did wrong is told of it, or had nothing left to do it with.
    for code in &summary.codes {
        let (_, expected) = wrong.expect("nobody did wrong");
        assert_eq!((code.layer, code.etype, code.code), expected);
    }
});
