// SPDX-License-Identifier: GPL-2.0

//! Credits: how many Calls may be on the way (RFC 8166, section 3.3.1).
//!
//! Credit words are levels, not deltas. The Requester keeps a [`Window`]; how many Calls are in
//! flight is counted by the sender. The Responder's grant is [raised]. Each direction of a
//! connection has credits of its own (RFC 8167).

/// The Requester's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    requested: u32,
    granted: u32,
}

impl Window {
    /// The account of a new connection that asks for `requested` credits: one credit until the
    /// peer says more (section 3.3.3).
    #[inline]
    pub fn new(requested: u32) -> Self {
        Self {
            requested: requested.max(1),
            granted: 1,
        }
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

    /// How many Calls may be in flight. Fewer than are, if the grant fell: then none is sent until
    /// enough were answered.
    ///
    /// A Call cancelled on our side still counts until it is answered: the peer's Receive is used
    /// up.
    #[inline]
    pub fn window(&self) -> u32 {
        self.granted.min(self.requested)
    }
}

/// What the Responder grants next, of which it needs to know only how many Calls it serves: twice as
/// much as before, up to `limit`, when half of that is used.
///
/// Receives for a grant are posted before it is sent, and again before each reply. As it never sinks
/// there is nothing to remember of Calls that were sent under a higher one.
#[inline]
pub fn raised(granted: u32, serving: u32, limit: u32) -> Option<u32> {
    let enough = granted >= limit || serving < granted.div_ceil(2);
    (!enough).then(|| granted.saturating_mul(2).clamp(1, limit))
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
    fn connection_starts_with_one_credit() {
        assert_eq!(Window::new(8).window(), 1);
    }

    #[test]
    fn grant_doubles_when_half_is_used() {
        assert_eq!(raised(8, 3, 128), None);
        assert_eq!(raised(8, 4, 128), Some(16));
        assert_eq!(raised(96, 96, 128), Some(128));
        assert_eq!(raised(128, 128, 128), None);
        assert_eq!(raised(1, 1, 4), Some(2));
        assert_eq!(raised(u32::MAX - 1, u32::MAX, u32::MAX), Some(u32::MAX));
    }

    #[test]
    fn grant_is_never_above_the_limit_nor_zero() {
        assert_eq!(raised(0, 0, 16), Some(1));
        assert_eq!(raised(16, 16, 4), None);
    }
}
