// SPDX-License-Identifier: GPL-2.0

//! Two ends of a stream joined, with the input as their schedule, over an LLP of each kind.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use rdmap::order::InOrder;
use rdmap::sctp::window::{Bits, RxWindow};

use input::Input;

mod input;
#[path = "../../../rust/rdmap/tests/model/mod.rs"]
mod model;

impl model::Choices for Input<'_> {
    fn below(&mut self, limit: usize) -> usize {
        Input::below(self, limit)
    }
}

fuzz_target!(|octets: &[u8]| {
    let Some((first, octets)) = octets.split_first() else {
        return;
    };
    let mut input = Input::new(octets);
    let wrong = usize::from(first >> 1);
    let wrong = model::WRONGS
        .get(wrong % 16)
        .map(|(wrong, code)| (*wrong, *code));
    let does = wrong.map(|(wrong, _)| wrong);
    let summary = match first & 1 {
        0 => model::run::<InOrder>(&mut input, 4, does, None),
        _ => model::run::<RxWindow<Box<Bits>>>(&mut input, 4, does, None),
    };
    // Who did wrong is told of it, or had nothing left to do it with.
    for code in &summary.codes {
        let (_, expected) = wrong.expect("nobody did wrong");
        assert_eq!((code.layer, code.etype, code.code), expected);
    }
});
