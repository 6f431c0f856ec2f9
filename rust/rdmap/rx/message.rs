// SPDX-License-Identifier: GPL-2.0

//! A record of the octets of a message that were placed, whatever order its segments came in.
//!
//! RFC 5041, section 5.3, allows delivery of a message only when all of it is placed. A count of
//! octets is not enough: a peer could send the first half twice and leave the second as it was, and
//! the upper layer would take the old content of the buffer for the peer's. A list of gaps would
//! have no bound.
//!
//! So the segments are taken for edges of a graph from their first octet to the one behind their
//! last. They make up one path from 0 to the end of the message exactly if every other vertex is
//! left as often as it is entered. The check compares the sum of a keyed hash over all offsets
//! where a segment begins, minus that over all where one ends, with the value that it has to be.
//! The key is drawn for each stream, so a peer cannot search for offsets whose hashes cancel out.

use crate::order::Seq;

/// The random key of a stream's hash.
#[derive(Clone, Copy, Debug)]
pub struct HashKey(pub u64, pub u64);

impl HashKey {
    /// Hashes an offset. Both halves of the key are mixed in, each followed by the finalizer of
    /// MurmurHash3.
    fn hash(self, place: u32) -> u64 {
        let mix = |word: u64| {
            let word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            let word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            word ^ (word >> 33)
        };
        mix(mix(u64::from(place).wrapping_add(self.0)) ^ self.1)
    }
}

/// The placed part of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    balance: u64,
    octets: u32,
    highest: u32,
    ended: Option<End>,
}

/// The last segment of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    seq: Seq,
    total: u32,
}

/// The segment contradicts those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfit;

impl Message {
    /// Adds a segment of `length` octets at `offset`. It is the message's last one if there is a
    /// `last` sequence number.
    pub(super) fn add(
        &mut self,
        key: HashKey,
        offset: u32,
        length: u32,
        last: Option<Seq>,
    ) -> Result<(), Misfit> {
        let end = offset.checked_add(length).ok_or(Misfit)?;
        let octets = self.octets.checked_add(length).ok_or(Misfit)?;
        let highest = self.highest.max(end);
        let ended = match (self.ended, last) {
            (Some(_), Some(_)) => return Err(Misfit),
            (None, Some(seq)) => Some(End { seq, total: end }),
            (ended, None) => ended,
        };
        // Octets behind the last segment, or more octets than it leaves room for, belong to no such
        // message.
        if ended.is_some_and(|ended| highest > ended.total || octets > ended.total) {
            return Err(Misfit);
        }
        let step = key.hash(offset).wrapping_sub(key.hash(end));
        *self = Self {
            balance: self.balance.wrapping_add(step),
            octets,
            highest,
            ended,
        };
        Ok(())
    }

    /// Returns the sequence number of the last segment, if that arrived.
    #[inline]
    pub(super) fn ended(&self) -> Option<Seq> {
        self.ended.map(|end| end.seq)
    }

    /// Returns the number of octets that were placed.
    #[inline]
    pub(super) const fn octets(&self) -> u32 {
        self.octets
    }

    /// Returns the length, if each of its octets was placed exactly once.
    pub(super) fn whole(&self, key: HashKey) -> Option<u32> {
        let total = self.ended?.total;
        let due = key.hash(0).wrapping_sub(key.hash(total));
        (self.octets == total && self.balance == due).then_some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: HashKey = HashKey(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);

    fn message(segments: &[(u32, u32, Option<Seq>)]) -> Result<Option<u32>, Misfit> {
        let mut message = Message::default();
        for (offset, length, last) in segments {
            message.add(KEY, *offset, *length, *last)?;
        }
        Ok(message.whole(KEY))
    }

    /// The values are from the finalizer of MurmurHash3, `fmix64`.
    #[test]
    fn places_are_mixed_with_both_halves_of_the_key() {
        assert_eq!(HashKey(0, 0).hash(1), 0x7d6e_4ac3_8b2b_1be2);
        assert_eq!(KEY.hash(0), 0x6f47_2657_2b9a_d304);
        assert_eq!(KEY.hash(1), 0xeeb9_7f70_58a9_23d6);
        assert_eq!(KEY.hash(u32::MAX), 0x2f8e_4e6d_1aaa_ae7e);
    }

    #[test]
    fn order_does_not_matter() {
        let segments = [(0, 100, None), (100, 50, None), (150, 1, Some(2))];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1]] {
            assert_eq!(message(&order.map(|at| segments[at])), Ok(Some(151)));
        }
    }

    #[test]
    fn empty_message_is_whole() {
        assert_eq!(message(&[(0, 0, Some(0))]), Ok(Some(0)));
        assert_eq!(message(&[]), Ok(None));
    }

    #[test]
    fn half_that_comes_twice_is_not_the_whole() {
        let twice = [(0, 50, None), (0, 50, None), (50, 50, Some(2))];
        assert_eq!(message(&twice), Err(Misfit));
        let twice = [(0, 50, None), (0, 50, None), (100, 0, Some(2))];
        assert_eq!(message(&twice), Ok(None));
        let overlap = [(0, 60, None), (40, 40, None), (100, 0, Some(2))];
        assert_eq!(message(&overlap), Ok(None));
        let gap = [(0, 50, None), (60, 40, Some(1))];
        assert_eq!(message(&gap), Ok(None));
    }

    #[test]
    fn nothing_is_behind_the_last_segment() {
        assert_eq!(message(&[(0, 10, Some(1)), (10, 1, None)]), Err(Misfit));
        assert_eq!(message(&[(10, 1, None), (0, 10, Some(1))]), Err(Misfit));
        assert_eq!(message(&[(0, 1, Some(1)), (1, 1, Some(2))]), Err(Misfit));
        assert_eq!(message(&[(u32::MAX, 1, None)]), Err(Misfit));
    }
}
