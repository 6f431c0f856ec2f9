// SPDX-License-Identifier: GPL-2.0

//! Grants of connections that borrow from one pool, over random histories.

use proptest::collection::vec;
use proptest::prelude::*;
use proto::credit::next_grant;
use proto::grant::{self, Activity, Grant, Raise, OWN_SHARE};
use proto::grant_decay::Action;

const FIRST: u32 = 2;

/// One event of a history.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A reply raises the grant, if there is memory and the connection does not end meanwhile.
    Reply {
        used: u32,
        memory: bool,
        ends: bool,
    },
    /// The timer expires, so many milliseconds after the last time.
    Timer {
        after_ms: u64,
        used: u32,
        calls: u32,
    },
    /// So many messages arrive whose Receives are not posted again.
    Freed(u32),
    End,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..300_u32, prop::bool::weighted(0.9), prop::bool::weighted(0.02))
            .prop_map(|(used, memory, ends)| Event::Reply { used, memory, ends }),
        4 => (0..40_000_u64, 0..40_u32, 0..200_u32)
            .prop_map(|(after_ms, used, calls)| Event::Timer { after_ms, used, calls }),
        2 => (0..300_u32).prop_map(Event::Freed),
        1 => Just(Event::End),
    ]
}

/// Returns the number of Receives for `credits`: some more, as they are posted in batches.
fn depth(credits: u32) -> u32 {
    credits + (credits / 4).clamp(2, 16) - 1
}

/// A connection as the server keeps it: the account, the grant, and the posted Receives.
struct Connection {
    grant: Grant,
    granted: u32,
    receives: u32,
    /// The number of Receives from which on they are freed as messages arrive.
    wanted: u32,
    replies: u32,
    arrived: u32,
    now_ms: u64,
    ended: bool,
}

impl Connection {
    fn new() -> Self {
        Self {
            grant: Grant::new(FIRST, 0),
            granted: FIRST,
            receives: depth(FIRST),
            wanted: depth(FIRST),
            replies: 0,
            arrived: 0,
            now_ms: 0,
            ended: false,
        }
    }

    fn end(&mut self, pool: &mut u32) {
        *pool -= self.grant.end();
        self.ended = true;
    }

    fn free(&mut self, count: u32, pool: &mut u32) {
        let count = count.min(self.receives.saturating_sub(self.wanted));
        self.receives -= count;
        *pool -= self.grant.receives_freed(count, self.granted);
    }

    fn on(&mut self, event: Event, pool: &mut u32, limit: u32) {
        match event {
            Event::Reply { used, memory, ends } => {
                self.replies += 1;
                let Some(credits) = next_grant(self.granted, used, 0, u32::MAX, 256) else {
                    return;
                };
                let wanted = self.grant.to_borrow(credits);
                let taken = grant::available(wanted, *pool, limit);
                *pool += taken;
                let raise = Raise::new(credits, wanted, taken);
                // The share of a connection is never refused.
                let raised = raise.credits();
                assert!(raised >= credits.min(OWN_SHARE));
                if ends {
                    self.end(pool);
                }
                let posted = memory && raised > self.granted;
                if posted {
                    self.receives = self.receives.max(depth(raised));
                    self.wanted = self.wanted.max(depth(raised));
                }
                let unused = if posted {
                    self.grant.raised(raise)
                } else {
                    Err(raise)
                };
                match unused {
                    Ok(()) => self.granted = raised,
                    Err(raise) => *pool -= raise.into_borrowed(),
                }
            }
            Event::Timer {
                after_ms,
                used,
                calls,
            } => {
                self.now_ms += after_ms;
                self.arrived = self.arrived.wrapping_add(calls);
                let action = self.grant.observe(&Activity {
                    now_ms: self.now_ms,
                    interval_ms: 1_000,
                    granted: self.granted,
                    most_in_progress: used,
                    arrived: self.arrived,
                    replies: self.replies,
                    replies_wait: false,
                    oldest_posted_ms: 0,
                    round_trip: Some(1_000_000),
                });
                match action {
                    Action::None => (),
                    Action::Lower(to) => {
                        assert!(to < self.granted);
                        self.granted = to;
                        self.grant.lowered(self.replies);
                    }
                    Action::FreeReceives => {
                        self.wanted = depth(self.granted);
                        self.free(u32::MAX, pool);
                    }
                }
            }
            Event::Freed(count) => self.free(count, pool),
            Event::End => self.end(pool),
        }
    }

    fn check(&self) {
        let (backed, borrowed) = self.grant.backed();
        if self.ended {
            assert_eq!(borrowed, 0);
            return;
        }
        assert!(self.granted <= backed, "a grant without Receives");
        assert!(backed <= self.receives, "Receives that are not there");
        assert!(
            self.granted <= OWN_SHARE + borrowed,
            "a grant on nobody's account"
        );
        assert!(
            borrowed <= backed.saturating_sub(OWN_SHARE),
            "more borrowed than granted"
        );
    }
}

proptest! {
    // A finding becomes a test of its own, not a line in a file.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_borrowed_is_returned(
        limit in 0..400_u32,
        events in vec((0..3_usize, event()), 0..200),
    ) {
        let mut pool = 0;
        let mut connections = [0; 3].map(|_| Connection::new());
        for (number, event) in events {
            let connection = &mut connections[number];
            if connection.ended {
                // Another client connects.
                *connection = Connection::new();
            }
            connection.on(event, &mut pool, limit);
            connections.iter().for_each(Connection::check);
            let borrowed: u32 = connections.iter().map(|one| one.grant.backed().1).sum();
            prop_assert_eq!(pool, borrowed);
            prop_assert!(pool <= limit);
        }
        for connection in &mut connections {
            connection.end(&mut pool);
        }
        prop_assert_eq!(pool, 0);
    }

    #[test]
    fn numbers_of_any_size_do_no_harm(
        credits: u32, wanted: u32, taken: u32, limit: u32, count: u32, granted: u32, time: u64, other: u64,
    ) {
        let mut grant = Grant::new(count, time);
        prop_assert!(grant::available(wanted, taken, limit) <= wanted);
        let raise = Raise::new(credits, wanted, taken);
        prop_assert!(raise.credits() <= credits);
        prop_assert_eq!(grant.raised(raise), Ok(()));
        let activity = Activity {
            now_ms: other,
            interval_ms: time,
            granted,
            most_in_progress: count,
            arrived: wanted,
            replies: taken,
            replies_wait: false,
            oldest_posted_ms: other,
            round_trip: (time % 2 == 0).then_some(other),
        };
        grant.observe(&activity);
        let before = grant.backed().1;
        prop_assert!(grant.receives_freed(count, granted) <= before);
        grant.lowered(count);
        grant.observe(&activity);
        let (_, borrowed) = grant.backed();
        prop_assert_eq!(grant.end(), borrowed);
    }
}
