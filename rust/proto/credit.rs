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

/// What the Responder grants next: twice as much as before, up to `limit` and to what the Requester asks for, when half of
/// that is used, and more than one. `used` is how many Calls it serves at the same time, or how many
/// [arrived within a round trip](Arrivals): over a long path with quick replies most Calls of a Requester are on the way.
///
/// Receives for a grant are posted before it is sent, and again before each reply. When it may sink, and when the Receives for
/// the higher grant may go, is said in [`crate::lowering`].
#[inline]
pub fn raised(granted: u32, used: u32, requested: u32, limit: u32) -> Option<u32> {
    let limit = limit.min(requested.max(granted));
    // A Requester that waits for each reply has no use for more than one credit.
    let half = granted.div_ceil(2).max(2).min(granted);
    let enough = granted >= limit || used < half;
    (!enough).then(|| granted.saturating_mul(2).clamp(1, limit))
}

/// Counts the Calls of a Requester in stretches of time that are at least as long as a round trip. A Requester that is held up by
/// its credits sends in each of them as many Calls as it has credits; one that waits for each reply sends one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrivals {
    since: u64,
    calls: u32,
}

impl Arrivals {
    /// No Call yet.
    pub const fn new() -> Self {
        Self { since: 0, calls: 0 }
    }

    /// A Call arrives at the time `now`. If with it a round trip has passed, returns how many arrived before it in that stretch, which
    /// may have been longer: then so many fewer, rounded up. A Requester that uses two credits has more than one Call on the way, or
    /// both are served at the same time.
    #[inline]
    pub fn arrived(&mut self, now: u64, round_trip: u64) -> Option<u32> {
        let passed = now.saturating_sub(self.since);
        if passed < round_trip {
            self.calls = self.calls.saturating_add(1);
            return None;
        }
        let calls = u64::from(self.calls);
        let each = match passed {
            0 => 0,
            passed => calls.saturating_mul(round_trip).div_ceil(passed),
        };
        *self = Self {
            since: now,
            calls: 1,
        };
        Some(u32::try_from(each).unwrap_or(u32::MAX))
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
    fn connection_starts_with_one_credit() {
        assert_eq!(Window::new(8).window(), 1);
    }

    #[test]
    fn grant_doubles_when_half_is_used() {
        assert_eq!(raised(8, 3, 128, 128), None);
        assert_eq!(raised(8, 4, 128, 128), Some(16));
        assert_eq!(raised(96, 96, 128, 128), Some(128));
        assert_eq!(raised(128, 128, 256, 128), None);
        assert_eq!(raised(1, 1, 8, 4), Some(2));
        assert_eq!(raised(3, 2, 8, 8), Some(6));
        let most = u32::MAX;
        assert_eq!(raised(most - 1, most, most, most), Some(most));
    }

    #[test]
    fn one_call_at_a_time_does_not_raise_the_grant() {
        assert_eq!(raised(2, 1, 128, 128), None);
        assert_eq!(raised(2, 2, 128, 128), Some(4));
    }

    #[test]
    fn grant_is_no_more_than_was_requested() {
        assert_eq!(raised(8, 8, 12, 128), Some(12));
        assert_eq!(raised(8, 8, 8, 128), None);
        assert_eq!(raised(8, 8, 0, 128), None);
    }

    /// How many Calls are counted in a round trip of 100, if one arrives each `gap`.
    fn counted(gap: u64) -> Vec<u32> {
        let mut arrivals = Arrivals::new();
        let times = (1..=1000).map(|index| 1_000 + index * gap);
        let counts = times.filter_map(|now| arrivals.arrived(now, 100));
        counts.skip(1).collect()
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

    #[test]
    fn two_calls_in_less_than_two_round_trips_count_as_two() {
        let mut arrivals = Arrivals::new();
        arrivals.arrived(1_000, 100);
        assert_eq!(arrivals.arrived(1_001, 100), None);
        assert_eq!(arrivals.arrived(1_190, 100), Some(2));
    }

    #[test]
    fn calls_before_a_pause_count_for_little() {
        let mut arrivals = Arrivals::new();
        arrivals.arrived(1_000, 100);
        for now in 1_001..1_050 {
            assert_eq!(arrivals.arrived(now, 100), None);
        }
        assert_eq!(arrivals.arrived(11_000, 100), Some(1));
    }

    #[test]
    fn strange_times_do_no_harm() {
        let mut arrivals = Arrivals::new();
        assert_eq!(arrivals.arrived(0, 0), Some(0));
        assert_eq!(arrivals.arrived(u64::MAX, u64::MAX), Some(1));
        assert_eq!(arrivals.arrived(5, u64::MAX), None);
    }

    #[test]
    fn grant_is_never_above_the_limit_nor_zero() {
        assert_eq!(raised(0, 0, 16, 16), Some(1));
        assert_eq!(raised(16, 16, 16, 4), None);
    }
}
