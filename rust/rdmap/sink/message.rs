// SPDX-License-Identifier: GPL-2.0

//! Which octets of a message were placed, whatever order its segments came in.
//!
//! RFC 5041, section 5.3, lets the sink deliver a message only when all of it is placed. To count octets is not enough: a
//! peer could send the first half twice and leave the second as it was, and whoever owns the buffer would take what was
//! there before for the peer's. A list of gaps would have no bound.
//!
//! So the segments are taken for edges from their first octet to the one behind their last. They make up one way from 0
//! to the end of the message exactly if every other place is left as often as it is entered. To see that, the sum of a
//! keyed hash over all places where a segment begins, less that over all where one ends, is compared with what it has to
//! be. The key is drawn for each stream, so a peer cannot search for places whose hashes cancel out.

use crate::order::Turn;

/// The key of a stream's hash. Random.
#[derive(Clone, Copy, Debug)]
pub struct Key(pub u64, pub u64);

impl Key {
    /// The hash of a place. Both halves of the key are mixed in, each followed by the finalizer of MurmurHash3.
    fn hash(self, place: u32) -> u64 {
        let mix = |word: u64| {
            let word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            let word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
            word ^ (word >> 33)
        };
        mix(mix(u64::from(place).wrapping_add(self.0)) ^ self.1)
    }
}

/// What was placed of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    balance: u64,
    octets: u32,
    highest: u32,
    ended: Option<End>,
}

/// Its last segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    turn: Turn,
    total: u32,
}

/// The segment does not fit to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfit;

impl Message {
    /// Adds a segment of `length` octets from `offset` on. It is the message's last one if there is a `last` turn.
    pub(super) fn add(
        &mut self,
        key: Key,
        offset: u32,
        length: u32,
        last: Option<Turn>,
    ) -> Result<(), Misfit> {
        let end = offset.checked_add(length).ok_or(Misfit)?;
        let octets = self.octets.checked_add(length).ok_or(Misfit)?;
        let highest = self.highest.max(end);
        let ended = match (self.ended, last) {
            (Some(_), Some(_)) => return Err(Misfit),
            (None, Some(turn)) => Some(End { turn, total: end }),
            (ended, None) => ended,
        };
        // What is behind the last segment, or is more than it leaves room for, belongs to no such message.
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

    /// The turn of its last segment, if that arrived.
    #[inline]
    pub(super) fn ended(&self) -> Option<Turn> {
        self.ended.map(|end| end.turn)
    }

    /// How many octets were placed.
    #[inline]
    pub(super) const fn octets(&self) -> u32 {
        self.octets
    }

    /// Its length, if each of its octets was placed exactly once.
    pub(super) fn whole(&self, key: Key) -> Option<u32> {
        let total = self.ended?.total;
        let due = key.hash(0).wrapping_sub(key.hash(total));
        (self.octets == total && self.balance == due).then_some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);

    fn message(segments: &[(u32, u32, Option<Turn>)]) -> Result<Option<u32>, Misfit> {
        let mut message = Message::default();
        for (offset, length, last) in segments {
            message.add(KEY, *offset, *length, *last)?;
        }
        Ok(message.whole(KEY))
    }

    /// Computed from the finalizer as MurmurHash3 has it, `fmix64`.
    #[test]
    fn places_are_mixed_with_both_halves_of_the_key() {
        assert_eq!(Key(0, 0).hash(1), 0x7d6e_4ac3_8b2b_1be2);
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
