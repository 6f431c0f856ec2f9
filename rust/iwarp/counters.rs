// SPDX-License-Identifier: GPL-2.0

//! The counters of a device: `rdma statistic show`.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering;
use kernel::c_str;
use kernel::str::CStr;

/// An event that is counted.
#[derive(Clone, Copy)]
pub(crate) enum Count {
    /// Connections that this side began and that were established.
    Connected,
    /// Connections that this side began and that failed.
    ConnectFailed,
    /// Connections that a consumer accepted.
    Accepted,
    /// Requests that a consumer rejected.
    Rejected,
    /// Connections to a listener that ended before a request was indicated, or that the consumer
    /// did not answer in time.
    RequestLost,
    /// Segments that were sent.
    Sent,
    /// Segments that were received.
    Received,
    /// FPDUs whose CRC was wrong.
    BadCrc,
    /// Terminates that were sent.
    TerminateSent,
    /// Terminates that were received.
    TerminateReceived,
    /// FPDUs that did not become complete in time.
    TimedOut,
    /// Segments that arrived before others that the peer had sent earlier.
    OutOfOrder,
    /// Chunks that broke a rule of sessions.
    IllegalChunk,
    /// Connections that ended for want of memory.
    NoMemory,
}

/// The number of counters.
const KINDS: usize = Count::NoMemory as usize + 1;

/// Returns the names of `N` counters.
pub(crate) const fn names<const N: usize>(
    counters: &[(Count, &'static CStr)],
) -> [&'static CStr; N] {
    let mut names = [c_str!(""); N];
    let mut at = 0;
    while at < N {
        names[at] = counters[at].1;
        at += 1;
    }
    names
}

/// The counters of a device.
pub(crate) struct Counters([AtomicU64; KINDS]);

impl Counters {
    /// Creates counters that are all 0.
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; KINDS])
    }

    /// Increments a counter.
    pub(crate) fn add(&self, count: Count) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the value of a counter.
    pub(crate) fn get(&self, count: Count) -> u64 {
        self.0
            .get(count as usize)
            .map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}
