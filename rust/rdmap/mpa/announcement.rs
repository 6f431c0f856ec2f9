// SPDX-License-Identifier: GPL-2.0

//! How an end says that it takes FPDUs longer than a segment of TCP.
//!
//! A sender makes FPDUs that fit (RFC 5044, section 4.2), as adapters may be slow with others, and
//! MPA has no field by which a receiver says that it is not. So the first FPDU of one that is not
//! is an RDMA Write of no octets, which anybody may send at any time (RFC 5040, section 5.1), and
//! which places nothing. Its STag is 0; its Tagged Offset has a mark, and the length of the longest
//! ULPDU that is taken. A peer that knows the mark makes longer FPDUs, and answers in the same way.
//! To all others this is a Write as any other.

use crate::header::{Header, Model};
use crate::mpa::frame::MAX_MULPDU;
use crate::stag::Stag;
use crate::wire::Octets;

/// The first six octets of the offset.
const MARK: u64 = u64::from_be_bytes(*b"mulpdu\0\0");

/// The octets of the offset that have the length.
const LENGTH: u64 = 0xffff;

/// The length of the ULPDU in octets.
pub const LEN: usize = Header::TAGGED_LEN;

/// Returns the ULPDU by which this implementation says what it takes.
pub fn emit() -> Octets<{ Header::UNTAGGED_LEN }> {
    let model = Model::Tagged {
        response: false,
        stag: Stag(0),
        offset: MARK | u64::from(MAX_MULPDU),
    };
    Header { last: true, model }.emit()
}

/// Returns the length in octets of the longest ULPDU that the peer takes, if `ulpdu` says that.
pub fn parse(ulpdu: &[u8]) -> Option<u32> {
    if ulpdu.len() != LEN {
        return None;
    }
    match Header::parse(ulpdu).ok()?.0 {
        Header {
            last: true,
            model:
                Model::Tagged {
                    response: false,
                    stag: Stag(0),
                    offset,
                },
        } if offset & !LENGTH == MARK => u32::try_from(offset & LENGTH).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(stag: u32, offset: u64) -> Octets<{ Header::UNTAGGED_LEN }> {
        let model = Model::Tagged {
            response: false,
            stag: Stag(stag),
            offset,
        };
        Header { last: true, model }.emit()
    }

    #[test]
    fn announcement_is_understood() {
        let ulpdu = emit();
        assert_eq!(ulpdu.as_slice().len(), LEN);
        assert_eq!(parse(ulpdu.as_slice()), Some(MAX_MULPDU));
        assert_eq!(parse(write(0, MARK | 1500).as_slice()), Some(1500));
        assert_eq!(parse(write(0, MARK).as_slice()), Some(0));
    }

    #[test]
    fn nothing_else_is() {
        // As a ready-to-receive message, and at other places.
        for (stag, offset) in [(0, 0), (1, MARK | 1500), (0, MARK ^ 1 << 16), (0, 1500)] {
            assert_eq!(parse(write(stag, offset).as_slice()), None);
        }
        let ulpdu = emit();
        let mut longer = [0; LEN + 1];
        longer[..LEN].copy_from_slice(ulpdu.as_slice());
        assert_eq!(parse(&longer), None);
        for len in 0..LEN {
            assert_eq!(parse(&longer[..len]), None);
        }
        // Not the last segment, and a Read Response.
        for (at, bit) in [(0, 0x40), (1, 2)] {
            let mut other = [0; LEN];
            other.copy_from_slice(ulpdu.as_slice());
            other[at] ^= bit;
            assert_eq!(parse(&other), None);
        }
    }
}
