// SPDX-License-Identifier: GPL-2.0

//! Calls that named memory which their client then denied us.
//!
//! That ends the connection. A client that sends such a call again over the next one, with chunks that
//! are no better, would lose that as well, and so on for ever: it gets an error instead (RFC 8166,
//! section 4.5.3).

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

/// A call that could not be served.
struct Entry {
    client: SockAddr,
    xid: u32,
    since: Instant<Monotonic>,
}

/// The last ones, of all connections of a listener.
#[pin_data]
pub(crate) struct RejectedCalls {
    #[pin]
    calls: SpinLock<KVec<Entry>>,
    /// How many there are, to be asked without the lock.
    count: Atomic<usize>,
}

impl RejectedCalls {
    /// As many are kept.
    const MAX: usize = 32;

    /// For so long: a client connects again before that, and has other calls with the same
    /// transaction id much later.
    const MEMORY: Delta = Delta::from_secs(120);

    /// Of none yet. Sleeps.
    pub(super) fn new() -> Result<Arc<Self>> {
        let calls = KVec::with_capacity(Self::MAX, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                calls <- new_spinlock!(calls, "rpcrdma::denied"),
                count: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Remembers the call `xid` of `client`. Does not sleep.
    pub(super) fn add(&self, client: SockAddr, xid: u32) {
        let entry = Entry {
            client,
            xid,
            since: Instant::now(),
        };
        let mut calls = self.calls.lock();
        if calls.len() >= Self::MAX {
            // The oldest.
            let _ = calls.remove(0);
        }
        let _ = calls.push_within_capacity(entry);
        self.count.store(calls.len(), Relaxed);
    }

    /// Whether the call `xid` of `client` is one of them. From now on it is not, as it is answered now.
    pub(super) fn take(&self, client: &SockAddr, xid: u32) -> bool {
        if self.count.load(Relaxed) == 0 {
            return false;
        }
        let mut calls = self.calls.lock();
        calls.retain(|call| call.since.elapsed() < Self::MEMORY);
        let found = calls
            .iter()
            .position(|call| call.xid == xid && call.client.is_same_host(client));
        let taken = found.is_some_and(|at| calls.remove(at).is_ok());
        self.count.store(calls.len(), Relaxed);
        taken
    }
}
