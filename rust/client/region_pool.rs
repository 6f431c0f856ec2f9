// SPDX-License-Identifier: GPL-2.0

//! The memory regions of a connection that are not in use.
//!
//! All are there when the connection is made: an allocation on the send path could
//! wait for the very write-back that the Send is part of. Who finds the pool empty
//! waits for an RPC to give its regions back.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use rdma::{
    mr::Idle,
    Handler,
    ProtectionDomain, //
};

/// A pool of regions.
#[pin_data]
pub(crate) struct RegionPool<H: Handler> {
    #[pin]
    state: SpinLock<State<H>>,
}

struct State<H: Handler> {
    /// [`None`] before the connection is made and after it is torn down.
    idle: Option<Idle<H>>,
    /// What the largest RPC takes.
    reserve: usize,
    /// Somebody found too few and waits.
    starved: bool,
}

impl<H: Handler> RegionPool<H> {
    /// An empty pool.
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = State {
            idle: None,
            reserve: 0,
            starved: false,
        };
        pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::region_pool"),
        })
    }

    /// Makes `count` regions for up to `pages` each out of `idle`, which is of the same kind, and new
    /// ones. No RPC takes more than `reserve`. Returns how many are new. Sleeps.
    pub(crate) fn fill(
        &self,
        pd: &Arc<ProtectionDomain<H>>,
        mut idle: Idle<H>,
        count: usize,
        pages: u32,
        reserve: usize,
    ) -> Result<usize> {
        let mut idle = idle.take(count);
        let missing = count.saturating_sub(idle.len());
        for _ in 0..missing {
            idle.allocate(pd, pages)?;
        }
        let mut state = self.state.lock();
        state.idle = Some(idle);
        state.reserve = reserve;
        Ok(missing)
    }

    /// Takes `count` regions, or none if there are fewer: then [`Self::put`] will tell.
    pub(crate) fn take(&self, count: usize) -> Option<Idle<H>> {
        let mut state = self.state.lock();
        let taken = match state.idle.as_mut() {
            Some(idle) if idle.len() >= count => Some(idle.take(count)),
            _ => None,
        };
        state.starved |= taken.is_none();
        taken
    }

    /// As [`Self::take`], but leaves enough for any RPC to those whose turn it is, and nobody is told
    /// when there are more.
    pub(crate) fn take_spare(&self, count: usize) -> Option<Idle<H>> {
        let mut state = self.state.lock();
        let needed = count.saturating_add(state.reserve);
        let idle = state.idle.as_mut().filter(|idle| idle.len() >= needed)?;
        Some(idle.take(count))
    }

    /// Gives regions back. Returns whether somebody waits for them. After [`Self::close`] it
    /// deregisters them, which sleeps.
    #[must_use]
    pub(crate) fn put(&self, mut regions: Idle<H>) -> bool {
        let mut state = self.state.lock();
        if let Some(idle) = state.idle.as_mut() {
            idle.append(&mut regions);
        }
        core::mem::take(&mut state.starved)
        // The lock goes first, then what `regions` still holds.
    }

    /// Returns all. What is given back from now on is deregistered.
    pub(crate) fn close(&self) -> Idle<H> {
        self.state.lock().idle.take().unwrap_or_default()
    }
}
