// SPDX-License-Identifier: GPL-2.0

//! Two ends joined, over thousands of random schedules, with an LLP of each kind.
//!
//! `SCHEDULES` in the environment says how many; the default is what a moment allows.

use rdmap::fault::Code;
use rdmap::order::InOrder;
use rdmap::sctp::window::{Bits, RxWindow};

use crate::model::{self, Choices, Llp, WRONGS};

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
        total.atomics += summary.atomics;
        total.immediates += summary.immediates;
        total.overtaken += summary.overtaken;
        total.flushed += summary.flushed;
    }
    assert_eq!(total.flushed, 0);
    assert!(
        total.sends > 1000 && total.writes > 1000 && total.reads > 1000,
        "{total:?}"
    );
    assert!(total.atomics > 1000 && total.immediates > 500, "{total:?}");
    total
}

// Shows P3.1-3, P4.4-2, P4.4-3, P5.1-5, P5.1-6, P5.1-8, P5.2-1, P5.2.1-3, P5.2.1-5, P5.2.1-6,
// P5.2.1-8, P5.2.1-9, P5.2.1-12, P5.2.2-2, P5.2.2-3, P5.2.2-5, P5.3-3, P5.3-5, P5.3-8, P5.3-9,
// P5.5-2, P5.5-7, P5.5-8, P5.5-10, P5.5-11, P5.5-12, P5.5-13, P5.5-16, P5.5-17, P5.5-18, P6.1-4,
// P8.1.1-6, D-4, D-6, D-11, X5.2-1, X5.2-5, X5.2-6, X5.2-7, X5.2.2-3, X5.2.2-5, X5.2.2-6, X5.4-1,
// X5.4-2, X5.4-3, X6.3-3, X6.3-4, X7-1, X7-2, X7-3, X7-4.
#[test]
fn streams_over_a_layer_that_keeps_the_order() {
    let total = come_to_their_end::<InOrder>();
    assert_eq!(total.overtaken, 0);
}

// Shows P3.1-3, P3.1-9, P4.4-2, P4.4-3, P5.1-5, P5.1-6, P5.1-8, P5.2-1, P5.2.1-3, P5.2.1-5,
// P5.2.1-6, P5.2.1-8, P5.2.1-9, P5.2.1-12, P5.2.2-2, P5.2.2-3, P5.2.2-5, P5.3-3, P5.3-5, P5.3-8,
// P5.3-9, P5.5-2, P5.5-3, P5.5-7, P5.5-8, P5.5-9, P5.5-10, P5.5-11, P5.5-12, P5.5-13, P5.5-14,
// P5.5-15, P5.5-16, P5.5-17, P5.5-18, P6.1-4, P8.1.1-6, S10-2, D-4, D-6, D-7, D-11,
// X5.2-1, X5.2-5, X5.2-6, X5.2-7, X5.2.2-3, X5.2.2-5, X5.2.2-6, X5.4-1, X5.4-2, X5.4-3, X6.3-3,
// X6.3-4, X7-1, X7-2, X7-3, X7-4.
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

// Shows P3.1-7, P3.2-3, P3.2-4, P3.2-5, P5.1-3, P5.2.1-4, P5.3-4, P5.3-11, P5.3-12, P5.4-2, P5.4-3,
// P5.4-5, P5.4-6, P5.4-7, P6.2-1, P6.2-2, P7-1, P7.1-3, P8.1.1-1, P8.1.1-2, P8.1.1-7, D-10,
// X5.1-3, X8.2-2.
#[test]
fn violations_are_reported_over_an_llp_that_keeps_the_order() {
    violations_are_reported::<InOrder>();
}

// Shows P3.1-7, P3.2-3, P3.2-4, P3.2-5, P5.1-3, P5.2.1-4, P5.3-4, P5.3-11, P5.3-12, P5.4-2, P5.4-3,
// P5.4-5, P5.4-6, P5.4-7, P6.2-1, P6.2-2, P7-1, P7.1-3, P8.1.1-1, P8.1.1-2, P8.1.1-7, S6-3,
// S11.3-3, D-10, X5.1-3, X8.2-2.
#[test]
fn violations_are_reported_over_an_llp_that_reorders() {
    violations_are_reported::<RxWindow<Box<Bits>>>();
}
