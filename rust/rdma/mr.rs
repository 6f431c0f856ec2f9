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
//! Each name is the type of a chain of regions in that state. A region owns the memory that it
//! covers ([`Piece`]) from `map` until it is unmapped, which happens only when the peer cannot
//! reach it any more.
//!
//! # Keys
//!
//! The device chooses the upper 24 bits of a key. The lower eight count registrations, so that an
//! old key differs from the present one. Keys cannot be made hard to predict here, as RFC 8166,
//! section 8.1.2, demands. Other means protect the memory: each transport has a protection domain
//! of its own, in which requests of other connections are not valid, and a region is valid only
//! from its Call to its reply.
// Argues for S8.1.2-01.

pub use crate::registration::{
    Idle,
    Prepared, //
};

use crate::prelude::*;
use crate::{
    chain::ChainNode,
    dma::{
        self,
        Scatter, //
    },
    lock_names,
    qp::invalidate::LocalInvalidate, //
};
use core::iter::Peekable;
use ext::trace::RegionInfo;
use kernel::{
    page::PAGE_SIZE,
    static_lock_class,
    sync::SpinLock, //
};

/// The access that the peer has to a region.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The peer may read by RDMA Reads.
    Read,
    /// The peer may write by RDMA Writes.
    Write,
}

impl Access {
    fn direction(self) -> DataDirection {
        match self {
            Self::Read => DataDirection::ToDevice,
            Self::Write => DataDirection::FromDevice,
        }
    }

    fn as_raw(self) -> i32 {
        match self {
            Self::Read => cbindings::ib_access_flags_IB_ACCESS_REMOTE_READ as i32,
            Self::Write => {
                (cbindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE
                    | cbindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE) as i32
            }
        }
    }
}

/// The memory that one region of a device can cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Any pieces: the device registers memory with gaps (`IBK_SG_GAPS_REG`).
    AnyPieces,
    /// Pieces without a gap: only the first may begin, and only the last may end, within a page.
    WithoutGaps,
    /// Whole pages, or one piece that begins or ends within a page. Device addresses have another
    /// offset in the page than what they stand for, as those of bounce buffers (`swiotlb`) have.
    WholePages,
}

impl Coverage {
    /// Returns what a region of `device` covers. May map memory to see that. Sleeps.
    ///
    /// # Safety
    ///
    /// `device` is live during the call.
    pub(crate) unsafe fn of(device: NonNull<cbindings::ib_device>) -> Result<Self> {
        let gaps = u64::from(cbindings::ib_kernel_cap_flags_IBK_SG_GAPS_REG);
        // SAFETY: The caller promises that `device` is live; its attributes do not change after it
        // was registered.
        if unsafe { (*device.as_ptr()).attrs.kernel_cap_flags } & gaps != 0 {
            return Ok(Self::AnyPieces);
        }
        // SAFETY: The caller promises a live device.
        match unsafe { dma::keeps_offsets(device.as_ptr()) }? {
            true => Ok(Self::WithoutGaps),
            false => Ok(Self::WholePages),
        }
    }

    /// Returns the type of the regions.
    fn mr_type(self) -> cbindings::ib_mr_type {
        match self {
            Self::AnyPieces => cbindings::ib_mr_type_IB_MR_TYPE_SG_GAPS,
            Self::WithoutGaps | Self::WholePages => cbindings::ib_mr_type_IB_MR_TYPE_MEM_REG,
        }
    }
}

/// The peer's name for a region, the contents of a chunk segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The steering tag.
    pub rkey: u32,
    /// The length in bytes.
    pub len: u32,
    /// The address at which it starts.
    pub iova: u64,
}

/// The context of the invalidations of a chain.
pub(crate) type Invalidation<H> = LocalInvalidate<Registered<H>, <H as Context>::InvalidateContext>;

/// A memory region.
///
/// # Invariants
///
/// `ptr` came from `ib_alloc_mr` in `pd` for that many `pages`, and is deregistered only in `drop`.
/// `scatter` has room for a piece in each page.
pub(crate) struct Region<H: Context> {
    register: cbindings::ib_reg_wr,
    invalidate: cbindings::ib_send_wr,
    ptr: NonNull<cbindings::ib_mr>,
    pages: usize,
    scatter: Scatter,
    next: Option<KBox<Self>>,
    /// The context of invalidations, for a chain that this region is the head of. Posted with them.
    pub(crate) invalidation: Option<KBox<Invalidation<H>>>,
    /// The list of the queue pair where the region is registered, if it is.
    deferred_dereg: Option<Arc<DeferredDereg<H>>>,
    pd: Arc<ProtectionDomain<H>>,
}

// SAFETY: Any task may call verbs for the region; the pointers in the work requests and in the
// invalidation are set before each post, and used only while posted.
unsafe impl<H: Context> Send for Region<H> {}

impl<H: Context> ChainNode for Region<H> {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

impl<H: Context> Region<H> {
    pub(crate) fn new(
        pd: &Arc<ProtectionDomain<H>>,
        pages: u32,
        flags: Flags,
    ) -> Result<KBox<Self>> {
        let scatter = Scatter::with_capacity(usize::try_from(pages)?, flags)?;
        let invalidation = KBox::new(LocalInvalidate::new(), flags)?;
        // SAFETY: The reference `pd` keeps the domain live, and so does the value made below.
        let ptr = from_err_ptr(unsafe {
            cbindings::ib_alloc_mr(pd.as_raw(), pd.coverage().mr_type(), pages)
        })?;
        let ptr = NonNull::new(ptr).ok_or(ENOMEM)?;
        // INVARIANT: The region was just allocated in `pd` for `pages`, and the table with room for
        // as many pieces.
        let region = Self {
            register: cbindings::ib_reg_wr::default(),
            invalidate: cbindings::ib_send_wr::default(),
            ptr,
            pages: usize::try_from(pages)?,
            scatter,
            next: None,
            invalidation: Some(invalidation),
            deferred_dereg: None,
            pd: pd.clone(),
        };
        Ok(KBox::new(region, flags)?)
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn as_ptr(&self) -> NonNull<cbindings::ib_mr> {
        self.ptr
    }

    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: `ptr` is live by the type invariants; only the owner of `self` changes the key.
        unsafe { (*self.ptr.as_ptr()).lkey }
    }

    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: `ptr` is live by the type invariants; only the owner of `self` changes the key.
        unsafe { (*self.ptr.as_ptr()).rkey }
    }

    /// Returns the description of the region for traces.
    pub(crate) fn info(&self) -> RegionInfo {
        // SAFETY: `ptr` is live by the type invariants; only the owner of `self` changes these
        // fields.
        let (id, iova, length) = unsafe {
            let mr = self.ptr.as_ptr();
            ((*mr).res.id, (*mr).iova, (*mr).length)
        };
        let direction = if self.register.access == Access::Read.as_raw() {
            cbindings::dma_data_direction_DMA_TO_DEVICE
        } else {
            cbindings::dma_data_direction_DMA_FROM_DEVICE
        };
        RegionInfo {
            id,
            entries: self.scatter.len(),
            rkey: self.rkey(),
            len: u32::try_from(length).unwrap_or(u32::MAX),
            iova,
            direction,
        }
    }

    /// Fills the region from `source` as far as one region can extend: up to its number of pages,
    /// and as its [`Coverage`] allows. If a piece is too long for the region or for an entry, its
    /// rest is taken next, or stays in `source`.
    pub(crate) fn fill(
        &mut self,
        source: &mut Peekable<impl Iterator<Item = Result<Piece>>>,
    ) -> Result {
        let coverage = self.pd.coverage();
        let takes_gaps = coverage == Coverage::AnyPieces;
        let mut left = self.pages;
        while left > 0 {
            let Some(next) = source.peek_mut() else { break };
            let Ok(piece) = next else {
                // The error is returned to the caller.
                return source.next().map_or(Ok(()), |item| item.map(drop));
            };
            let offset = usize::try_from(piece.offset())? & (PAGE_SIZE - 1);
            let first = self.scatter.is_empty();
            if !first && offset != 0 && !takes_gaps {
                break;
            }
            let len = usize::try_from(piece.len())?;
            let pages = left.min(Scatter::ENTRY_BYTES / PAGE_SIZE);
            let room = pages.saturating_mul(PAGE_SIZE).saturating_sub(offset);
            let whole = offset == 0 && (len > room || len & (PAGE_SIZE - 1) == 0);
            let alone = coverage == Coverage::WholePages && !whole;
            if alone && !first {
                break;
            }
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
            self.scatter.push_within_capacity(piece)?;
            left = left.saturating_sub(end.div_ceil(PAGE_SIZE));
            if alone || (end & (PAGE_SIZE - 1) != 0 && !takes_gaps) {
                break;
            }
        }
        if self.scatter.is_empty() {
            return Err(EIO);
        }
        Ok(())
    }

    /// Maps the contents of the region and chooses its next key.
    pub(crate) fn map(&mut self, access: Access, tag: u32) -> Result<Segment> {
        // SAFETY: `pd` keeps the device; the table is a field before it, so it is dropped first.
        let entries = unsafe { self.scatter.map(self.pd.device(), access.direction()) }?;
        let mapped = i32::try_from(entries.len())?;
        // SAFETY: `ptr` is live by the type invariants, and the `mapped` entries were just mapped.
        let covered = unsafe {
            cbindings::ib_map_mr_sg(
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
        // SAFETY: `ptr` is live by the type invariants, and no posted request names an unregistered
        // region, so only the owner of `self` accesses these fields.
        let (iova, length) = unsafe { (&mut (*mr).iova, (*mr).length) };
        // The tag only helps readers of captures.
        *iova = u64::from(tag) << 32 | *iova & u64::from(u32::MAX);
        let (iova, len) = (*iova, u32::try_from(length)?);
        // A new key for each registration invalidates the previous one.
        self.advance_key(1);
        let segment = Segment {
            rkey: self.rkey(),
            len,
            iova,
        };
        self.register = cbindings::ib_reg_wr {
            wr: cbindings::ib_send_wr {
                opcode: cbindings::ib_wr_opcode_IB_WR_REG_MR,
                ..Default::default()
            },
            mr,
            key: segment.rkey,
            access: access.as_raw(),
        };
        Ok(segment)
    }

    /// Advances the lower eight bits of the key by `steps`, modulo 256. No posted request may name
    /// the region.
    pub(crate) fn advance_key(&mut self, steps: u8) {
        let key = (self.rkey() as u8).wrapping_add(steps);
        // SAFETY: `ptr` is live by the type invariants, and the callers have regions that no posted
        // request names.
        unsafe { cbindings::ib_update_fast_reg_key(self.ptr.as_ptr(), key) };
    }

    /// Returns whether the region was registered on the queue pair that has `deferred`.
    pub(crate) fn is_registered_on(&self, deferred: &Arc<DeferredDereg<H>>) -> bool {
        self.deferred_dereg
            .as_ref()
            .is_some_and(|mine| Arc::ptr_eq(mine, deferred))
    }

    /// Notes that the region is about to be registered on the queue pair that has `deferred`.
    pub(crate) fn register_on(&mut self, deferred: &Arc<DeferredDereg<H>>) {
        self.deferred_dereg = Some(deferred.clone());
    }

    /// Returns whether the region was allocated in `pd`.
    pub(crate) fn is_in(&self, pd: &Arc<ProtectionDomain<H>>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }

    /// Returns the next region of the chain.
    pub(crate) fn next_mut(&mut self) -> Option<&mut Self> {
        self.next.as_deref_mut()
    }

    /// Returns the work request that registers the region, to be linked.
    pub(crate) fn registration(&mut self) -> &mut cbindings::ib_send_wr {
        &mut self.register.wr
    }

    /// Prepares the work request that invalidates the region, linked before `next`. It completes to
    /// `cqe`.
    pub(crate) fn invalidate(
        &mut self,
        next: *mut cbindings::ib_send_wr,
        cqe: *mut cbindings::ib_cqe,
    ) -> &mut cbindings::ib_send_wr {
        self.invalidate = cbindings::ib_send_wr {
            opcode: cbindings::ib_wr_opcode_IB_WR_LOCAL_INV,
            next,
            ex: cbindings::ib_send_wr__bindgen_ty_2 {
                invalidate_rkey: self.rkey(),
            },
            ..Default::default()
        };
        self.invalidate.__bindgen_anon_1.wr_cqe = cqe;
        &mut self.invalidate
    }

    /// Unmaps the region and releases its memory, which the peer cannot reach any more.
    pub(crate) fn make_idle(&mut self) {
        self.unmap();
        self.deferred_dereg = None;
    }

    /// Unmaps the region and releases its memory. The peer must not be able to reach it.
    pub(crate) fn unmap(&mut self) {
        self.scatter.clear();
    }
}

impl<H: Context> Drop for Region<H> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is live by the type invariants, and no posted work request names it:
        // regions that one may name are kept by their queue pair or in
        // its `deferred_dereg`. From here on the
        // peer cannot reach the memory, which is unmapped next.
        let result = to_result(unsafe { cbindings::ib_dereg_mr(self.ptr.as_ptr()) });
        if let Err(error) = result {
            // The peer may still reach the memory.
            self.pd.set_unclean();
            if !self.scatter.is_empty() && self.pd.note_leak() {
                pr_warn!(
                    "a memory region cannot be deregistered: {error:?}; its pages are never freed\n"
                );
            }
            self.scatter.leak();
        }
    }
}

/// A chain of regions that the peer may be able to reach.
///
/// Dropping it keeps the regions until the queue pair is drained, and does not sleep; after that it
/// deregisters them, which sleeps.
pub struct Registered<H: Context>(pub(crate) Chain<Region<H>>);

impl<H: Context> Default for Registered<H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Context> Drop for Registered<H> {
    fn drop(&mut self) {
        while let Some(mut region) = self.0.pop() {
            if let Some(deferred_dereg) = region.deferred_dereg.take() {
                deferred_dereg.add(region);
            }
        }
    }
}

/// Regions to be deregistered later: their owner dropped them while posted requests may name them.
///
/// A queue pair has one, for regions that were registered there, and closes it when it is drained.
#[pin_data]
pub(crate) struct DeferredDereg<H: Context> {
    /// [`None`] when it is closed.
    #[pin]
    regions: SpinLock<Option<Chain<Region<H>>>>,
}

impl<H: Context> DeferredDereg<H> {
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                regions <- SpinLock::new(
                    Some(Chain::new()),
                    lock_names::DEFERRED_DEREG,
                    static_lock_class!(),
                ),
            }),
            GFP_KERNEL,
        )
    }

    /// Keeps `region`; after [`Self::close`] deregisters it, which sleeps.
    fn add(&self, region: KBox<Region<H>>) {
        let mut regions = self.regions.lock();
        match &mut *regions {
            Some(regions) => regions.push(region),
            None => {
                drop(regions);
                drop(region);
            }
        }
    }

    /// Deregisters all regions, and those that are added from now on: the queue pair is drained.
    /// Sleeps.
    pub(crate) fn close(&self) {
        let regions = self.regions.lock().take();
        drop(regions);
    }
}
