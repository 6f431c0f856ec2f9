// SPDX-License-Identifier: GPL-2.0

//! The account behind a Responder's grant: the Receives for it, and the credits that it borrows.
//!
//! RFC 8166, section 3.3.1: Receives for all granted credits are posted. Each connection owns a
//! [small share](OWN_SHARE) of credits. More are borrowed from a pool, which bounds the memory for
//! Receives, and are returned when Receives are freed, or when the connection ends.
//!
//! The caller keeps the grant itself, which each reply reads, and the number of credits that all
//! connections have borrowed. A raise has three steps, as memory is allocated in between:
//!
//! ```text
//! to_borrow  ->  (take from the pool)  ->  Raise::new  ->  (post Receives)  ->  raised
//!                                                             if that fails     into_borrowed
//! ```
//!
//! [`Grant::observe`] says when the grant falls ([`crate::grant_decay`]); the Receives for the
//! higher one go later.

use crate::credit::MIN_GRANT;
use crate::grant_decay::{Action, GrantDecay, Sample, ACKNOWLEDGED_MS, UNACKNOWLEDGED_MS};

/// The share of credits that every connection owns, whatever others borrow.
pub const OWN_SHARE: u32 = MIN_GRANT;

const NANOSECONDS_PER_MS: u64 = 1_000_000;

/// Returns the part of `credits` that exceeds the share of a connection.
fn borrowed_part(credits: u32) -> u32 {
    credits.saturating_sub(OWN_SHARE)
}

/// Returns how many of the credits `wanted` may be borrowed, if all connections have borrowed
/// `before` of at most `limit`.
#[inline]
pub fn available(wanted: u32, before: u32, limit: u32) -> u32 {
    limit.saturating_sub(before).min(wanted)
}

/// The account of one connection. It owes the pool what it has borrowed, so there is one of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Grant {
    /// The first grant, whose Receives are never freed.
    first: u32,
    /// The highest grant that there are Receives for.
    backed: u32,
    /// The number of these credits that are borrowed.
    borrowed: u32,
    /// Whether the connection has ended, and borrows no more.
    ended: bool,
    decay: GrantDecay,
    /// The number of messages received at the time of the last [`Self::observe`].
    arrived: u32,
}

/// A higher grant, with the credits that were borrowed for it: they go to the account
/// ([`Grant::raised`]), or back to the pool ([`Self::into_borrowed`]).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "what was borrowed is owed to the pool"]
pub struct Raise {
    credits: u32,
    borrowed: u32,
}

impl Raise {
    /// Returns the raise to `credits`, or as far as the pool allows, which had `borrowed` instead
    /// of the `wanted` credits of [`Grant::to_borrow`].
    pub fn new(credits: u32, wanted: u32, borrowed: u32) -> Self {
        Self {
            credits: credits.saturating_sub(wanted.saturating_sub(borrowed)),
            borrowed,
        }
    }

    /// Returns the grant.
    #[inline]
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// Gives the raise up. Returns the number of credits that go back to the pool.
    #[inline]
    pub fn into_borrowed(self) -> u32 {
        self.borrowed
    }
}

/// The activity of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    /// The time, in milliseconds.
    pub now_ms: u64,
    /// The time, in milliseconds, since the last observation.
    pub interval_ms: u64,
    /// The grant of replies that begin from now on.
    pub granted: u32,
    /// The peak number of calls in progress since the last observation.
    pub most_in_progress: u32,
    /// The number of messages received. It may wrap.
    pub arrived: u32,
    /// The number of replies that have begun. It may wrap.
    pub replies: u32,
    /// Whether replies wait for Send buffers or SQ credits.
    pub replies_wait: bool,
    /// The age, in milliseconds, of the oldest Send that has not completed.
    pub oldest_posted_ms: u64,
    /// The round-trip time in nanoseconds. [`None`] if it is unknown, because Sends complete before
    /// they are acknowledged.
    pub round_trip: Option<u64>,
}

impl Grant {
    /// Creates the account of a connection, at the time `now_ms`, that has Receives for its `first`
    /// grant.
    pub const fn new(first: u32, now_ms: u64) -> Self {
        Self {
            first,
            backed: first,
            borrowed: 0,
            ended: false,
            decay: GrantDecay::new(now_ms, MIN_GRANT),
            arrived: 0,
        }
    }

    /// Returns how many credits must be borrowed to grant `credits`.
    pub fn to_borrow(&self, credits: u32) -> u32 {
        borrowed_part(credits).saturating_sub(self.borrowed)
    }

    /// Records that the Receives for a raise are posted. If the connection has ended meanwhile, the
    /// raise comes back: the connection borrows nothing, and the grant stays.
    pub fn raised(&mut self, raise: Raise) -> Result<(), Raise> {
        if self.ended {
            return Err(raise);
        }
        self.backed = self.backed.max(raise.credits);
        self.borrowed = self.borrowed.saturating_add(raise.borrowed);
        Ok(())
    }

    /// Records that `count` Receives were freed that the present grant, `granted`, does not need.
    /// Returns the number of credits that go back to the pool.
    #[must_use = "what was borrowed is owed to the pool"]
    pub fn receives_freed(&mut self, count: u32, granted: u32) -> u32 {
        let least = granted.max(self.first);
        let excess = self.backed.saturating_sub(least).min(count);
        self.backed = self.backed.saturating_sub(excess);
        let before = self.borrowed;
        self.borrowed = before.min(borrowed_part(self.backed));
        before.saturating_sub(self.borrowed)
    }

    /// Ends the connection. Returns the number of credits that go back to the pool.
    #[must_use = "what was borrowed is owed to the pool"]
    pub fn end(&mut self) -> u32 {
        self.ended = true;
        core::mem::take(&mut self.borrowed)
    }

    /// Observes the use of the grant, and returns the action that follows. When it is lowered, call
    /// [`Self::lowered`].
    pub fn observe(&mut self, activity: &Activity) -> Action {
        let calls = activity.arrived.wrapping_sub(self.arrived);
        self.arrived = activity.arrived;
        // Over a long path most calls are in flight. If the round trip is unknown, all of them may
        // be.
        let interval = activity.interval_ms.saturating_mul(NANOSECONDS_PER_MS);
        let interval = interval.max(1);
        // Rounded up.
        let on_the_way = u64::from(calls)
            .saturating_mul(activity.round_trip.unwrap_or(interval))
            .saturating_add(interval.saturating_sub(1))
            .checked_div(interval);
        let on_the_way = on_the_way.and_then(|calls| u32::try_from(calls).ok());
        self.decay.observe(&Sample {
            now: activity.now_ms,
            granted: activity.granted,
            used: activity
                .most_in_progress
                .max(on_the_way.unwrap_or(u32::MAX)),
            replies_wait: activity.replies_wait,
            replies: activity.replies,
            oldest_posted: activity.oldest_posted_ms,
            ack_grace_ms: match activity.round_trip {
                Some(_) => ACKNOWLEDGED_MS,
                None => UNACKNOWLEDGED_MS,
            },
        })
    }

    /// Records that the grant was lowered. `replies` is the number of replies that had begun
    /// just after that.
    pub fn lowered(&mut self, replies: u32) {
        self.decay.lowered(replies);
    }

    /// Returns the highest grant that there are Receives for, and how many of its credits are
    /// borrowed.
    pub fn backed(&self) -> (u32, u32) {
        (self.backed, self.borrowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant_decay::UNUSED_MS;

    const FIRST: u32 = 2;

    /// Returns the account of a connection that has borrowed what `credits` takes.
    fn raised(credits: u32) -> Grant {
        let mut grant = Grant::new(FIRST, 0);
        let borrowed = grant.to_borrow(credits);
        assert_eq!(
            grant.raised(Raise::new(credits, borrowed, borrowed)),
            Ok(())
        );
        grant
    }

    #[test]
    fn own_share_is_not_borrowed() {
        let grant = Grant::new(FIRST, 0);
        assert_eq!(grant.to_borrow(OWN_SHARE), 0);
        assert_eq!(grant.to_borrow(OWN_SHARE + 1), 1);
        assert_eq!(raised(64).to_borrow(128), 64);
    }

    #[test]
    fn empty_pool_leaves_the_share() {
        assert_eq!(available(56, 100, 100), 0);
        assert_eq!(available(56, 90, 100), 10);
        assert_eq!(available(56, 120, 100), 0);
        let raise = Raise::new(64, 56, 0);
        assert_eq!(raise.credits(), OWN_SHARE);
        assert_eq!(Raise::new(64, 56, 10).credits(), OWN_SHARE + 10);
    }

    #[test]
    fn freed_receives_give_back_what_was_borrowed() {
        let mut grant = raised(64);
        assert_eq!(grant.receives_freed(10, 8), 10);
        assert_eq!(grant.backed(), (54, 46));
        // No more go than the grant leaves.
        assert_eq!(grant.receives_freed(100, 20), 34);
        assert_eq!(grant.backed(), (20, 12));
        assert_eq!(grant.receives_freed(1, 20), 0);
        // Those of the first grant stay.
        assert_eq!(grant.receives_freed(u32::MAX, 0), 12);
        assert_eq!(grant.backed(), (FIRST, 0));
    }

    #[test]
    fn ended_connection_borrows_nothing() {
        let mut grant = raised(64);
        assert_eq!(grant.end(), 56);
        let refused = grant.raised(Raise::new(128, 64, 60));
        assert_eq!(refused.map_err(Raise::into_borrowed), Err(60));
        assert_eq!(grant.end(), 0);
    }

    /// Returns the activity of an idle connection that has 128 credits.
    fn idle(now_ms: u64) -> Activity {
        Activity {
            now_ms,
            interval_ms: 1_000,
            granted: 128,
            most_in_progress: 1,
            arrived: 0,
            replies: 0,
            replies_wait: false,
            oldest_posted_ms: 0,
            round_trip: Some(0),
        }
    }

    #[test]
    fn calls_in_flight_count_as_used() {
        let busy = |round_trip, arrived| Activity {
            round_trip,
            arrived,
            ..idle(UNUSED_MS)
        };
        // A hundred calls in a second, and round trips of half of that.
        let half = Some(500 * NANOSECONDS_PER_MS);
        assert_eq!(raised(128).observe(&busy(half, 100)), Action::None);
        assert_eq!(raised(128).observe(&busy(half, 2)), Action::Lower(8));
        assert_eq!(raised(128).observe(&busy(Some(0), 100)), Action::Lower(8));
        // If the round trip is unknown, all are.
        assert_eq!(raised(128).observe(&busy(None, 32)), Action::None);
        assert_eq!(raised(128).observe(&busy(None, 31)), Action::Lower(62));
    }

    #[test]
    fn count_of_messages_may_wrap() {
        let mut grant = raised(128);
        grant.observe(&Activity {
            arrived: u32::MAX,
            ..idle(1_000)
        });
        let wrapped = Activity {
            arrived: 3,
            round_trip: None,
            ..idle(1_000 + UNUSED_MS)
        };
        assert_eq!(grant.observe(&wrapped), Action::Lower(8));
    }
}
