// SPDX-License-Identifier: GPL-2.0

//! Calls whose chunks the client denied access to.
//!
//! If the client denies access to a segment that it offered, the connection is lost. A client that
//! sends the call again over the next connection, with the same chunks, would lose that one as
//! well, and so on for ever. So the second reply to such a call is an RDMA_ERROR message (RFC 8166,
//! section 4.5.3).
//!
//! A connection searches the list only when calls were added since its last search, so a client
//! with many denied calls does not make others take the lock for each call. Nor does it displace
//! theirs.

use crate::prelude::*;
use kernel::time::Delta;
use proto::admission::Host;

/// A call whose chunks the client denied access to.
struct Entry {
    /// The address of the client, without its port.
    client: Host,
    xid: u32,
    since: Instant<Monotonic>,
}

/// The latest of these calls, for all connections of a listener.
#[pin_data]
pub(crate) struct DeniedCalls {
    #[pin]
    calls: SpinLock<KVec<Entry>>,
    /// The number of calls ever added. Incremented after the call is in the list.
    added: Atomic<u64>,
}

impl DeniedCalls {
    /// The largest number of calls.
    const MAX: usize = 32;

    /// The largest number of calls of one client.
    const MAX_OF_CLIENT: usize = 8;

    /// The lifetime of an entry: a client reconnects sooner, and reuses an XID much later.
    const LIFETIME: Delta = Delta::from_secs(120);

    /// Creates an empty list. Sleeps.
    pub(super) fn new() -> Result<Arc<Self>> {
        let calls = KVec::with_capacity(Self::MAX, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                calls <- new_spinlock!(calls, "rpcrdma::denied_calls"),
                added: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds the call `xid` of `client`. Does not sleep.
    pub(super) fn add(&self, client: Host, xid: u32) {
        let entry = Entry {
            client,
            xid,
            since: Instant::now(),
        };
        let mut calls = self.calls.lock();
        let mut own = calls
            .iter()
            .enumerate()
            .filter(|(_, call)| call.client == client);
        let oldest = own.next().map(|(at, _)| at);
        // The first of all calls is the oldest.
        let replaced = if own.count().saturating_add(1) >= Self::MAX_OF_CLIENT {
            oldest
        } else {
            (calls.len() >= Self::MAX).then_some(0)
        };
        if let Some(at) = replaced {
            let _ = calls.remove(at);
        }
        let _ = calls.push_within_capacity(entry);
        self.added.fetch_add(1, Release);
    }

    /// Returns the number of calls ever added, of any client.
    pub(super) fn added(&self) -> u64 {
        self.added.load(Acquire)
    }

    /// Removes the call `xid` of `client`, which is answered now. Returns whether it was there, and
    /// whether other calls of the client are.
    pub(super) fn take(&self, client: &Host, xid: u32) -> (bool, bool) {
        // The clock is read once, and not under the lock.
        let now = Instant::now();
        let mut calls = self.calls.lock();
        calls.retain(|call| now - call.since < Self::LIFETIME);
        let found = calls
            .iter()
            .position(|call| call.xid == xid && call.client == *client);
        let taken = found.is_some_and(|at| calls.remove(at).is_ok());
        let others = calls.iter().any(|call| call.client == *client);
        (taken, others)
    }
}
