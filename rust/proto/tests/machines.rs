// SPDX-License-Identifier: GPL-2.0

//! Requester and Responder joined, over a thousand random mixes of RPCs.

use crate::model::{self, Choices};

/// A generator of numbers (xorshift64*).
struct Random(u64);

impl Choices for Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        usize::try_from(number % u64::try_from(limit).unwrap()).unwrap()
    }
}

// Shows S2.2.2-02, S2.3.2-06, S3.3.1-03, S3.3.1-07, S3.3.1-10, S3.3.1-12, S3.3.1-13, S3.4.6.1-01,
// S3.4.6.2-04, S3.5.3-08, S4-03, S4.2.4-11, S6.1-05, S6.2-01, S8.2.2.3-02, B-03, B-06, B-08.
#[test]
fn thousand_mixes_come_to_their_end() {
    let mut total = model::Summary::default();
    for seed in 1..=1000 {
        let summary = model::run(&mut Random(seed << 32 | 0x9e37_79b9), 20);
        assert_eq!(
            summary.completed + summary.refused + summary.unplannable,
            20,
            "{summary:?}"
        );
        total.completed += summary.completed;
        total.refused += summary.refused;
        total.unplannable += summary.unplannable;
        total.reversed += summary.reversed;
        total.lost += summary.lost;
        total.long_calls += summary.long_calls;
        total.long_replies += summary.long_replies;
    }
    // What a Requester plans, a Responder can return.
    assert_eq!(total.refused, 0, "{total:?}");
    assert_eq!(total.unplannable, 0, "{total:?}");
    assert!(total.lost > 200, "{total:?}");
    assert!(total.reversed > 4_000, "{total:?}");
    assert!(total.long_calls > 4_000, "{total:?}");
    assert!(total.long_replies > 4_000, "{total:?}");
}
