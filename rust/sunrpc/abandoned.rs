// SPDX-License-Identifier: GPL-2.0

//! Calls whose caller does not wait for the reply any more.
//!
//! Such a call still occupies a buffer of the peer, so it keeps its credit until it is answered or
//! the connection is over (RFC 8166, section 3.3.1). sunrpc would give the credit back with the
//! request.

use core::sync::atomic::{
    AtomicI32,
    Ordering, //
};

/// How many calls were abandoned, less the replies that found nobody who waits.
///
/// Which reply answers which call does not matter, so they are counted, not matched. A reply may come
/// before its call is counted as abandoned, as a request leaves sunrpc's queue first: then the number
/// is below zero for a while. A peer that answers what nobody asked can only make us believe that it
/// has more room than it has.
///
/// All but [`Self::count`] is called under `transport_lock`.
pub(crate) struct Abandoned(AtomicI32);

impl Abandoned {
    pub(crate) const fn new() -> Self {
        Self(AtomicI32::new(0))
    }

    /// A call that was sent, and not answered, is abandoned. Says whether it keeps its credit.
    pub(crate) fn abandon(&self) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.saturating_add(1), Ordering::Relaxed);
        before >= 0
    }

    /// A reply came that nobody waits for. Says whether it gives a credit back.
    pub(crate) fn answered(&self) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(before.saturating_sub(1), Ordering::Relaxed);
        before > 0
    }

    /// The connection is over, and with it all credits.
    pub(crate) fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// How many calls keep a credit though nobody waits for them.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}
