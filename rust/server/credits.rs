// SPDX-License-Identifier: GPL-2.0

//! The credit grant of a connection (RFC 8166, section 3.3.1).
//!
//! A connection begins with few credits, has [eight](proto::credit::MIN_GRANT) when the client has
//! sent a call, and gets more when the client asks for more and uses what it has
//! ([`proto::credit`]). An unused grant decays ([`proto::grant_decay`]). Each connection owns a
//! small share of credits; more are borrowed from a pool of `max_total_requests`, which bounds the
//! memory for Receives. An empty pool never takes the share ([`proto::grant`]).
//!
//! Here are the locks and the atomic numbers. Replies read the grant, and count calls, without a
//! lock.

use crate::prelude::*;
use kernel::time::ClockSource;
use proto::{
    credit,
    grant::{
        self,
        Grant,
        Raise, //
    },
    grant_decay::Action, //
};

/// The credits that all connections together have borrowed beyond their share.
static BORROWED: Atomic<u32> = Atomic::new(0);

const NANOSECONDS_PER_MS: u64 = 1_000_000;

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
    arrivals: SpinLock<credit::Arrivals>,
    /// The number of calls in the present interval of `arrivals`.
    calls: Atomic<u32>,
    /// Whether a thread holds a [`GrantUpdate`].
    updating: AtomicFlag,
    /// The Receives behind the grant, and the credits that are borrowed, and counted in
    /// [`BORROWED`].
    #[pin]
    account: SpinLock<Grant>,
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
            arrivals <- new_spinlock!(credit::Arrivals::new(), "rpcrdma::arrivals"),
            calls: Atomic::new(0),
            updating: AtomicFlag::new(false),
            account <- new_spinlock!(
                Grant::new(config::FIRST_CREDITS, now() / NANOSECONDS_PER_MS),
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
        let raised = credit::next_grant(granted, in_progress, replies, requested, limit);
        if raised.is_some() {
            return raised;
        }
        // Replies to callbacks are not counted here.
        let arrived = self.arrived(credit::min_calls_to_raise(granted, requested), round_trip)?;
        credit::next_grant(granted, arrived, 0, requested, limit)
    }

    /// Counts a call. If a round trip has passed and `enough` calls may have arrived in it, returns
    /// the number that did. Takes no lock until `enough` calls have arrived.
    fn arrived(&self, enough: u32, round_trip: impl FnOnce() -> Option<u64>) -> Option<u32> {
        if self.calls.load(Relaxed).saturating_add(1) < enough {
            // A race with another thread that begins an interval miscounts by one call.
            self.calls.add(1, Relaxed);
            return None;
        }
        let Some(round_trip) = round_trip() else {
            // Asks again after as many calls, as that takes a lock.
            self.calls.store(1, Relaxed);
            return None;
        };
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
        let granted = self.granted();
        let returned = self.account.lock().receives_freed(count, granted);
        Self::repay(returned);
    }

    /// Returns the number of credits that all connections together have borrowed.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(super) fn all_borrowed() -> u32 {
        BORROWED.load(Relaxed)
    }

    /// Borrows up to `credits` from the pool. Returns the number borrowed.
    fn borrow(credits: u32) -> u32 {
        let limit = config::max_total_credits();
        let before = BORROWED.fetch_add(credits, Relaxed);
        let taken = grant::available(credits, before, limit);
        Self::repay(credits.saturating_sub(taken));
        taken
    }

    /// Returns credits that [`Self::borrow`] borrowed.
    fn repay(credits: u32) {
        BORROWED.fetch_sub(credits, Relaxed);
    }

    /// Ends the grant, and returns what it borrowed. A raise may run at the same time.
    pub(super) fn end(&self) {
        let returned = self.account.lock().end();
        Self::repay(returned);
    }
}

impl GrantUpdate<'_> {
    /// Raises the grant to `credits`, or as far as the pool allows, after `post` has posted the
    /// Receives for it.
    pub(super) fn raise(&self, credits: u32, post: impl FnOnce(u32) -> Result) -> Result {
        let Self(all) = self;
        let wanted = all.account.lock().to_borrow(credits);
        let raise = Raise::new(credits, wanted, Credits::borrow(wanted));
        let credits = raise.credits();
        // Another thread may have raised the grant meanwhile.
        let posted = if credits > all.granted() {
            post(credits)
        } else {
            Err(EAGAIN)
        };
        let (raise, error) = match posted {
            Ok(()) => {
                let recorded = all.account.lock().raised(raise);
                let Err(raise) = recorded else {
                    all.granted.store(credits, Release);
                    return Ok(());
                };
                (raise, enotconn())
            }
            Err(error) => (raise, error),
        };
        Credits::repay(raise.into_borrowed());
        Err(error)
    }

    /// Lowers the grant if the client has not used it for long. If Receives can be freed now,
    /// returns the number of credits that must keep theirs. Does not sleep.
    pub(super) fn lower(&self, activity: &Activity) -> Option<u32> {
        let Self(all) = self;
        let granted = all.granted();
        let mut account = all.account.lock();
        let action = account.observe(&grant::Activity {
            now_ms: now() / NANOSECONDS_PER_MS,
            interval_ms: u64::from(activity.interval_ms),
            granted,
            most_in_progress: all.most_in_progress.xchg(0, Relaxed),
            arrived: activity.arrived,
            replies: all.replies.load(Relaxed),
            replies_wait: activity.replies_wait,
            oldest_posted_ms: activity.oldest_posted_ms,
            round_trip: activity.round_trip,
        });
        match action {
            Action::None => None,
            Action::Lower(to) => {
                all.granted.xchg(to, Full);
                let replies = all.replies.load(Relaxed);
                account.lowered(replies);
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
