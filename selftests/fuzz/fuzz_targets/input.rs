// SPDX-License-Identifier: GPL-2.0

//! Choices from the octets of an input, for targets whose schedule it is.

/// When the octets end, a generator goes on, so that every run comes to its end.
pub struct Input<'a> {
    octets: &'a [u8],
    random: usize,
}

impl<'a> Input<'a> {
    /// The choices of these octets.
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { octets, random: 1 }
    }

    /// A number below `limit`, which is not zero: of one octet, or of two.
    pub fn below(&mut self, limit: usize) -> usize {
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
                self.random = self
                    .random
                    .wrapping_mul(0x5851_f42d_4c95_7f2d)
                    .wrapping_add(1_442_695_040_888_963_407);
                self.random >> 33
            }
        };
        number % limit
    }
}
