// SPDX-License-Identifier: GPL-2.0

//! Sequence numbers that wrap, and the counters behind them that do not.
//!
//! A DDP-SSN has 16 bits and an MSN 32. Both start anew on each stream and wrap. Inside this crate
//! every number has 64 bits, which never wrap, and a number from the wire is taken as the one
//! closest to the expected one.

/// Returns the distance of the 32-bit `number` ahead of the counter `expected`, or `None` if it is
/// behind.
#[inline]
pub const fn ahead_u32(number: u32, expected: u64) -> Option<u32> {
    let distance = number.wrapping_sub(low_u32(expected));
    if distance < 1 << 31 {
        Some(distance)
    } else {
        None
    }
}

/// Returns the same for 16 bits.
#[inline]
pub const fn ahead_u16(number: u16, expected: u64) -> Option<u16> {
    let distance = number.wrapping_sub(low_u16(expected));
    if distance < 1 << 15 {
        Some(distance)
    } else {
        None
    }
}

/// Returns the low 32 bits of a counter, as they are on the wire.
#[inline]
pub const fn low_u32(counter: u64) -> u32 {
    let [_, _, _, _, a, b, c, d] = counter.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// Returns the low 16 bits of a counter.
#[inline]
pub const fn low_u16(counter: u64) -> u16 {
    let [_, _, _, _, _, _, a, b] = counter.to_be_bytes();
    u16::from_be_bytes([a, b])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap() {
        assert_eq!(ahead_u32(0, 0xffff_ffff), Some(1));
        assert_eq!(ahead_u32(0xffff_ffff, 0x1_0000_0000), None);
        assert_eq!(ahead_u32(3, 0x1_0000_0003), Some(0));
        assert_eq!(ahead_u16(1, 0xffff), Some(2));
        assert_eq!(ahead_u16(0xfffe, 0xffff), None);
        assert_eq!(ahead_u16(0x8000, 0x1_0000), None);
        assert_eq!(ahead_u16(0x7fff, 0x1_0000), Some(0x7fff));
    }

    #[test]
    fn wire_has_the_low_bits() {
        assert_eq!(low_u32(0x1_2345_6789), 0x2345_6789);
        assert_eq!(low_u16(0x1_2345_6789), 0x6789);
    }
}
