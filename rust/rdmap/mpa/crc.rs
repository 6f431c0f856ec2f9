// SPDX-License-Identifier: GPL-2.0

//! CRC32C, the last field of an FPDU (RFC 5044, section 4.4).
//!
//! The polynomial is that of RFC 3385, and so is the order of its octets on the wire: the low one
//! first, unlike all else in these protocols. The kernel has faster ways to compute it; they need
//! [`octets`] alone.

const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The [value](Crc::value) of octets with their correct CRC behind them, whatever they are.
pub const RESIDUE: u32 = 0x4867_4bc7;

static TABLE: [u32; 256] = table();

/// Computes the effect of each octet on the remainder, at compile time, so it cannot panic later.
#[cfg_attr(
    not(test),
    expect(
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        reason = "a constant"
    )
)]
const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut octet = 0;
    while octet < 256 {
        let mut remainder: u32 = 0;
        let mut bit = 0;
        while bit < 8 {
            let low = (remainder ^ (octet >> bit)) & 1;
            remainder = (remainder >> 1) ^ (POLYNOMIAL * low);
            bit += 1;
        }
        table[octet as usize] = remainder;
        octet += 1;
    }
    table
}

/// A CRC32C that is computed piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crc(u32);

impl Crc {
    /// Creates the CRC of no octets.
    #[inline]
    pub const fn new() -> Self {
        Self(!0)
    }

    /// Continues with `octets`.
    #[must_use]
    pub fn update(self, octets: &[u8]) -> Self {
        let mut remainder = self.0;
        for octet in octets {
            let [low, ..] = remainder.to_le_bytes();
            let entry = TABLE.get(usize::from(low ^ octet));
            remainder = (remainder >> 8) ^ entry.copied().unwrap_or_default();
        }
        Self(remainder)
    }

    /// Returns the CRC.
    #[inline]
    pub const fn value(self) -> u32 {
        !self.0
    }
}

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the octets of a CRC on the wire.
#[inline]
pub const fn octets(crc: u32) -> [u8; 4] {
    crc.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_value_is_that_of_crc32c() {
        assert_eq!(Crc::new().update(b"123456789").value(), 0xe306_9283);
        assert_eq!(
            Crc::new().update(b"1234").update(b"56789").value(),
            0xe306_9283
        );
        assert_eq!(Crc::default().value(), 0);
    }

    #[test]
    fn octets_with_their_crc_have_the_residue() {
        for covered in [&b""[..], b"1", b"123456789", &[0xff; 100]] {
            let crc = Crc::new().update(covered);
            let field = octets(crc.value());
            assert_eq!(crc.update(&field).value(), RESIDUE);
            // Each field but one is wrong.
            for bit in 0..32 {
                let wrong = octets(crc.value() ^ (1 << bit));
                assert_ne!(crc.update(&wrong).value(), RESIDUE);
            }
        }
    }
}
