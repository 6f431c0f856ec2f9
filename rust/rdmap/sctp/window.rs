// SPDX-License-Identifier: GPL-2.0

//! The DDP-SSNs of one direction of a session (RFC 5043, sections 5.2.1 and 10).
//!
//! A sender has at most 32,767 unacknowledged chunks, so a number of 16 bits identifies a chunk.
//! The receiver keeps a bit for each of them: a ring of 4 KiB that slides behind the first number
//! that is missing. SCTP never delivers a chunk twice, so a repeated number is the peer's fault.
//! Nothing is kept for numbers outside the window.

use core::ops::DerefMut;

use crate::order::{Invalid, Order, Seq};
use crate::serial::{ahead_u16, low_u16};

/// The greatest number of unacknowledged chunks in one direction.
pub const MAX_OUTSTANDING: u16 = 32_767;

/// The size of a [`RxWindow`]'s memory in words.
pub const WORDS: usize = 512;

const WORD_BITS: u32 = u64::BITS;

/// The memory of a [`RxWindow`]: 4 KiB, which the caller allocates.
pub type Bits = [u64; WORDS];

/// The window of received DDP-SSNs.
#[derive(Clone, Debug)]
pub struct RxWindow<B> {
    // INVARIANT: a bit is set exactly if its number was placed and is at or above `in_order_upto`.
    bits: B,
    in_order_upto: Seq,
    placing: Option<Seq>,
}

impl<B: DerefMut<Target = Bits>> RxWindow<B> {
    /// Creates the window of a new session, over memory that is cleared here.
    pub fn new(mut bits: B) -> Self {
        bits.fill(0);
        Self {
            bits,
            in_order_upto: 0,
            placing: None,
        }
    }

    /// Returns the word and the bit of a sequence number. The ring has 32,768 bits.
    fn place(seq: Seq) -> (usize, u64) {
        let number = u32::from(low_u16(seq)) & 0x7fff;
        let word = usize::try_from(number / WORD_BITS).unwrap_or_default();
        // A rotation wraps within the word, so only the position in it counts.
        (word, 1_u64.rotate_left(number))
    }

    fn is_set(&self, seq: Seq) -> bool {
        let (word, bit) = Self::place(seq);
        let word = self.bits.get(word).copied();
        word.unwrap_or_default() & bit != 0
    }

    fn flip(&mut self, seq: Seq) {
        let (word, bit) = Self::place(seq);
        if let Some(word) = self.bits.get_mut(word) {
            *word ^= bit;
        }
    }

    /// Returns the sequence number of a chunk that could arrive now.
    pub fn seq(&self, ssn: u16) -> Result<Seq, Invalid> {
        let ahead = ahead_u16(ssn, self.in_order_upto).ok_or(Invalid::Repeated)?;
        if ahead >= MAX_OUTSTANDING {
            return Err(Invalid::Window);
        }
        let seq = self.in_order_upto.saturating_add(u64::from(ahead));
        match self.is_set(seq) {
            true => Err(Invalid::Repeated),
            false => Ok(seq),
        }
    }

    /// Takes note of a control message, which has nothing to place. Returns its sequence number.
    pub fn pass(&mut self, ssn: u16) -> Result<Seq, Invalid> {
        let seq = self.arrive(ssn)?;
        self.placed();
        Ok(seq)
    }
}

impl<B: DerefMut<Target = Bits>> Order for RxWindow<B> {
    type Key = u16;

    const IN_ORDER: bool = false;

    fn arrive(&mut self, ssn: u16) -> Result<Seq, Invalid> {
        if self.placing.is_some() {
            return Err(Invalid::Busy);
        }
        let seq = self.seq(ssn)?;
        self.placing = Some(seq);
        Ok(seq)
    }

    fn placed(&mut self) {
        let Some(seq) = self.placing.take() else {
            return;
        };
        self.flip(seq);
        while self.is_set(self.in_order_upto) {
            self.flip(self.in_order_upto);
            self.in_order_upto = self.in_order_upto.saturating_add(1);
        }
    }

    #[inline]
    fn in_order_upto(&self) -> Seq {
        self.in_order_upto
    }
}

/// The DDP-SSNs of the chunks that this end sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxWindow {
    next: Seq,
    outstanding: u16,
}

impl TxWindow {
    /// Creates those of a new session.
    #[inline]
    pub const fn new() -> Self {
        Self {
            next: 0,
            outstanding: 0,
        }
    }

    /// Returns the number of the next chunk, or `None` while the window is full.
    ///
    /// A chunk that SCTP did not take (it was too long) does not use up its number.
    #[inline]
    pub fn peek(&self) -> Option<u16> {
        (self.outstanding < MAX_OUTSTANDING).then(|| low_u16(self.next))
    }

    /// Takes note that SCTP took the chunk with that number.
    #[inline]
    pub fn sent(&mut self) {
        self.next = self.next.saturating_add(1);
        self.outstanding = self.outstanding.saturating_add(1);
    }

    /// Takes note that everything that was sent is acknowledged.
    ///
    /// SCTP's notification that the sender is dry may be stale: more can have been sent between its
    /// queueing and its reading. The caller holds the lock of the socket and verifies that no chunk
    /// is unacknowledged before it calls this.
    #[inline]
    pub fn sender_dry(&mut self) {
        self.outstanding = 0;
    }

    /// Lowers the number of unacknowledged chunks to `outstanding`. It cannot exceed the number
    /// counted before.
    ///
    /// Under load there may never be a moment when everything is acknowledged. But unacknowledged
    /// chunks occupy the send buffer, so its fill level bounds their number.
    #[inline]
    pub fn limit_to(&mut self, outstanding: u16) {
        self.outstanding = self.outstanding.min(outstanding);
    }

    /// Returns whether nothing is unacknowledged.
    #[inline]
    pub fn is_dry(&self) -> bool {
        self.outstanding == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> RxWindow<Box<Bits>> {
        RxWindow::new(Box::new([!0; WORDS]))
    }

    // Shows S6-1.
    #[test]
    fn gap_is_waited_for() {
        let mut window = window();
        assert_eq!(window.pass(1), Ok(1));
        assert_eq!(window.pass(3), Ok(3));
        assert_eq!(window.in_order_upto(), 0);
        assert_eq!(window.pass(0), Ok(0));
        assert_eq!(window.in_order_upto(), 2);
        assert_eq!(window.pass(2), Ok(2));
        assert_eq!(window.in_order_upto(), 4);
    }

    // Shows S6-1.
    #[test]
    fn number_is_good_once() {
        let mut window = window();
        assert_eq!(window.pass(1), Ok(1));
        assert_eq!(window.pass(1), Err(Invalid::Repeated));
        assert_eq!(window.pass(0), Ok(0));
        assert_eq!(window.pass(0), Err(Invalid::Repeated));
        assert_eq!(window.pass(1), Err(Invalid::Repeated));
    }

    // Shows S10-4.
    #[test]
    fn farthest_number_is_inside() {
        let mut window = window();
        assert_eq!(window.pass(32_766), Ok(32_766));
        assert_eq!(window.pass(32_767), Err(Invalid::Window));
        assert_eq!(window.pass(32_768), Err(Invalid::Repeated));
        assert_eq!(window.pass(0xffff), Err(Invalid::Repeated));
    }

    #[test]
    fn ssns_wrap_and_sequence_numbers_do_not() {
        let mut window = window();
        for seq in 0..200_000 {
            assert_eq!(window.pass(low_u16(seq)), Ok(seq));
        }
        assert_eq!(window.in_order_upto(), 200_000);
        // Backwards, from the farthest on.
        for seq in (200_000..200_000 + 32_767).rev() {
            assert_eq!(window.pass(low_u16(seq)), Ok(seq));
        }
        assert_eq!(window.in_order_upto(), 232_767);
        assert!(window.bits.iter().all(|word| *word == 0));
    }

    #[test]
    fn segment_is_not_in_order_before_it_is_placed() {
        let mut window = window();
        assert_eq!(window.arrive(0), Ok(0));
        assert_eq!(window.arrive(1), Err(Invalid::Busy));
        assert_eq!(window.in_order_upto(), 0);
        window.placed();
        window.placed();
        assert_eq!(window.in_order_upto(), 1);
    }

    /// The memory still has the bits of the previous session.
    // Shows S6.1-1.
    #[test]
    fn numbers_of_a_session_begin_with_0() {
        let mut bits = Box::new([0; WORDS]);
        let mut window = RxWindow::new(&mut *bits);
        for ssn in [0, 1, 5, 9] {
            window.pass(ssn).unwrap();
        }
        let mut window = RxWindow::new(bits);
        assert_eq!(window.in_order_upto(), 0);
        for ssn in 0..10 {
            assert_eq!(window.pass(ssn), Ok(u64::from(ssn)));
        }
        let mut tx_window = TxWindow::new();
        tx_window.sent();
        assert_eq!(tx_window.peek(), Some(1));
        assert_eq!(TxWindow::new().peek(), Some(0));
    }

    #[test]
    fn sequence_number_is_that_of_the_chunk_that_arrives() {
        let mut window = window();
        for ssn in [5, 0, 0xffff, 32_766, 32_767] {
            let seq = window.seq(ssn);
            assert_eq!(window.seq(ssn), seq);
            assert_eq!(window.pass(ssn), seq);
        }
        assert_eq!(window.seq(5), Err(Invalid::Repeated));
    }

    #[test]
    fn send_buffer_bounds_what_is_on_its_way() {
        let mut tx_window = TxWindow::new();
        for _ in 0..MAX_OUTSTANDING {
            tx_window.sent();
        }
        tx_window.limit_to(u16::MAX);
        assert_eq!(tx_window.peek(), None);
        tx_window.limit_to(2);
        assert_eq!(tx_window.peek(), Some(MAX_OUTSTANDING));
        assert!(!tx_window.is_dry());
        tx_window.limit_to(0);
        assert!(tx_window.is_dry());
        tx_window.limit_to(9);
        assert!(tx_window.is_dry());
    }

    // Shows S5.2.1-1, S10-3.
    #[test]
    fn sender_stops_before_the_numbers_are_ambiguous() {
        let mut tx_window = TxWindow::new();
        for ssn in 0..MAX_OUTSTANDING {
            assert_eq!(tx_window.peek(), Some(ssn));
            tx_window.sent();
        }
        assert_eq!(tx_window.peek(), None);
        tx_window.sender_dry();
        assert!(tx_window.is_dry());
        assert_eq!(tx_window.peek(), Some(MAX_OUTSTANDING));
    }
}
