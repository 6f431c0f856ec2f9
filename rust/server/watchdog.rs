// SPDX-License-Identifier: GPL-2.0

//! A watchdog for posted work requests, and for clients that send nothing.
//!
//! The client chooses in its connection request how often our device retransmits, and a Send that
//! finds no Receive may be retried for ever. So each Send, with the RDMA Writes before it, and all
//! RDMA Reads of a call together must complete within `progress_timeout`, or the connection ends.
//! The time begins when the first of the work requests is posted, and no completion restarts it. A
//! client that is accepted has as long to confirm that, and then as long again until its first
//! message arrives. After that it may be idle.
//!
//! While a work request is posted, or a client has sent nothing yet, the timer of the transport
//! expires once a second. Most Sends are unsignalled. If one is outstanding for a second and no
//! transfer follows, the watchdog posts a signalled no-op, so a Send's completion is seen at most
//! two seconds late, or as late as a transfer takes, and the pages that are part of it are released
//! soon. When nothing is posted any more, the connection frees spare buffers and lists.

use super::credits::Activity;
use crate::prelude::*;
use kernel::time::{
    msecs_to_jiffies,
    Jiffies, //
};

/// The interval of the timer.
const INTERVAL_MS: Msecs = 1_000;

/// Converts `jiffies` to milliseconds.
fn milliseconds(jiffies: Jiffies) -> u64 {
    let jiffies = u64::try_from(jiffies).unwrap_or(u64::MAX);
    let each_second = u64::try_from(msecs_to_jiffies(1_000)).unwrap_or(0);
    jiffies
        .saturating_mul(1_000)
        .checked_div(each_second)
        .unwrap_or(0)
}

/// Returns whether less than the `progress_timeout` has passed since `begin`.
fn is_in_time(begin: &Instant<Monotonic>) -> bool {
    begin.elapsed().as_millis() < i64::from(config::progress_timeout_ms())
}

impl ServerConn {
    /// Starts the timer, if it does not run, because something was posted. Does not sleep.
    pub(super) fn start_watchdog(&self) {
        // The poster has held the lock of the Send queue since `check_deadlines` last looked there:
        // either that saw what is posted now, or this sees what it wrote before.
        if !self.watched.load(Relaxed) && !self.watched.xchg(true, Full) {
            self.restart_timer();
        }
    }

    /// Returns whether the timer runs. If not, nothing is posted, nor was in the last second.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Relaxed)
    }

    /// Starts the timer because the client was accepted: the client itself chooses how long the CM
    /// waits for its confirmation. Does not sleep.
    pub(super) fn start_accept_watchdog(&self) {
        self.accepted.populate(Instant::now());
        self.start_watchdog();
    }

    /// Schedules the next [`Self::watchdog_expired`]. Does not sleep.
    fn restart_timer(&self) {
        if let Some(link) = self.link.as_ref() {
            link.with(|xprt| xprt.start_timer(INTERVAL_MS));
        }
    }

    /// Handles the expired timer: ends the connection if a work request on `queue` takes too long,
    /// and restarts the timer while something is posted. Does not sleep.
    pub(super) fn watchdog_expired(&self, queue: &QueuePair<Self>) {
        if self.check_deadlines(queue) {
            self.restart_timer();
        }
    }

    /// Returns whether the client may still confirm that it was accepted. Ends the connection if
    /// the time for that is over.
    fn is_accepted_in_time(&self) -> bool {
        let Some(accepted) = self.accepted.as_ref() else {
            return false;
        };
        if !self.state.is_accepting() {
            // The client has confirmed meanwhile, or the connection has ended.
            return self.state.is_open();
        }
        let in_time = is_in_time(accepted);
        if !in_time {
            self.end(Cause::AcceptTimedOut);
        }
        in_time
    }

    /// Returns whether to wait for the client's first message. Ends the connection if the time for
    /// that is over.
    fn awaits_first_message(&self) -> bool {
        // If there was no event that the connection is established, a message has opened it, and is
        // counted soon.
        let established = self.established.as_ref();
        if self.arrived() != 0 {
            // The number may wrap to zero.
            self.has_message.store(true, Relaxed);
        }
        if self.has_message.load(Relaxed) {
            return false;
        }
        let in_time = established.is_none_or(is_in_time);
        if !in_time {
            self.end(Cause::FirstMessageTimedOut);
        }
        in_time
    }

    /// Lowers the grant if the client has not used it for long, and frees Receives that it does not
    /// need any more. `oldest` is the age of the oldest work request on `queue`. Does not sleep.
    fn lower_grant(&self, queue: &QueuePair<Self>, oldest: Option<Jiffies>) {
        let Some(update) = self.credits.begin_update() else {
            return;
        };
        let backed = update.lower(&Activity {
            arrived: self.arrived(),
            replies_wait: self.waits_for_buffers() || self.waits_for_credits(),
            oldest_posted_ms: oldest.map_or(0, milliseconds),
            round_trip: queue
                .sends_complete_acknowledged()
                .then(|| queue.min_rtt().unwrap_or(0)),
            // Nothing arrived while the timer did not run.
            interval_ms: INTERVAL_MS,
        });
        if let Some(Ok(credits)) = backed.map(usize::try_from) {
            let freed = queue.shrink_receives(credits);
            self.credits.receives_freed(freed);
        }
    }

    /// Checks the deadlines. Returns whether the timer must run.
    fn check_deadlines(&self, queue: &QueuePair<Self>) -> bool {
        if !self.state.is_open() {
            return self.is_accepted_in_time();
        }
        let oldest = queue.oldest_posted();
        self.lower_grant(queue, oldest);
        let Some(age) = oldest else {
            queue.free_spares(config::FIRST_SENDS);
            if self.awaits_first_message() {
                return true;
            }
            self.watched.xchg(false, Full);
            return queue.oldest_posted().is_some() && !self.watched.xchg(true, Full);
        };
        if age >= msecs_to_jiffies(config::progress_timeout_ms()) {
            self.end(Cause::WorkRequestTimedOut);
            return false;
        }
        if age >= msecs_to_jiffies(INTERVAL_MS) && queue.post_barrier().is_err() {
            self.end(Cause::BarrierNotPosted);
            return false;
        }
        true
    }
}
