// SPDX-License-Identifier: GPL-2.0

//! Calls that their tasks released before a reply came.
//!
//! Such a call still occupies a Receive of the peer, so its credit stays taken until the reply
//! comes or the connection ends (RFC 8166, section 3.3.1). sunrpc alone would return the credit
//! (`rq_cong`) when the task releases the request.

use core::sync::atomic::{
    AtomicI32,
    Ordering, //
};

/// The number of calls that were released before their reply came, less the number of replies that
/// matched no request.
///
/// Which reply belongs to which call does not matter, so both are counted, not matched. A reply may
/// come before its call is counted as released, as a request leaves sunrpc's receive queue first:
/// then the number is below zero for a while. A peer that replies to calls that were never sent can
/// only make this end believe that the peer has more room than it has.
///
/// Callers of all methods but [`Self::credits`] hold `transport_lock`.
pub(crate) struct OrphanedCalls(AtomicI32);

impl OrphanedCalls {
    pub(crate) const fn new() -> Self {
        Self(AtomicI32::new(0))
    }

    /// Counts a call that was sent and has no reply. Returns whether its credit stays taken.
    pub(crate) fn add(&self) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.saturating_add(1), Ordering::Relaxed);
        before >= 0
    }

    /// Counts a reply that matched no request. Returns whether it frees a credit.
    pub(crate) fn replied(&self) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.saturating_sub(1), Ordering::Relaxed);
        before > 0
    }

    /// Starts again at zero: the connection has ended, and with it all its credits.
    pub(crate) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The number of credits that released calls still take.
    pub(crate) fn credits(&self) -> u32 {
        u32::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}
