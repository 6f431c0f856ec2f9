// SPDX-License-Identifier: GPL-2.0

//! Lists of memory regions by state: [`Idle`], [`Prepared`], [`Registered`](mr::Registered)
//! ([`crate::mr`] has the state diagram).

use crate::prelude::*;
use core::iter::Peekable;
use ext::trace::RegionInfo;

/// A list of regions without memory, which the peer cannot reach. Dropping it sleeps.
pub struct Idle<H: Context>(Chain<mr::Region<H>>);

impl<H: Context> Idle<H> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Allocates a region for up to `pages` and adds it. Its tables are allocated with `flags`.
    /// Sleeps.
    pub fn allocate(&mut self, pd: &Arc<ProtectionDomain<H>>, pages: u32, flags: Flags) -> Result {
        self.0.push(mr::Region::new(pd, pages, flags)?);
        Ok(())
    }

    /// Returns the number of regions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes up to `count` regions.
    pub fn take(&mut self, count: usize) -> Self {
        let mut taken = Self::new();
        while taken.len() < count {
            let Some(region) = self.0.pop() else { break };
            taken.0.push(region);
        }
        taken
    }

    /// Moves all regions of `other` here.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }
}

impl<H: Context> Default for Idle<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// A list of regions that cover memory, to be registered with the next Send.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use rdma::{
///     memory::Piece,
///     mr::{
///         Access,
///         Idle,
///         Prepared,
///         Segment, //
///     },
///     Context, //
/// };
///
/// /// Covers `memory`, which the peer may write to, with regions of `idle`.
/// fn offer<H: Context>(
///     idle: &mut Idle<H>,
///     memory: KVec<Piece>,
///     segments: &mut KVec<Segment>,
/// ) -> Result<Prepared<H>> {
///     let mut regions = Prepared::new();
///     let mut memory = memory.into_iter().map(Ok).peekable();
///     while memory.peek().is_some() {
///         segments.push(regions.map(idle, &mut memory, Access::Write, 0)?, GFP_KERNEL)?;
///     }
///     Ok(regions)
/// }
/// ```
pub struct Prepared<H: Context>(Chain<mr::Region<H>>);

impl<H: Context> Prepared<H> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Covers the next pieces of `source` with a region of `idle`, as many as it can, for `access`.
    /// `tag` becomes the upper half of the address that the peer sees.
    ///
    /// [`ENOMEM`] if `idle` has none. Does not sleep.
    pub fn map(
        &mut self,
        idle: &mut Idle<H>,
        source: &mut Peekable<impl Iterator<Item = Result<Piece>>>,
        access: mr::Access,
        tag: u32,
    ) -> Result<mr::Segment> {
        self.cover(idle, source, access, tag)
            .map(|(segment, _)| segment)
    }

    /// Covers memory as [`Self::map`] does, as the destination of an RDMA Read. (On iWARP the peer
    /// writes that data.) Returns the scatter element for the Read.
    pub(crate) fn map_for_read(
        &mut self,
        idle: &mut Idle<H>,
        source: &mut Peekable<impl Iterator<Item = Result<Piece>>>,
    ) -> Result<cbindings::ib_sge> {
        let (segment, lkey) = self.cover(idle, source, mr::Access::Write, 0)?;
        Ok(cbindings::ib_sge {
            addr: segment.iova,
            length: segment.len,
            lkey,
        })
    }

    /// Covers memory with a region. Returns the peer's name for it, and the local key.
    fn cover(
        &mut self,
        idle: &mut Idle<H>,
        source: &mut Peekable<impl Iterator<Item = Result<Piece>>>,
        access: mr::Access,
        tag: u32,
    ) -> Result<(mr::Segment, u32)> {
        let mut region = idle.0.pop().ok_or(ENOMEM)?;
        match region.fill(source).and_then(|()| region.map(access, tag)) {
            Ok(segment) => {
                let lkey = region.lkey();
                self.0.push(region);
                Ok((segment, lkey))
            }
            Err(error) => {
                // No request was posted with its key.
                region.unmap();
                idle.0.push(region);
                Err(error)
            }
        }
    }

    /// Returns the number of regions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the descriptions of the regions for traces.
    pub fn info(&self) -> impl Iterator<Item = RegionInfo> + '_ {
        self.0.iter().map(mr::Region::info)
    }

    /// Returns whether all were allocated in `pd`.
    pub(crate) fn all_in(&self, pd: &Arc<ProtectionDomain<H>>) -> bool {
        self.0.iter().all(|region| region.is_in(pd))
    }

    /// Returns the first region.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn first(&self) -> Option<core::ptr::NonNull<cbindings::ib_mr>> {
        self.0.iter().next().map(mr::Region::as_ptr)
    }

    /// Returns the regions to the idle state. None of them was posted.
    ///
    /// Each region gets the same key when it is prepared again. If the key advanced each time, it
    /// could become the one by which the device still knows the region, and a peer could invalidate
    /// it beforehand.
    pub fn cancel(mut self) -> Idle<H> {
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            this.advance_key(u8::MAX);
            region = this.next_mut();
        }
        into_idle(&mut self.0)
    }

    /// Converts the list to regions that are about to be registered on the queue pair that has
    /// `deferred_dereg`.
    pub(crate) fn into_registered(
        mut self,
        deferred_dereg: &Arc<mr::DeferredDereg<H>>,
    ) -> mr::Registered<H> {
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            this.register_on(deferred_dereg);
            region = this.next_mut();
        }
        mr::Registered(core::mem::replace(&mut self.0, Chain::new()))
    }
}

impl<H: Context> Default for Prepared<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Context> mr::Registered<H> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Returns the number of regions.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the descriptions of the regions for traces.
    pub fn info(&self) -> impl Iterator<Item = RegionInfo> + '_ {
        self.0.iter().map(mr::Region::info)
    }

    /// Returns whether a region has this key.
    pub(crate) fn have_key(&self, rkey: u32) -> bool {
        self.0.iter().any(|region| region.rkey() == rkey)
    }

    /// Takes the region with this key, if it was registered on the queue pair that has
    /// `deferred_dereg`.
    pub(crate) fn take_key(
        &mut self,
        rkey: u32,
        deferred_dereg: &Arc<mr::DeferredDereg<H>>,
    ) -> Option<mr::Registered<H>> {
        let named = |region: &mr::Region<H>| {
            region.rkey() == rkey && region.is_registered_on(deferred_dereg)
        };
        let mut taken = Self::new();
        taken.0.push(self.0.remove_first(named)?);
        Some(taken)
    }

    /// Releases the memory of all regions, and returns the idle regions.
    ///
    /// # Safety
    ///
    /// Completed requests have invalidated all of them.
    pub(crate) unsafe fn into_idle(mut self) -> Idle<H> {
        into_idle(&mut self.0)
    }

    /// Returns whether all were registered on the queue pair that has `deferred_dereg`.
    pub(crate) fn all_on(&self, deferred_dereg: &Arc<mr::DeferredDereg<H>>) -> bool {
        let mut regions = self.0.iter();
        regions.all(|region| region.is_registered_on(deferred_dereg))
    }

    /// Links the registrations of all regions, then `last`. Requests that fail complete to
    /// `failed`.
    pub(crate) fn link_registrations(
        &mut self,
        failed: *mut cbindings::ib_cqe,
        last: *mut cbindings::ib_send_wr,
    ) -> *mut cbindings::ib_send_wr {
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

    /// Links the invalidations of all regions. The last one is signalled and completes to `done`;
    /// the others complete to `failed` if they fail. Returns the first, or null if there is no
    /// region.
    pub(crate) fn link_invalidations(
        &mut self,
        done: *mut cbindings::ib_cqe,
        failed: *mut cbindings::ib_cqe,
    ) -> *mut cbindings::ib_send_wr {
        let mut first: *mut cbindings::ib_send_wr = null_mut();
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            first = if first.is_null() {
                let last = this.invalidate(first, done);
                last.send_flags = cbindings::ib_send_flags_IB_SEND_SIGNALED;
                last
            } else {
                this.invalidate(first, failed)
            };
            region = this.next_mut();
        }
        first
    }

    /// Takes the context of invalidations from the head. [`None`] if there is no region, or if
    /// invalidations of these regions were lost before.
    pub(crate) fn take_invalidation(&mut self) -> Option<KBox<mr::Invalidation<H>>> {
        self.0.first_mut()?.invalidation.take()
    }

    /// Returns the context of invalidations to the head.
    pub(crate) fn put_invalidation(&mut self, invalidation: KBox<mr::Invalidation<H>>) {
        if let Some(head) = self.0.first_mut() {
            head.invalidation = Some(invalidation);
        }
    }
}

/// Releases the memory of all regions of `chain`. The peer must not be able to reach it.
fn into_idle<H: Context>(chain: &mut Chain<mr::Region<H>>) -> Idle<H> {
    let mut idle = Idle::new();
    while let Some(mut region) = chain.pop() {
        region.make_idle();
        idle.0.push(region);
    }
    idle
}
