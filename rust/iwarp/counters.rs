// SPDX-License-Identifier: GPL-2.0

//! What a device counts: `rdma statistic show`.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering;
use kernel::c_str;
use kernel::str::CStr;

/// What is counted.
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
    /// Connections to a listener that ended before a consumer heard of them, or that it did not answer in time.
    RequestLost,
    /// FPDUs that were sent.
    Sent,
    /// FPDUs that were received.
    Received,
    /// FPDUs whose CRC was wrong.
    BadCrc,
    /// Terminates that were sent.
    TerminateSent,
    /// Terminates that were received.
    TerminateReceived,
    /// FPDUs that were not whole in time.
    Late,
    /// Connections that ended for want of memory.
    NoMemory,
}

/// Names, in the order of [`Count`].
pub(crate) const NAMES: &[&CStr] = &[
    c_str!("connected"),
    c_str!("connect_failed"),
    c_str!("accepted"),
    c_str!("rejected"),
    c_str!("request_lost"),
    c_str!("fpdu_sent"),
    c_str!("fpdu_received"),
    c_str!("bad_crc"),
    c_str!("terminate_sent"),
    c_str!("terminate_received"),
    c_str!("late"),
    c_str!("no_memory"),
];

/// The counters of a device.
pub(crate) struct Counters([AtomicU64; NAMES.len()]);

impl Counters {
    /// All are 0.
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; NAMES.len()])
    }

    /// Counts one.
    pub(crate) fn add(&self, count: Count) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counter at this place.
    pub(crate) fn get(&self, index: usize) -> u64 {
        self.0
            .get(index)
            .map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}
