// SPDX-License-Identifier: GPL-2.0

//! The credit grant of a connection (RFC 8166, section 3.3.1).
//!
//! A connection begins with few credits, and gets more when the client asks for more and uses what it has
//! ([`proto::credit`]). What all connections have beyond the first credits is limited, so that memory for Receives is; the
//! first credits are granted to every client.

use super::{
    config::max_total_credits,
    queue_limits::FIRST_CREDITS, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        SpinLock, //
    },
    time::{
        ClockSource,
        Monotonic, //
    }, //
};
use proto::credit::{
    raised,
    Arrivals, //
};

/// What all connections have beyond their first credits.
static TOTAL: Atomic<u32> = Atomic::new(0);

/// The credit grant of a connection.
#[pin_data]
pub(super) struct Credits {
    granted: Atomic<u32>,
    /// What the client asked for last.
    requested: Atomic<u32>,
    #[pin]
    arrivals: SpinLock<Arrivals>,
}

impl Credits {
    /// No credits yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            granted: Atomic::new(0),
            requested: Atomic::new(0),
            arrivals <- new_spinlock!(Arrivals::new(), "rpcrdma::arrivals"),
        })
    }

    /// The grant that the next message carries.
    pub(super) fn granted(&self) -> u32 {
        self.granted.load(Acquire)
    }

    /// Sets the grant. Receives for it are posted.
    pub(super) fn set(&self, credits: u32) {
        self.granted.store(credits, Release);
    }

    /// Notes how many credits the client asks for.
    pub(super) fn request(&self, credits: u32) {
        self.requested.store(credits, Relaxed);
    }

    /// What to grant instead, up to `limit`, now that a call is replied to while `in_progress` are. A message to the client and its
    /// acknowledgement take `round_trip` nanoseconds. Does not sleep.
    pub(super) fn raised(
        &self,
        in_progress: u32,
        limit: u32,
        round_trip: impl FnOnce() -> Option<u64>,
    ) -> Option<u32> {
        let (granted, requested) = (self.granted(), self.requested.load(Relaxed));
        if granted >= limit.min(requested) {
            return None;
        }
        let mut used = in_progress;
        if let Some(round_trip) = round_trip() {
            // It began at zero.
            let now = u64::try_from(Monotonic::ktime_get()).unwrap_or(0);
            let arrived = self.arrivals.lock().arrived(now, round_trip);
            used = used.max(arrived.unwrap_or(0));
        }
        raised(granted, used, requested, limit)
    }

    /// Takes `credits` more from those that all connections may have. Returns whether there are so many.
    pub(super) fn take_from_total(credits: u32) -> bool {
        let limit = max_total_credits();
        let before = TOTAL.fetch_add(credits, Relaxed);
        let taken = before
            .checked_add(credits)
            .is_some_and(|total| total <= limit);
        if !taken {
            Self::return_to_total(credits);
        }
        taken
    }

    /// Gives back what [`Self::take_from_total`] took.
    pub(super) fn return_to_total(credits: u32) {
        TOTAL.fetch_sub(credits, Relaxed);
    }

    /// Ends the grant, and gives back what is more than the first credits.
    pub(super) fn end(&self) {
        let granted = self.granted.xchg(0, Relaxed);
        Self::return_to_total(granted.saturating_sub(FIRST_CREDITS));
    }
}
