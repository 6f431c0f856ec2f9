// SPDX-License-Identifier: GPL-2.0

//! Memory regions by fast registration, as types.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! ```text
//!            map                 QueuePair::post_send
//!   Idle ----------> Prepared ------------------------> Registered
//!    ^  <----------                                     |    |   |
//!    |     cancel                                       |    |   | drop
//!    |                  remote_invalidated              |    |   v
//!    +--------------------------------------------------+    | DeferredDereg: deregistered when
//!    |                  Handler::invalidated                 | the queue pair is drained
//!    +-------------------------------------------------------+
//! ```
//!
//! Each name stands for a chain of regions in that state. A region owns the
//! memory that it covers ([`Piece`]) from `map` until it is unmapped, which
//! happens only where the peer cannot reach it any more.
//!
//! # Keys
//!
//! The device chooses the upper 24 bits of a key. The lower eight count registrations, so that an old
//! key is not the present one. Keys cannot be made hard to predict here (RFC 8166, section 8.1.2
//! wants that); they are not what keeps others out. Each transport has a protection domain of its
//! own, where no other connection's requests are good for anything, and a region is valid only from
//! its Call to its reply.

use crate::{
    chain::{
        Chain,
        Link, //
    },
    dma::Direction,
    in_flight::Entry,
    invalidation::{
        Held, //
        LocalInvalidate,
    },
    receive::Invalidated,
    scatter::Scatter,
    Handler,
    ProtectionDomain,
    QueuePair, //
};
use core::{
    iter::Peekable,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    alloc::Flags,
    error::{
        code::{
            EINVAL,
            EIO,
            ENOMEM, //
        },
        from_err_ptr,
        Result, //
    },
    new_spinlock,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use shared::memory::Piece;

/// What the peer may do with a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// RDMA Read from it.
    Read,
    /// RDMA Write to it.
    Write,
}

impl Access {
    fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::ToDevice,
            Self::Write => Direction::FromDevice,
        }
    }

    fn as_raw(self) -> i32 {
        match self {
            Self::Read => raw::ib_access_flags_IB_ACCESS_REMOTE_READ as i32,
            Self::Write => {
                (raw::ib_access_flags_IB_ACCESS_REMOTE_WRITE
                    | raw::ib_access_flags_IB_ACCESS_LOCAL_WRITE) as i32
            }
        }
    }
}

/// How the peer names a region: what goes into a chunk segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Steering tag.
    pub rkey: u32,
    /// Bytes.
    pub len: u32,
    /// Where it starts.
    pub iova: u64,
}

/// One region.
///
/// # Invariants
///
/// `ptr` came from `ib_alloc_mr` in `pd` for that many `pages`, and is deregistered only in `drop`.
/// `scatter` has room for a piece in each.
pub(crate) struct Region<H: Handler> {
    register: raw::ib_reg_wr,
    invalidate: raw::ib_send_wr,
    ptr: NonNull<raw::ib_mr>,
    pages: usize,
    scatter: Scatter,
    next: Option<KBox<Self>>,
    /// For the invalidations of a chain that this region is the head of. Under way with them.
    fence: Option<KBox<LocalInvalidate<H>>>,
    /// Of the queue pair where it is registered, if it is.
    deferred_dereg: Option<Arc<DeferredDereg<H>>>,
    pd: Arc<ProtectionDomain<H>>,
}

// SAFETY: Verbs may be called from any task; the work requests' pointers, and those of the fence, are set
// anew before each post.
unsafe impl<H: Handler> Send for Region<H> {}

impl<H: Handler> Link for Region<H> {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

impl<H: Handler> Region<H> {
    fn new(pd: &Arc<ProtectionDomain<H>>, pages: u32, flags: Flags) -> Result<KBox<Self>> {
        let scatter = Scatter::with_capacity(usize::try_from(pages)?, flags)?;
        let fence = KBox::new(LocalInvalidate::new(), flags)?;
        // SAFETY: `pd` is live.
        let ptr = from_err_ptr(unsafe {
            raw::ib_alloc_mr(pd.as_raw(), raw::ib_mr_type_IB_MR_TYPE_MEM_REG, pages)
        })?;
        let ptr = NonNull::new(ptr).ok_or(ENOMEM)?;
        // INVARIANT: Just made so.
        let region = Self {
            register: raw::ib_reg_wr::default(),
            invalidate: raw::ib_send_wr::default(),
            ptr,
            pages: usize::try_from(pages)?,
            scatter,
            next: None,
            fence: Some(fence),
            deferred_dereg: None,
            pd: pd.clone(),
        };
        Ok(KBox::new(region, flags)?)
    }

    fn lkey(&self) -> u32 {
        // SAFETY: As for `rkey`.
        unsafe { (*self.ptr.as_ptr()).lkey }
    }

    fn rkey(&self) -> u32 {
        // SAFETY: `ptr` is live by the type invariants; only the owner of `self` changes the key.
        unsafe { (*self.ptr.as_ptr()).rkey }
    }

    /// Fills the region from `source` as far as one region can go: up to its number of pages, and
    /// up to a gap (only the first piece may start, only the last may end within a page). Of a piece
    /// that is too long, for the region or for an entry, the rest is taken next, or stays in `source`.
    fn fill(&mut self, source: &mut Peekable<impl Iterator<Item = Result<Piece>>>) -> Result {
        let mut left = self.pages;
        while left > 0 {
            let Some(next) = source.peek_mut() else { break };
            let Ok(piece) = next else {
                // The error is for the caller.
                return source.next().map_or(Ok(()), |item| item.map(drop));
            };
            let offset = usize::try_from(piece.offset())? & (PAGE_SIZE - 1);
            let first = self.scatter.is_empty();
            if !first && offset != 0 {
                break;
            }
            let len = usize::try_from(piece.len())?;
            let pages = left.min(Scatter::ENTRY_BYTES / PAGE_SIZE);
            let room = pages.saturating_mul(PAGE_SIZE).saturating_sub(offset);
            let piece = if len > room {
                piece.split_front(u32::try_from(room)?).ok_or(EINVAL)?
            } else {
                match source.next() {
                    Some(Ok(piece)) => piece,
                    _ => break,
                }
            };
            let end = offset.saturating_add(usize::try_from(piece.len())?);
            // There is room by the type invariants.
            self.scatter.push(piece, GFP_NOWAIT)?;
            left = left.saturating_sub(end.div_ceil(PAGE_SIZE));
            if end & (PAGE_SIZE - 1) != 0 {
                break;
            }
        }
        if self.scatter.is_empty() {
            return Err(EIO);
        }
        Ok(())
    }

    /// Maps what the region was filled with and chooses its next key.
    fn map(&mut self, access: Access, tag: u32) -> Result<Segment> {
        // SAFETY: `pd` keeps the device; the table goes before it.
        let entries = unsafe { self.scatter.map(self.pd.device(), access.direction()) }?;
        let mapped = i32::try_from(entries.len())?;
        // SAFETY: `ptr` is live, and these entries are mapped.
        let covered = unsafe {
            raw::ib_map_mr_sg(
                self.ptr.as_ptr(),
                entries.as_mut_ptr(),
                mapped,
                null_mut(),
                PAGE_SIZE as u32,
            )
        };
        if covered != mapped {
            return Err(EIO);
        }
        let mr = self.ptr.as_ptr();
        // SAFETY: `ptr` is live, and no request names the region: we may set it up.
        let (iova, length) = unsafe { (&mut (*mr).iova, (*mr).length) };
        // The tag is of no use but to those who read captures.
        *iova = u64::from(tag) << 32 | *iova & u64::from(u32::MAX);
        let (iova, len) = (*iova, u32::try_from(length)?);
        // A new key for each registration makes the last one's useless.
        self.turn_key(1);
        let handle = Segment {
            rkey: self.rkey(),
            len,
            iova,
        };
        self.register = raw::ib_reg_wr {
            wr: raw::ib_send_wr {
                opcode: raw::ib_wr_opcode_IB_WR_REG_MR,
                ..Default::default()
            },
            mr,
            key: handle.rkey,
            access: access.as_raw(),
        };
        Ok(handle)
    }

    /// Counts the part of the key that is ours up by `steps`, modulo 256. No request names the region.
    fn turn_key(&mut self, steps: u8) {
        let key = (self.rkey() as u8).wrapping_add(steps);
        // SAFETY: `ptr` is live, and no request names the region.
        unsafe { raw::ib_update_fast_reg_key(self.ptr.as_ptr(), key) };
    }

    fn is_registered_on(&self, queue: &QueuePair<H>) -> bool {
        self.deferred_dereg
            .as_ref()
            .is_some_and(|deferred_dereg| Arc::ptr_eq(deferred_dereg, queue.deferred_dereg()))
    }

    /// Unmaps the region and lets go of its memory. The peer must not be able to reach it.
    fn unmap(&mut self) {
        self.scatter.clear();
    }
}

impl<H: Handler> Drop for Region<H> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants, and no work request that names it is
        // under way: those that may be are kept by their queue pair or in deferred_dereg. From here on the
        // peer cannot reach the memory, which is unmapped next.
        unsafe { raw::ib_dereg_mr(self.ptr.as_ptr()) };
    }
}

/// Regions that the peer cannot reach, with no memory: a pool. Dropping them sleeps.
pub struct Idle<H: Handler>(Chain<Region<H>>);

impl<H: Handler> Idle<H> {
    /// None.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Allocates a region for up to `pages` and adds it. Sleeps.
    pub fn allocate(&mut self, pd: &Arc<ProtectionDomain<H>>, pages: u32) -> Result {
        self.0.push(Region::new(pd, pages, GFP_KERNEL)?);
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

impl<H: Handler> Default for Idle<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// Regions that cover memory, to be registered with the next Send.
pub struct Prepared<H: Handler>(Chain<Region<H>>);

impl<H: Handler> Prepared<H> {
    /// None.
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
            .map(|(handle, _)| handle)
    }

    /// As [`Self::map`], for what a Read of ours brings and the peer writes. Returns the scatter
    /// element for that Read.
    pub(crate) fn map_sink(
        &mut self,
        idle: &mut Idle<H>,
        source: &mut Peekable<impl Iterator<Item = Result<Piece>>>,
    ) -> Result<raw::ib_sge> {
        let (handle, lkey) = self.cover(idle, source, Access::Write, 0)?;
        Ok(raw::ib_sge {
            addr: handle.iova,
            length: handle.len,
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
            Ok(handle) => {
                let lkey = region.lkey();
                self.0.push(region);
                Ok((handle, lkey))
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

    /// Whether all were made in domains that are `right`.
    pub(crate) fn all_in(&self, right: impl Fn(&Arc<ProtectionDomain<H>>) -> bool) -> bool {
        self.0.iter().all(|region| right(&region.pd))
    }

    /// Gives up the plan: nothing was posted.
    ///
    /// The next plan has the same keys. If each had others, the key of one that waits to be registered could
    /// be the one that the device knows the region by yet, and a peer could invalidate it beforehand.
    pub fn cancel(mut self) -> Idle<H> {
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            this.turn_key(u8::MAX);
            region = this.next.as_deref_mut();
        }
        into_idle(&mut self.0)
    }

    /// They are about to be registered on the queue pair of `deferred_dereg`.
    pub(crate) fn into_registered(
        mut self,
        deferred_dereg: &Arc<DeferredDereg<H>>,
    ) -> Registered<H> {
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            this.deferred_dereg = Some(deferred_dereg.clone());
            region = this.next.as_deref_mut();
        }
        Registered(core::mem::replace(&mut self.0, Chain::new()))
    }
}

impl<H: Handler> Default for Prepared<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// Regions that the peer may be able to reach.
///
/// Dropping them keeps them until the queue pair is drained, and does not sleep; after that it
/// deregisters them, which sleeps.
pub struct Registered<H: Handler>(Chain<Region<H>>);

impl<H: Handler> Registered<H> {
    /// None.
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

    /// Whether one of them has the key that a message says is invalid.
    pub fn have(&self, key: &Invalidated<'_, H>) -> bool {
        self.0.iter().any(|region| region.rkey() == key.rkey)
    }

    /// Takes out the region that a message says is invalid, if it is one of these, and if the device's
    /// word for it is good ([`crate::device::Limits::remote_invalidation`]). Else the key comes back.
    pub fn remote_invalidated<'a>(
        &mut self,
        key: Invalidated<'a, H>,
    ) -> Result<Idle<H>, Invalidated<'a, H>> {
        let Invalidated { rkey, queue } = key;
        // A peer that guesses keys may name one before the request that makes it valid was posted,
        // and that request is part of the region.
        if !queue.remote_invalidation() || queue.ring().is_err() {
            return Err(key);
        }
        let named = |region: &Region<H>| region.rkey() == rkey && region.is_registered_on(queue);
        let region = self.0.remove_first(named).ok_or(key)?;
        let mut chain = Chain::new();
        chain.push(region);
        Ok(into_idle(&mut chain))
    }

    /// All of them, without their memory.
    ///
    /// # Safety
    ///
    /// Requests that have completed invalidated all of them.
    pub(crate) unsafe fn into_idle(mut self) -> Idle<H> {
        into_idle(&mut self.0)
    }

    /// Whether all were registered on `queue`, which alone may invalidate them.
    pub fn are_on(&self, queue: &QueuePair<H>) -> bool {
        self.0.iter().all(|region| region.is_registered_on(queue))
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
            let wr = &mut this.register.wr;
            wr.next = first;
            wr.__bindgen_anon_1.wr_cqe = failed;
            first = wr;
            region = this.next.as_deref_mut();
        }
        first
    }

    /// Links the invalidations of all. The last one asks for a completion, whose entry is returned with
    /// the first request: what stands there has the regions and `context` until it is taken back.
    ///
    /// Both come back if there is no region, or if the invalidations of these were lost before.
    pub(crate) fn into_invalidation(
        mut self,
        queue: &QueuePair<H>,
        failed: *mut raw::ib_cqe,
        context: H::InvalidateContext,
    ) -> Result<(NonNull<Entry>, *mut raw::ib_send_wr), Held<H>> {
        let fence = self.0.first_mut().and_then(|head| head.fence.take());
        let Some(mut fence) = fence else {
            return Err((self, context));
        };
        let mut first: *mut raw::ib_send_wr = null_mut();
        let mut region = self.0.first_mut();
        while let Some(this) = region {
            let signalled = first.is_null();
            this.invalidate = raw::ib_send_wr {
                opcode: raw::ib_wr_opcode_IB_WR_LOCAL_INV,
                next: first,
                ex: raw::ib_send_wr__bindgen_ty_2 {
                    invalidate_rkey: this.rkey(),
                },
                ..Default::default()
            };
            if signalled {
                this.invalidate.send_flags = raw::ib_send_flags_IB_SEND_SIGNALED;
                this.invalidate.__bindgen_anon_1.wr_cqe = fence.cqe();
            } else {
                this.invalidate.__bindgen_anon_1.wr_cqe = failed;
            }
            first = &raw mut this.invalidate;
            region = this.next.as_deref_mut();
        }
        Ok((fence.give_up(queue, self, context), first))
    }

    /// Takes back what the head's invalidations were posted with.
    pub(crate) fn put_invalidation(&mut self, fence: KBox<LocalInvalidate<H>>) {
        if let Some(head) = self.0.first_mut() {
            head.fence = Some(fence);
        }
    }
}

impl<H: Handler> Default for Registered<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Handler> Drop for Registered<H> {
    fn drop(&mut self) {
        while let Some(mut region) = self.0.pop() {
            if let Some(deferred_dereg) = region.deferred_dereg.take() {
                deferred_dereg.enter(region);
            }
        }
    }
}

/// Regions whose owner gave them up while requests that name them may be under way.
///
/// A queue pair has one, for what was registered there, and closes it when it is drained.
#[pin_data]
pub(crate) struct DeferredDereg<H: Handler> {
    /// [`None`] when it is closed.
    #[pin]
    regions: SpinLock<Option<Chain<Region<H>>>>,
}

impl<H: Handler> DeferredDereg<H> {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                regions <- new_spinlock!(Some(Chain::new()), "rdma::deferred_dereg"),
            }),
            GFP_KERNEL,
        )
    }

    /// Keeps `region`. If it is closed, deregisters it, which sleeps.
    fn enter(&self, region: KBox<Region<H>>) {
        let mut regions = self.regions.lock();
        match &mut *regions {
            Some(regions) => regions.push(region),
            None => {
                drop(regions);
                drop(region);
            }
        }
    }

    /// Deregisters what is in there, and from now on whatever is given up: the queue pair is
    /// drained. Sleeps.
    pub(crate) fn close(&self) {
        let regions = self.regions.lock().take();
        drop(regions);
    }
}

/// The chain's regions without their memory. The peer must not be able to reach them.
fn into_idle<H: Handler>(chain: &mut Chain<Region<H>>) -> Idle<H> {
    let mut idle = Idle::new();
    while let Some(mut region) = chain.pop() {
        region.unmap();
        region.deferred_dereg = None;
        idle.0.push(region);
    }
    idle
}
