// SPDX-License-Identifier: GPL-2.0

//! The memory regions (MRs) of a connection that are not in use.
//!
//! They are allocated when the connection is made and when it [grows](super::connect): on the send
//! path, an allocation could wait for the very write-back that the Send is part of. A Call that
//! finds too few regions in the pool waits until other RPCs have put theirs back.

use crate::prelude::*;
use core::sync::atomic::AtomicBool;
use rdma::ProtectionDomain;

/// A pool of idle memory regions.
#[pin_data]
pub(crate) struct RegionPool {
    #[pin]
    state: SpinLock<PoolState>,
    /// Set when a Call finds too few regions, until more are allocated.
    short: AtomicBool,
}

struct PoolState {
    /// [`None`] before the connection is made and after it is closed.
    idle: Option<Idle<ClientConn>>,
    /// The number of regions that were allocated for the pool, and the number of pages of each.
    allocated: usize,
    pages: u32,
    /// The most regions that one RPC needs.
    reserve: usize,
    /// A Call waits for regions.
    starved: bool,
}

impl RegionPool {
    /// Returns an empty pool.
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = PoolState {
            idle: None,
            allocated: 0,
            pages: 0,
            reserve: 0,
            starved: false,
        };
        pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::region_pool"),
            short: AtomicBool::new(false),
        })
    }

    /// Fills the pool with regions of up to `pages` pages for `credits`: those in `idle`, which
    /// came from a pool with the same `pages`, and new ones. No RPC needs more than `reserve`. If
    /// it fails, the pool has as many as could be allocated. Sleeps.
    pub(crate) fn fill(
        &self,
        pd: &Arc<ProtectionDomain<ClientConn>>,
        mut idle: Idle<ClientConn>,
        credits: usize,
        pages: u32,
        reserve: usize,
    ) -> Result {
        let count = config::regions_for(credits, reserve);
        let mut idle = idle.take(count);
        let missing = count.saturating_sub(idle.len());
        let result = (0..missing).try_for_each(|_| idle.allocate(pd, pages, GFP_KERNEL));
        let mut state = self.state.lock();
        state.allocated = idle.len();
        state.pages = pages;
        state.idle = Some(idle);
        state.reserve = reserve;
        result
    }

    /// Returns the number of regions that are missing for `credits`, and the number of pages of
    /// each.
    pub(crate) fn missing(&self, credits: usize) -> (usize, u32) {
        let state = self.state.lock();
        let count = config::regions_for(credits, state.reserve);
        (count.saturating_sub(state.allocated), state.pages)
    }

    /// Puts new regions into the pool. Otherwise like [`Self::put`].
    #[must_use]
    pub(crate) fn add(&self, regions: Idle<ClientConn>) -> bool {
        let mut state = self.state.lock();
        state.allocated = state.allocated.saturating_add(regions.len());
        drop(state);
        self.short.store(false, Ordering::Relaxed);
        self.put(regions)
    }

    /// Takes `count` regions. Returns [`None`] if there are fewer; then the next [`Self::put`]
    /// returns `true`.
    pub(crate) fn take(&self, count: usize) -> Option<Idle<ClientConn>> {
        let mut state = self.state.lock();
        let taken = match state.idle.as_mut() {
            Some(idle) if idle.len() >= count => Some(idle.take(count)),
            _ => None,
        };
        if taken.is_none() {
            state.starved = true;
            self.short.store(true, Ordering::Relaxed);
        }
        taken
    }

    /// Notes that no more regions will be allocated, so that [`Self::is_short`] asks for none.
    pub(crate) fn set_complete(&self) {
        self.short.store(false, Ordering::Relaxed);
    }

    /// Returns whether a Call found too few regions since some were last allocated, so that fewer
    /// Calls are in flight than have credits.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// Takes `count` regions, but leaves the reserve. If there are too few, [`Self::put`] does not
    /// report it when there are more.
    pub(crate) fn take_spare(&self, count: usize) -> Option<Idle<ClientConn>> {
        let mut state = self.state.lock();
        let needed = count.saturating_add(state.reserve);
        let idle = state.idle.as_mut().filter(|idle| idle.len() >= needed)?;
        Some(idle.take(count))
    }

    /// Puts regions back. Returns whether a Call waits for them. After [`Self::close`] it
    /// deregisters them instead, which sleeps.
    #[must_use]
    pub(crate) fn put(&self, mut regions: Idle<ClientConn>) -> bool {
        let mut state = self.state.lock();
        if let Some(idle) = state.idle.as_mut() {
            idle.append(&mut regions);
        }
        core::mem::take(&mut state.starved)
        // The lock is dropped before `regions`, whose drop may sleep.
    }

    /// Returns all regions. Those that are put back later are deregistered.
    pub(crate) fn close(&self) -> Idle<ClientConn> {
        self.state.lock().idle.take().unwrap_or_default()
    }
}
