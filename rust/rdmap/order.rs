// SPDX-License-Identifier: GPL-2.0

//! The order in which segments were sent, whatever order they arrive in.
//!
//! DDP places a segment when it arrives and delivers a message in the order of the sender (RFC
//! 5041, section 5.3). The *sequence number* of a segment is its position in that order: a count
//! from 0 on, of 64 bits, which never wraps. Over TCP segments arrive in order: [`Arrival`]. Over
//! SCTP the DDP-SSN says it: [`Window`](crate::sctp::window::Window).
//!
//! One segment is placed at a time. It [arrives](Order::arrive), its octets are copied, and it is
//! [placed](Order::placed). [Reached](Order::reached) is the end of the placed segments that have
//! no gap before them.

/// The position of a segment in the order of the sender.
pub type Turn = u64;

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

    /// The lower layer delivers segments in order.
    const IN_ORDER: bool;

    /// Takes a segment that arrives. Returns its sequence number.
    fn arrive(&mut self, key: Self::Key) -> Result<Turn, Invalid>;

    /// Takes note that the segment is placed.
    fn placed(&mut self);

    /// Returns the sequence number below which all segments are placed.
    fn reached(&self) -> Turn;
}

/// The order of a lower layer that delivers in order, like TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    next: Turn,
    placing: bool,
}

impl Arrival {
    /// Creates the order of a new stream.
    #[inline]
    pub const fn new() -> Self {
        Self {
            next: 0,
            placing: false,
        }
    }
}

impl Order for Arrival {
    type Key = ();

    const IN_ORDER: bool = true;

    #[inline]
    fn arrive(&mut self, (): ()) -> Result<Turn, Invalid> {
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
    fn reached(&self) -> Turn {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turn_is_reached_when_it_is_placed() {
        let mut order = Arrival::new();
        order.placed();
        assert_eq!(order.reached(), 0);
        assert_eq!(order.arrive(()), Ok(0));
        assert_eq!(order.arrive(()), Err(Invalid::Busy));
        assert_eq!(order.reached(), 0);
        order.placed();
        assert_eq!(order.reached(), 1);
        assert_eq!(order.arrive(()), Ok(1));
    }
}
