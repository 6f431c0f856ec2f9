// SPDX-License-Identifier: GPL-2.0

//! Rings in shared memory: sizes, and where the next entry is.
//!
//! A ring has a power of two of slots. The library and the device count entries each for itself,
//! and find the slot by the count: neither count is in the ring. What passes between them is the
//! flags of each slot. A process hands a request over by setting [`VALID`], and gets the slot back
//! when the device has stored 0; of a Completion Queue it is the other way round.

use crate::cqe::{Arm, Cqe};
use crate::rqe::Rqe;
use crate::sqe::Sqe;

/// A bit of the flags of a request: the process has written the entry.
const VALID: u16 = 1;

/// Returns whether a request with these flags was handed over.
#[inline]
pub const fn is_valid(flags: u16) -> bool {
    flags & VALID != 0
}

/// A number of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
// INVARIANT: A power of two, `MAX` at most.
pub struct Slots(u32);

impl Slots {
    /// The greatest number of slots of any ring.
    pub const MAX: u32 = 1 << 20;

    /// Returns the number of slots of a ring for this many entries: at least one, as the library
    /// divides by the number of slots even if it uses none. `None` if that is more than `most`.
    pub const fn for_entries(entries: u32, most: u32) -> Option<Self> {
        match entries.checked_next_power_of_two() {
            Some(slots) if slots <= most && slots <= Self::MAX => Some(Self(slots)),
            _ => None,
        }
    }

    /// Returns the number.
    #[inline]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// Returns the slot of the entry with this number.
    #[inline]
    const fn slot(self, entry: u32) -> u32 {
        entry & self.0.saturating_sub(1)
    }
}

/// The queue that a ring is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// A Send Queue.
    Send,
    /// A Receive Queue, shared or not.
    Receive,
    /// A Completion Queue.
    Completion,
}

impl Queue {
    /// Returns the length of a slot in octets.
    #[inline]
    pub const fn slot_len(self) -> usize {
        match self {
            Self::Send => Sqe::WORDS.saturating_mul(8),
            Self::Receive => Rqe::WORDS.saturating_mul(8),
            Self::Completion => Cqe::LEN,
        }
    }

    /// Returns the length of the ring in octets, which is what a process maps.
    #[inline]
    pub fn mmap_len(self, slots: Slots) -> usize {
        let length = size(slots.count()).saturating_mul(self.slot_len());
        match self {
            Self::Send | Self::Receive => length,
            Self::Completion => length.saturating_add(Arm::LEN),
        }
    }
}

/// The device's place in a ring.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    queue: Queue,
    slots: Slots,
    // The number of the next entry. It wraps.
    next: u32,
}

impl Ring {
    /// The offset of the flags in a slot.
    const FLAGS: usize = 8;

    /// Creates the place at the first slot.
    #[inline]
    pub const fn new(queue: Queue, slots: Slots) -> Self {
        Self {
            queue,
            slots,
            next: 0,
        }
    }

    /// Returns the number of slots.
    #[inline]
    pub const fn slots(&self) -> Slots {
        self.slots
    }

    /// Returns the length of the ring in octets.
    #[inline]
    pub fn mmap_len(&self) -> usize {
        self.queue.mmap_len(self.slots)
    }

    /// Returns the offset of the next slot.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset_ahead(0)
    }

    /// Returns the offset of the flags of the next slot.
    #[inline]
    pub fn flags_offset(&self) -> usize {
        self.flags_offset_ahead(0)
    }

    /// Returns the offset of the flags of the slot behind this many others.
    #[inline]
    pub fn flags_offset_ahead(&self, others: u32) -> usize {
        self.offset_ahead(others).saturating_add(Self::FLAGS)
    }

    #[inline]
    fn offset_ahead(&self, others: u32) -> usize {
        let slot = self.slots.slot(self.next.wrapping_add(others));
        size(slot).saturating_mul(self.queue.slot_len())
    }

    /// Returns the offset of the control word of a Completion Queue.
    #[inline]
    pub fn control_offset(&self) -> usize {
        size(self.slots.count()).saturating_mul(self.queue.slot_len())
    }

    /// Goes to the next slot.
    #[inline]
    pub fn advance(&mut self) {
        self.next = self.next.wrapping_add(1);
    }
}

#[inline]
fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUEUES: [Queue; 3] = [Queue::Send, Queue::Receive, Queue::Completion];

    fn slots(entries: u32) -> Option<u32> {
        Slots::for_entries(entries, 1 << 15).map(Slots::count)
    }

    #[test]
    fn slots_are_a_power_of_two_and_at_least_one() {
        let numbers = [0, 1, 2, 3, 4, 5, (1 << 15) - 1, 1 << 15].map(slots);
        let expected = [1, 1, 2, 4, 4, 8, 1 << 15, 1 << 15].map(Some);
        assert_eq!(numbers, expected);
        for entries in [(1 << 15) + 1, 1 << 31, (1 << 31) + 1, u32::MAX] {
            assert_eq!(slots(entries), None);
            assert_eq!(
                Slots::for_entries(entries, 1 << 20).is_some(),
                entries < 1 << 20
            );
        }
        assert_eq!(Slots::for_entries(Slots::MAX + 1, u32::MAX), None);
        assert!(Slots::for_entries(Slots::MAX, u32::MAX).is_some());
        // The number after rounding counts.
        assert_eq!(Slots::for_entries(5, 7), None);
    }

    #[test]
    fn rings_have_the_lengths_that_the_library_maps() {
        let eight = Slots::for_entries(8, 8).unwrap();
        let lengths = QUEUES.map(|queue| queue.mmap_len(eight));
        assert_eq!(lengths, [8 * 120, 8 * 112, 8 * 32 + 8]);
        let ring = Ring::new(Queue::Completion, eight);
        assert_eq!((ring.mmap_len(), ring.control_offset()), (264, 256));
        assert_eq!(ring.slots(), eight);
    }

    #[test]
    fn every_slot_and_its_flags_lie_inside() {
        for queue in QUEUES {
            for entries in [1, 2, 64] {
                let slots = Slots::for_entries(entries, 64).unwrap();
                let mut ring = Ring::new(queue, slots);
                // Past the greatest number of an entry, too.
                ring.next = 0_u32.wrapping_sub(entries);
                for entry in 0..2 * entries {
                    let slot = usize::try_from(entry % entries).unwrap();
                    assert_eq!(ring.offset(), slot * queue.slot_len());
                    assert_eq!(ring.flags_offset(), ring.offset() + 8);
                    assert!(ring.offset() + queue.slot_len() <= ring.mmap_len());
                    ring.advance();
                }
            }
        }
    }

    #[test]
    fn slots_ahead_go_round() {
        let mut ring = Ring::new(Queue::Receive, Slots::for_entries(4, 4).unwrap());
        ring.advance();
        let ahead = [0, 1, 2, 3, 4, u32::MAX].map(|others| ring.flags_offset_ahead(others));
        assert_eq!(ahead, [112, 224, 336, 0, 112, 0].map(|slot| slot + 8));
    }

    #[test]
    fn only_one_bit_hands_over() {
        assert!(is_valid(1) && is_valid(u16::MAX));
        assert!(!is_valid(0) && !is_valid(!1));
    }
}
