// SPDX-License-Identifier: GPL-2.0

//! In which order segments were sent, whatever order they arrive in.
//!
//! DDP places a segment when it arrives and delivers a message when its turn comes (RFC 5041, section 5.3). The *turn* of
//! a segment is its place in the order in which the peer sent: a count from 0 on, of 64 bits, which never wraps. Over TCP
//! segments arrive in their turn: [`Arrival`]. Over SCTP the DDP-SSN says it:
//! [`Window`](crate::sctp::window::Window).
//!
//! One segment is placed at a time. It [arrives](Order::arrive), its octets are moved, and it is [placed](Order::placed).
//! [Reached](Order::reached) is how many segments from the first on are placed, without a gap.

/// The place of a segment in the order of the sender.
pub type Turn = u64;

/// Why a segment's number is not acceptable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// It is farther ahead than a sender may be.
    Window,
    /// It was there before, or is older than all that are missing.
    Repeated,
    /// The one before is not placed yet: a fault of the caller's.
    Busy,
}

/// An order of segments.
pub trait Order {
    /// What a segment brings to tell its turn.
    type Key: Copy;

    /// The lower layer delivers segments in their turn.
    const IN_ORDER: bool;

    /// A segment arrives. Returns its turn.
    fn arrive(&mut self, key: Self::Key) -> Result<Turn, Invalid>;

    /// The segment that arrived is placed.
    fn placed(&mut self);

    /// All turns below this one are placed.
    fn reached(&self) -> Turn;
}

/// The order of a lower layer that delivers in order, like TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    next: Turn,
    placing: bool,
}

impl Arrival {
    /// Nothing arrived yet.
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
