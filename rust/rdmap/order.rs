// SPDX-License-Identifier: GPL-2.0

//! The order in which segments were sent, whatever order they arrive in.
//!
//! DDP places a segment when it arrives and delivers a message in the order of the sender (RFC
//! 5041, section 5.3). The *sequence number* of a segment is its position in that order: a count
//! from 0 on, of 64 bits, which never wraps. Over TCP segments arrive in order: [`InOrder`]. Over
//! SCTP the DDP-SSN says it: [`RxWindow`](crate::sctp::window::RxWindow).
//!
//! One segment is placed at a time. It [arrives](Order::arrive), its octets are copied, and it is
//! [placed](Order::placed). [The in-order point](Order::in_order_upto) is the end of the placed
//! segments that have no gap before them.

/// The position of a segment in the order of the sender.
pub type Seq = u64;

/// The reason why the number of a segment is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// It is farther ahead than a sender may be.
    Window,
    /// It was there before, or is older than all that are missing.
    Repeated,
    /// The previous segment is not placed yet: a fault of the caller.
    Busy,
}

/// The order of a stream's segments.
pub trait Order {
    /// The sequence information that a segment carries.
    type Key: Copy;

    /// The LLP delivers segments in order.
    const IN_ORDER: bool;

    /// Takes a segment that arrives. Returns its sequence number.
    fn arrive(&mut self, key: Self::Key) -> Result<Seq, Invalid>;

    /// Takes note that the segment is placed.
    fn placed(&mut self);

    /// Returns the sequence number below which all segments are placed.
    fn in_order_upto(&self) -> Seq;
}

/// The order of an LLP that delivers in order, like TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InOrder {
    next: Seq,
    placing: bool,
}

impl InOrder {
    /// Creates the order of a new stream.
    #[inline]
    pub const fn new() -> Self {
        Self {
            next: 0,
            placing: false,
        }
    }
}

impl Order for InOrder {
    type Key = ();

    const IN_ORDER: bool = true;

    #[inline]
    fn arrive(&mut self, (): ()) -> Result<Seq, Invalid> {
        if self.placing {
            return Err(Invalid::Busy);
        }
        self.placing = true;
        Ok(self.next)
    }

    #[inline]
    fn placed(&mut self) {
        if core::mem::take(&mut self.placing) {
            self.next = self.next.saturating_add(1);
        }
    }

    #[inline]
    fn in_order_upto(&self) -> Seq {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_is_in_order_when_it_is_placed() {
        let mut order = InOrder::new();
        order.placed();
        assert_eq!(order.in_order_upto(), 0);
        assert_eq!(order.arrive(()), Ok(0));
        assert_eq!(order.arrive(()), Err(Invalid::Busy));
        assert_eq!(order.in_order_upto(), 0);
        order.placed();
        assert_eq!(order.in_order_upto(), 1);
        assert_eq!(order.arrive(()), Ok(1));
    }
}
