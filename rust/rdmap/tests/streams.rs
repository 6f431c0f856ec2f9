// SPDX-License-Identifier: GPL-2.0

//! Two ends joined, over thousands of random schedules, with an LLP of each kind.
//!
//! `SCHEDULES` in the environment says how many; the default is what a moment allows.

use rdmap::fault::Code;
use rdmap::order::InOrder;
use rdmap::sctp::window::Bits;
use rdmap::sctp::window::RxWindow;

use crate::model;
use crate::model::Choices;
use crate::model::Llp;
use crate::model::WRONGS;

/// A generator of numbers (xorshift64*).
pub struct Random(pub u64);

impl Choices for Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        usize::try_from(number % u64::try_from(limit).unwrap()).unwrap()
    }
}

fn schedules() -> u64 {
    let number = std::env::var("SCHEDULES").ok();
    number.and_then(|number| number.parse().ok()).unwrap_or(500)
}

/// The schedule of this number.
pub fn random(seed: u64) -> Random {
    Random((seed << 32) | 0x9e37_79b9)
}

fn come_to_their_end<L: Llp>() -> model::Summary {
    let mut total = model::Summary::default();
    for seed in 1..=schedules() {
        let summary = model::run::<L>(&mut random(seed), 20, None, None);
        assert!(summary.codes.is_empty(), "{summary:?}");
        total.sends += summary.sends;
        total.writes += summary.writes;
        total.reads += summary.reads;
        total.overtaken += summary.overtaken;
        total.flushed += summary.flushed;
    }
    assert_eq!(total.flushed, 0);
    assert!(
        total.sends > 1000 && total.writes > 1000 && total.reads > 1000,
        "{total:?}"
    );
    total
}

#[test]
fn streams_over_a_layer_that_keeps_the_order() {
    let total = come_to_their_end::<InOrder>();
    assert_eq!(total.overtaken, 0);
}

#[test]
fn streams_over_a_layer_that_reorders() {
    let total = come_to_their_end::<RxWindow<Box<Bits>>>();
    assert!(total.overtaken > 1000);
}

fn violations_are_reported<L: Llp>() {
    let mut flushed = 0;
    for (wrong, (layer, etype, code)) in WRONGS {
        for seed in 1..=schedules() / 5 {
            let summary = model::run::<L>(&mut random(seed), 12, Some(wrong), None);
            // Only who did wrong is told, and nobody else sends a Terminate.
            assert_eq!(summary.codes, [Code::new(layer, etype, code)], "{wrong:?}");
            flushed += summary.flushed;
        }
    }
    assert!(flushed > 100);
}

#[test]
fn violations_are_reported_over_an_llp_that_keeps_the_order() {
    violations_are_reported::<InOrder>();
}

#[test]
fn violations_are_reported_over_an_llp_that_reorders() {
    violations_are_reported::<RxWindow<Box<Bits>>>();
}
