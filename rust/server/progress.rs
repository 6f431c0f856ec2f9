// SPDX-License-Identifier: GPL-2.0

//! A deadline for what is posted for a client.
//!
//! The client says in its connection request how often the device sends again, and a Send for which it has no Receive may
//! be sent again for ever. So each Send, with the RDMA Writes before it, and all RDMA Reads of a call together have to complete
//! within the time that `progress_timeout` says; else the connection ends. The time begins when the first of the work requests
//! is posted, and nothing that completes starts it again. A client that is accepted has as long to confirm that, and then as long until
//! its first message has arrived. One that has sent a message may be idle.
//!
//! While something is posted, or a client has sent nothing yet, the timer of the transport expires once a second. A Send
//! that is a second old without a known end is flushed, unless a transfer is posted: most Sends ask for no completion, and nothing may
//! follow for hours. The end of a Send may so be known later than it came, by as long as a transfer takes, and by two seconds without one. So
//! the pages that are part of a Send are given back soon after the last one, too. When nothing is posted any more, the connection gives
//! back buffers and lists that it keeps for more.

use super::{
    config::{
        progress_timeout_ms,
        STALLED, //
    },
    connection::Connection,
    credits::Activity,
    queue_limits::FIRST_SENDS, //
};
use crate::endpoint::SendBuffering;
use kernel::{
    prelude::*,
    sync::atomic::{
        Full,
        Relaxed, //
    },
    time::{
        msecs_to_jiffies,
        Instant,
        Jiffies,
        Monotonic,
        Msecs, //
    }, //
};
use proto::conn::server::Event;
use rdma::QueuePair;
use sunrpc::SvcConnection;

/// How often the timer expires.
const INTERVAL_MS: Msecs = 1_000;

/// How many milliseconds `jiffies` are.
fn milliseconds(jiffies: Jiffies) -> u64 {
    let jiffies = u64::try_from(jiffies).unwrap_or(u64::MAX);
    let each_second = u64::try_from(msecs_to_jiffies(1_000)).unwrap_or(0);
    jiffies
        .saturating_mul(1_000)
        .checked_div(each_second)
        .unwrap_or(0)
}

/// Whether less than the `progress_timeout` has passed since `begin`.
fn is_in_time(begin: &Instant<Monotonic>) -> bool {
    begin.elapsed().as_millis() < i64::from(progress_timeout_ms())
}

impl<T: SvcConnection> Connection<T> {
    /// Has the timer expire, as something was posted. Does not sleep.
    pub(super) fn watch(&self) {
        // Whoever posts has had the lock of the Send queue since `progresses` last looked there: either that saw what is posted
        // now, or this sees what it wrote before.
        if !self.watched.load(Relaxed) && !self.watched.xchg(true, Full) {
            self.look_again();
        }
    }

    /// Whether the timer runs. If not, nothing is posted, nor was of late.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Relaxed)
    }

    /// As [`Self::watch`], as the client was accepted: it says itself how long the CM waits until it confirms that. Does not sleep.
    pub(super) fn watch_accepted(&self) {
        self.accepted.populate(Instant::now());
        self.watch();
    }

    /// Has [`Self::check_progress`] called after the interval. Does not sleep.
    fn look_again(&self) {
        if let Some(link) = self.link.as_ref() {
            link.with(|xprt| xprt.start_timer(INTERVAL_MS));
        }
    }

    /// The timer expired: ends the connection if what is posted on `queue` takes too long, and else starts the timer again, if
    /// something is posted. Does not sleep.
    pub(super) fn check_progress(&self, queue: &QueuePair<Self>) {
        if self.progresses(queue) {
            self.look_again();
        }
    }

    /// Whether the client may still confirm that it is accepted. Ends the connection if the time for that is over.
    fn is_accepted_in_time(&self) -> bool {
        let Some(accepted) = self.accepted.as_ref() else {
            return false;
        };
        if !self.state.is_accepting() {
            // It has confirmed meanwhile, or the connection has ended.
            return self.state.is_open();
        }
        is_in_time(accepted) || self.stalled(c"the client did not confirm that it was accepted")
    }

    /// Whether to wait for the first message of the client. Ends the connection if the time for that is over.
    fn awaits_first_message(&self) -> bool {
        // Without the event that the connection is established, a message has opened it, and is counted soon.
        let established = self.established.as_ref();
        if self.arrived() != 0 {
            // That number may wrap.
            self.has_message.store(true, Relaxed);
        }
        !self.has_message.load(Relaxed)
            && (established.is_none_or(is_in_time)
                || self.stalled(c"no message of the client arrived in time"))
    }

    /// Ends the connection, whose client takes too long, for this `reason`. Returns false: nobody need look again.
    fn stalled(&self, reason: &CStr) -> bool {
        STALLED.add(1);
        self.lost(Event::Disconnected, reason);
        false
    }

    /// Lowers the grant if the client has not used it for long, and lets Receives go that it does not take any more. The `oldest` of what
    /// is posted on `queue` is so old. Does not sleep.
    fn lower_grant(&self, queue: &QueuePair<Self>, oldest: Option<Jiffies>) {
        let Some(change) = self.credits.begin_change() else {
            return;
        };
        let backed = change.lower(&Activity {
            arrived: self.arrived(),
            replies_wait: self.waits_for_buffers() || self.waits_for_credits(),
            oldest_posted_ms: oldest.map_or(0, milliseconds),
            round_trip: queue
                .sends_complete_acknowledged()
                .then(|| queue.least_round_trip().unwrap_or(0)),
            // When the timer did not run nothing arrived.
            interval_ms: INTERVAL_MS,
        });
        if let Some(Ok(credits)) = backed.map(usize::try_from) {
            let freed = self.receives.shrink(queue, credits);
            self.credits.receives_freed(freed);
        }
    }

    /// Whether to look again.
    fn progresses(&self, queue: &QueuePair<Self>) -> bool {
        if !self.state.is_open() {
            return self.is_accepted_in_time();
        }
        let oldest = queue.oldest_posted();
        self.lower_grant(queue, oldest);
        let Some(age) = oldest else {
            queue.give_up_spares(FIRST_SENDS);
            if self.awaits_first_message() {
                return true;
            }
            self.watched.xchg(false, Full);
            return queue.oldest_posted().is_some() && !self.watched.xchg(true, Full);
        };
        if age >= msecs_to_jiffies(progress_timeout_ms()) {
            return self.stalled(c"what was posted did not complete in time");
        }
        if age >= msecs_to_jiffies(INTERVAL_MS) && queue.flush_sends().is_err() {
            self.lost(Event::Disconnected, c"a work request could not be posted");
            return false;
        }
        true
    }
}
