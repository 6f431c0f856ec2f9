// SPDX-License-Identifier: GPL-2.0

//! A source of random choices, and the values that both ends derive from it.

use proto::cm_private_data::PrivateData;

/// Decides what happens next.
pub trait Choices {
    /// Returns a number below `limit`, which is not zero.
    fn below(&mut self, limit: usize) -> usize;

    /// Returns true one time in `times`.
    fn one_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }
}

/// Receives for Calls in the reverse direction, and so the credits granted for them.
pub const REVERSE_CREDITS: u32 = 2;

/// The inline thresholds of one end.
pub fn private_data(choices: &mut impl Choices) -> PrivateData {
    let mut size = || 1024 * (1 + choices.below(4));
    PrivateData::new(size(), size(), false).unwrap()
}
