// SPDX-License-Identifier: GPL-2.0

//! The decay of a credit grant that a Requester does not use: when it is lowered, and when the
//! Receives for it may go.
//!
//! RFC 8166, section 3.3.1: the grant of a reply replaces the one before it. A Requester uses the
//! old one until it has handled that reply, so the Receives for the old grant stay posted
//! meanwhile. The moment at which it does is invisible. The transport acknowledgement of the reply
//! is visible, and [`ACKNOWLEDGED_MS`] are allowed for the rest. On iWARP a Send completes when the
//! lower layer has it, so [`UNACKNOWLEDGED_MS`] are allowed there, the time that a Requester waits
//! for a reply.
//!
//! Posted Receives cannot be taken back. They go as messages arrive: then they are not posted
//! again.

/// The time, in milliseconds, for which a Requester has to use less than a quarter of its grant
/// before it is lowered.
pub const UNUSED_MS: u64 = 30_000;

/// The time, in milliseconds, that a Requester has to handle a reply with the lower grant, when its
/// device has acknowledged it.
pub const ACKNOWLEDGED_MS: u64 = 5_000;

/// The time, in milliseconds, that it has when its device may not have acknowledged it.
pub const UNACKNOWLEDGED_MS: u64 = 60_000;

/// The observed use of a grant.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The time, in milliseconds.
    pub now: u64,
    /// The grant of replies that begin from now on.
    pub granted: u32,
    /// The most Calls that were outstanding at the same time since the last observation.
    pub used: u32,
    /// Set if replies wait for space in the Send queue.
    pub replies_wait: bool,
    /// The number of replies that have begun. Each of them has read the grant since. The number may
    /// wrap.
    pub replies: u32,
    /// The age, in milliseconds, of the oldest Send that has not completed.
    pub oldest_posted: u64,
    /// [`ACKNOWLEDGED_MS`], or [`UNACKNOWLEDGED_MS`] if Sends complete before they are
    /// acknowledged.
    pub ack_grace_ms: u64,
}

/// The action that the caller has to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// Grant so much from now on, but keep the Receives. Then call [`GrantDecay::lowered`].
    Lower(u32),
    /// Do not post more Receives again than the grant takes, to which it may have been raised
    /// meanwhile.
    FreeReceives,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The Requester has used less than a quarter of its grant since `since`: `most` at most.
    Granted { since: u64, most: u32 },
    /// The grant was lowered, when `replies` had begun. It may not have been announced by a reply
    /// yet, and it may have been raised since.
    Lowered { replies: u32 },
    /// A reply that announces it had begun at the time `at`, and none waited.
    Announced { at: u64 },
}

/// The grant of one Requester, observed about once in a second in which there was a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantDecay {
    state: State,
    /// The grant that is never lowered.
    least: u32,
}

impl GrantDecay {
    /// Creates the state for a Requester whose first grant, at the time `now`, is `least`.
    pub const fn new(now: u64, least: u32) -> Self {
        Self {
            state: State::Granted {
                since: now,
                most: 0,
            },
            least,
        }
    }

    /// Observes the use of the grant, and returns the action that follows.
    pub fn observe(&mut self, sample: &Sample) -> Action {
        let Sample { now, granted, .. } = *sample;
        match self.state {
            State::Granted { .. } if sample.used >= granted.div_ceil(4) => self.restart(now),
            State::Granted { since, most } => {
                let most = most.max(sample.used);
                self.state = State::Granted { since, most };
                if now.saturating_sub(since) >= UNUSED_MS {
                    self.restart(now);
                    let to = most.saturating_mul(2).max(self.least);
                    if to < granted {
                        return Action::Lower(to);
                    }
                }
            }
            State::Lowered { replies } => {
                // Each reply that has begun is posted, or about to be.
                if sample.replies != replies && !sample.replies_wait {
                    self.state = State::Announced { at: now };
                }
            }
            State::Announced { at } => {
                let since = now.saturating_sub(at);
                // What had begun by then was posted in half of the time since, and has completed.
                let is_posted = !sample.replies_wait && sample.oldest_posted < since / 2;
                if since >= sample.ack_grace_ms && is_posted {
                    self.restart(now);
                    return Action::FreeReceives;
                }
            }
        }
        Action::None
    }

    /// Records that the grant was lowered. `replies` is the number of replies that had begun
    /// just after that.
    pub fn lowered(&mut self, replies: u32) {
        self.state = State::Lowered { replies };
    }

    fn restart(&mut self, now: u64) {
        self.state = State::Granted {
            since: now,
            most: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a sample of a Requester that has 128 credits and uses one, `seconds` after the
    /// connection began.
    fn idle(seconds: u64) -> Sample {
        Sample {
            now: seconds * 1_000,
            granted: 128,
            used: 1,
            replies_wait: false,
            replies: 100,
            oldest_posted: 0,
            ack_grace_ms: ACKNOWLEDGED_MS,
        }
    }

    /// Returns the state of a Requester whose grant was lowered to 2 after 30 seconds.
    fn lowered() -> GrantDecay {
        let mut decay = GrantDecay::new(0, 2);
        assert_eq!(decay.observe(&idle(30)), Action::Lower(2));
        decay.lowered(100);
        decay
    }

    #[test]
    fn unused_grant_is_lowered_to_twice_what_was_used() {
        let mut decay = GrantDecay::new(0, 2);
        let used = |used, seconds| Sample {
            used,
            ..idle(seconds)
        };
        assert_eq!(decay.observe(&used(5, 10)), Action::None);
        assert_eq!(decay.observe(&used(1, 29)), Action::None);
        assert_eq!(decay.observe(&used(1, 30)), Action::Lower(10));
    }

    #[test]
    fn used_grant_stays() {
        let mut decay = GrantDecay::new(0, 2);
        for seconds in 0..100 {
            let used = if seconds % 20 == 0 { 32 } else { 0 };
            let sample = Sample {
                used,
                ..idle(seconds)
            };
            assert_eq!(decay.observe(&sample), Action::None);
        }
    }

    #[test]
    fn first_grant_stays() {
        let mut decay = GrantDecay::new(0, 4);
        for seconds in 0..100 {
            let sample = Sample {
                granted: 4,
                used: 0,
                ..idle(seconds)
            };
            assert_eq!(decay.observe(&sample), Action::None);
        }
    }

    #[test]
    fn receives_stay_until_a_reply_with_the_lower_grant_is_handled() {
        let mut decay = lowered();
        let sample = |seconds, replies, replies_wait, oldest_posted| Sample {
            granted: 2,
            replies,
            replies_wait,
            oldest_posted,
            ..idle(seconds)
        };
        // No reply, then one that may not be posted yet, then one that is.
        assert_eq!(decay.observe(&sample(31, 100, false, 0)), Action::None);
        assert_eq!(decay.observe(&sample(50, 101, true, 0)), Action::None);
        assert_eq!(decay.observe(&sample(51, 101, false, 900)), Action::None);
        // It may not have arrived yet.
        assert_eq!(decay.observe(&sample(57, 101, false, 6_900)), Action::None);
        assert_eq!(
            decay.observe(&sample(58, 102, false, 100)),
            Action::FreeReceives
        );
        assert_eq!(decay.observe(&sample(59, 103, false, 100)), Action::None);
    }

    #[test]
    fn receives_stay_for_some_seconds() {
        let mut decay = lowered();
        let sample = |seconds| Sample {
            granted: 2,
            replies: 101,
            ..idle(seconds)
        };
        assert_eq!(decay.observe(&sample(31)), Action::None);
        assert_eq!(decay.observe(&sample(35)), Action::None);
        assert_eq!(decay.observe(&sample(36)), Action::FreeReceives);
    }

    #[test]
    fn receives_stay_longer_if_nobody_knows_what_arrived() {
        let mut decay = lowered();
        let sample = |seconds| Sample {
            granted: 2,
            replies: 101,
            ack_grace_ms: UNACKNOWLEDGED_MS,
            ..idle(seconds)
        };
        assert_eq!(decay.observe(&sample(31)), Action::None);
        assert_eq!(decay.observe(&sample(90)), Action::None);
        assert_eq!(decay.observe(&sample(91)), Action::FreeReceives);
    }

    #[test]
    fn receives_go_though_the_grant_was_raised_a_little() {
        let mut decay = lowered();
        let sample = |seconds| Sample {
            granted: 4,
            used: 4,
            replies: 101,
            ..idle(seconds)
        };
        assert_eq!(decay.observe(&sample(31)), Action::None);
        assert_eq!(decay.observe(&sample(40)), Action::FreeReceives);
        assert_eq!(decay.observe(&sample(80)), Action::None);
    }

    #[test]
    fn clock_that_runs_backwards_does_no_harm() {
        let mut decay = GrantDecay::new(1_000_000, 2);
        assert_eq!(decay.observe(&idle(0)), Action::None);
    }
}
