// SPDX-License-Identifier: GPL-2.0

//! A queue with a fixed number of slots, which its user supplies.
//!
//! Entries are numbered in the order in which they were added, from 0 on, with 64 bits, which never
//! wrap. An entry keeps its number while it is in the queue, so a message sequence number on the
//! wire (the first is 1) maps to the number of an entry and back.

use core::ops::DerefMut;

/// A queue over a slice of slots.
#[derive(Clone, Debug)]
pub struct Ring<B> {
    // INVARIANT: `first` is at most `next`, and they differ by the number of slots at most.
    slots: B,
    first: u64,
    next: u64,
}

impl<T: Copy, B: DerefMut<Target = [T]>> Ring<B> {
    /// Creates an empty queue over `slots`, whose contents are ignored.
    #[inline]
    pub const fn new(slots: B) -> Self {
        Self {
            slots,
            first: 0,
            next: 0,
        }
    }

    /// Continues the numbers of an empty queue at `number`, which a test cannot reach.
    #[cfg(test)]
    pub(crate) fn skip_to(&mut self, number: u64) {
        assert!(self.is_empty());
        (self.first, self.next) = (number, number);
    }

    /// Returns the number of the oldest entry, or of the next one if there is none.
    #[inline]
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the next entry to be added.
    #[inline]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether there is no entry.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.first == self.next
    }

    /// Returns the number of slots.
    #[inline]
    pub fn capacity(&self) -> u64 {
        u64::try_from(self.slots.len()).unwrap_or(u64::MAX)
    }

    fn slot(&mut self, number: u64) -> Option<&mut T> {
        let index = number.checked_rem(self.capacity())?;
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// Adds an entry and returns its number, or `None` if the queue is full.
    pub fn push(&mut self, entry: T) -> Option<u64> {
        let number = self.next;
        if number.wrapping_sub(self.first) >= self.capacity() {
            return None;
        }
        *self.slot(number)? = entry;
        self.next = number.saturating_add(1);
        Some(number)
    }

    /// Returns the entry with this number, if it is in the queue.
    pub fn get(&self, number: u64) -> Option<&T> {
        if !(self.first..self.next).contains(&number) {
            return None;
        }
        let index = number.checked_rem(self.capacity())?;
        self.slots.get(usize::try_from(index).ok()?)
    }

    /// Returns the entry with this number for a change.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        if !(self.first..self.next).contains(&number) {
            return None;
        }
        self.slot(number)
    }

    /// Returns the oldest entry.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        self.get(self.first)
    }

    /// Removes the oldest entry.
    pub fn pop(&mut self) -> Option<T> {
        let entry = *self.front()?;
        self.first = self.first.saturating_add(1);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_keep_their_numbers() {
        let mut ring = Ring::new(vec![0; 3]);
        for number in 0..10 {
            assert_eq!(ring.push(number * 11), Some(number));
            assert_eq!(ring.get(number), Some(&(number * 11)));
            if number >= 2 {
                assert_eq!(ring.push(99), None);
                assert_eq!(ring.pop(), Some((number - 2) * 11));
            }
        }
        assert_eq!((ring.first(), ring.next()), (8, 10));
        assert_eq!(ring.get(7), None);
        assert_eq!(ring.get_mut(10), None);
    }

    #[test]
    fn no_slots_hold_nothing() {
        let mut ring = Ring::new(Vec::<u8>::new());
        assert_eq!(ring.push(1), None);
        assert_eq!(ring.pop(), None);
        assert!(ring.is_empty());
    }
}
