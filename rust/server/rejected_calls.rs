// SPDX-License-Identifier: GPL-2.0

//! Calls whose chunks could not be accessed.
//!
//! If the client denies access to a segment that it offered, the connection is lost. A client that
//! sends the call again over the next connection, with chunks that are no better, would lose that
//! one as well, and so on for ever. So the second reply to such a call is an RDMA_ERROR message
//! (RFC 8166, section 4.5.3).
//!
//! A connection looks for its calls only when calls were added since it looked last: a client that
//! has many calls rejected does not make the others take the lock for each call. Nor does it push
//! out theirs.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc,
        SpinLock, //
    },
    time::{
        Delta,
        Instant,
        Monotonic, //
    }, //
};
use proto::admission::Host;

/// A call whose chunks could not be accessed.
struct Entry {
    /// The address of the client, without its port.
    client: Host,
    xid: u32,
    since: Instant<Monotonic>,
}

/// The latest of these calls, of all connections of a listener.
#[pin_data]
pub(crate) struct RejectedCalls {
    #[pin]
    calls: SpinLock<KVec<Entry>>,
    /// How many calls were ever added. It grows when the call is there.
    added: Atomic<u64>,
}

impl RejectedCalls {
    /// How many calls are kept.
    const MAX: usize = 32;

    /// How many calls of one client are kept.
    const MAX_OF_CLIENT: usize = 8;

    /// How long a call is kept: a client connects again before that, and uses the same XID for
    /// another call much later.
    const LIFETIME: Delta = Delta::from_secs(120);

    /// No calls. Sleeps.
    pub(super) fn new() -> Result<Arc<Self>> {
        let calls = KVec::with_capacity(Self::MAX, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                calls <- new_spinlock!(calls, "rpcrdma::rejected_calls"),
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
        // Of all calls, the oldest is the first.
        let replaced = match own.count().saturating_add(1) >= Self::MAX_OF_CLIENT {
            true => oldest,
            false => (calls.len() >= Self::MAX).then_some(0),
        };
        if let Some(at) = replaced {
            let _ = calls.remove(at);
        }
        let _ = calls.push_within_capacity(entry);
        self.added.fetch_add(1, Release);
    }

    /// How many calls were ever added, of any client.
    pub(super) fn added(&self) -> u64 {
        self.added.load(Acquire)
    }

    /// Removes the call `xid` of `client`, which is answered now. Returns whether there was one,
    /// and whether there are others of it.
    pub(super) fn take(&self, client: &Host, xid: u32) -> (bool, bool) {
        // Not under the lock, and not for each call.
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
