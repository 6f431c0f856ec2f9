// SPDX-License-Identifier: GPL-2.0

//! Credits: how many Calls may be on the way (RFC 8166, section 3.3.1).
//!
//! Credit words are levels, not deltas. The Requester keeps a [`Window`], the Responder keeps
//! [`Grants`]. Each direction of a connection has its own pair (RFC 8167).

use crate::error::Misuse;

/// The Requester's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    requested: u32,
    granted: u32,
    in_flight: u32,
}

impl Window {
    /// The account of a new connection that asks for `requested` credits.
    #[inline]
    pub fn new(requested: u32) -> Self {
        Self {
            requested: requested.max(1),
            granted: 1,
            in_flight: 0,
        }
    }

    /// Starts over with a new connection: one credit until the peer says more (section 3.3.3).
    #[inline]
    pub fn reset(&mut self) {
        *self = Self::new(self.requested);
    }

    /// The credit word of the next Call.
    #[inline]
    pub fn requested(&self) -> u32 {
        self.requested
    }

    /// Asks for another number of credits from now on.
    #[inline]
    pub fn request(&mut self, credits: u32) {
        self.requested = credits.max(1);
    }

    /// Takes over the grant of a valid reply, and returns the window.
    ///
    /// Not for a message that was dropped, and not for one of the other direction.
    #[inline]
    pub fn on_reply(&mut self, grant: u32) -> u32 {
        // A grant of zero is illegal. Read it as one, or a bad peer stalls us for ever.
        self.granted = grant.max(1);
        self.window()
    }

    /// How many Calls may be in flight.
    #[inline]
    pub fn window(&self) -> u32 {
        self.granted.min(self.requested)
    }

    /// How many Calls are in flight.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// How many Calls may be sent now. None, rather than an error, if the grant fell below what is
    /// in flight.
    #[inline]
    pub fn available(&self) -> u32 {
        self.window().saturating_sub(self.in_flight)
    }

    /// Takes a credit for a Call. The answer is no if there is none.
    #[inline]
    #[must_use]
    pub fn take(&mut self) -> bool {
        if self.available() == 0 {
            return false;
        }
        self.in_flight = self.in_flight.saturating_add(1);
        true
    }

    /// Gives back the credit of a Call that was answered by a reply or an RDMA_ERROR.
    ///
    /// A Call cancelled on our side still occupies its credit until then: the peer's Receive is
    /// used up.
    #[inline]
    pub fn give_back(&mut self) -> Result<(), Misuse> {
        self.in_flight = self.in_flight.checked_sub(1).ok_or(Misuse::Account)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_grant_counts_as_one() {
        let mut window = Window::new(8);
        assert_eq!(window.on_reply(0), 1);
    }

    #[test]
    fn huge_grant_stops_at_the_request() {
        let mut window = Window::new(8);
        assert_eq!(window.on_reply(u32::MAX), 8);
    }

    #[test]
    fn reconnect_starts_with_one_credit() {
        let mut window = Window::new(8);
        window.on_reply(8);
        window.reset();
        assert!(window.take());
        assert!(!window.take());
        assert_eq!(window.give_back(), Ok(()));
        assert_eq!(window.give_back(), Err(Misuse::Account));
    }
}
