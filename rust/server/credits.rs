// SPDX-License-Identifier: GPL-2.0

//! The credit grant of a connection (RFC 8166, section 3.3.1).
//!
//! A connection begins with few credits, has [eight](LEAST_GRANT) when the client has sent a call,
//! and gets more when that asks for more and uses what it has ([`proto::credit`]). What it does not
//! use for long it loses again ([`proto::lowering`]). What all connections have beyond their [own
//! share](OWN_SHARE) is limited, so that memory for Receives is. When others have all of that, a
//! client still gets its share.

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
        fewest_to_raise,
        next_grant,
        Arrivals,
        LEAST_GRANT, //
    },
    lowering::{
        Action,
        Lowering,
        Sight,
        ACKNOWLEDGED_MS,
        UNACKNOWLEDGED_MS, //
    }, //
};
use rdma::error::not_connected;

/// The credits that every connection may have, whatever others have.
const OWN_SHARE: u32 = LEAST_GRANT;

/// What all connections have Receives for beyond that.
static TOTAL: Atomic<u32> = Atomic::new(0);

const NANOSECONDS_PER_MS: u64 = 1_000_000;

/// How many of so many credits are beyond the share of a connection.
fn beyond_share(credits: u32) -> u32 {
    credits.saturating_sub(OWN_SHARE)
}

/// The time in nanoseconds.
fn now() -> u64 {
    // It began at zero.
    u64::try_from(Monotonic::ktime_get()).unwrap_or(0)
}

/// The credit grant of a connection.
#[pin_data]
pub(super) struct Credits {
    granted: Atomic<u32>,
    /// What the client asked for last.
    requested: Atomic<u32>,
    /// How many calls were in progress at the same time since this was last looked at, at most.
    most_in_progress: Atomic<u32>,
    /// How many replies have begun.
    replies: Atomic<u32>,
    #[pin]
    arrivals: SpinLock<Arrivals>,
    /// How many calls were counted in the present stretch of `arrivals`.
    calls: Atomic<u32>,
    /// Whether a thread is changing the grant and the Receives for it.
    changing: AtomicFlag,
    #[pin]
    backing: SpinLock<Backing>,
}

/// What there are Receives for.
struct Backing {
    /// The highest grant that there are Receives for.
    credits: u32,
    /// How many of these were taken from [`TOTAL`].
    of_total: u32,
    /// The connection has ended: no more are taken.
    ended: bool,
    lowering: Lowering,
    /// How many messages had arrived when the connection was last looked at.
    arrived: u32,
}

/// The right to change the grant of a connection and the Receives for it, until it is dropped.
pub(super) struct Change<'a>(&'a Credits);

/// What a connection does, for [`Change::lower`].
pub(super) struct Activity {
    /// How many messages have arrived.
    pub(super) arrived: u32,
    /// Whether messages wait for room in the Send queue.
    pub(super) replies_wait: bool,
    /// How long ago the oldest Send was posted that has not completed.
    pub(super) oldest_posted_ms: u64,
    /// Nanoseconds of a round trip. [`None`] if a Send completes before it is acknowledged, and nobody knows.
    pub(super) round_trip: Option<u64>,
    /// In how many milliseconds all arrived that have since the last look.
    pub(super) interval_ms: Msecs,
}

impl Credits {
    /// No credits yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            granted: Atomic::new(0),
            requested: Atomic::new(0),
            most_in_progress: Atomic::new(0),
            replies: Atomic::new(0),
            arrivals <- new_spinlock!(Arrivals::new(), "rpcrdma::arrivals"),
            calls: Atomic::new(0),
            changing: AtomicFlag::new(false),
            backing <- new_spinlock!(
                Backing {
                    credits: FIRST_CREDITS,
                    of_total: 0,
                    ended: false,
                    lowering: Lowering::new(now() / NANOSECONDS_PER_MS, LEAST_GRANT),
                    arrived: 0,
                },
                "rpcrdma::credits"
            ),
        })
    }

    /// To be called before [`Self::granted`] is read for a reply.
    pub(super) fn begin_reply(&self) {
        // `Change::lower` counts the replies after it has lowered the grant. It counts this one, or this one has the lower grant.
        self.replies.fetch_add(1, Full);
    }

    /// Sets the first grant. Receives for it are posted.
    pub(super) fn set_first(&self, credits: u32) {
        self.granted.store(credits, Release);
    }

    /// The grant.
    pub(super) fn granted(&self) -> u32 {
        self.granted.load(Acquire)
    }

    /// Notes how many credits the client asks for.
    pub(super) fn request(&self, credits: u32) {
        self.requested.store(credits, Relaxed);
    }

    /// Returns a higher grant, up to `limit`, if there is to be one now that a call is replied to
    /// while `in_progress` messages are in progress, of which up to `replies` may be replies to
    /// callbacks. A message to the client and its acknowledgement take `round_trip` nanoseconds.
    /// Does not sleep.
    pub(super) fn raised(
        &self,
        in_progress: u32,
        replies: u32,
        limit: u32,
        round_trip: impl FnOnce() -> Option<u64>,
    ) -> Option<u32> {
        if in_progress > self.most_in_progress.load(Relaxed) {
            // If another thread writes a lower number now, that is the number of one moment as well.
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
        // No reply to a callback is counted here.
        let arrived = self.arrived(fewest_to_raise(granted, requested), round_trip)?;
        next_grant(granted, arrived, 0, requested, limit)
    }

    /// Counts a call. If a round trip has passed, and so many as `enough` may have arrived in it,
    /// returns how many did. Takes no lock before so many have arrived.
    fn arrived(&self, enough: u32, round_trip: impl FnOnce() -> Option<u64>) -> Option<u32> {
        if self.calls.load(Relaxed).saturating_add(1) < enough {
            // That another thread begins a stretch at the same time makes a difference of a call.
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

    /// The right to change the grant. [`None`] if another thread has it.
    pub(super) fn begin_change(&self) -> Option<Change<'_>> {
        let taken = self.changing.xchg(true, Acquire);
        (!taken).then_some(Change(self))
    }

    /// So many Receives were freed that the present grant does not take.
    pub(super) fn receives_freed(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let least = self.granted().max(FIRST_CREDITS);
        let mut backing = self.backing.lock();
        let excess = backing.credits.saturating_sub(least).min(count);
        backing.credits = backing.credits.saturating_sub(excess);
        let of_total = backing.of_total;
        backing.of_total = of_total.min(beyond_share(backing.credits));
        let returned = of_total.saturating_sub(backing.of_total);
        drop(backing);
        Self::return_to_total(returned);
    }

    /// The credits that all connections have Receives for beyond their share.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(super) fn total() -> u32 {
        TOTAL.load(Relaxed)
    }

    /// Takes up to `credits` more from those that all connections may have. Returns how many.
    fn take_from_total(credits: u32) -> u32 {
        let limit = max_total_credits();
        let before = TOTAL.fetch_add(credits, Relaxed);
        let taken = limit.saturating_sub(before).min(credits);
        Self::return_to_total(credits.saturating_sub(taken));
        taken
    }

    /// Gives back what [`Self::take_from_total`] took.
    fn return_to_total(credits: u32) {
        TOTAL.fetch_sub(credits, Relaxed);
    }

    /// Ends the grant, and gives back what was taken for it. A raise may run beside this.
    pub(super) fn end(&self) {
        let mut backing = self.backing.lock();
        backing.ended = true;
        let of_total = core::mem::take(&mut backing.of_total);
        drop(backing);
        Self::return_to_total(of_total);
    }
}

impl Change<'_> {
    /// Raises the grant to `credits`, or to as many as there are for this connection, when `post` has posted the Receives for them.
    pub(super) fn raise(&self, credits: u32, post: impl FnOnce(u32) -> Result) -> Result {
        let Self(all) = self;
        let of_total = all.backing.lock().of_total;
        let wanted = beyond_share(credits).saturating_sub(of_total);
        let taken = Credits::take_from_total(wanted);
        let credits = credits.saturating_sub(wanted.saturating_sub(taken));
        // Another thread may have raised it meanwhile.
        let posted = match credits > all.granted() {
            true => post(credits),
            false => Err(EAGAIN),
        };
        posted.inspect_err(|_| Credits::return_to_total(taken))?;
        let mut backing = all.backing.lock();
        if backing.ended {
            drop(backing);
            Credits::return_to_total(taken);
            return Err(not_connected());
        }
        backing.credits = backing.credits.max(credits);
        backing.of_total = backing.of_total.saturating_add(taken);
        drop(backing);
        all.granted.store(credits, Release);
        Ok(())
    }

    /// Lowers the grant, if the client has not used it for long. If Receives are to go for this, or an earlier time, returns for how many
    /// credits there have to be some. Does not sleep.
    pub(super) fn lower(&self, activity: &Activity) -> Option<u32> {
        let Self(all) = self;
        let granted = all.granted();
        let mut backing = all.backing.lock();
        let calls = activity.arrived.wrapping_sub(backing.arrived);
        backing.arrived = activity.arrived;
        // Over a long path most calls are on the way. If nobody knows how long it is, all of them may have been.
        let interval = u64::from(activity.interval_ms).saturating_mul(NANOSECONDS_PER_MS);
        let on_the_way = u64::from(calls)
            .saturating_mul(activity.round_trip.unwrap_or(interval))
            .div_ceil(interval.max(1));
        let sight = Sight {
            now: now() / NANOSECONDS_PER_MS,
            granted,
            used: all
                .most_in_progress
                .xchg(0, Relaxed)
                .max(u32::try_from(on_the_way).unwrap_or(u32::MAX)),
            replies_wait: activity.replies_wait,
            replies: all.replies.load(Relaxed),
            oldest_posted: activity.oldest_posted_ms,
            settle_ms: match activity.round_trip {
                Some(_) => ACKNOWLEDGED_MS,
                None => UNACKNOWLEDGED_MS,
            },
        };
        match backing.lowering.look(&sight) {
            Action::None => None,
            Action::Lower(to) => {
                all.granted.xchg(to, Full);
                let replies = all.replies.load(Relaxed);
                backing.lowering.lowered(replies);
                None
            }
            Action::FreeReceives => Some(granted),
        }
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let Self(all) = self;
        all.changing.store(false, Release);
    }
}
