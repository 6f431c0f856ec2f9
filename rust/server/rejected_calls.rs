// SPDX-License-Identifier: GPL-2.0

//! Calls whose chunks could not be accessed.
//!
//! If the client denies access to a segment that it offered, the connection is lost. A client that
//! sends the call again over the next connection, with chunks that are no better, would lose that
//! one as well, and so on for ever. So the second reply to such a call is an RDMA_ERROR message
//! (RFC 8166, section 4.5.3).

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
    time::{
        Delta,
        Instant,
        Monotonic, //
    },
};
use sunrpc::SockAddr;

/// A call whose chunks could not be accessed.
struct Entry {
    client: SockAddr,
    xid: u32,
    since: Instant<Monotonic>,
}

/// The latest of these calls, of all connections of a listener.
#[pin_data]
pub(crate) struct RejectedCalls {
    #[pin]
    calls: SpinLock<KVec<Entry>>,
    /// The length of `calls`, to be read without the lock.
    count: Atomic<usize>,
}

impl RejectedCalls {
    /// How many calls are kept.
    const MAX: usize = 32;

    /// How long a call is kept: a client connects again before that, and uses the same XID for
    /// another call much later.
    const LIFETIME: Delta = Delta::from_secs(120);

    /// No calls. Sleeps.
    pub(super) fn new() -> Result<Arc<Self>> {
        let calls = KVec::with_capacity(Self::MAX, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                calls <- new_spinlock!(calls, "rpcrdma::rejected_calls"),
                count: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Adds the call `xid` of `client`. Does not sleep.
    pub(super) fn add(&self, client: SockAddr, xid: u32) {
        let entry = Entry {
            client,
            xid,
            since: Instant::now(),
        };
        let mut calls = self.calls.lock();
        if calls.len() >= Self::MAX {
            // Removes the oldest.
            let _ = calls.remove(0);
        }
        let _ = calls.push_within_capacity(entry);
        self.count.store(calls.len(), Relaxed);
    }

    /// Removes the call `xid` of `client`, which is answered now. Returns whether there was one.
    pub(super) fn take(&self, client: &SockAddr, xid: u32) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let mut calls = self.calls.lock();
        calls.retain(|call| call.since.elapsed() < Self::LIFETIME);
        let found = calls
            .iter()
            .position(|call| call.xid == xid && call.client.is_same_host(client));
        let taken = found.is_some_and(|at| calls.remove(at).is_ok());
        self.count.store(calls.len(), Relaxed);
        taken
    }
}
