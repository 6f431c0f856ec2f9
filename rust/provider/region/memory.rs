// SPDX-License-Identifier: GPL-2.0

//! The memory behind a region: pages of one size, or elements of any length
//! (`IB_MR_TYPE_SG_GAPS`).

use kernel::{
    alloc::{
        Flags,
        KVVec, //
    },
    prelude::*, //
};

/// The kind of memory that a region is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Pages: only the first may begin, and only the last may end, within a page.
    Pages,
    /// Elements of any length, which begin anywhere.
    Elements,
}

/// The memory of one mapping.
pub(super) struct Memory {
    // INVARIANT: Addresses of memory that is mapped as long as the consumer keeps it registered: of
    // pages, or of elements, which are as long as `extent` says.
    addresses: KVVec<u64>,
    extent: Extent,
}

enum Extent {
    /// All pages have this size in octets, which is a power of two, or 0 if there are none.
    Pages(u64),
    /// Where each element ends, in octets from the beginning of the first.
    Elements(KVVec<u32>),
}

impl Memory {
    /// Creates one that has no memory, with room for so many pages or elements.
    pub(super) fn new(kind: Kind, count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            addresses: KVVec::with_capacity(count, flags)?,
            extent: match kind {
                Kind::Pages => Extent::Pages(0),
                Kind::Elements => Extent::Elements(KVVec::with_capacity(count, flags)?),
            },
        })
    }

    /// Creates one of pages of `size` octets, a power of two.
    ///
    /// # Safety
    ///
    /// The memory at `addresses` is there as long as it is registered.
    pub(super) unsafe fn of_pages(addresses: KVVec<u64>, size: u64) -> Self {
        // INVARIANT: The caller promises it.
        Self {
            addresses,
            extent: Extent::Pages(size),
        }
    }

    /// Returns what it can be mapped with.
    pub(super) fn kind(&self) -> Kind {
        match self.extent {
            Extent::Pages(_) => Kind::Pages,
            Extent::Elements(_) => Kind::Elements,
        }
    }

    /// Removes everything, before pages of `size` octets, a power of two, or elements are added.
    pub(super) fn clear(&mut self, size: u64) {
        self.addresses.clear();
        match &mut self.extent {
            Extent::Pages(present) => *present = size,
            Extent::Elements(ends) => ends.clear(),
        }
    }

    /// Adds a page. `ENOMEM` if there is no room, `EINVAL` if this is for elements.
    ///
    /// # Safety
    ///
    /// The memory there, of a page, is mapped as long as the consumer keeps it registered.
    pub(super) unsafe fn push_page(&mut self, address: u64) -> Result {
        if self.kind() != Kind::Pages {
            return Err(EINVAL);
        }
        // INVARIANT: The caller promises it.
        let pushed = self.addresses.push_within_capacity(address);
        pushed.map_err(|_| ENOMEM)
    }

    /// Adds an element. `ENOMEM` if there is no room, or if the region would have 4 GiB; `EINVAL`
    /// if this is for pages.
    ///
    /// # Safety
    ///
    /// The `length` octets there are mapped as long as the consumer keeps them registered.
    pub(super) unsafe fn push_element(&mut self, address: u64, length: u32) -> Result {
        let Extent::Elements(ends) = &mut self.extent else {
            return Err(EINVAL);
        };
        let start = ends.last().copied().unwrap_or(0);
        let end = start.checked_add(length).ok_or(ENOMEM)?;
        // Both lists are as long.
        ends.push_within_capacity(end).map_err(|_| ENOMEM)?;
        // INVARIANT: The caller promises it.
        let pushed = self.addresses.push_within_capacity(address);
        pushed.map_err(|_| ENOMEM)
    }

    /// Returns where the octet `from` after that at `base` is, and how many octets are there
    /// together. `ENOENT` if there is no such octet.
    pub(super) fn run(&self, base: u64, from: u64) -> Result<(u64, u64)> {
        let (index, inside, here) = match &self.extent {
            Extent::Pages(0) => return Err(ENOENT),
            Extent::Pages(size) => {
                // The first octet is somewhere in the first page.
                let at = from.checked_add(base & (size - 1)).ok_or(ENOENT)?;
                let inside = at & (size - 1);
                (usize::try_from(at / size)?, inside, size - inside)
            }
            Extent::Elements(ends) => {
                let from = u32::try_from(from).map_err(|_| ENOENT)?;
                let index = ends.partition_point(|end| *end <= from);
                let here = ends.get(index).and_then(|end| end.checked_sub(from));
                let before = index.checked_sub(1).and_then(|before| ends.get(before));
                let inside = from.checked_sub(before.copied().unwrap_or(0));
                let (inside, here) = inside.zip(here).ok_or(ENOENT)?;
                (index, inside.into(), here.into())
            }
        };
        let start = self.addresses.get(index).ok_or(ENOENT)?;
        Ok((start.checked_add(inside).ok_or(ENOENT)?, here))
    }
}
