// SPDX-License-Identifier: GPL-2.0

//! Memory of a process that it registers.
//!
//! C header: [`include/rdma/ib_umem.h`](srctree/include/rdma/ib_umem.h)
//!
//! Its pages are pinned, for writing only if it registers them with the right to write. A page that
//! is not may belong to a file that the process cannot write, so that right is checked wherever
//! this module writes ([`Region::access`](crate::region::Region::access)).

use core::ptr::NonNull;
use kernel::{
    alloc::{
        flags::__GFP_NOWARN,
        KVVec, //
    },
    error::from_err_ptr,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Pinned memory of a process.
///
/// # Invariants
///
/// It came from `ib_umem_get_va`, and is released only in `drop`.
pub(crate) struct PinnedMemory(NonNull<cbindings::ib_umem>);

// SAFETY: Any task may release it.
unsafe impl Send for PinnedMemory {}
// SAFETY: `&PinnedMemory` gives access to addresses, which do not change.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// Pins memory of the process that calls, for this access. Sleeps.
    ///
    /// # Safety
    ///
    /// The device is live as long as the value.
    pub(crate) unsafe fn new(
        device: *mut cbindings::ib_device,
        address: u64,
        length: u64,
        access: i32,
    ) -> Result<Self> {
        let (address, length) = (usize::try_from(address)?, usize::try_from(length)?);
        // SAFETY: The caller promises the device. Address and length are the process's, and C
        // checks them.
        let pinned = unsafe { cbindings::ib_umem_get_va(device, address, length, access) };
        let pinned = from_err_ptr(pinned)?;
        // INVARIANT: It is not an error.
        Ok(Self(NonNull::new(pinned).ok_or(EINVAL)?))
    }

    /// Returns the addresses of its pages, of `PAGE_SIZE` octets, in the kernel's linear map. They
    /// are valid as long as this. Sleeps.
    pub(crate) fn pages(&self) -> Result<KVVec<u64>> {
        let flags = GFP_KERNEL_ACCOUNT | __GFP_NOWARN;
        let mut pages = KVVec::new();
        // SAFETY: By the type invariants it is pinned memory, whose table has so many entries of
        // whole pages.
        let (mut sg, entries) = unsafe {
            let table = &(*self.0.as_ptr()).sgt_append.sgt;
            (table.sgl, table.orig_nents)
        };
        for _ in 0..entries {
            // SAFETY: It is an entry of the table, whose pages follow each other, also in the
            // linear map. The next one, which the last one does not have, is not used then.
            let (first, length) = unsafe {
                let run = (cbindings::sg_virt(sg), (*sg).length);
                sg = cbindings::sg_next(sg);
                run
            };
            let first = u64::try_from(first.expose_provenance())?;
            pages.reserve(usize::try_from(length)? / PAGE_SIZE, flags)?;
            for offset in (0..u64::from(length)).step_by(PAGE_SIZE) {
                pages.push(first.checked_add(offset).ok_or(EINVAL)?, flags)?;
            }
        }
        Ok(pages)
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        // SAFETY: By the type invariants it is released once. Nobody uses the pages any more: the
        // region was invalidated before.
        unsafe { cbindings::ib_umem_release(self.0.as_ptr()) };
    }
}
