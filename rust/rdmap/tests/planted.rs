// SPDX-License-Identifier: GPL-2.0

//! Bugs that are planted between the engine and the model: the model finds each of them.
//!
//! Which ones: [`Bug`].

use std::panic::catch_unwind;

use rdmap::order::InOrder;
use rdmap::sctp::window::{Bits, RxWindow};

use crate::model::{self, Bug, Llp, Wrong};
use crate::streams::random;

/// All bugs. The marked ones are no bugs over an LLP that keeps the order.
const BUGS: [(Bug, bool); 16] = [
    (Bug::PlacedEarly, false),
    (Bug::PlacedAside, false),
    (Bug::RightsIgnored, false),
    (Bug::StagStaysValid, false),
    (Bug::CompletedEarly, false),
    (Bug::CompletionLost, false),
    (Bug::CompletionTwice, false),
    (Bug::CompletionsSwapped, false),
    (Bug::ReadDoneEarly, false),
    (Bug::FenceIgnored, false),
    (Bug::OrdExceeded, false),
    (Bug::SegmentTwice, false),
    (Bug::AnswersSwapped, false),
    (Bug::AtomicTwice, false),
    (Bug::OrderOfArrival, true),
    (Bug::SinksOverlap, true),
];

/// Returns whether a schedule goes wrong: it panics, or an end reports a fault although nobody
/// broke a rule.
fn is_found<L: Llp>(seed: u64, bug: Option<Bug>) -> bool {
    // Ignored rights are noticed only when a peer breaks a rule.
    let wrong = (bug == Some(Bug::RightsIgnored)).then_some(Wrong::WriteReadOnly);
    let run = catch_unwind(|| model::run::<L>(&mut random(seed), 20, wrong, bug));
    run.map_or(true, |summary| wrong.is_none() && !summary.codes.is_empty())
}

fn are_found<L: Llp>() {
    for (bug, needs_reordering) in BUGS {
        if needs_reordering && L::IN_ORDER {
            continue;
        }
        let first = (1..=300).find(|seed| is_found::<L>(*seed, Some(bug)));
        assert!(first.is_some(), "{bug:?} is not found");
    }
    assert!((1..=300).all(|seed| !is_found::<L>(seed, None)));
}

// Shows P8.1.1-6.
#[test]
fn planted_bugs_are_found_over_a_layer_that_keeps_the_order() {
    are_found::<InOrder>();
}

// Shows P8.1.1-6.
#[test]
fn planted_bugs_are_found_over_a_layer_that_reorders() {
    are_found::<RxWindow<Box<Bits>>>();
}
