// SPDX-License-Identifier: GPL-2.0

//! Pieces of memory, and the table by which a device is told of them.
//!
//! C headers: [`include/linux/scatterlist.h`](srctree/include/linux/scatterlist.h),
//! [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h), `ib_dma_map_sg`.
//!
//! `kernel::scatterlist` does not serve: it maps for a `struct device`, and an RDMA device may have no DMA of its own.

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

/// A table of pieces, which it owns.
///
/// # Invariants
///
/// The entries describe the pieces, in order. If `mapping` is there, all of them are mapped so.
pub(crate) struct Scatter {
    // For 1 MiB at any offset this is just more than two pages, and memory in one piece for it may be hard to get.
    entries: KVVec<scatterlist>,
    pieces: KVVec<Piece>,
    mapping: Option<Mapping>,
}

/// How a table is mapped.
#[derive(Clone, Copy)]
struct Mapping {
    device: *mut raw::ib_device,
    direction: DataDirection,
}

impl Scatter {
    /// Entries longer than this are not made: devices on a bus say how long a segment they map, and
    /// bounce buffers end at 256 KiB. All take this much.
    pub(crate) const ENTRY_BYTES: usize = 65_536;

    /// An empty table.
    pub(crate) const fn new() -> Self {
        // INVARIANT: Nothing is described, nothing is mapped.
        Self {
            entries: KVVec::new(),
            pieces: KVVec::new(),
            mapping: None,
        }
    }

    /// An empty table with room for so many pieces.
    pub(crate) fn with_capacity(pieces: usize, flags: Flags) -> Result<Self> {
        let mut table = Self::new();
        table.reserve(pieces, flags)?;
        Ok(table)
    }

    /// Makes room for so many more pieces.
    pub(crate) fn reserve(&mut self, pieces: usize, flags: Flags) -> Result {
        self.entries.reserve(pieces, flags)?;
        Ok(self.pieces.reserve(pieces, flags)?)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many entries it has.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that it has allocated.
    pub(crate) fn footprint(&self) -> usize {
        self.entries.capacity() * size_of::<scatterlist>()
            + self.pieces.capacity() * size_of::<Piece>()
    }

    /// Adds `piece`, which is no longer than an entry may be. Allocates if there is no room.
    pub(crate) fn push(&mut self, piece: Piece, flags: Flags) -> Result {
        self.reserve(1, flags)?;
        self.push_within_capacity(piece)
    }

    /// As [`Self::push`], but allocates nothing: [`ENOMEM`] if there is no room.
    pub(crate) fn push_within_capacity(&mut self, piece: Piece) -> Result {
        // No entry without its piece.
        if self.pieces.len() == self.pieces.capacity() {
            return Err(ENOMEM);
        }
        self.entries
            .push_within_capacity(scatterlist::default())
            .map_err(|_| ENOMEM)?;
        let entry = self.entries.last_mut().ok_or(EINVAL)?;
        // SAFETY: A zeroed entry is one in the middle of a table; the piece owns its page.
        unsafe { raw::sg_set_page(entry, piece.page().as_ptr(), piece.len(), piece.offset()) };
        self.pieces.push_within_capacity(piece).map_err(|_| ENOMEM)
    }

    /// As [`Self::push`], but if `piece` follows the last one in memory, both share an entry as long as
    /// that goes, and a longer one takes several.
    pub(crate) fn join(&mut self, mut piece: Piece, flags: Flags) -> Result {
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

    /// Maps it. Returns the mapped entries, which are fewer if the device sees some as one.
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
        // SAFETY: It is the last entry of the table.
        unsafe { raw::sg_mark_end(last) };
        let entries = i32::try_from(self.entries.len())?;
        // SAFETY: The caller vouches for the device. The table has that many entries, all of them set to
        // pages that `pieces` own.
        let mapped = unsafe {
            raw::ib_dma_map_sg(
                device,
                self.entries.as_mut_ptr(),
                entries,
                direction as raw::dma_data_direction,
            )
        };
        if mapped <= 0 {
            // Bounce buffers and address spaces run out, and there will be more again.
            return Err(ENOMEM);
        }
        // INVARIANT: Just mapped.
        self.mapping = Some(Mapping { device, direction });
        let mapped = usize::try_from(mapped)?;
        self.entries.get_mut(..mapped).ok_or(EIO)
    }

    /// Leaves the pieces mapped and allocated for ever, and forgets them.
    pub(crate) fn leak(&mut self) {
        self.mapping = None;
        self.entries.clear();
        for piece in self.pieces.drain_all() {
            core::mem::forget(piece);
        }
    }

    /// Unmaps it and lets go of the pieces. What was allocated stays.
    pub(crate) fn clear(&mut self) {
        if let Some(Mapping { device, direction }) = self.mapping.take() {
            // CAST: It was an `i32` when they were mapped. Unmapping wants the number given then, not
            // the number returned.
            let entries = self.entries.len() as i32;
            // SAFETY: They are mapped so by the type invariants, on a device that is live.
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
    // SAFETY: The piece keeps its page allocated.
    unsafe { raw::page_to_phys(piece.page().as_ptr()) }.saturating_add(u64::from(piece.offset()))
}
