// SPDX-License-Identifier: GPL-2.0

//! The credit grant of a connection (RFC 8166, section 3.3.1).
//!
//! A connection begins with few credits, has [eight](MIN_GRANT) when the client has sent a call,
//! and gets more when the client asks for more and uses what it has ([`proto::credit`]). An unused
//! grant decays ([`proto::grant_decay`]). Each connection owns a [small share](OWN_SHARE) of
//! credits; more are borrowed from a pool of `max_total_requests`, which bounds the memory for
//! Receives. An empty pool never takes the share.

use super::config::{
    max_total_credits,
    FIRST_CREDITS, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Relaxed,
            Release, //
        },
        SpinLock, //
    },
    time::{
        ClockSource,
        Monotonic,
        Msecs, //
    }, //
};
use proto::{
    credit::{
        min_calls_to_raise,
        next_grant,
        Arrivals,
        MIN_GRANT, //
    },
    grant_decay::{
        Action,
        GrantDecay,
        Sample,
        ACKNOWLEDGED_MS,
        UNACKNOWLEDGED_MS, //
    }, //
};
use rdma::error::not_connected;

/// The share of credits that every connection owns, whatever others borrow.
const OWN_SHARE: u32 = MIN_GRANT;

/// The credits that all connections together have borrowed beyond their share.
static BORROWED: Atomic<u32> = Atomic::new(0);

const NANOSECONDS_PER_MS: u64 = 1_000_000;

/// Returns the part of `credits` that exceeds the share of a connection.
fn borrowed_part(credits: u32) -> u32 {
    credits.saturating_sub(OWN_SHARE)
}

/// Returns the time in nanoseconds.
fn now() -> u64 {
    // The clock begins at zero.
    u64::try_from(Monotonic::ktime_get()).unwrap_or(0)
}

/// The credit grant of a connection.
#[pin_data]
pub(super) struct Credits {
    granted: Atomic<u32>,
    /// The credits that the client requested last.
    requested: Atomic<u32>,
    /// The peak number of calls in progress since the last [`GrantUpdate::lower`].
    most_in_progress: Atomic<u32>,
    /// The number of replies that have begun.
    replies: Atomic<u32>,
    #[pin]
    arrivals: SpinLock<Arrivals>,
    /// The number of calls in the present interval of `arrivals`.
    calls: Atomic<u32>,
    /// Whether a thread holds a [`GrantUpdate`].
    updating: AtomicFlag,
    #[pin]
    backing: SpinLock<Backing>,
}

/// The Receives behind the grant.
struct Backing {
    /// The highest grant that there are Receives for.
    credits: u32,
    /// The number of these credits that are borrowed, and counted in [`BORROWED`].
    borrowed: u32,
    /// Whether the connection has ended, and borrows no more.
    ended: bool,
    decay: GrantDecay,
    /// The number of messages received at the time of the last [`GrantUpdate::lower`].
    arrived: u32,
}

/// The exclusive right to change the grant of a connection and its Receives, until it is dropped.
pub(super) struct GrantUpdate<'a>(&'a Credits);

/// The activity of a connection, as input of [`GrantUpdate::lower`].
pub(super) struct Activity {
    /// The number of messages received.
    pub(super) arrived: u32,
    /// Whether messages wait for Send buffers or SQ credits.
    pub(super) replies_wait: bool,
    /// The age of the oldest Send that has not completed.
    pub(super) oldest_posted_ms: u64,
    /// The round-trip time in nanoseconds. [`None`] if it is unknown, because Sends complete before
    /// they are acknowledged.
    pub(super) round_trip: Option<u64>,
    /// The milliseconds since the last call.
    pub(super) interval_ms: Msecs,
}

impl Credits {
    /// Creates the state of a connection without credits.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            granted: Atomic::new(0),
            requested: Atomic::new(0),
            most_in_progress: Atomic::new(0),
            replies: Atomic::new(0),
            arrivals <- new_spinlock!(Arrivals::new(), "rpcrdma::arrivals"),
            calls: Atomic::new(0),
            updating: AtomicFlag::new(false),
            backing <- new_spinlock!(
                Backing {
                    credits: FIRST_CREDITS,
                    borrowed: 0,
                    ended: false,
                    decay: GrantDecay::new(now() / NANOSECONDS_PER_MS, MIN_GRANT),
                    arrived: 0,
                },
                "rpcrdma::credits"
            ),
        })
    }

    /// Notes that a reply begins. Call this before [`Self::granted`] is read for it.
    pub(super) fn begin_reply(&self) {
        // `GrantUpdate::lower` counts the replies after it has lowered the grant. It counts this
        // one, or this one has the lower grant.
        self.replies.fetch_add(1, Full);
    }

    /// Sets the first grant. The Receives for it must have been posted.
    pub(super) fn set_first(&self, credits: u32) {
        self.granted.store(credits, Release);
    }

    /// Returns the grant.
    pub(super) fn granted(&self) -> u32 {
        self.granted.load(Acquire)
    }

    /// Records the number of credits that the client requests.
    pub(super) fn request(&self, credits: u32) {
        self.requested.store(credits, Relaxed);
    }

    /// Returns the next higher grant, up to `limit`, if this reply should carry one. `in_progress`
    /// messages are in progress, of which up to `replies` may be replies to callbacks. A message to
    /// the client and its acknowledgement take `round_trip` nanoseconds. Does not sleep.
    pub(super) fn next_grant(
        &self,
        in_progress: u32,
        replies: u32,
        limit: u32,
        round_trip: impl FnOnce() -> Option<u64>,
    ) -> Option<u32> {
        if in_progress > self.most_in_progress.load(Relaxed) {
            // A lower value that another thread stores at the same time is good enough.
            self.most_in_progress.store(in_progress, Relaxed);
        }
        let (granted, requested) = (self.granted(), self.requested.load(Relaxed));
        if granted >= limit {
            return None;
        }
        let raised = next_grant(granted, in_progress, replies, requested, limit);
        if raised.is_some() {
            return raised;
        }
        // Replies to callbacks are not counted here.
        let arrived = self.arrived(min_calls_to_raise(granted, requested), round_trip)?;
        next_grant(granted, arrived, 0, requested, limit)
    }

    /// Counts a call. If a round trip has passed and `enough` calls may have arrived in it, returns
    /// the number that did. Takes no lock until `enough` calls have arrived.
    fn arrived(&self, enough: u32, round_trip: impl FnOnce() -> Option<u64>) -> Option<u32> {
        if self.calls.load(Relaxed).saturating_add(1) < enough {
            // A race with another thread that begins an interval miscounts by one call.
            self.calls.add(1, Relaxed);
            return None;
        }
        let round_trip = round_trip()?;
        let mut arrivals = self.arrivals.lock();
        let calls = self.calls.load(Relaxed);
        let arrived = arrivals.arrived(now(), round_trip, calls);
        let counted = arrived.map_or(calls.saturating_add(1), |_| 1);
        self.calls.store(counted, Relaxed);
        arrived
    }

    /// Acquires the right to change the grant. [`None`] if another thread has it.
    pub(super) fn begin_update(&self) -> Option<GrantUpdate<'_>> {
        let taken = self.updating.xchg(true, Acquire);
        (!taken).then_some(GrantUpdate(self))
    }

    /// Notes that `count` Receives were freed that the present grant does not need.
    pub(super) fn receives_freed(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let least = self.granted().max(FIRST_CREDITS);
        let mut backing = self.backing.lock();
        let excess = backing.credits.saturating_sub(least).min(count);
        backing.credits = backing.credits.saturating_sub(excess);
        let borrowed = backing.borrowed;
        backing.borrowed = borrowed.min(borrowed_part(backing.credits));
        let returned = borrowed.saturating_sub(backing.borrowed);
        drop(backing);
        Self::repay(returned);
    }

    /// Returns the number of credits that all connections together have borrowed.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(super) fn all_borrowed() -> u32 {
        BORROWED.load(Relaxed)
    }

    /// Borrows up to `credits` from the pool. Returns the number borrowed.
    fn borrow(credits: u32) -> u32 {
        let limit = max_total_credits();
        let before = BORROWED.fetch_add(credits, Relaxed);
        let taken = limit.saturating_sub(before).min(credits);
        Self::repay(credits.saturating_sub(taken));
        taken
    }

    /// Returns credits that [`Self::borrow`] borrowed.
    fn repay(credits: u32) {
        BORROWED.fetch_sub(credits, Relaxed);
    }

    /// Ends the grant, and returns what it borrowed. A raise may run at the same time.
    pub(super) fn end(&self) {
        let mut backing = self.backing.lock();
        backing.ended = true;
        let borrowed = core::mem::take(&mut backing.borrowed);
        drop(backing);
        Self::repay(borrowed);
    }
}

impl GrantUpdate<'_> {
    /// Raises the grant to `credits`, or as far as the pool allows, after `post` has posted the
    /// Receives for it.
    pub(super) fn raise(&self, credits: u32, post: impl FnOnce(u32) -> Result) -> Result {
        let Self(all) = self;
        let borrowed = all.backing.lock().borrowed;
        let wanted = borrowed_part(credits).saturating_sub(borrowed);
        let taken = Credits::borrow(wanted);
        let credits = credits.saturating_sub(wanted.saturating_sub(taken));
        // Another thread may have raised the grant meanwhile.
        let posted = if credits > all.granted() {
            post(credits)
        } else {
            Err(EAGAIN)
        };
        posted.inspect_err(|_| Credits::repay(taken))?;
        let mut backing = all.backing.lock();
        if backing.ended {
            drop(backing);
            Credits::repay(taken);
            return Err(not_connected());
        }
        backing.credits = backing.credits.max(credits);
        backing.borrowed = backing.borrowed.saturating_add(taken);
        drop(backing);
        all.granted.store(credits, Release);
        Ok(())
    }

    /// Lowers the grant if the client has not used it for long. If Receives can be freed now,
    /// returns the number of credits that must keep theirs. Does not sleep.
    pub(super) fn lower(&self, activity: &Activity) -> Option<u32> {
        let Self(all) = self;
        let granted = all.granted();
        let mut backing = all.backing.lock();
        let calls = activity.arrived.wrapping_sub(backing.arrived);
        backing.arrived = activity.arrived;
        // Over a long path most calls are in flight. If the round trip is unknown, all of them may
        // be.
        let interval = u64::from(activity.interval_ms).saturating_mul(NANOSECONDS_PER_MS);
        let on_the_way = u64::from(calls)
            .saturating_mul(activity.round_trip.unwrap_or(interval))
            .div_ceil(interval.max(1));
        let sample = Sample {
            now: now() / NANOSECONDS_PER_MS,
            granted,
            used: all
                .most_in_progress
                .xchg(0, Relaxed)
                .max(u32::try_from(on_the_way).unwrap_or(u32::MAX)),
            replies_wait: activity.replies_wait,
            replies: all.replies.load(Relaxed),
            oldest_posted: activity.oldest_posted_ms,
            ack_grace_ms: match activity.round_trip {
                Some(_) => ACKNOWLEDGED_MS,
                None => UNACKNOWLEDGED_MS,
            },
        };
        match backing.decay.observe(&sample) {
            Action::None => None,
            Action::Lower(to) => {
                all.granted.xchg(to, Full);
                let replies = all.replies.load(Relaxed);
                backing.decay.lowered(replies);
                None
            }
            Action::FreeReceives => Some(granted),
        }
    }
}

impl Drop for GrantUpdate<'_> {
    fn drop(&mut self) {
        let Self(all) = self;
        all.updating.store(false, Release);
    }
}
