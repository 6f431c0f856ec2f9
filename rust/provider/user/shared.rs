// SPDX-License-Identifier: GPL-2.0

//! Memory that a process has as well.
//!
//! Nobody has a reference to it, or a slice: it is accessed by words, in one piece each, at offsets
//! that are checked. The process and this module use the atomic operations of the same machine, so
//! the order of accesses is that of the memory model of the kernel.

use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicU16,
        AtomicU32,
        AtomicU64,
        Ordering, //
    }, //
};
use ext::memory::Page;
use kernel::{
    alloc::{
        flags::__GFP_NOWARN,
        KVVec, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc, //
};

/// Pages, and a mapping of them for the kernel.
///
/// # Invariants
///
/// `address` is a mapping of `pages` for the kernel, with `length` octets or more, which is there
/// until `drop`.
pub(crate) struct Shared {
    address: NonNull<u8>,
    length: usize,
    pages: KVVec<*mut kernel::bindings::page>,
    // They are dropped after the mapping.
    _owned: KVVec<Page>,
}

// SAFETY: Pages and mappings belong to no task.
unsafe impl Send for Shared {}
// SAFETY: `&Shared` gives atomic access only.
unsafe impl Sync for Shared {}

impl Shared {
    /// Allocates memory of this length, all zero, which is charged to the process that calls.
    /// Sleeps.
    pub(crate) fn new(length: usize) -> Result<Arc<Self>> {
        let flags = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
        let count = length.div_ceil(PAGE_SIZE).max(1);
        let mut owned = KVVec::with_capacity(count, flags)?;
        let mut pages = KVVec::with_capacity(count, flags)?;
        for _ in 0..count {
            let page = Page::new(flags)?;
            pages.push(page.as_ptr(), flags)?;
            owned.push(page, flags)?;
        }
        // SAFETY: `pages` has so many, which are there as long as the mapping: `drop` ends that
        // first. C keeps no pointer to the list. The caller may sleep.
        let address = unsafe {
            cbindings::vmap(
                pages.as_mut_ptr(),
                u32::try_from(count)?,
                // CAST: A `usize` has at least 32 bits here.
                cbindings::VM_MAP as usize,
                cbindings::PAGE_KERNEL(),
            )
        };
        let address = NonNull::new(address.cast()).ok_or(ENOMEM)?;
        // INVARIANT: They were just mapped.
        let shared = Self {
            address,
            length,
            pages,
            _owned: owned,
        };
        Ok(Arc::new(shared, GFP_KERNEL_ACCOUNT)?)
    }

    /// Returns the length in octets.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Maps the pages into a process. Sleeps.
    ///
    /// # Safety
    ///
    /// `vma` is about to be mapped, for `mmap` of a file's operations.
    pub(crate) unsafe fn map(&self, vma: *mut cbindings::vm_area_struct) -> Result {
        // SAFETY: The caller promises a new mapping. C checks its length, takes references to the
        // pages, and does not write the list.
        kernel::error::to_result(unsafe {
            cbindings::vm_map_pages_zero(vma, self.pages.as_ptr().cast_mut(), self.pages.len())
        })
    }

    /// Returns the address of a `T` at an offset. [`None`] if it is not aligned, or not inside.
    fn at<T>(&self, offset: usize) -> Option<*mut T> {
        let end = offset.checked_add(size_of::<T>())?;
        if end > self.length || offset % size_of::<T>() != 0 {
            return None;
        }
        // SAFETY: The offset is inside the mapping, by the type invariants.
        Some(unsafe { self.address.add(offset) }.cast().as_ptr())
    }

    /// Returns a word, or 0 outside the memory.
    pub(crate) fn load_16(&self, offset: usize, order: Ordering) -> u16 {
        // SAFETY: `at` found a word, which is mapped as long as `self`, aligned, and accessed
        // atomically only.
        let load = |word| unsafe { AtomicU16::from_ptr(word) }.load(order);
        self.at(offset).map_or(0, load)
    }

    /// Stores a word, if it is inside the memory.
    pub(crate) fn store_16(&self, offset: usize, value: u16, order: Ordering) {
        if let Some(word) = self.at(offset) {
            // SAFETY: `at` found a word, which is mapped as long as `self`, aligned, and accessed
            // atomically only.
            unsafe { AtomicU16::from_ptr(word) }.store(value, order);
        }
    }

    /// Returns a word, or 0 outside the memory.
    pub(crate) fn load_32(&self, offset: usize, order: Ordering) -> u32 {
        // SAFETY: `at` found a word, which is mapped as long as `self`, aligned, and accessed
        // atomically only.
        let load = |word| unsafe { AtomicU32::from_ptr(word) }.load(order);
        self.at(offset).map_or(0, load)
    }

    /// Stores a word, if it is inside the memory, and returns the one before.
    pub(crate) fn swap_32(&self, offset: usize, value: u32, order: Ordering) -> u32 {
        // SAFETY: `at` found a word, which is mapped as long as `self`, aligned, and accessed
        // atomically only.
        let swap = |word| unsafe { AtomicU32::from_ptr(word) }.swap(value, order);
        self.at(offset).map_or(0, swap)
    }

    /// Returns a word, or 0 outside the memory.
    pub(crate) fn load_64(&self, offset: usize, order: Ordering) -> u64 {
        // SAFETY: `at` found a word, which is mapped as long as `self`, aligned, and accessed
        // atomically only.
        let load = |word| unsafe { AtomicU64::from_ptr(word) }.load(order);
        self.at(offset).map_or(0, load)
    }

    /// Stores a word, if it is inside the memory.
    pub(crate) fn store_64(&self, offset: usize, value: u64, order: Ordering) {
        if let Some(word) = self.at(offset) {
            // SAFETY: `at` found a word, which is mapped as long as `self`, aligned, and accessed
            // atomically only.
            unsafe { AtomicU64::from_ptr(word) }.store(value, order);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: `vmap` returned the address, and nobody uses the mapping any more.
        unsafe { cbindings::vunmap(self.address.as_ptr().cast()) };
    }
}
