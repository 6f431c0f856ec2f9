// SPDX-License-Identifier: GPL-2.0

//! Lists of memory regions, by what the peer can do to them: [`Idle`], [`Prepared`], [`Registered`]
//! ([`crate::mr`] has the picture).

use crate::{
    chain::Chain,
    context::Context,
    mr::{
        Access,
        DeferredDereg,
        Invalidation,
        Region,
        Registered,
        Segment, //
    },
    pd::ProtectionDomain, //
};
use core::{
    iter::Peekable,
    ptr::null_mut, //
};
use kernel::{
    alloc::Flags,
    error::{
        code::ENOMEM,
        Result, //
    },
    prelude::*,
    sync::Arc, //
};
use shared::{
    memory::Piece,
    trace::RegionInfo, //
};

/// Regions that the peer cannot reach, with no memory: a pool. Dropping them sleeps.
pub struct Idle<H: Context>(Chain<Region<H>>);

impl<H: Context> Idle<H> {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Allocates a region for up to `pages` and adds it. Its tables are allocated with `flags`. Sleeps.
    pub fn allocate(&mut self, pd: &Arc<ProtectionDomain<H>>, pages: u32, flags: Flags) -> Result {
        self.0.push(Region::new(pd, pages, flags)?);
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes out up to `count`.
    pub fn take(&mut self, count: usize) -> Self {
        let mut taken = Self::new();
        while taken.len() < count {
            let Some(region) = self.0.pop() else { break };
            taken.0.push(region);
        }
        taken
    }

    /// Adds all of `other`.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }
}

impl<H: Context> Default for Idle<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// Regions that cover memory, to be registered with the next Send.
pub struct Prepared<H: Context>(Chain<Region<H>>);

impl<H: Context> Prepared<H> {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Covers the next pieces of `source`, as many as one region can, with one of `idle`, for
    /// `access`. `tag` becomes the upper half of the address that the peer sees.
    ///
    /// [`ENOMEM`] if `idle` has none. Does not sleep.
    pub fn map(
        &mut self,
        idle: &mut Idle<H>,
        source: &mut Peekable<impl Iterator<Item = Result<Piece>>>,
        access: Access,
        tag: u32,
    ) -> Result<Segment> {
        self.cover(idle, source, access, tag)
            .map(|(segment, _)| segment)
    }

    /// As [`Self::map`], for memory that an RDMA Read brings data to. (On iWARP the peer writes that data.) Returns
    /// the scatter element for the Read.
    pub(crate) fn map_sink(
        &mut self,
        idle: &mut Idle<H>,
        source: &mut Peekable<impl Iterator<Item = Result<Piece>>>,
    ) -> Result<raw::ib_sge> {
        let (segment, lkey) = self.cover(idle, source, Access::Write, 0)?;
        Ok(raw::ib_sge {
            addr: segment.iova,
            length: segment.len,
            lkey,
        })
    }

    /// Returns how the peer names the region, and the key by which we do.
    fn cover(
        &mut self,
        idle: &mut Idle<H>,
        source: &mut Peekable<impl Iterator<Item = Result<Piece>>>,
        access: Access,
        tag: u32,
    ) -> Result<(Segment, u32)> {
        let mut region = idle.0.pop().ok_or(ENOMEM)?;
        match region.fill(source).and_then(|()| region.map(access, tag)) {
            Ok(segment) => {
                let lkey = region.lkey();
                self.0.push(region);
                Ok((segment, lkey))
            }
            Err(error) => {
                // Nothing was posted with its key.
                region.unmap();
                idle.0.push(region);
                Err(error)
            }
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What traces show of them.
    pub fn info(&self) -> impl Iterator<Item = RegionInfo> + '_ {
        self.0.iter().map(Region::info)
    }

    /// Whether all were made in `pd`.
    pub(crate) fn all_in(&self, pd: &Arc<ProtectionDomain<H>>) -> bool {
        self.0.iter().all(|region| region.is_in(pd))
    }

    /// The first region.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn first(&self) -> Option<core::ptr::NonNull<raw::ib_mr>> {
        self.0.iter().next().map(Region::as_ptr)
    }

    /// Gives the regions back, of which none was posted.
    ///
    /// Each region has the same key when it is prepared again. If the key were another one each time, it could
    /// become the one by which the device still knows the region, and a peer could invalidate it beforehand.
    pub fn cancel(mut self) -> Idle<H> {
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            this.turn_key(u8::MAX);
            region = this.next_mut();
        }
        into_idle(&mut self.0)
    }

    /// Makes a list of regions that are about to be registered on the queue pair that has `deferred_dereg`.
    pub(crate) fn into_registered(
        mut self,
        deferred_dereg: &Arc<DeferredDereg<H>>,
    ) -> Registered<H> {
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            this.register_on(deferred_dereg);
            region = this.next_mut();
        }
        Registered(core::mem::replace(&mut self.0, Chain::new()))
    }
}

impl<H: Context> Default for Prepared<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Context> Registered<H> {
    /// An empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What traces show of them.
    pub fn info(&self) -> impl Iterator<Item = RegionInfo> + '_ {
        self.0.iter().map(Region::info)
    }

    /// Whether one of them has this key.
    pub(crate) fn have_key(&self, rkey: u32) -> bool {
        self.0.iter().any(|region| region.rkey() == rkey)
    }

    /// Takes out the region with this key, if there is one that was registered on the queue pair which has
    /// `deferred_dereg`.
    pub(crate) fn take_key(
        &mut self,
        rkey: u32,
        deferred_dereg: &Arc<DeferredDereg<H>>,
    ) -> Option<Registered<H>> {
        let named =
            |region: &Region<H>| region.rkey() == rkey && region.is_registered_on(deferred_dereg);
        let mut taken = Self::new();
        taken.0.push(self.0.remove_first(named)?);
        Some(taken)
    }

    /// Takes the memory of all regions away, and returns them.
    ///
    /// # Safety
    ///
    /// Requests that have completed invalidated all of them.
    pub(crate) unsafe fn into_idle(mut self) -> Idle<H> {
        into_idle(&mut self.0)
    }

    /// Whether all were registered on the queue pair that has `deferred_dereg`.
    pub(crate) fn all_on(&self, deferred_dereg: &Arc<DeferredDereg<H>>) -> bool {
        let mut regions = self.0.iter();
        regions.all(|region| region.is_registered_on(deferred_dereg))
    }

    /// Links the registrations of all, then `last`. Requests that fail complete to `failed`.
    pub(crate) fn link_registrations(
        &mut self,
        failed: *mut raw::ib_cqe,
        last: *mut raw::ib_send_wr,
    ) -> *mut raw::ib_send_wr {
        let mut first = last;
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            let wr = this.registration();
            wr.next = first;
            wr.__bindgen_anon_1.wr_cqe = failed;
            first = wr;
            region = this.next_mut();
        }
        first
    }

    /// Links the invalidations of all. The last one asks for a completion, and completes to `done`; the
    /// others complete to `failed`, if they do. Returns the first, or null if there is no region.
    pub(crate) fn link_invalidations(
        &mut self,
        done: *mut raw::ib_cqe,
        failed: *mut raw::ib_cqe,
    ) -> *mut raw::ib_send_wr {
        let mut first: *mut raw::ib_send_wr = null_mut();
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            first = match first.is_null() {
                true => {
                    let last = this.invalidate(first, done);
                    last.send_flags = raw::ib_send_flags_IB_SEND_SIGNALED;
                    last
                }
                false => this.invalidate(first, failed),
            };
            region = this.next_mut();
        }
        first
    }

    /// Takes out what the head's invalidations are posted with. [`None`] if there is no region, or if
    /// the invalidations of these were lost before.
    pub(crate) fn take_invalidation(&mut self) -> Option<KBox<Invalidation<H>>> {
        self.0.first_mut()?.invalidation.take()
    }

    /// Takes back what the head's invalidations were posted with.
    pub(crate) fn put_invalidation(&mut self, invalidation: KBox<Invalidation<H>>) {
        if let Some(head) = self.0.first_mut() {
            head.invalidation = Some(invalidation);
        }
    }
}

/// Takes the memory of all regions of `chain` away. The peer must not be able to reach it.
fn into_idle<H: Context>(chain: &mut Chain<Region<H>>) -> Idle<H> {
    let mut idle = Idle::new();
    while let Some(mut region) = chain.pop() {
        region.make_idle();
        idle.0.push(region);
    }
    idle
}
