// SPDX-License-Identifier: GPL-2.0

//! The memory of a request: its list of SGEs, or octets of a process that came with it.
//!
//! A consumer in the kernel may name all memory, by the local DMA key; a process names memory by
//! regions only.

use crate::region::LOCAL_DMA_LKEY;
use core::ptr::NonNull;
use ext::borrowed::Piece;
use kernel::{
    alloc::Flags,
    prelude::*, //
};
use uabi::sg_list::Inline;

/// A part of the memory of a request.
pub enum Run<'a> {
    /// Memory of this machine.
    Local(Piece<'a>),
    /// Octets of the request itself, which are sent.
    Inline(&'a [u8]),
    /// Octets of a region, which the consumer has registered for this.
    Registered {
        /// The STag.
        stag: u32,
        /// The offset, as the registration has it.
        offset: u64,
        /// The length in octets.
        length: u32,
    },
}

/// The memory of a request: the memory of its list of SGEs.
pub struct SgList {
    // INVARIANT: Each entry of `LOCAL_DMA_LKEY` names memory that the consumer keeps until the
    // request completes.
    // Those of a process name regions, whatever their keys are.
    list: KVec<cbindings::ib_sge>,
    // Octets of a process, instead of a list.
    inline: KVec<u8>,
    length: u32,
    owner: ListOwner,
}

/// The one whose list it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListOwner {
    /// A consumer in the kernel, which may name all memory.
    Kernel,
    /// A process.
    Process,
}

impl ListOwner {
    /// Returns how memory for its requests is allocated.
    pub(crate) fn flags(self) -> Flags {
        match self {
            Self::Kernel => GFP_KERNEL,
            Self::Process => GFP_KERNEL_ACCOUNT,
        }
    }
}

// SAFETY: The list has addresses of memory that any task may use.
unsafe impl Send for SgList {}

impl SgList {
    /// Allocates a list for that many SGEs, and octets of a process. Sleeps.
    pub(crate) fn new(entries: usize, inline: usize, owner: ListOwner) -> Result<Self> {
        Ok(Self {
            list: KVec::with_capacity(entries, owner.flags())?,
            inline: KVec::with_capacity(inline, owner.flags())?,
            length: 0,
            owner,
        })
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.inline.clear();
        self.length = 0;
    }

    /// Takes over a list of a process. There is room for each list that was decoded.
    pub(super) fn fill_from(&mut self, list: &uabi::sg_list::SgList) {
        self.clear();
        for sge in list.as_slice() {
            let entry = cbindings::ib_sge {
                addr: sge.address,
                length: sge.length,
                lkey: sge.lkey,
            };
            // INVARIANT: The key of an entry of a process has no meaning but that of a region.
            if self.list.push_within_capacity(entry).is_err() {
                return;
            }
            self.length = self.length.saturating_add(sge.length);
        }
    }

    /// Takes over octets of a process. There is room for all that were decoded.
    pub(super) fn fill_inline(&mut self, octets: &Inline) {
        self.clear();
        for octet in octets.as_slice() {
            if self.inline.push_within_capacity(*octet).is_err() {
                return;
            }
            self.length = self.length.saturating_add(1);
        }
    }

    /// Takes over a list. `EINVAL` if it has too many entries. Those of a region are looked up when
    /// they are used: its registration may be ahead in the queue.
    ///
    /// # Safety
    ///
    /// The list has that many entries, and their memory stays allocated until the request is
    /// completed.
    pub(super) unsafe fn fill(&mut self, list: *const cbindings::ib_sge, entries: i32) -> Result {
        self.clear();
        for at in 0..usize::try_from(entries).map_err(|_| EINVAL)? {
            // SAFETY: The caller promises that many entries.
            let entry = unsafe { *list.add(at) };
            self.length = self.length.checked_add(entry.length).ok_or(EINVAL)?;
            // INVARIANT: The caller promises it.
            self.list.push_within_capacity(entry).map_err(|_| EINVAL)?;
        }
        Ok(())
    }

    /// Returns the length in octets.
    #[inline]
    pub fn len(&self) -> u32 {
        self.length
    }

    /// Returns the number of SGEs.
    #[inline]
    pub(crate) fn entries(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no octets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Returns the pieces of `length` octets from `offset`, if all are memory that a consumer in
    /// the kernel names by the local DMA key.
    pub fn local(&self, offset: u32, length: u32) -> Option<LocalPieces<'_>> {
        if self.owner != ListOwner::Kernel || !self.inline.is_empty() {
            return None;
        }
        let pieces = LocalPieces {
            list: &self.list,
            skip: offset,
            left: length,
        };
        let mut check = pieces.clone();
        while check.next().is_some() {}
        (check.left == 0).then_some(pieces)
    }

    /// Calls `f` with each part of `length` octets from `offset`. `EINVAL` if there are fewer.
    pub fn runs(&self, offset: u32, length: u32, mut f: impl FnMut(Run<'_>) -> Result) -> Result {
        if !self.inline.is_empty() {
            let from = usize::try_from(offset)?;
            let to = from.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
            return f(Run::Inline(self.inline.get(from..to).ok_or(EINVAL)?));
        }
        let (mut skip, mut left) = (offset, length);
        for entry in &self.list {
            if left == 0 {
                break;
            }
            if skip >= entry.length {
                skip -= entry.length;
                continue;
            }
            let here = left.min(entry.length - skip);
            let address = entry.addr.checked_add(skip.into()).ok_or(EINVAL)?;
            if entry.lkey == LOCAL_DMA_LKEY && self.owner == ListOwner::Kernel {
                let address = core::ptr::with_exposed_provenance_mut(usize::try_from(address)?);
                let address = NonNull::new(address).ok_or(EINVAL)?;
                // SAFETY: By the invariant of `list` the consumer keeps the memory until the
                // request is completed, which takes `self`. On a device without DMA of its own, DMA
                // addresses are memory addresses.
                f(Run::Local(unsafe { Piece::new(address, here) }))?;
            } else {
                f(Run::Registered {
                    stag: entry.lkey,
                    offset: address,
                    length: here,
                })?;
            }
            skip = 0;
            left -= here;
        }
        match left {
            0 => Ok(()),
            _ => Err(EINVAL),
        }
    }
}

/// The pieces of a part of an [`SgList`] of a consumer in the kernel, up to the first that is not
/// named by the local DMA key.
#[derive(Clone)]
pub struct LocalPieces<'a> {
    // INVARIANT: As that of `SgList`.
    list: &'a [cbindings::ib_sge],
    skip: u32,
    left: u32,
}

impl<'a> Iterator for LocalPieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        while self.left > 0 {
            let (entry, rest) = self.list.split_first()?;
            self.list = rest;
            if self.skip >= entry.length {
                self.skip = self.skip.saturating_sub(entry.length);
                continue;
            }
            if entry.lkey != LOCAL_DMA_LKEY {
                return None;
            }
            let address = entry.addr.checked_add(self.skip.into())?;
            let address = core::ptr::with_exposed_provenance_mut(usize::try_from(address).ok()?);
            let address = NonNull::new(address)?;
            let here = self.left.min(entry.length.saturating_sub(self.skip));
            self.skip = 0;
            self.left = self.left.saturating_sub(here);
            // SAFETY: By the invariant of `list` the consumer keeps the memory until the request is
            // completed, which takes the list. On a device without DMA of its own, DMA addresses
            // are memory addresses.
            return Some(unsafe { Piece::new(address, here) });
        }
        None
    }
}
