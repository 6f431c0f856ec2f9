// SPDX-License-Identifier: GPL-2.0

//! The memory regions (MRs) of a connection that are not in use.
//!
//! They are allocated when the connection is made and when it [grows](super::growth): on the send path, an allocation could wait for
//! the very write-back that the Send is part of. A Call that finds too few regions in the pool waits until other
//! RPCs have put theirs back.

use super::resources;
use core::sync::atomic::{
    AtomicBool,
    Ordering, //
};
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

/// A pool of idle memory regions.
#[pin_data]
pub(crate) struct RegionPool<H: Handler> {
    #[pin]
    state: SpinLock<State<H>>,
    /// A Call found too few since regions were last made.
    short: AtomicBool,
}

struct State<H: Handler> {
    /// [`None`] before the connection is made and after it is closed.
    idle: Option<Idle<H>>,
    /// How many regions were made for the pool, of how many pages.
    made: usize,
    pages: u32,
    /// The most regions that one RPC needs.
    reserve: usize,
    /// A Call found too few and waits.
    starved: bool,
}

impl<H: Handler> RegionPool<H> {
    /// An empty pool.
    pub(crate) fn new() -> impl PinInit<Self> {
        let state = State {
            idle: None,
            made: 0,
            pages: 0,
            reserve: 0,
            starved: false,
        };
        pin_init!(Self {
            state <- new_spinlock!(state, "rpcrdma::region_pool"),
            short: AtomicBool::new(false),
        })
    }

    /// Fills the pool with regions of up to `pages` pages for `credits`: those in `idle`, which came from a pool
    /// with the same `pages`, and new ones. No RPC needs more than `reserve`. If it fails, the pool has what
    /// there is. Sleeps.
    pub(crate) fn fill(
        &self,
        pd: &Arc<ProtectionDomain<H>>,
        mut idle: Idle<H>,
        credits: usize,
        pages: u32,
        reserve: usize,
    ) -> Result {
        let count = resources::regions(credits, reserve);
        let mut idle = idle.take(count);
        let missing = count.saturating_sub(idle.len());
        let result = (0..missing).try_for_each(|_| idle.allocate(pd, pages, GFP_KERNEL));
        let mut state = self.state.lock();
        state.made = idle.len();
        state.pages = pages;
        state.idle = Some(idle);
        state.reserve = reserve;
        result
    }

    /// How many regions are missing for `credits`, and of how many pages.
    pub(crate) fn missing(&self, credits: usize) -> (usize, u32) {
        let state = self.state.lock();
        let count = resources::regions(credits, state.reserve);
        (count.saturating_sub(state.made), state.pages)
    }

    /// As [`Self::put`], for new regions.
    #[must_use]
    pub(crate) fn add(&self, regions: Idle<H>) -> bool {
        let mut state = self.state.lock();
        state.made = state.made.saturating_add(regions.len());
        drop(state);
        self.short.store(false, Ordering::Relaxed);
        self.put(regions)
    }

    /// Takes `count` regions. [`None`] if there are fewer; then the next [`Self::put`] returns `true`.
    pub(crate) fn take(&self, count: usize) -> Option<Idle<H>> {
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

    /// Whether a Call found too few regions since some were last made, so that fewer Calls are in flight than have credits.
    pub(crate) fn is_short(&self) -> bool {
        self.short.load(Ordering::Relaxed)
    }

    /// As [`Self::take`], but leaves the reserve, and [`Self::put`] does not report that there are more.
    pub(crate) fn take_spare(&self, count: usize) -> Option<Idle<H>> {
        let mut state = self.state.lock();
        let needed = count.saturating_add(state.reserve);
        let idle = state.idle.as_mut().filter(|idle| idle.len() >= needed)?;
        Some(idle.take(count))
    }

    /// Puts regions back. Returns whether a Call waits for them. After [`Self::close`] it deregisters them
    /// instead, which sleeps.
    #[must_use]
    pub(crate) fn put(&self, mut regions: Idle<H>) -> bool {
        let mut state = self.state.lock();
        if let Some(idle) = state.idle.as_mut() {
            idle.append(&mut regions);
        }
        core::mem::take(&mut state.starved)
        // The lock is dropped before `regions`, whose drop may sleep.
    }

    /// Returns all regions. Those that are put back later are deregistered.
    pub(crate) fn close(&self) -> Idle<H> {
        self.state.lock().idle.take().unwrap_or_default()
    }
}
