// SPDX-License-Identifier: GPL-2.0

//! Scatter/gather tables that own their memory.
//!
//! C headers: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h),
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h), `ib_dma_map_sg`.
//!
//! `kernel::scatterlist` does not serve: it maps for a `struct device`, and an RDMA device may have
//! no DMA device.

use kernel::{
    alloc::Flags,
    bindings::scatterlist,
    dma::DataDirection,
    error::{
        code::{
            EINVAL,
            EIO,
            ENOMEM, //
        },
        Result, //
    },
    prelude::*, //
};
use shared::memory::Piece;

/// A scatter/gather table that owns its pieces of memory.
///
/// # Invariants
///
/// The entries describe the pieces, in order. If `mapping` is set, all of them are mapped that way,
/// and the device is live.
pub(crate) struct Scatter {
    // For 1 MiB at any offset this is just more than two pages, which may be hard to get
    // contiguously.
    entries: KVVec<scatterlist>,
    pieces: KVVec<Piece>,
    mapping: Option<Mapping>,
}

/// The mapping of a table.
#[derive(Clone, Copy)]
struct Mapping {
    device: *mut raw::ib_device,
    direction: DataDirection,
}

impl Scatter {
    /// The longest entry. Devices on a bus limit the length of a segment, and bounce buffers are
    /// limited to 256 KiB. All support this length.
    pub(crate) const ENTRY_BYTES: usize = 65_536;

    /// Creates an empty table.
    pub(crate) const fn new() -> Self {
        // INVARIANT: There are no entries, no pieces and no mapping.
        Self {
            entries: KVVec::new(),
            pieces: KVVec::new(),
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
        self.pieces.is_empty()
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
        self.entries
            .push_within_capacity(scatterlist::default())
            .map_err(|_| ENOMEM)?;
        let entry = self.entries.last_mut().ok_or(EINVAL)?;
        // SAFETY: A zeroed entry is valid within a table; the piece keeps its page allocated.
        unsafe { raw::sg_set_page(entry, piece.page().as_ptr(), piece.len(), piece.offset()) };
        self.pieces.push_within_capacity(piece).map_err(|_| ENOMEM)
    }

    /// Adds a piece of any length. If it is contiguous with the last one, both share an entry up to
    /// the longest length; a longer piece takes several entries.
    pub(crate) fn push_contiguous(&mut self, mut piece: Piece, flags: Flags) -> Result {
        let longest = u32::try_from(Self::ENTRY_BYTES)?;
        while piece.len() > longest {
            let front = piece.split_front(longest).ok_or(EINVAL)?;
            self.push(front, flags)?;
        }
        let last = self.pieces.last().zip(self.entries.last_mut());
        if let Some((last, entry)) = last {
            let len = entry.length.saturating_add(piece.len());
            let end = physical(last).saturating_add(u64::from(last.len()));
            if end == physical(&piece) && len <= longest {
                self.pieces.push(piece, flags)?;
                entry.length = len;
                return Ok(());
            }
        }
        self.push(piece, flags)
    }

    /// Maps the table. Returns the mapped entries, which are fewer if the mapping merges some.
    ///
    /// # Safety
    ///
    /// `device` is live until the table is cleared or dropped.
    pub(crate) unsafe fn map(
        &mut self,
        device: *mut raw::ib_device,
        direction: DataDirection,
    ) -> Result<&mut [scatterlist]> {
        let Some(last) = self.entries.last_mut() else {
            return Ok(&mut []);
        };
        if self.mapping.is_some() {
            return Err(EINVAL);
        }
        // SAFETY: The reference is to an initialised entry, the last of the table.
        unsafe { raw::sg_mark_end(last) };
        let entries = i32::try_from(self.entries.len())?;
        // SAFETY: The caller promises that the device is live. The table has that many entries, all
        // of them set to pages that `pieces` own by the type invariants.
        let mapped = unsafe {
            raw::ib_dma_map_sg(
                device,
                self.entries.as_mut_ptr(),
                entries,
                direction as raw::dma_data_direction,
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

    /// Leaks the pieces: they stay mapped and allocated for ever.
    pub(crate) fn leak(&mut self) {
        self.mapping = None;
        self.entries.clear();
        for piece in self.pieces.drain_all() {
            core::mem::forget(piece);
        }
    }

    /// Unmaps the table and releases the pieces. Its own memory stays allocated.
    pub(crate) fn clear(&mut self) {
        if let Some(Mapping { device, direction }) = self.mapping.take() {
            // CAST: It was an `i32` when they were mapped. Unmapping takes the number passed then,
            // not the number returned.
            let entries = self.entries.len() as i32;
            // SAFETY: By the type invariants all entries are mapped that way, on a device that is
            // live.
            unsafe {
                raw::ib_dma_unmap_sg(
                    device,
                    self.entries.as_mut_ptr(),
                    entries,
                    direction as raw::dma_data_direction,
                )
            };
        }
        self.entries.clear();
        self.pieces.clear();
    }
}

impl Drop for Scatter {
    fn drop(&mut self) {
        self.clear();
    }
}

fn physical(piece: &Piece) -> u64 {
    // SAFETY: The piece keeps its page allocated, as its type promises.
    unsafe { raw::page_to_phys(piece.page().as_ptr()) }.saturating_add(u64::from(piece.offset()))
}
