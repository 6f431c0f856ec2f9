// SPDX-License-Identifier: GPL-2.0

//! Numbers that look random, the same in each run.

/// A generator, which Marsaglia calls xorshift.
pub struct Numbers(u64);

impl Numbers {
    /// Begins with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// Returns the next number.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns the next number, below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
