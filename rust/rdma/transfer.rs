// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads and Writes: local memory, memory of the peer, and the requests between them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! A [`Transfer`] is filled with remote segments and local [`Piece`]s of the same total length, and
//! posted as a whole, or in batches if that is many requests ([`crate::qp`]). Contiguous pieces are
//! mapped as one, and each request has as many elements as the queue pair allows. The local key
//! covers them, so nothing is registered, except for Reads on iWARP ([`ReadMrPool`]).
//!
//! Writes belong to the Send that follows them; Reads come back to a [`crate::ReadHandler`]. In
//! both cases the pieces are unmapped and released when a completion shows that the device is done
//! with all of them.
//!
//! # Pages without references of their own
//!
//! Pages that are moved into a transfer ([`Transfer::set_pages`]) need no reference for each run
//! that is mapped, because the transfer owns them, and nobody gets at them before they are
//! unmapped:
//!
//! * Until it is posted, whoever has the transfer has the pages. Dropping it frees them, after they
//!   are unmapped. If mapping fails, or posting before the first request, that is what happens.
//! * Once it is posted, it is in the list of its queue pair until the last request of its last
//!   batch has completed. That completion comes last, also when a request fails or the connection
//!   ends. Then the pages are unmapped, and passed to the layer above, or freed after a failure.
//! * If the completion is lost, or a request could not be posted, so that others of the chain may
//!   have been, the transfer stays in that list until the queue pair is drained and freed.
//! * Who took a reference before has it still: such a page comes back, but not as a unique one.
//! * Where Reads need regions, each region has references. After a failure a region may be valid
//!   until the queue pair is drained, which is longer than the transfer lives.

use crate::prelude::*;
use crate::{
    atomic_cell::CellPool,
    chain::ChainNode,
    dma::Scatter,
    mr::Segment,
    read_mr_pool::ReadMrPool,
    sq_credits::SqPermit, //
};
use core::ops::Range;
use ext::memory::Page;
use kernel::page::PAGE_SIZE;

/// A transfer: its memory, its remote segments and its work requests.
pub(crate) struct TransferData<H: Context> {
    requests: KVVec<cbindings::ib_rdma_wr>,
    elements: KVVec<cbindings::ib_sge>,
    /// The elements before they were split at the peer's segments.
    whole: KVVec<cbindings::ib_sge>,
    pub(crate) scatter: Scatter,
    /// Memory that must be registered and is not yet.
    unregistered: KVVec<Piece>,
    remote: KVVec<Segment>,
    /// The pool of regions if memory must be registered, and the regions that cover it.
    pub(crate) read_mrs: Option<Arc<ReadMrPool<H>>>,
    pub(crate) regions: mr::Prepared<H>,
    direction: DataDirection,
    max_elements: usize,
    /// For memory that a Send gathers: its offset in the message.
    gather_at: Option<usize>,
    /// The SQ credits that it owns, and so the number of requests that may be posted at the same
    /// time.
    pub(crate) permit: SqPermit,
    /// When its first batch was posted, if its Send is posted with a later one.
    pub(crate) begun: Option<Jiffies>,
    next: Option<KBox<Self>>,
    pd: Arc<ProtectionDomain<H>>,
}

// SAFETY: Nothing in it belongs to a task or CPU; its pointers are into its own lists and set
// before each post.
unsafe impl<H: Context> Send for TransferData<H> {}

impl<H: Context> ChainNode for TransferData<H> {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

/// Reads or Writes that are not posted.
///
/// Its methods allocate only memory that no earlier transfer left, and sleep only if the flags that
/// it was created with allow it.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use rdma::{
///     memory::Page,
///     mr::Segment,
///     transfer::{
///         PreparedTransfer,
///         Transfer, //
///     },
///     Handler,
///     QueuePair, //
/// };
///
/// /// Prepares to read `segment` of the peer into the first bytes of `page`.
/// fn read_into<H: Handler>(
///     queue: &QueuePair<H>,
///     segment: Segment,
///     page: &Page,
/// ) -> Result<PreparedTransfer<H>> {
///     let mut reads = Transfer::reads(queue, None, GFP_KERNEL)?;
///     reads.add_local(page.piece(0, usize::try_from(segment.len)?)?)?;
///     reads.add_remote(segment)?;
///     reads.prepare()
/// }
/// ```
pub struct Transfer<H: Context> {
    inner: KBox<TransferData<H>>,
    flags: Flags,
}

impl<H: Context> Transfer<H> {
    /// Returns an empty transfer in `direction`, with at most `max_elements` in a request.
    /// `read_mrs` is the pool of regions if memory must be registered.
    pub(crate) fn new(
        empty: EmptyTransfer<H>,
        direction: DataDirection,
        max_elements: usize,
        read_mrs: Option<&Arc<ReadMrPool<H>>>,
        flags: Flags,
    ) -> Self {
        let mut inner = empty.0;
        inner.direction = direction;
        inner.max_elements = max_elements;
        inner.read_mrs = read_mrs.cloned();
        Self { inner, flags }
    }

    /// Reserves room for `pieces` of local memory.
    pub fn reserve_local(&mut self, pieces: usize) -> Result {
        let (inner, flags) = (&mut *self.inner, self.flags);
        match inner.read_mrs {
            Some(_) => Ok(inner.unregistered.reserve(pieces, flags)?),
            None => inner.scatter.reserve(pieces, flags),
        }
    }

    /// Adds memory of the peer.
    pub fn add_remote(&mut self, segment: Segment) -> Result {
        if segment.len != 0 {
            self.inner.remote.push(segment, self.flags)?;
        }
        Ok(())
    }

    /// Adds local memory.
    pub fn add_local(&mut self, piece: Piece) -> Result {
        if piece.is_empty() {
            return Ok(());
        }
        let inner = &mut *self.inner;
        match inner.read_mrs {
            Some(_) => Ok(inner.unregistered.push(piece, self.flags)?),
            None => inner.scatter.push_contiguous(piece, self.flags),
        }
    }

    /// Moves `pages` into the transfer, of which [`Self::add_own`] adds bytes. RDMA Reads give them
    /// back when they have completed ([`ReadHandler::read_done`](crate::ReadHandler::read_done)).
    /// Until then nobody else has them, so the device may write to them without a reference to
    /// each. [`EINVAL`] if it has local memory already.
    pub fn set_pages(&mut self, pages: KVec<Page>) -> Result {
        let (inner, flags) = (&mut *self.inner, self.flags);
        if inner.read_mrs.is_some() {
            inner.unregistered.reserve(pages.len(), flags)?;
        }
        inner.scatter.own(pages, flags)
    }

    /// Returns the pages of [`Self::set_pages`].
    pub fn pages(&self) -> Result<&[Page]> {
        self.inner.scatter.own_pages()
    }

    /// Adds the bytes `range` of the pages of [`Self::set_pages`], which count as consecutive.
    pub fn add_own(&mut self, range: Range<usize>) -> Result {
        let (inner, flags) = (&mut *self.inner, self.flags);
        let mut at = range.start;
        while at < range.end {
            let (index, offset) = (at / PAGE_SIZE, at % PAGE_SIZE);
            let len = (PAGE_SIZE - offset).min(range.end - at);
            match inner.read_mrs {
                // A region may stay valid, and so keep its memory, when the transfer has ended.
                Some(_) => {
                    let page = inner.scatter.own_pages()?.get(index).ok_or(EINVAL)?;
                    let piece = page.piece(offset, len)?;
                    inner.unregistered.push(piece, flags)?;
                }
                None => inner.scatter.push_own(index, offset, len, flags)?,
            }
            at = at.saturating_add(len);
        }
        Ok(())
    }

    /// Adds all of `pieces`.
    pub fn add_pieces(&mut self, pieces: impl Iterator<Item = Result<Piece>>) -> Result {
        for piece in pieces {
            self.add_local(piece?)?;
        }
        Ok(())
    }

    /// Maps the memory and prepares the requests. [`EINVAL`] unless both sides have the same
    /// length. Sleeps in any case if memory must be registered.
    pub fn prepare(mut self) -> Result<PreparedTransfer<H>> {
        let (inner, flags) = (&mut *self.inner, self.flags);
        inner.cover(flags)?;
        inner.map(flags)?;
        inner.make_requests(flags)?;
        Ok(PreparedTransfer(self.inner))
    }

    /// Maps the memory, for a Send that has it between the first `at` bytes of its buffer and the
    /// rest. [`E2BIG`] if it has more pieces than one Send can have.
    pub fn gather(mut self, at: usize) -> Result<Gathered<H>> {
        let (inner, flags) = (&mut *self.inner, self.flags);
        // The first and the last element are of the buffer.
        inner.elements.push(cbindings::ib_sge::default(), flags)?;
        inner.map(flags)?;
        inner.elements.push(cbindings::ib_sge::default(), flags)?;
        if inner.elements.len() > inner.max_elements {
            return Err(E2BIG);
        }
        inner.gather_at = Some(at);
        Ok(Gathered(self.inner))
    }
}

/// Memory that a Send gathers from its pages.
pub struct Gathered<H: Context>(pub(crate) KBox<TransferData<H>>);

/// The RDMA Writes or memory that a Send is posted with.
pub enum Attached<H: Context> {
    /// Neither of both.
    Nothing,
    /// RDMA Writes before it.
    Writes(PreparedTransfer<H>),
    /// A part of the message itself.
    Gathered(Gathered<H>),
}

impl<H: Context> Attached<H> {
    /// Returns the number of work requests.
    pub fn requests(&self) -> usize {
        match self {
            Self::Writes(writes) => writes.len(),
            Self::Nothing | Self::Gathered(_) => 0,
        }
    }

    pub(crate) fn inner(&self) -> Option<&TransferData<H>> {
        match self {
            Self::Nothing => None,
            Self::Writes(writes) => Some(&writes.0),
            Self::Gathered(gathered) => Some(&gathered.0),
        }
    }

    pub(crate) fn into_inner(self) -> Option<KBox<TransferData<H>>> {
        match self {
            Self::Nothing => None,
            Self::Writes(writes) => Some(writes.0),
            Self::Gathered(gathered) => Some(gathered.0),
        }
    }
}

/// Reads or Writes that are ready to be posted.
pub struct PreparedTransfer<H: Context>(pub(crate) KBox<TransferData<H>>);

impl<H: Context> PreparedTransfer<H> {
    /// Returns the number of work requests.
    pub fn len(&self) -> usize {
        self.0.requests.len()
    }

    /// Returns whether there are no work requests.
    pub fn is_empty(&self) -> bool {
        self.0.requests.is_empty()
    }

    /// Returns the number of regions that are registered with the first requests.
    pub fn registrations(&self) -> usize {
        self.0.regions.len()
    }

    /// Unmaps and releases all memory, and returns the pages that were moved into the transfer.
    pub fn into_pages(mut self) -> KVec<Page> {
        self.0.scatter.take_pages()
    }
}

/// An empty transfer, perhaps with the allocated lists of an earlier one.
pub struct EmptyTransfer<H: Context>(pub(crate) KBox<TransferData<H>>);

impl<H: Context> EmptyTransfer<H> {
    /// Allocates an empty transfer without lists. Sleeps if `flags` allow it.
    pub(crate) fn new(pd: &Arc<ProtectionDomain<H>>, flags: Flags) -> Result<Self> {
        Ok(Self(KBox::new(TransferData::new(pd.clone()), flags)?))
    }

    /// Empties `inner`: unmaps and releases its memory.
    pub(crate) fn of(mut inner: KBox<TransferData<H>>) -> Self {
        inner.reset();
        Self(inner)
    }

    /// Returns the number of allocated bytes.
    pub fn footprint(&self) -> usize {
        self.0.footprint()
    }
}

/// A list of empty transfers.
pub struct EmptyTransfers<H: Context>(Chain<TransferData<H>>);

impl<H: Context> EmptyTransfers<H> {
    /// Creates an empty list.
    pub const fn new() -> Self {
        Self(Chain::new())
    }

    /// Adds a transfer.
    pub fn push(&mut self, empty: EmptyTransfer<H>) {
        self.0.push(empty.0);
    }

    /// Takes a transfer.
    pub fn pop(&mut self) -> Option<EmptyTransfer<H>> {
        self.0.pop().map(EmptyTransfer)
    }
}

impl<H: Context> Default for EmptyTransfers<H> {
    fn default() -> Self {
        Self::new()
    }
}

/// Up to `N` empty transfers, of which any task may take one without a lock.
pub struct EmptyTransferCells<H: Context, const N: usize>(CellPool<KBox<TransferData<H>>, N>);

impl<H: Context, const N: usize> EmptyTransferCells<H, N> {
    /// Creates an empty pool.
    pub fn new() -> Self {
        Self(CellPool::new())
    }

    /// Takes a transfer. [`None`] if no place had one when it was looked at.
    pub fn take(&self) -> Option<EmptyTransfer<H>> {
        self.0.take().map(EmptyTransfer)
    }

    /// Puts `empty` in. Returns it if there is no room. At most one task may put at a time, or a
    /// transfer may be leaked.
    pub fn put_alone(&self, empty: EmptyTransfer<H>) -> Result<(), EmptyTransfer<H>> {
        self.0.put_alone(empty.0).map_err(EmptyTransfer)
    }
}

impl<H: Context, const N: usize> Default for EmptyTransferCells<H, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H: Context> TransferData<H> {
    fn new(pd: Arc<ProtectionDomain<H>>) -> Self {
        Self {
            requests: KVVec::new(),
            elements: KVVec::new(),
            whole: KVVec::new(),
            scatter: Scatter::new(),
            unregistered: KVVec::new(),
            remote: KVVec::new(),
            read_mrs: None,
            regions: mr::Prepared::new(),
            direction: DataDirection::ToDevice,
            max_elements: 0,
            gather_at: None,
            permit: SqPermit::EMPTY,
            begun: None,
            next: None,
            pd,
        }
    }

    /// Returns whether a queue pair in `pd` may transfer it in `direction`.
    pub(crate) fn is_for(&self, pd: &Arc<ProtectionDomain<H>>, direction: DataDirection) -> bool {
        Arc::ptr_eq(&self.pd, pd) && self.direction == direction
    }

    /// Unmaps and releases all memory. Its lists stay allocated.
    fn reset(&mut self) {
        self.scatter.clear();
        self.requests.clear();
        self.elements.clear();
        self.whole.clear();
        self.unregistered.clear();
        self.remote.clear();
        self.gather_at = None;
        self.release_credits();
        self.begun = None;
    }

    /// Gives its SQ credits back, because none of its requests is posted.
    pub(crate) fn release_credits(&mut self) {
        self.permit = SqPermit::EMPTY;
    }

    /// Returns the number of allocated bytes, independent of the contents of the lists.
    fn footprint(&self) -> usize {
        size_of::<Self>()
            + self.requests.capacity() * size_of::<cbindings::ib_rdma_wr>()
            + (self.elements.capacity() + self.whole.capacity()) * size_of::<cbindings::ib_sge>()
            + self.scatter.footprint()
            + self.unregistered.capacity() * size_of::<Piece>()
            + self.remote.capacity() * size_of::<Segment>()
    }

    /// Covers memory that must be registered with regions.
    fn cover(&mut self, flags: Flags) -> Result {
        let Some(read_mrs) = &self.read_mrs else {
            return Ok(());
        };
        let mut pieces = self.unregistered.drain_all().map(Ok).peekable();
        while pieces.peek().is_some() {
            let element = read_mrs.cover(&mut pieces, &mut self.regions)?;
            self.elements.push(element, flags)?;
        }
        Ok(())
    }

    fn map(&mut self, flags: Flags) -> Result {
        // SAFETY: `pd` keeps the device until the table is dropped, as it is a later field. A
        // posted transfer is owned by its queue pair until the device is done with it.
        let mapped = unsafe { self.scatter.map(self.pd.device(), self.direction) }?;
        let lkey = self.pd.local_key();
        self.elements.reserve(mapped.len(), flags)?;
        for entry in mapped {
            // SAFETY: The entry is one of those that `Scatter::map` returned, so it is mapped.
            let (addr, length) = unsafe {
                (
                    cbindings::sg_dma_address(entry),
                    cbindings::sg_dma_len(entry),
                )
            };
            let sge = cbindings::ib_sge { addr, length, lkey };
            self.elements.push(sge, flags)?;
        }
        Ok(())
    }

    /// Splits the mapped memory at the segments of the peer, and prepares a request for each group
    /// of elements.
    fn make_requests(&mut self, flags: Flags) -> Result {
        let opcode = match self.direction {
            DataDirection::ToDevice => cbindings::ib_wr_opcode_IB_WR_RDMA_WRITE,
            // There is no third direction.
            _ => cbindings::ib_wr_opcode_IB_WR_RDMA_READ,
        };
        core::mem::swap(&mut self.elements, &mut self.whole);
        // Splitting at the peer's segments may need more.
        self.elements.reserve(self.whole.len(), flags)?;
        let mut local = self.whole.iter().copied();
        let mut current = cbindings::ib_sge::default();
        for remote in &self.remote {
            let mut addr = remote.iova;
            let mut left = remote.len;
            while left != 0 {
                let mut request = cbindings::ib_rdma_wr {
                    remote_addr: addr,
                    rkey: remote.rkey,
                    ..Default::default()
                };
                request.wr.opcode = opcode;
                for _ in 0..self.max_elements {
                    if current.length == 0 {
                        current = local.next().ok_or(EINVAL)?;
                    }
                    let length = current.length.min(left);
                    let element = cbindings::ib_sge { length, ..current };
                    self.elements.push(element, flags)?;
                    current.addr = current.addr.wrapping_add(u64::from(length));
                    current.length = current.length.saturating_sub(length);
                    left = left.saturating_sub(length);
                    addr = addr.wrapping_add(u64::from(length));
                    request.wr.num_sge = request.wr.num_sge.saturating_add(1);
                    if left == 0 {
                        break;
                    }
                }
                if self.read_mrs.is_some() && current.length == 0 {
                    // The last Read of a region invalidates it.
                    request.wr.opcode = cbindings::ib_wr_opcode_IB_WR_RDMA_READ_WITH_INV;
                    request.wr.ex.invalidate_rkey = current.lkey;
                }
                self.requests.push(request, flags)?;
            }
        }
        if current.length != 0 || local.next().is_some() {
            return Err(EINVAL);
        }
        Ok(())
    }

    /// Links the unsignalled requests of `batch`, the last one to `last`. A request that fails
    /// completes to `failed`. Returns the first, or `last` if there is none.
    pub(crate) fn link(
        &mut self,
        batch: Range<usize>,
        failed: *mut cbindings::ib_cqe,
        last: *mut cbindings::ib_send_wr,
    ) -> *mut cbindings::ib_send_wr {
        let mut next = last;
        let mut elements = self.elements.as_mut_slice();
        let behind = self.requests.len().saturating_sub(batch.end);
        for (place, request) in self.requests.iter_mut().rev().enumerate() {
            let count = usize::try_from(request.wr.num_sge).unwrap_or(0);
            let at = elements.len().saturating_sub(count);
            let (rest, own) = elements.split_at_mut(at);
            elements = rest;
            if place < behind {
                continue;
            }
            if place.saturating_sub(behind) == batch.len() {
                break;
            }
            request.wr.sg_list = own.as_mut_ptr();
            request.wr.next = next;
            request.wr.send_flags = 0;
            request.wr.__bindgen_anon_1.wr_cqe = failed;
            next = &raw mut request.wr;
        }
        next
    }

    /// Returns the last request of `batch`.
    pub(crate) fn last_of(&mut self, batch: Range<usize>) -> Option<&mut cbindings::ib_rdma_wr> {
        self.requests.get_mut(batch)?.last_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether it can be part of a message with `len` bytes in the Send's buffer.
    pub(crate) fn fits_message(&self, len: usize) -> bool {
        self.gather_at.is_none_or(|at| at <= len)
    }

    /// Returns whether it is memory that a Send gathers.
    pub(crate) fn is_gathered(&self) -> bool {
        self.gather_at.is_some()
    }

    /// Returns all scatter elements of the Send that has `whole` in its buffer.
    pub(crate) fn gather_elements(
        &mut self,
        whole: cbindings::ib_sge,
    ) -> Option<&mut [cbindings::ib_sge]> {
        let at = u32::try_from(self.gather_at?).ok()?;
        let rest = whole.length.checked_sub(at)?;
        *self.elements.first_mut()? = cbindings::ib_sge {
            length: at,
            ..whole
        };
        *self.elements.last_mut()? = cbindings::ib_sge {
            addr: whole.addr.wrapping_add(u64::from(at)),
            length: rest,
            ..whole
        };
        let count = self.elements.len().saturating_sub(usize::from(rest == 0));
        self.elements.get_mut(..count)
    }
}
