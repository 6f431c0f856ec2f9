// SPDX-License-Identifier: GPL-2.0

//! Memory that is mapped for DMA: buffers that stay mapped for their whole life, and scatter/gather
//! tables that own their memory.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h), `ib_dma_map_single`,
//! `ib_dma_map_sg` and similar functions;
//! [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h). For software devices a
//! mapping is the virtual address.
//!
//! `kernel::scatterlist` does not serve: it maps for a `struct device`, and an RDMA device may have
//! no DMA device.

use crate::prelude::*;
use ext::memory::{
    Buffer,
    Page, //
};
use kernel::{
    bindings::{
        page,
        scatterlist, //
    },
    page::PAGE_SIZE, //
};

/// A buffer mapped for one direction.
///
/// # Invariants
///
/// `address` maps all of `buffer`, and is unmapped only in `drop`. Nobody else has `buffer`, except
/// a [`MessageMemory`](crate::receive::MessageMemory): while that exists, nothing here accesses the
/// bytes.
pub(crate) struct Mapped<H: Context> {
    address: u64,
    direction: DataDirection,
    buffer: Arc<Buffer>,
    pd: Arc<ProtectionDomain<H>>,
}

impl<H: Context> Mapped<H> {
    /// Allocates and maps `len` bytes, in the memory nearest to the device.
    pub(crate) fn new(
        pd: &Arc<ProtectionDomain<H>>,
        len: usize,
        direction: DataDirection,
        flags: Flags,
    ) -> Result<Self> {
        let buffer = Buffer::on_node(len, flags, pd.node())?;
        // SAFETY: `pd` keeps its device; `buffer` is `kmalloc` memory of `len` bytes, which the
        // value made below keeps until it has unmapped it.
        let address = unsafe {
            cbindings::ib_dma_map_single(
                pd.device(),
                buffer.base().as_ptr().cast(),
                len,
                direction as cbindings::dma_data_direction,
            )
        };
        // SAFETY: `pd` keeps its device, and `address` is the result of the mapping.
        if unsafe { cbindings::ib_dma_mapping_error(pd.device(), address) } != 0 {
            return Err(EIO);
        }
        // INVARIANT: All of `buffer` was just mapped; the `Arc` was just made, and is cloned only
        // for a `MessageMemory`.
        Ok(Self {
            address,
            direction,
            buffer,
            pd: pd.clone(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the buffer, for [`crate::receive::MessageMemory`].
    pub(crate) fn buffer(&self) -> &Arc<Buffer> {
        &self.buffer
    }

    pub(crate) fn pd(&self) -> &Arc<ProtectionDomain<H>> {
        &self.pd
    }

    /// Returns a scatter element for the first `len` bytes. [`EINVAL`] if there are fewer.
    pub(crate) fn sge(&self, len: usize) -> Result<cbindings::ib_sge> {
        if len > self.len() {
            return Err(EINVAL);
        }
        Ok(cbindings::ib_sge {
            addr: self.address,
            length: u32::try_from(len)?,
            lkey: self.pd.local_key(),
        })
    }

    /// Returns the address of the first `len` bytes, or of all if there are fewer.
    pub(crate) fn memory(&self, len: usize) -> NonNull<[u8]> {
        NonNull::slice_from_raw_parts(self.buffer.base(), len.min(self.len()))
    }

    /// Returns the first `len` bytes, or all if there are fewer.
    ///
    /// # Safety
    ///
    /// The device does not write to the buffer until the slice is gone.
    pub(crate) unsafe fn bytes(&self, len: usize) -> &[u8] {
        // SAFETY: `self` keeps `buffer` allocated, which was zeroed when it was allocated. The
        // caller promises that the device does not write; by the type invariants nobody else has
        // the buffer.
        unsafe { self.memory(len).as_ref() }
    }

    /// Returns all bytes of the buffer, for writing.
    ///
    /// # Safety
    ///
    /// The device has no access to the buffer until the slice is gone.
    pub(crate) unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `self` keeps `buffer` allocated, which was zeroed when it was allocated. The
        // caller promises that the device does not access it, by the type invariants nobody else
        // has it, and `&mut self` makes the slice unique.
        unsafe { core::slice::from_raw_parts_mut(self.buffer.base().as_ptr(), self.len()) }
    }

    /// Makes `len` bytes that the device wrote visible to the CPU.
    pub(crate) fn sync_for_cpu(&self, len: usize) {
        // SAFETY: The mapping is live by the type invariants, `pd` keeps the device, and `len` is
        // limited to the mapping.
        unsafe {
            cbindings::ib_dma_sync_single_for_cpu(
                self.pd.device(),
                self.address,
                len.min(self.len()),
                self.direction as cbindings::dma_data_direction,
            )
        };
    }

    /// Makes `len` bytes that the CPU wrote visible to the device, or passes them to it for
    /// writing.
    pub(crate) fn sync_for_device(&self, len: usize) {
        // SAFETY: The mapping is live by the type invariants, `pd` keeps the device, and `len` is
        // limited to the mapping.
        unsafe {
            cbindings::ib_dma_sync_single_for_device(
                self.pd.device(),
                self.address,
                len.min(self.len()),
                self.direction as cbindings::dma_data_direction,
            )
        };
    }
}

impl<H: Context> Drop for Mapped<H> {
    fn drop(&mut self) {
        // Not synchronised: a reader of the device's data has synchronised it before. Where a
        // bounce buffer is used, another copy would overwrite a message that somebody reads, and
        // perhaps has decrypted in place.
        // SAFETY: The mapping is live by the type invariants, was made with these arguments, and is
        // undone once. A posted work request owns its buffer, so the device is done with this one.
        unsafe {
            cbindings::ib_dma_unmap_unsynced(
                self.pd.device(),
                self.address,
                self.buffer.len(),
                self.direction as cbindings::dma_data_direction,
            )
        };
    }
}

/// Returns whether the addresses of `device` have the offset in the page of what they stand for:
/// maps memory within a page, and looks. Sleeps.
///
/// # Safety
///
/// `device` is live during the call.
pub(crate) unsafe fn keeps_offsets(device: *mut cbindings::ib_device) -> Result<bool> {
    // No boundary that bounce buffers are aligned to, which are of 2 KiB.
    const OFFSET: usize = 512;
    let buffer = Buffer::new(2 * OFFSET, GFP_KERNEL)?;
    let memory = buffer.base().as_ptr().wrapping_byte_add(OFFSET);
    let direction = DataDirection::ToDevice as cbindings::dma_data_direction;
    // SAFETY: The caller promises that `device` is live; `memory` is `kmalloc` memory of `OFFSET`
    // bytes, which `buffer` keeps until it was unmapped.
    let address = unsafe { cbindings::ib_dma_map_single(device, memory.cast(), OFFSET, direction) };
    // SAFETY: The caller promises that `device` is live; `address` is the result of the mapping.
    if unsafe { cbindings::ib_dma_mapping_error(device, address) } != 0 {
        return Err(EIO);
    }
    // SAFETY: The caller promises that `device` is live. The mapping was made with these arguments,
    // and is undone once; no work request names it.
    unsafe { cbindings::ib_dma_unmap_unsynced(device, address, OFFSET, direction) };
    // CAST: To types that are as wide or wider.
    let offset = |address| address & (PAGE_SIZE as u64 - 1);
    Ok(offset(address) == offset(memory.addr() as u64))
}

/// A scatter/gather table that owns its memory: pieces, which have references, and whole pages that
/// were moved into it.
///
/// # Invariants
///
/// The entries describe memory of `pieces` and of `pages`, both of which stay until the table is
/// unmapped. If `mapping` is set, all entries are mapped that way, and the device is live.
pub(crate) struct Scatter {
    // For 1 MiB at any offset this is just more than two pages, which may be hard to get
    // contiguously.
    entries: KVVec<scatterlist>,
    pieces: KVVec<Piece>,
    pages: KVec<Page>,
    /// The physical address behind the last entry, or zero if nothing is merged with that.
    end: u64,
    mapping: Option<Mapping>,
}

/// The mapping of a table.
#[derive(Clone, Copy)]
struct Mapping {
    device: *mut cbindings::ib_device,
    direction: DataDirection,
}

impl Scatter {
    /// The longest entry. Devices on a bus limit the length of a segment, and bounce buffers are
    /// limited to 256 KiB. All support this length.
    pub(crate) const ENTRY_BYTES: usize = 65_536;

    /// Creates an empty table.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no entries, no memory and no mapping.
        Self {
            entries: KVVec::new(),
            pieces: KVVec::new(),
            pages: KVec::new(),
            end: 0,
            mapping: None,
        }
    }

    /// Creates an empty table with room for `pieces`.
    pub(crate) fn with_capacity(pieces: usize, flags: Flags) -> Result<Self> {
        let mut table = Self::new();
        table.reserve(pieces, flags)?;
        Ok(table)
    }

    /// Reserves room for `pieces` more.
    pub(crate) fn reserve(&mut self, pieces: usize, flags: Flags) -> Result {
        self.entries.reserve(pieces, flags)?;
        Ok(self.pieces.reserve(pieces, flags)?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of allocated bytes.
    pub(crate) fn footprint(&self) -> usize {
        self.entries.capacity() * size_of::<scatterlist>()
            + self.pieces.capacity() * size_of::<Piece>()
    }

    /// Adds `piece`, which is not longer than an entry may be. Allocates if there is no room.
    pub(crate) fn push(&mut self, piece: Piece, flags: Flags) -> Result {
        self.reserve(1, flags)?;
        self.push_within_capacity(piece)
    }

    /// Adds a piece as [`Self::push`] does, but does not allocate: [`ENOMEM`] if there is no room.
    pub(crate) fn push_within_capacity(&mut self, piece: Piece) -> Result {
        // Checked first, so that no entry is added without its piece.
        if self.pieces.len() == self.pieces.capacity() {
            return Err(ENOMEM);
        }
        self.push_entry(piece.page().as_ptr(), piece.offset(), piece.len())?;
        self.pieces.push_within_capacity(piece).map_err(|_| ENOMEM)
    }

    /// Adds an entry for a run of `page`, which the caller puts into `pieces`, or which is in
    /// `pages`. Does not allocate.
    fn push_entry(&mut self, page: *mut page, offset: u32, len: u32) -> Result {
        self.entries
            .push_within_capacity(scatterlist::default())
            .map_err(|_| ENOMEM)?;
        let entry = self.entries.last_mut().ok_or(EINVAL)?;
        // SAFETY: A zeroed entry is valid within a table; the callers have the page allocated.
        unsafe { cbindings::sg_set_page(entry, page, len, offset) };
        self.end = 0;
        Ok(())
    }

    /// Adds a piece of any length. If it is contiguous with the last one, both share an entry up to
    /// the longest length; a longer piece takes several entries.
    pub(crate) fn push_contiguous(&mut self, mut piece: Piece, flags: Flags) -> Result {
        let longest = u32::try_from(Self::ENTRY_BYTES)?;
        while piece.len() > longest {
            let front = piece.split_front(longest).ok_or(EINVAL)?;
            self.push(front, flags)?;
        }
        self.reserve(1, flags)?;
        self.push_merged(piece.page().as_ptr(), piece.offset(), piece.len())?;
        self.pieces.push_within_capacity(piece).map_err(|_| ENOMEM)
    }

    /// Adds a run of `page` as [`Self::push_entry`] does, or makes the last entry longer if the run
    /// is contiguous with it.
    fn push_merged(&mut self, page: *mut page, offset: u32, len: u32) -> Result {
        // SAFETY: The callers have the page allocated.
        let start = unsafe { cbindings::page_to_phys(page) }.saturating_add(u64::from(offset));
        let end = start.saturating_add(u64::from(len));
        let merged = match self.entries.last_mut() {
            Some(entry) if self.end == start => {
                let merged = entry.length.saturating_add(len);
                let fits = usize::try_from(merged)? <= Self::ENTRY_BYTES;
                if fits {
                    entry.length = merged;
                }
                fits
            }
            _ => false,
        };
        if !merged {
            self.push_entry(page, offset, len)?;
        }
        self.end = end;
        Ok(())
    }

    /// Moves `pages` into the table, to be added with [`Self::push_own`]. [`EINVAL`] if it has
    /// memory already.
    pub(crate) fn own(&mut self, pages: KVec<Page>, flags: Flags) -> Result {
        if !self.entries.is_empty() || !self.pages.is_empty() {
            return Err(EINVAL);
        }
        self.entries.reserve(pages.len(), flags)?;
        self.pages = pages;
        Ok(())
    }

    /// Returns its own pages, none of which is mapped.
    pub(crate) fn own_pages(&self) -> Result<&[Page]> {
        match self.mapping {
            None => Ok(&self.pages),
            Some(_) => Err(EINVAL),
        }
    }

    /// Adds a run of its own page `index`. It shares an entry with the last run if both are
    /// contiguous. [`EINVAL`] if there is no such run.
    pub(crate) fn push_own(
        &mut self,
        index: usize,
        offset: usize,
        len: usize,
        flags: Flags,
    ) -> Result {
        let page = self.pages.get(index).ok_or(EINVAL)?.as_ptr();
        if offset.checked_add(len).is_none_or(|end| end > PAGE_SIZE) || self.mapping.is_some() {
            return Err(EINVAL);
        }
        self.entries.reserve(1, flags)?;
        self.push_merged(page, u32::try_from(offset)?, u32::try_from(len)?)
    }

    /// Unmaps and empties the table, and returns the pages that were moved into it.
    pub(crate) fn take_pages(&mut self) -> KVec<Page> {
        self.unmap();
        core::mem::take(&mut self.pages)
    }

    /// Maps the table. Returns the mapped entries, which are fewer if the mapping merges some.
    ///
    /// # Safety
    ///
    /// `device` is live until the table is cleared or dropped.
    pub(crate) unsafe fn map(
        &mut self,
        device: *mut cbindings::ib_device,
        direction: DataDirection,
    ) -> Result<&mut [scatterlist]> {
        let Some(last) = self.entries.last_mut() else {
            return Ok(&mut []);
        };
        if self.mapping.is_some() {
            return Err(EINVAL);
        }
        // SAFETY: The reference is to an initialised entry, the last of the table.
        unsafe { cbindings::sg_mark_end(last) };
        let entries = i32::try_from(self.entries.len())?;
        // SAFETY: The caller promises that the device is live. The table has that many entries, all
        // of them set to memory that the table owns by the type invariants.
        let mapped = unsafe {
            cbindings::ib_dma_map_sg(
                device,
                self.entries.as_mut_ptr(),
                entries,
                direction as cbindings::dma_data_direction,
            )
        };
        if mapped <= 0 {
            // Bounce buffers or address space are exhausted, which passes.
            return Err(ENOMEM);
        }
        // INVARIANT: All entries were just mapped, and the caller promises that the device stays
        // live until they are unmapped.
        self.mapping = Some(Mapping { device, direction });
        let mapped = usize::try_from(mapped)?;
        self.entries.get_mut(..mapped).ok_or(EIO)
    }

    /// Leaks the memory: it stays mapped and allocated for ever.
    pub(crate) fn leak(&mut self) {
        self.mapping = None;
        self.entries.clear();
        for piece in self.pieces.drain_all() {
            core::mem::forget(piece);
        }
        for page in self.pages.drain_all() {
            core::mem::forget(page);
        }
    }

    /// Unmaps the table and releases its memory. The lists stay allocated.
    pub(crate) fn clear(&mut self) {
        drop(self.take_pages());
    }

    /// Unmaps the table and releases the pieces. Its own pages are in no entry any more.
    fn unmap(&mut self) {
        if let Some(Mapping { device, direction }) = self.mapping.take() {
            // CAST: It was an `i32` when they were mapped. Unmapping takes the number passed then,
            // not the number returned.
            let entries = self.entries.len() as i32;
            // SAFETY: By the type invariants all entries are mapped that way, on a device that is
            // live.
            unsafe {
                cbindings::ib_dma_unmap_sg(
                    device,
                    self.entries.as_mut_ptr(),
                    entries,
                    direction as cbindings::dma_data_direction,
                )
            };
        }
        self.entries.clear();
        self.end = 0;
        self.pieces.clear();
    }
}

impl Drop for Scatter {
    fn drop(&mut self) {
        self.clear();
    }
}
