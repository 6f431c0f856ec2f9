// SPDX-License-Identifier: GPL-2.0

//! Requests of any octets: what is decoded keeps the limits of the format, and is what a second
//! decoder, written with numbers that do not end, makes of the same octets.

use proptest::array::uniform32;
use proptest::collection::vec;
use proptest::prelude::*;
use uabi::rqe::Rqe;
use uabi::sg_list::{Inline, Refusal, SgList};
use uabi::sqe::{Operation, Payload, Sqe};

fn number(octets: &[u8], at: usize, length: usize) -> u128 {
    let mut field = octets[at..][..length].to_vec();
    if cfg!(target_endian = "big") {
        field.reverse();
    }
    field
        .iter()
        .rev()
        .fold(0, |number, octet| number << 8 | u128::from(*octet))
}

/// Says why a list of `count` entries from `at` on is refused, or of how many octets it is.
fn list(octets: &[u8], at: usize, count: u8) -> Result<u128, Refusal> {
    if count > 6 {
        return Err(Refusal::TooManySges);
    }
    let mut sum = 0;
    for entry in 0..usize::from(count) {
        let (address, length) = (
            number(octets, at + 16 * entry, 8),
            number(octets, at + 16 * entry + 8, 4),
        );
        if length > 0 && address + length > 1 << 64 {
            return Err(Refusal::Wrap);
        }
        sum += length;
        if sum >= 1 << 32 {
            return Err(Refusal::TooLong);
        }
    }
    Ok(sum)
}

fn check_list(octets: &[u8], at: usize, list: &SgList) {
    let sum: u64 = list
        .as_slice()
        .iter()
        .map(|sge| u64::from(sge.length))
        .sum();
    assert_eq!(u64::from(list.len()), sum);
    for (entry, sge) in list.as_slice().iter().enumerate() {
        let at = at + 16 * entry;
        assert_eq!(u128::from(sge.address), number(octets, at, 8));
        assert_eq!(u128::from(sge.length), number(octets, at + 8, 4));
        assert_eq!(u128::from(sge.lkey), number(octets, at + 12, 4));
    }
}

/// Decodes an entry of a Send Queue a second time, as far as its limits go.
fn refusal(octets: &[u8; 120]) -> Option<Refusal> {
    let (inline, count, opcode) = (number(octets, 8, 2) & 2 != 0, octets[10], octets[11]);
    match (opcode, inline) {
        (0 | 3 | 5, true) => (number(octets, 32, 4) > 80).then_some(Refusal::InlineTooLong),
        (0 | 3 | 5, false) => list(octets, 24, count).err(),
        (1 | 2, true) => Some(Refusal::InlineRead),
        (1 | 2, false) => match list(octets, 24, count) {
            Err(refusal) => Some(refusal),
            Ok(_) => (count > 1).then_some(Refusal::ReadSges),
        },
        _ => Some(Refusal::Opcode),
    }
}

fn check_send(octets: &[u8; 120]) {
    let sqe = Sqe::decode(&crate::words(octets));
    assert_eq!(u128::from(sqe.id), number(octets, 0, 8));
    assert_eq!(sqe.operation.err(), refusal(octets));
    let Ok(operation) = sqe.operation else {
        return;
    };
    let (peer_stag, peer_offset) = (number(octets, 12, 4), number(octets, 16, 8));
    let payload = match operation {
        Operation::Send {
            invalidate,
            payload,
        } => {
            let expected = match octets[11] {
                5 => peer_stag,
                _ => 0,
            };
            assert_eq!(u128::from(invalidate.unwrap_or(0)), expected);
            assert_ne!(invalidate, Some(0));
            payload
        }
        Operation::Write {
            stag,
            offset,
            payload,
        } => {
            assert_eq!(u128::from(stag), peer_stag);
            assert_eq!(u128::from(offset), peer_offset);
            payload
        }
        Operation::Read {
            stag,
            offset,
            sink,
            invalidate,
        } => {
            assert_eq!(u128::from(stag), peer_stag);
            assert_eq!(u128::from(offset), peer_offset);
            assert_eq!(invalidate, octets[11] == 2);
            let length = match octets[10] {
                0 => 0,
                _ => number(octets, 32, 4),
            };
            assert_eq!(u128::from(sink.length), length);
            return;
        }
    };
    match payload {
        Payload::List(list) => {
            assert_eq!(list.as_slice().len(), usize::from(octets[10]));
            check_list(octets, 24, &list);
        }
        Payload::Inline(inline) => {
            let length = inline.as_slice().len();
            assert!(length <= Inline::MAX_LEN);
            assert_eq!(inline.as_slice(), &octets[40..][..length]);
        }
    }
}

/// Octets of an entry of which each field is likely to be near its limits.
fn send_octets() -> impl Strategy<Value = [u8; 120]> {
    let length = prop_oneof![0..100_u32, any::<u32>(), u32::MAX - 3..=u32::MAX];
    let address = prop_oneof![any::<u64>(), u64::MAX - 100..=u64::MAX];
    (
        any::<u64>(),
        0..32_u8,
        prop_oneof![0..8_u8, any::<u8>()],
        prop_oneof![0..13_u8, any::<u8>()],
        prop_oneof![Just(0), any::<u32>()],
        any::<u64>(),
        vec((address, length, any::<u32>()), 6),
    )
        .prop_map(|(id, flags, count, opcode, stag, offset, list)| {
            let mut octets = Vec::new();
            octets.extend(id.to_ne_bytes());
            octets.extend(u16::from(flags).to_ne_bytes());
            octets.extend([count, opcode]);
            octets.extend(stag.to_ne_bytes());
            octets.extend(offset.to_ne_bytes());
            for (address, length, lkey) in list {
                octets.extend(address.to_ne_bytes());
                octets.extend(length.to_ne_bytes());
                octets.extend(lkey.to_ne_bytes());
            }
            octets.try_into().unwrap()
        })
}

proptest! {
    #![proptest_config(crate::seeds_beside_tests())]

    // Shows T18.
    #[test]
    fn send_queue_entries_near_their_limits(octets in send_octets()) {
        check_send(&octets);
    }

    #[test]
    fn send_queue_entries_of_any_octets(front in uniform32(any::<u8>()), rest in vec(any::<u8>(), 88)) {
        let octets = [&front[..], &rest].concat();
        check_send(&octets.try_into().unwrap());
    }

    // Shows T18.
    #[test]
    fn receive_queue_entries(octets in send_octets()) {
        // The list begins 8 octets earlier.
        let octets = [&octets[..16], &octets[24..]].concat();
        let rqe = Rqe::decode(&crate::words(&octets));
        prop_assert_eq!(u128::from(rqe.id), number(&octets, 0, 8));
        let expected = list(&octets, 16, octets[10]);
        prop_assert_eq!(rqe.list.map(|list| u128::from(list.len())), expected);
        if let Ok(list) = rqe.list {
            prop_assert_eq!(list.as_slice().len(), usize::from(octets[10]));
            check_list(&octets, 16, &list);
        }
    }

    /// The process changes the entry while it is copied: the copy has some words of one request and
    /// some of another. What is decoded is what this copy says, whatever is in the ring by then,
    /// and keeps the limits.
    // Shows T3.
    #[test]
    fn entries_torn_between_two_requests(one in send_octets(), other in send_octets(), which: u16) {
        let mut torn = one;
        for word in (0..15).filter(|word| which >> word & 1 != 0) {
            torn[8 * word..][..8].copy_from_slice(&other[8 * word..][..8]);
        }
        let mut copy = crate::words(&torn);
        let sqe = Sqe::decode(&copy);
        copy.fill(0);
        prop_assert_eq!(sqe, Sqe::decode(&crate::words(&torn)));
        check_send(&torn);
    }
}
