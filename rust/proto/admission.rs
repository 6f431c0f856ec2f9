// SPDX-License-Identifier: GPL-2.0

//! Admission of Requesters: which of those that ask for a connection are accepted now, and which
//! have to wait.
//!
//! To accept a connection is the most expensive thing that a Responder does for an unknown peer. So
//! each address may have [`BURST`] connections accepted at once, and then one in each
//! [`INTERVAL_MS`] milliseconds; further requests of the address wait, and those of others do not.
//! No request is rejected for that. The entry of an address is dropped when it may have as many
//! connections accepted at once as at first.

/// The address of a Requester, without its port. IPv4 addresses are mapped to IPv6.
pub type Host = [u8; 16];

/// The number of connections of an address that may be accepted at once.
pub const BURST: u64 = 64;

/// The time, in milliseconds, after which an address may have another one accepted then.
pub const INTERVAL_MS: u64 = 50;

/// The number of addresses that are remembered. When there are more, the entry that would expire
/// first is reused.
const HOSTS: usize = 64;

/// An address that has had connections accepted.
#[derive(Clone, Copy, Debug)]
struct Entry {
    host: Host,
    /// The time when it may have all of [`BURST`] again, in milliseconds.
    settled: u64,
}

/// The addresses that have had connections accepted lately. Times are in milliseconds.
#[derive(Debug)]
pub struct Admission {
    hosts: [Entry; HOSTS],
}

impl Admission {
    /// Creates an empty table.
    pub const fn new() -> Self {
        Self {
            hosts: [Entry {
                host: [0; 16],
                settled: 0,
            }; HOSTS],
        }
    }

    /// Returns the number of milliseconds until a connection of `host` may be accepted, at the time
    /// `now`. Zero means at once.
    pub fn delay(&self, host: &Host, now: u64) -> u64 {
        let entry = self.hosts.iter().find(|entry| entry.host == *host);
        let used = entry.map_or(0, |entry| entry.settled.saturating_sub(now));
        used.saturating_sub(BURST.saturating_sub(1).saturating_mul(INTERVAL_MS))
    }

    /// Records that a connection of `host` is accepted at the time `now`.
    pub fn accepted(&mut self, host: &Host, now: u64) {
        let known = self.hosts.iter().position(|entry| entry.host == *host);
        let soonest = || {
            let times = self.hosts.iter().map(|entry| entry.settled).enumerate();
            times.min_by_key(|(_, settled)| *settled).map(|(at, _)| at)
        };
        let Some(entry) = known.or_else(soonest).and_then(|at| self.hosts.get_mut(at)) else {
            return;
        };
        let before = if entry.host == *host {
            entry.settled.max(now)
        } else {
            now
        };
        *entry = Entry {
            host: *host,
            settled: before.saturating_add(INTERVAL_MS),
        };
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u64) -> Host {
        let mut host = [0; 16];
        host[8..].copy_from_slice(&number.to_be_bytes());
        host
    }

    /// Returns how many connections of `host` are accepted from `now` on, for `duration`
    /// milliseconds.
    fn accepted(admission: &mut Admission, host: &Host, now: u64, duration: u64) -> u64 {
        let mut count = 0;
        for time in now..=now + duration {
            while admission.delay(host, time) == 0 {
                admission.accepted(host, time);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn burst_is_accepted_at_once_and_then_some_in_a_second() {
        let mut admission = Admission::new();
        assert_eq!(accepted(&mut admission, &host(1), 5_000, 0), BURST);
        assert_eq!(admission.delay(&host(1), 5_000), INTERVAL_MS);
        assert_eq!(admission.delay(&host(1), 5_010), INTERVAL_MS - 10);
        assert_eq!(accepted(&mut admission, &host(1), 5_001, 999), 20);
    }

    #[test]
    fn addresses_do_not_wait_for_each_other() {
        let mut admission = Admission::new();
        accepted(&mut admission, &host(1), 0, 1_000);
        assert_ne!(admission.delay(&host(1), 1_000), 0);
        assert_eq!(admission.delay(&host(2), 1_000), 0);
        assert_eq!(accepted(&mut admission, &host(2), 1_000, 0), BURST);
    }

    #[test]
    fn rest_gives_the_burst_back() {
        let mut admission = Admission::new();
        accepted(&mut admission, &host(1), 0, 0);
        let settled = BURST * INTERVAL_MS;
        assert_eq!(
            accepted(&mut admission, &host(1), settled / 2, 0),
            BURST / 2
        );
        assert_eq!(accepted(&mut admission, &host(1), 3 * settled, 0), BURST);
    }

    #[test]
    fn who_connects_slower_never_waits() {
        let mut admission = Admission::new();
        for time in (0..100_000).step_by(INTERVAL_MS as usize) {
            assert_eq!(admission.delay(&host(1), time), 0);
            admission.accepted(&host(1), time);
        }
    }

    #[test]
    fn of_too_many_addresses_the_one_that_waits_longest_is_remembered() {
        let mut admission = Admission::new();
        accepted(&mut admission, &host(1), 0, 0);
        for other in 2..1_000 {
            assert_eq!(admission.delay(&host(other), 0), 0);
            admission.accepted(&host(other), 0);
        }
        assert_eq!(admission.delay(&host(1), 0), INTERVAL_MS);
    }

    #[test]
    fn address_of_zeroes_is_one_as_others_are() {
        let mut admission = Admission::new();
        assert_eq!(accepted(&mut admission, &[0; 16], 0, 0), BURST);
    }

    #[test]
    fn strange_times_do_no_harm() {
        let mut admission = Admission::new();
        admission.accepted(&host(1), u64::MAX);
        admission.accepted(&host(1), u64::MAX);
        assert!(admission.delay(&host(1), 0) > 0);
        assert_eq!(admission.delay(&host(2), 0), 0);
    }
}
