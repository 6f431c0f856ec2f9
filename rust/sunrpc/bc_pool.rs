// SPDX-License-Identifier: GPL-2.0

//! The requests of calls in the reverse direction.
//!
//! C header: [`include/linux/sunrpc/bc_xprt.h`](srctree/include/linux/sunrpc/bc_xprt.h)

use crate::bc_rqst::{
    CallbackError,
    CallbackRqst, //
};
use kernel::{
    alloc::flags::{
        GFP_NOWAIT,
        __GFP_NOWARN, //
    },
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};

/// The reverse-direction requests of one transport.
#[pin_data]
pub(crate) struct BcPool {
    /// The most requests.
    limit: usize,
    #[pin]
    pool: SpinLock<Pool>,
}

/// # Invariants
///
/// `idle` holds those of the `total` requests that are not in use.
struct Pool {
    idle: KVec<KBox<CallbackRqst>>,
    total: usize,
}

impl BcPool {
    /// A pool without requests, for a peer that may have `slots` calls outstanding.
    pub(crate) fn new(slots: u32) -> impl PinInit<Self> {
        pin_init!(Self {
            // A call that came over a lost connection may still be executed when the peer has sent
            // as many over the next one.
            limit: 2 * slots as usize,
            // INVARIANT: There are none.
            pool <- new_spinlock!(Pool { idle: KVec::new(), total: 0 }, "sunrpc::BcPool"),
        })
    }

    /// Allocates `count` requests before the first call comes, and the list of idle ones. May
    /// sleep.
    pub(crate) fn reserve(&self, count: usize) -> Result {
        let limit = self.limit;
        let mut room = KVec::with_capacity(limit, GFP_KERNEL)?;
        {
            let mut pool = self.pool.lock();
            if pool.idle.capacity() < limit {
                while let Some(rqst) = pool.idle.pop() {
                    room.push_within_capacity(rqst)?;
                }
                core::mem::swap(&mut pool.idle, &mut room);
            }
        }
        while self.pool.lock().total < count.min(limit) {
            let rqst = CallbackRqst::new(GFP_KERNEL)?;
            let mut pool = self.pool.lock();
            pool.idle.push_within_capacity(rqst)?;
            pool.total += 1;
        }
        Ok(())
    }

    /// Frees the idle requests.
    pub(crate) fn free_idle(&self) {
        loop {
            let rqst = {
                let mut pool = self.pool.lock();
                let rqst = pool.idle.pop();
                pool.total -= usize::from(rqst.is_some());
                rqst
            };
            if rqst.is_none() {
                break;
            }
        }
    }

    /// Takes an idle request, or allocates one. Does not sleep.
    pub(crate) fn take(&self) -> Result<KBox<CallbackRqst>, CallbackError> {
        {
            let mut pool = self.pool.lock();
            if let Some(rqst) = pool.idle.pop() {
                return Ok(rqst);
            }
            if pool.total >= self.limit {
                return Err(CallbackError::Overflow);
            }
            // INVARIANT: Counted, and not idle.
            pool.total += 1;
        }
        CallbackRqst::new(GFP_NOWAIT | __GFP_NOWARN).map_err(|_| {
            self.pool.lock().total -= 1;
            CallbackError::NoMemory
        })
    }

    /// Puts back a request that is not in use any more.
    pub(crate) fn put(&self, rqst: KBox<CallbackRqst>) {
        let mut pool = self.pool.lock();
        if let Err(full) = pool.idle.push_within_capacity(rqst) {
            pool.total -= 1;
            drop(pool);
            drop(full);
        }
    }
}
