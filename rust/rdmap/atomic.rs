// SPDX-License-Identifier: GPL-2.0

//! Atomic operations on 64 bits of memory, and their messages (RFC 7306, section 5).
//!
//! A FetchAdd adds, a CmpSwap compares and replaces, both under masks, and both return the value
//! that was there before. Numbers are big-endian on the wire; the operation is one on a number in
//! the byte order of the machine that has the memory. A swap is a CmpSwap that compares no bit.
//!
//! The headers are all of the payload. Section 4 of the RFC says 32 octets for that of a response,
//! its figure 6 has 12: the figure is right.

use crate::fault::Violation;
use crate::serial::low_u32;
use crate::stag::{Range, Stag};
use crate::wire::{size, Octets, Reader};

/// Of the word that the operation code is in, the bits that are not reserved.
const CODE_MASK: u32 = 0x0f;
const FETCH_ADD: u32 = 0;
const CMP_SWAP: u32 = 2;

/// An atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Adds to fields of the value.
    FetchAdd {
        /// The summands.
        add: u64,
        /// Each set bit is the highest one of a field, out of which nothing is carried. Without any
        /// there is one field of 64 bits.
        mask: u64,
    },
    /// Replaces bits of the value if others are as expected.
    CmpSwap {
        /// The new bits.
        swap: u64,
        /// The bits that are replaced.
        swap_mask: u64,
        /// The expected bits.
        compare: u64,
        /// The bits that are compared.
        compare_mask: u64,
    },
}

impl Atomic {
    /// The length in octets of what it works on.
    pub const LEN: u32 = 8;

    /// Returns the value that takes the place of `original`.
    pub const fn apply(self, original: u64) -> u64 {
        match self {
            // The highest bits of the fields are left out, so what is carried into them stays
            // there, and then added without a carry.
            Self::FetchAdd { add, mask } => {
                let below = (original & !mask).wrapping_add(add & !mask);
                below ^ ((original ^ add) & mask)
            }
            Self::CmpSwap {
                swap,
                swap_mask,
                compare,
                compare_mask,
            } => match (original ^ compare) & compare_mask {
                0 => (original & !swap_mask) | (swap & swap_mask),
                _ => original,
            },
        }
    }
}

/// Returns the identifier of the request with this number.
#[inline]
pub(crate) const fn identifier(number: u64) -> u32 {
    low_u32(number)
}

/// The header of an Atomic Request, which is all of its payload (RFC 7306, section 5.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicRequest {
    /// The number that the response repeats.
    pub identifier: u32,
    /// The STag of the memory.
    pub stag: Stag,
    /// The Tagged Offset of the value, a multiple of eight.
    pub offset: u64,
    /// The operation.
    pub operation: Atomic,
}

impl AtomicRequest {
    /// The length in octets on the wire.
    pub const LEN: usize = 52;

    /// Parses a header of `length` octets, of which `payload` has the first ones. The code 1 and
    /// all above 2 stand for no operation.
    pub fn parse(payload: &[u8], length: u32) -> Result<Self, Violation> {
        let Some((code, request)) = Self::fields(exactly(payload, length, Self::LEN)?) else {
            return Err(Violation::Truncated);
        };
        match code & CODE_MASK {
            FETCH_ADD | CMP_SWAP => Ok(request),
            _ => Err(Violation::Opcode),
        }
    }

    /// Reads the word with the code, and the fields as that says.
    fn fields(payload: &[u8]) -> Option<(u32, Self)> {
        let mut reader = Reader::new(payload);
        let code = reader.u32()?;
        let (identifier, stag, offset) = (reader.u32()?, Stag(reader.u32()?), reader.u64()?);
        let (data, mask) = (reader.u64()?, reader.u64()?);
        let (compare, compare_mask) = (reader.u64()?, reader.u64()?);
        let operation = match code & CODE_MASK {
            // What it compares is ignored.
            FETCH_ADD => Atomic::FetchAdd { add: data, mask },
            _ => Atomic::CmpSwap {
                swap: data,
                swap_mask: mask,
                compare,
                compare_mask,
            },
        };
        let request = Self {
            identifier,
            stag,
            offset,
            operation,
        };
        Some((code, request))
    }

    /// Encodes the header.
    pub fn emit(&self) -> Octets<{ AtomicRequest::LEN }> {
        let mut out = Octets::new();
        let (code, fields) = match self.operation {
            Atomic::FetchAdd { add, mask } => (FETCH_ADD, [add, mask, 0, u64::MAX]),
            Atomic::CmpSwap {
                swap,
                swap_mask,
                compare,
                compare_mask,
            } => (CMP_SWAP, [swap, swap_mask, compare, compare_mask]),
        };
        out.put(code.to_be_bytes());
        out.put(self.identifier.to_be_bytes());
        out.put(self.stag.0.to_be_bytes());
        out.put(self.offset.to_be_bytes());
        for field in fields {
            out.put(field.to_be_bytes());
        }
        out
    }

    /// Returns the memory that it works on.
    #[inline]
    pub const fn target(&self) -> Range {
        Range {
            stag: self.stag,
            offset: self.offset,
            length: Atomic::LEN,
        }
    }

    /// Returns whether the value is aligned. The RFC asks that of its address; a region keeps the
    /// place of an address within a page, so the lowest bits of a Tagged Offset are the same.
    #[inline]
    pub const fn is_aligned(&self) -> bool {
        self.offset & 7 == 0
    }
}

/// The header of an Atomic Response, which is all of its payload (RFC 7306, section 5.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicResponse {
    /// The number that the request had.
    pub identifier: u32,
    /// The value before the operation.
    pub original: u64,
}

impl AtomicResponse {
    /// The length in octets on the wire.
    pub const LEN: usize = 12;

    /// Parses a header of `length` octets, of which `payload` has the first ones.
    pub fn parse(payload: &[u8], length: u32) -> Result<Self, Violation> {
        let mut reader = Reader::new(exactly(payload, length, Self::LEN)?);
        let fields = reader.u32().zip(reader.u64());
        let (identifier, original) = fields.ok_or(Violation::Truncated)?;
        Ok(Self {
            identifier,
            original,
        })
    }

    /// Encodes the header.
    pub fn emit(&self) -> Octets<{ AtomicResponse::LEN }> {
        let mut out = Octets::new();
        out.put(self.identifier.to_be_bytes());
        out.put(self.original.to_be_bytes());
        out
    }
}

/// Returns the payload of a message that has a fixed length.
pub(crate) fn exactly(payload: &[u8], length: u32, due: usize) -> Result<&[u8], Violation> {
    match size(length).cmp(&due) {
        core::cmp::Ordering::Less => Err(Violation::Truncated),
        core::cmp::Ordering::Equal => payload.get(..due).ok_or(Violation::Truncated),
        core::cmp::Ordering::Greater => Err(Violation::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Adds bit by bit, as section 5.1.1 of the RFC describes it.
    fn add_by_bits(original: u64, add: u64, mask: u64, bits: u32) -> u64 {
        let (mut value, mut carry) = (0, 0);
        for at in 0..bits {
            let sum = ((original >> at) & 1) + ((add >> at) & 1) + carry;
            value |= (sum & 1) << at;
            carry = if (mask >> at) & 1 == 1 { 0 } else { sum >> 1 };
        }
        value
    }

    /// Compares and swaps bit by bit, as section 5.1.2 describes it.
    fn swap_by_bits(original: u64, swap: [u64; 2], compare: [u64; 2]) -> u64 {
        let bit = |number: u64, at: u32| (number >> at) & 1;
        let differs = |at| bit(compare[1], at) == 1 && bit(original, at) != bit(compare[0], at);
        if (0..64).any(differs) {
            return original;
        }
        (0..64)
            .map(|at| match bit(swap[1], at) {
                1 => bit(swap[0], at) << at,
                _ => bit(original, at) << at,
            })
            .sum()
    }

    /// All numbers of five bits, in the lowest and in the highest ones of the word.
    // Shows X5.1-1.
    #[test]
    fn fields_are_added_as_the_rfc_adds_bits() {
        for number in 0..1_u64 << 15 {
            let [original, add, mask] = [0, 5, 10].map(|at| (number >> at) & 31);
            let low = Atomic::FetchAdd { add, mask }.apply(original);
            assert_eq!(low & 31, add_by_bits(original, add, mask, 5));
            assert_eq!(low, add_by_bits(original, add, mask, 64));
            let [original, add, mask] = [original, add, mask].map(|part| part << 59);
            let high = Atomic::FetchAdd { add, mask }.apply(original);
            assert_eq!(high, add_by_bits(original, add, mask, 64));
        }
    }

    proptest! {
        // Shows X5.1-1.
        #[test]
        fn any_fields_are_added_as_the_rfc_adds_bits(original: u64, add: u64, mask: u64, fewer: u64) {
            for mask in [mask, mask & fewer, 0, u64::MAX, 1 << 63] {
                let sum = Atomic::FetchAdd { add, mask }.apply(original);
                prop_assert_eq!(sum, add_by_bits(original, add, mask, 64));
            }
            prop_assert_eq!(Atomic::FetchAdd { add, mask: 0 }.apply(original), original.wrapping_add(add));
        }

        // Shows X5.1-2.
        #[test]
        fn bits_are_swapped_if_those_that_are_compared_agree(
            original: u64, swap: u64, swap_mask: u64, other: u64, compare_mask: u64, agrees: bool,
        ) {
            // Without this, hardly any comparison succeeds.
            let compare = match agrees {
                true => (original & compare_mask) | (other & !compare_mask),
                false => other,
            };
            for (swap_mask, compare_mask) in [(swap_mask, compare_mask), (u64::MAX, u64::MAX), (u64::MAX, 0)] {
                let operation = Atomic::CmpSwap { swap, swap_mask, compare, compare_mask };
                let expected = swap_by_bits(original, [swap, swap_mask], [compare, compare_mask]);
                prop_assert_eq!(operation.apply(original), expected);
            }
        }

        // Shows X5.1-4, X5.2-8.
        #[test]
        fn atomic_messages_come_back(octets in any::<[u8; AtomicRequest::LEN]>(), original: u64) {
            if let Ok(request) = AtomicRequest::parse(&octets, 52) {
                let again = request.emit();
                prop_assert_eq!(AtomicRequest::parse(again.as_slice(), 52), Ok(request));
                // The 28 bits before the code are reserved.
                prop_assert_eq!(&again.as_slice()[..4], &[0, 0, 0, octets[3] & 0x0f]);
                let fields = 36 + if octets[3] & 0x0f == 0 { 0 } else { 16 };
                prop_assert_eq!(&again.as_slice()[4..fields], &octets[4..fields]);
            }
            let response = AtomicResponse { identifier: u32::from(octets[0]), original };
            let emitted = response.emit();
            prop_assert_eq!(&emitted.as_slice()[4..], &original.to_be_bytes());
            prop_assert_eq!(AtomicResponse::parse(emitted.as_slice(), 12), Ok(response));
        }
    }

    // Shows X5-1, X5.1-1, X5.1-2.
    #[test]
    fn known_sums_and_swaps() {
        let add = |add, mask, original| Atomic::FetchAdd { add, mask }.apply(original);
        assert_eq!(add(1, 0, u64::MAX), 0);
        // Two counters of 32 bits: the lower one wraps, and the upper one does not notice.
        assert_eq!(
            add(1, 1 << 31, 0x0000_0005_ffff_ffff),
            0x0000_0005_0000_0000
        );
        assert_eq!(add(0xff, u64::MAX, 0x0f), 0xf0);
        let swap = |compare, compare_mask| Atomic::CmpSwap {
            swap: 0xaaaa,
            swap_mask: 0xff00,
            compare,
            compare_mask,
        };
        assert_eq!(swap(0x34, 0xff).apply(0x1234), 0xaa34);
        assert_eq!(swap(0x35, 0xff).apply(0x1234), 0x1234);
        assert_eq!(swap(0x35, 0).apply(0x1234), 0xaa34);
    }

    // Shows X5.2.2-4.
    #[test]
    fn payload_has_its_length_exactly() {
        let octets = [0; 60];
        assert_eq!(exactly(&octets, 12, 12), Ok(&octets[..12]));
        assert_eq!(exactly(&octets, 11, 12), Err(Violation::Truncated));
        assert_eq!(exactly(&octets, 13, 12), Err(Violation::TooLong));
        assert_eq!(exactly(&octets[..11], 12, 12), Err(Violation::Truncated));
    }
}
