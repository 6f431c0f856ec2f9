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

/// What the Responder grants next, of which it needs to know only how many Calls it serves: twice as
/// much as before, up to `limit`, when half of that is used. A grant that never sinks needs no
/// [`Grants`]: Receives for it are posted before it is granted, and again before each reply.
#[inline]
pub fn raised(granted: u32, serving: u32, limit: u32) -> Option<u32> {
    let enough = granted >= limit || serving < granted.div_ceil(2);
    (!enough).then(|| granted.saturating_mul(2).clamp(1, limit))
}

/// The Responder's account: every credit that the Requester may use has a posted Receive.
///
/// The Requester learns of a lower grant only when a reply with it arrives, and may by then have
/// used the old one. So what is owed sinks by one with each reply that arrived, down to the grant
/// in it, but not while a grant that is higher than the one before it is still on its way. Sends of one connection arrive in
/// order, and so do their completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grants {
    /// Calls that the Requester may have in flight, at the most.
    owed: u32,
    /// Receives that wait for a message.
    posted: u32,
    /// Calls that were received and not answered.
    serving: u32,
    /// The grant sent last.
    granted: u32,
    /// Replies on their way, up to and including the last one whose grant was a rise.
    raising: u32,
    /// Replies on their way.
    replies: u32,
}

impl Grants {
    /// The account of a new connection: its first Call needs a Receive before we accept.
    pub const fn new() -> Self {
        Self {
            owed: 1,
            posted: 0,
            serving: 0,
            granted: 1,
            raising: 0,
            replies: 0,
        }
    }

    /// `count` Receives were posted.
    pub fn posted(&mut self, count: u32) {
        self.posted = self.posted.saturating_add(count);
    }

    /// A Call was received. It used up a Receive.
    pub fn received(&mut self) -> Result<(), Misuse> {
        self.dropped()?;
        self.serving = self.serving.saturating_add(1);
        Ok(())
    }

    /// A message was received and dropped. It used up a Receive like any other.
    pub fn dropped(&mut self) -> Result<(), Misuse> {
        self.posted = self.posted.checked_sub(1).ok_or(Misuse::Account)?;
        Ok(())
    }

    /// Receives to post now, so that the next Call finds one.
    pub fn missing(&self) -> u32 {
        self.owed
            .saturating_sub(self.serving)
            .saturating_sub(self.posted)
    }

    /// Receives to post before a reply with this grant is sent.
    pub fn missing_for(&self, grant: u32) -> u32 {
        self.owed.max(grant).saturating_sub(self.backed())
    }

    /// The grant to put into the next reply: `policy`, or less if too few Receives are posted.
    /// Never zero.
    pub fn grant(&self, policy: u32) -> u32 {
        policy.min(self.backed()).max(1)
    }

    /// A reply with this grant is about to be sent. It may be sent only if this says so.
    pub fn reply(&mut self, grant: u32) -> Result<(), Misuse> {
        if grant == 0 {
            return Err(Misuse::ZeroCredits);
        }
        let backed = self.backed();
        if grant.max(self.owed) > backed {
            return Err(Misuse::UnbackedGrant { grant, backed });
        }
        self.serving = self.serving.checked_sub(1).ok_or(Misuse::Account)?;
        self.replies = self.replies.saturating_add(1);
        if grant > self.granted {
            self.raising = self.replies;
        }
        self.granted = grant;
        self.owed = self.owed.max(grant);
        Ok(())
    }

    /// A reply with this grant has arrived, says the completion of its Send.
    pub fn delivered(&mut self, grant: u32) -> Result<(), Misuse> {
        self.replies = self.replies.checked_sub(1).ok_or(Misuse::Account)?;
        self.raising = self.raising.saturating_sub(1);
        if self.raising == 0 {
            self.owed = self.owed.saturating_sub(1).max(grant);
        }
        Ok(())
    }

    /// Calls that may be in flight once the next reply is sent, as far as Receives go.
    fn backed(&self) -> u32 {
        self.posted.saturating_add(self.serving).saturating_sub(1)
    }
}

impl Default for Grants {
    fn default() -> Self {
        Self::new()
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

    /// An account whose Requester sent `calls` Calls, with `spare` Receives left.
    fn serving(calls: u32, spare: u32) -> Grants {
        let mut grants = Grants::new();
        grants.posted(calls + spare);
        for _ in 0..calls {
            grants.received().unwrap();
        }
        grants
    }

    #[test]
    fn first_call_needs_a_receive_before_we_accept() {
        assert_eq!(Grants::default().missing(), 1);
        assert_eq!(serving(0, 1).missing(), 0);
    }

    #[test]
    fn grant_is_backed_by_receives() {
        let mut grants = serving(1, 4);
        assert_eq!(grants.grant(16), 4);
        assert_eq!(grants.missing_for(16), 12);
        let refused = Misuse::UnbackedGrant {
            grant: 5,
            backed: 4,
        };
        assert_eq!(grants.reply(5), Err(refused));
        assert_eq!(grants.reply(0), Err(Misuse::ZeroCredits));
        assert_eq!(grants.reply(4), Ok(()));
        assert_eq!(grants.missing(), 0);
    }

    #[test]
    fn lower_grant_is_owed_until_the_calls_have_drained() {
        let mut grants = serving(1, 4);
        grants.reply(4).unwrap();
        grants.delivered(4).unwrap();
        for _ in 0..4 {
            grants.received().unwrap();
        }
        // A fifth may be sent when the first of these replies is, for that does not arrive at once.
        for (missing, owed) in [(1, 3), (0, 2), (0, 1), (0, 1)] {
            assert_eq!(grants.missing_for(1), missing);
            grants.posted(missing);
            grants.reply(1).unwrap();
            grants.delivered(1).unwrap();
            assert_eq!(grants.owed, owed);
        }
    }

    #[test]
    fn same_low_grant_again_is_no_rise() {
        let mut grants = serving(1, 8);
        grants.reply(8).unwrap();
        grants.delivered(8).unwrap();
        for _ in 0..3 {
            grants.received().unwrap();
        }
        // Three replies at once: each that arrives is a Call less, whatever went out behind it.
        grants.posted(2);
        for _ in 0..3 {
            grants.reply(2).unwrap();
            grants.posted(1);
        }
        for owed in [7, 6, 5] {
            grants.delivered(2).unwrap();
            assert_eq!(grants.owed, owed);
        }
    }

    #[test]
    fn second_rise_is_owed_from_the_start() {
        // 5, then 1, then 5 again. When the 1 arrives, the 5 behind it counts already.
        let mut grants = serving(3, 6);
        for grant in [5, 1, 5] {
            grants.reply(grant).unwrap();
        }
        for grant in [5, 1, 5] {
            grants.delivered(grant).unwrap();
            assert_eq!(grants.owed, 5);
        }
        assert_eq!(grants.delivered(5), Err(Misuse::Account));
    }
}
