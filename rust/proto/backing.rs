// SPDX-License-Identifier: GPL-2.0

//! The resources behind the credits of a Requester.
//!
//! RFC 8166, section 3.3.1: a Requester posts a Receive for each reply before it sends the Call,
//! and it may use fewer credits than the Responder grants. So a connection begins with resources
//! for a few Calls, and gets more when the grant allows more and the Calls use them: each time
//! twice as many, up to the grant. What it asks for in its Calls does not depend on that.

use crate::credit::raised_grant;

/// The number of Calls that there are resources for, and its growth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backing {
    credits: u32,
    /// The number of Calls that there will be resources for.
    target: Option<u32>,
    /// The time of the next attempt, after one failed.
    not_before: u64,
}

impl Backing {
    /// Starts with resources for `credits` Calls, at least for one.
    pub const fn new(credits: u32) -> Self {
        Self {
            credits: match credits {
                0 => 1,
                credits => credits,
            },
            target: None,
            not_before: 0,
        }
    }

    /// Returns the number of Calls that there are resources for.
    #[inline]
    pub const fn credits(&self) -> u32 {
        self.credits
    }

    /// Returns how many Calls may be in flight, if it were `window` with resources for any number.
    #[inline]
    pub fn limit(&self, window: u32) -> u32 {
        window.min(self.credits)
    }

    /// Returns whether [`Self::begin`] may have an answer.
    #[inline]
    pub fn is_short(&self, window: u32) -> bool {
        window > self.credits && self.target.is_none()
    }

    /// Begins growth if `used` Calls are in flight at the time `now`, and `window` could be.
    /// Returns whether to allocate resources, for as many Calls as [`Self::target`] says.
    pub fn begin(&mut self, window: u32, used: u32, now: impl FnOnce() -> u64) -> bool {
        if !self.is_short(window) {
            return false;
        }
        let target = raised_grant(self.credits, used, window, window);
        // Most often fewer are used, and the time is not needed.
        if target.is_some() && now() >= self.not_before {
            self.target = target;
        }
        self.target.is_some()
    }

    /// Begins growth to `credits` Calls, whether they are used or not. Returns whether that is more
    /// than before.
    pub fn begin_all(&mut self, credits: u32) -> bool {
        self.target = Some(credits).filter(|credits| *credits > self.credits);
        self.target.is_some()
    }

    /// Returns the number of Calls to have resources for, from [`Self::begin`] until the growth
    /// ends.
    pub fn target(&self) -> Option<u32> {
        self.target
    }

    /// Records that there are resources for `credits` Calls now. They are never fewer than before.
    pub fn grown(&mut self, credits: u32) {
        self.credits = self.credits.max(credits);
        // More may have been asked for meanwhile.
        self.target = self.target.filter(|target| *target > self.credits);
    }

    /// Records that there were no resources for as many as [`Self::target`]. The next attempt
    /// begins no sooner than at the time `not_before`.
    pub fn failed(&mut self, not_before: u64) {
        self.target = None;
        self.not_before = not_before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows S3.3.1-06.
    #[test]
    fn window_is_never_more_than_there_are_resources_for() {
        let mut backing = Backing::new(16);
        assert_eq!(backing.limit(128), 16);
        assert_eq!(backing.limit(4), 4);
        assert!(backing.begin(128, 16, || 0));
        assert_eq!(backing.limit(128), 16);
        backing.grown(32);
        assert_eq!(backing.limit(128), 32);
    }

    #[test]
    fn resources_double_up_to_the_window() {
        let mut backing = Backing::new(16);
        let mut steps = vec![];
        while backing.begin(100, backing.credits(), || 0) {
            let target = backing.target().unwrap();
            steps.push(target);
            backing.grown(target);
        }
        assert_eq!(steps, [32, 64, 100]);
        assert!(!backing.is_short(100));
    }

    #[test]
    fn what_is_not_used_does_not_grow() {
        let mut backing = Backing::new(16);
        assert!(!backing.begin(128, 7, || 0));
        assert!(backing.begin(128, 8, || 0));
        assert_eq!(backing.target(), Some(32));
    }

    #[test]
    fn grant_that_is_backed_does_not_grow() {
        let mut backing = Backing::new(16);
        assert!(!backing.is_short(16));
        assert!(!backing.begin(16, 16, || 0));
        assert!(!backing.begin(2, 16, || 0));
    }

    #[test]
    fn one_attempt_at_a_time() {
        let mut backing = Backing::new(16);
        assert!(backing.begin(128, 16, || 0));
        assert!(!backing.begin(128, 16, || 0));
        assert_eq!(backing.target(), Some(32));
    }

    #[test]
    fn attempt_that_failed_is_repeated_later() {
        let mut backing = Backing::new(16);
        assert!(backing.begin(128, 16, || 1_000));
        backing.failed(2_000);
        assert_eq!(backing.credits(), 16);
        assert!(!backing.begin(128, 16, || 1_999));
        assert!(backing.begin(128, 16, || 2_000));
    }

    #[test]
    fn all_may_be_had_at_once() {
        let mut backing = Backing::new(16);
        assert!(backing.begin(128, 16, || 0));
        assert!(backing.begin_all(128));
        assert_eq!(backing.target(), Some(128));
        backing.grown(32);
        assert_eq!(backing.target(), Some(128));
        backing.grown(128);
        assert!(!backing.begin_all(128));
        assert_eq!(backing.target(), None);
    }

    #[test]
    fn one_call_has_resources_whatever_is_asked_for() {
        let mut backing = Backing::new(0);
        assert_eq!(backing.limit(128), 1);
        assert!(backing.begin(u32::MAX, u32::MAX, || u64::MAX));
        assert_eq!(backing.target(), Some(2));
        backing.grown(1);
        assert_eq!(backing.credits(), 1);
    }
}
