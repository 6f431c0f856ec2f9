// SPDX-License-Identifier: GPL-2.0

//! Any sizes to the planner: what it plans fits.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use proto::plan::{Argument, CallForm, Plan, ReplyForm, Sizes, Thresholds};
use proto::xdr::roundup;

/// Takes numbers from the input: up to eight bytes, the first says how many.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> usize {
        let Some((count, rest)) = self.0.split_first() else {
            return 0;
        };
        let (number, rest) = rest.split_at(usize::from(count % 9).min(rest.len()));
        self.0 = rest;
        number
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
    }
}

fuzz_target!(|bytes: &[u8]| {
    let (flags, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let mut numbers = Numbers(rest);
    let sizes = Sizes {
        call: numbers.next(),
        argument: (flags & 1 != 0).then(|| Argument {
            position: u32::try_from(numbers.next() & 0xFFFF_FFFF).unwrap(),
            length: numbers.next(),
        }),
        reply: numbers.next(),
        result: (flags & 2 != 0).then(|| numbers.next()),
        reduction: flags & 4 != 0,
        segments: numbers.next(),
    };
    // No buffer is longer than private data can say.
    let thresholds = Thresholds {
        call: numbers.next() % 262_145,
        reply: numbers.next() % 262_145,
    };
    let Ok(plan) = Plan::new(&sizes, &thresholds) else {
        return;
    };
    // In 128 bits nothing overflows.
    let wide = |number: usize| u128::try_from(number).unwrap();
    let chunk = 4 + 16 * wide(sizes.segments);
    let (offered, rest) = match plan.reply {
        ReplyForm::Inline => (0, wide(sizes.reply)),
        ReplyForm::WriteChunk { write } => {
            assert_eq!(Some(write), sizes.result);
            (4 + chunk, wide(sizes.reply) - wide(roundup(write)))
        }
        ReplyForm::WriteAndReplyChunk { write, reply } => {
            assert_eq!(Some(write), sizes.result);
            assert!(wide(roundup(write)) + wide(reply) >= wide(sizes.reply));
            (4 + 2 * chunk, 0)
        }
        ReplyForm::ReplyChunk { reply } => {
            assert!(reply >= sizes.reply);
            (chunk, 0)
        }
    };
    assert!(28 + offered + rest <= wide(thresholds.reply));
    let (read, inline) = match plan.call {
        CallForm::Inline => (0, wide(sizes.call)),
        CallForm::ReadChunk(argument) => {
            assert_eq!(Some(argument), sizes.argument);
            assert!(sizes.reduction && argument.position % 4 == 0);
            let inline = wide(sizes.call) - wide(roundup(argument.length));
            assert!(u128::from(argument.position) <= inline);
            (24 * wide(sizes.segments), inline)
        }
        CallForm::PositionZero => (24 * wide(sizes.segments), 0),
    };
    assert!(28 + offered + read + inline <= wide(thresholds.call));
});
