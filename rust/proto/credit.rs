// SPDX-License-Identifier: GPL-2.0

//! Credits: how many Calls may be on the way (RFC 8166, section 3.3.1).
//!
//! Credit words are levels, not deltas. The Requester keeps a [`Window`]; how many Calls are in
//! flight is counted by the sender. The Responder's grant is [raised](raised_grant). Each direction
//! of a connection has credits of its own (RFC 8167).

/// The Requester's account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    requested: u32,
    granted: u32,
}

impl Window {
    /// Creates the account of a new connection that requests `requested` credits: one credit until
    /// the peer grants more (section 3.3.3).
    #[inline]
    pub fn new(requested: u32) -> Self {
        Self {
            requested: requested.max(1),
            granted: 1,
        }
    }

    /// Returns the credit word of the next Call.
    #[inline]
    pub fn requested(&self) -> u32 {
        self.requested
    }

    /// Requests another number of credits from now on.
    #[inline]
    pub fn request(&mut self, credits: u32) {
        self.requested = credits.max(1);
    }

    /// Applies the grant of a valid reply, and returns the window.
    ///
    /// Not for a message that was dropped, and not for one of the other direction.
    #[inline]
    pub fn on_reply(&mut self, grant: u32) -> u32 {
        // A grant of zero is illegal. Read it as one, or a bad peer stalls us for ever.
        self.granted = grant.max(1);
        self.window()
    }

    /// Returns how many Calls may be in flight. That is fewer than are in flight, if the grant
    /// fell: then none is sent until enough were answered.
    ///
    /// A Call cancelled on our side still counts until it is answered: the peer's Receive is used
    /// up.
    #[inline]
    pub fn window(&self) -> u32 {
        self.granted.min(self.requested)
    }
}

/// Returns the next grant of the Responder: twice as much as before, up to `limit` and to what the
/// Requester requests, when half of that is used, and more than one. `used` is the number of Calls
/// that it serves at the same time, or that [arrived within a round trip](Arrivals): over a long
/// path with quick replies most Calls of a Requester are in flight.
///
/// Receives for a grant are posted before it is sent, and again before each reply.
/// [`crate::grant_decay`] says when it may fall, and when the Receives for the higher grant may go.
#[inline]
pub fn raised_grant(granted: u32, used: u32, requested: u32, limit: u32) -> Option<u32> {
    let limit = limit.min(requested.max(granted));
    let enough = granted >= limit || used < half(granted);
    (!enough).then(|| granted.saturating_mul(2).clamp(1, limit))
}

/// Returns half of the grant. A Requester that waits for each reply has no use for more than one
/// credit.
fn half(granted: u32) -> u32 {
    granted.div_ceil(2).max(2).min(granted)
}

/// Returns the fewest Calls for which [`next_grant`] raises a grant, if they are served at the same
/// time or [arrive within a round trip](Arrivals): half of it, or, if the Requester asks for no
/// more, more than it may have on the way.
#[inline]
pub fn min_calls_to_raise(granted: u32, requested: u32) -> u32 {
    if granted < requested {
        half(granted)
    } else {
        granted.saturating_add(1)
    }
}

/// The credits that a Requester is granted as soon as it has sent a Call, whatever it asks for and
/// uses. Calls that hang keep their credits, and with them all that is left when there are few.
pub const MIN_GRANT: u32 = 8;

/// Returns the next grant of the Responder: at least [`MIN_GRANT`], then as [`raised_grant`] says.
///
/// A Requester that has more Calls on the way than it was granted keeps no account of credits, so
/// what it asks for says nothing either. Section 3.3.1 forbids that; but there are some, and all
/// that a low grant does to them is to make them send again what found no Receive. Up to `replies`
/// of those in `used` may be replies to callbacks, which need no credit of the Calls (RFC 8167).
#[inline]
pub fn next_grant(
    granted: u32,
    used: u32,
    replies: u32,
    requested: u32,
    limit: u32,
) -> Option<u32> {
    let least = MIN_GRANT.min(limit);
    if granted < least {
        return Some(least);
    }
    let requested = if used > granted.saturating_add(replies) {
        limit
    } else {
        requested
    };
    raised_grant(granted, used, requested, limit)
}

/// The stretches of time in which the Calls of a Requester are counted, at least as long as a round
/// trip. A Requester that is held up by its credits sends in each of them as many Calls as it has
/// credits; one that waits for each reply sends one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    since: u64,
}

impl Arrivals {
    /// Starts without a Call.
    pub const fn new() -> Self {
        Self { since: 0 }
    }

    /// Counts a Call that arrives at the time `now`, when `calls` were counted in the present
    /// stretch. If a round trip has passed, begins a stretch with this Call, and returns how many
    /// arrived in a round trip: `calls`, or fewer in proportion if the stretch was longer, rounded
    /// up. A Requester that uses two credits has more than one Call in flight, or both are served
    /// at once.
    ///
    /// It need not be called before this Call and those of the stretch are
    /// [enough](min_calls_to_raise): if a round trip has passed by then, fewer arrived in it.
    #[inline]
    pub fn arrived(&mut self, now: u64, round_trip: u64, calls: u32) -> Option<u32> {
        let passed = now.saturating_sub(self.since);
        if passed < round_trip {
            return None;
        }
        self.since = now;
        let each = match passed {
            0 => 0,
            passed => u64::from(calls).saturating_mul(round_trip).div_ceil(passed),
        };
        Some(u32::try_from(each).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows S3.3.1-05.
    #[test]
    fn zero_grant_counts_as_one() {
        let mut window = Window::new(8);
        assert_eq!(window.on_reply(0), 1);
    }

    // Shows S3.3.1-06.
    #[test]
    fn huge_grant_stops_at_the_request() {
        let mut window = Window::new(8);
        assert_eq!(window.on_reply(u32::MAX), 8);
    }

    // Shows S3.3.3-03.
    #[test]
    fn connection_starts_with_one_credit() {
        assert_eq!(Window::new(8).window(), 1);
    }

    #[test]
    fn grant_doubles_when_half_is_used() {
        assert_eq!(raised_grant(8, 3, 128, 128), None);
        assert_eq!(raised_grant(8, 4, 128, 128), Some(16));
        assert_eq!(raised_grant(96, 96, 128, 128), Some(128));
        assert_eq!(raised_grant(128, 128, 256, 128), None);
        assert_eq!(raised_grant(1, 1, 8, 4), Some(2));
        assert_eq!(raised_grant(3, 2, 8, 8), Some(6));
        let most = u32::MAX;
        assert_eq!(raised_grant(most - 1, most, most, most), Some(most));
    }

    #[test]
    fn one_call_at_a_time_does_not_raise_the_grant() {
        assert_eq!(raised_grant(2, 1, 128, 128), None);
        assert_eq!(raised_grant(2, 2, 128, 128), Some(4));
    }

    #[test]
    fn grant_is_no_more_than_was_requested() {
        assert_eq!(raised_grant(8, 8, 12, 128), Some(12));
        assert_eq!(raised_grant(8, 8, 8, 128), None);
        assert_eq!(raised_grant(8, 8, 0, 128), None);
    }

    #[test]
    fn eight_are_granted_whatever_is_requested_and_used() {
        assert_eq!(next_grant(2, 1, 0, 1, 128), Some(8));
        assert_eq!(next_grant(1, 0, 0, 0, 128), Some(8));
        assert_eq!(next_grant(0, 0, 0, 0, 0), None);
        assert_eq!(next_grant(2, 1, 0, 128, 4), Some(4));
        assert_eq!(next_grant(4, 4, 0, 128, 4), None);
        assert_eq!(next_grant(8, 1, 0, 128, 128), None);
    }

    #[test]
    fn requester_without_an_account_is_granted_what_it_uses() {
        // It asks for one, and has sixteen Calls on the way.
        assert_eq!(next_grant(8, 9, 0, 1, 128), Some(16));
        assert_eq!(next_grant(16, 16, 0, 1, 128), None);
        assert_eq!(next_grant(128, 200, 0, 1, 128), None);
        // One that keeps it is granted no more than it asks for.
        assert_eq!(next_grant(8, 8, 0, 8, 128), None);
        assert_eq!(next_grant(8, 4, 0, 12, 128), Some(12));
    }

    #[test]
    fn replies_to_callbacks_are_no_calls_beyond_the_credits() {
        assert_eq!(next_grant(8, 9, 2, 8, 128), None);
        assert_eq!(next_grant(8, 10, 2, 8, 128), None);
        assert_eq!(next_grant(8, 11, 2, 1, 128), Some(16));
        assert_eq!(next_grant(u32::MAX, u32::MAX, u32::MAX, 1, 128), None);
    }

    /// A round trip.
    const ROUND_TRIP: u64 = 100;

    /// Counts Calls, and looks at the time when there are `at_least` of them in the stretch.
    struct Counter {
        arrivals: Arrivals,
        calls: u32,
        at_least: u32,
        looks: usize,
    }

    impl Counter {
        fn new(at_least: u32) -> Self {
            Self {
                arrivals: Arrivals::new(),
                calls: 0,
                at_least,
                looks: 0,
            }
        }

        /// A Call arrives.
        fn arrived(&mut self, now: u64) -> Option<u32> {
            let counted = if self.calls < self.at_least {
                None
            } else {
                self.looks += 1;
                self.arrivals.arrived(now, ROUND_TRIP, self.calls)
            };
            self.calls = counted.map_or(self.calls + 1, |_| 1);
            counted
        }

        /// Calls arrive at `times`. Returns what was counted in each round trip but the first.
        fn count(&mut self, times: impl Iterator<Item = u64>) -> Vec<u32> {
            times.filter_map(|now| self.arrived(now)).skip(1).collect()
        }
    }

    /// Returns how many Calls are counted in a round trip, if one arrives each `gap`.
    fn counted(gap: u64) -> Vec<u32> {
        Counter::new(0).count((1..=1000).map(|index| 1_000 + index * gap))
    }

    /// Returns the times of Calls that arrive in bursts of `burst`, one in each `gap`.
    fn bursts(burst: u64, gap: u64) -> impl Iterator<Item = u64> {
        (1..=4_000 / burst).flat_map(move |index| (0..burst).map(move |_| 1_000 + index * gap))
    }

    #[test]
    fn calls_of_a_round_trip_are_counted() {
        assert!(counted(10).iter().all(|calls| *calls == 10));
        assert!(counted(1).iter().all(|calls| *calls == 100));
        // One that waits for each reply.
        assert!(counted(100).iter().all(|calls| *calls == 1));
        assert!(counted(150).iter().all(|calls| *calls == 1));
        assert!(!counted(150).is_empty());
    }

    /// Requesters are granted what they use, and no more, if the time is looked at only where that
    /// may matter.
    #[test]
    fn few_looks_find_what_all_would() {
        let cases = (8..32).flat_map(|granted| {
            let bursts = (1..granted + 8).flat_map(|burst| [100, 130, 170].map(|gap| (burst, gap)));
            bursts.flat_map(move |(burst, gap)| {
                [granted, u32::MAX].map(|requested| (granted, requested, burst, gap))
            })
        });
        for (granted, requested, burst, gap) in cases {
            let fewest = min_calls_to_raise(granted, requested);
            let times = || bursts(u64::from(burst), gap);
            let (mut always, mut seldom) = (Counter::new(0), Counter::new(fewest - 1));
            let raised_grant = |counted: Vec<u32>| {
                let next = |used| next_grant(granted, used, 0, requested, 1_000);
                counted.into_iter().any(|used| next(used).is_some())
            };
            let case = format!("{burst} each {gap}, {granted} of {requested}");
            let expected = raised_grant(always.count(times()));
            assert_eq!(raised_grant(seldom.count(times())), expected, "{case}");
            if burst < fewest {
                let most = always.looks / (fewest as usize - 1) + 1;
                assert!(seldom.looks <= most, "{case}: {} looks", seldom.looks);
            }
        }
    }

    #[test]
    fn two_calls_in_less_than_two_round_trips_count_as_two() {
        let mut counter = Counter::new(0);
        counter.arrived(1_000);
        assert_eq!(counter.arrived(1_001), None);
        assert_eq!(counter.arrived(1_190), Some(2));
    }

    #[test]
    fn calls_before_a_pause_count_for_little() {
        let mut counter = Counter::new(0);
        counter.arrived(1_000);
        for now in 1_001..1_050 {
            assert_eq!(counter.arrived(now), None);
        }
        assert_eq!(counter.arrived(11_000), Some(1));
    }

    #[test]
    fn strange_times_do_no_harm() {
        let mut arrivals = Arrivals::new();
        assert_eq!(arrivals.arrived(0, 0, 7), Some(0));
        assert_eq!(arrivals.arrived(u64::MAX, u64::MAX, 1), Some(1));
        assert_eq!(arrivals.arrived(5, u64::MAX, 1), None);
        assert_eq!(arrivals.arrived(u64::MAX, 0, u32::MAX), Some(0));
    }

    #[test]
    fn grant_is_never_above_the_limit_nor_zero() {
        assert_eq!(raised_grant(0, 0, 16, 16), Some(1));
        assert_eq!(raised_grant(16, 16, 16, 4), None);
    }
}
