// SPDX-License-Identifier: GPL-2.0

//! Memory that a process maps, at an offset that it was told.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! The core keeps the entries of a context, and frees one ([`free`]) when the object has removed it
//! and nobody is about to map it. Pages that are mapped have references of their own.

use super::{
    shared::Shared,
    Call, //
};
use crate::errno;
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    ffi,
    prelude::*,
    sync::Arc, //
};
use uabi::response::MmapOffset;

/// An entry of the core, with the memory.
#[repr(C)]
struct Entry {
    core: cbindings::rdma_user_mmap_entry,
    memory: Arc<Shared>,
}

/// An offset at which the process may map memory, until this is dropped.
///
/// # Invariants
///
/// It is the `core` of an [`Entry`] from `KBox::into_raw`, in the list of a context that is there.
pub(crate) struct Mapping(NonNull<cbindings::rdma_user_mmap_entry>);

// SAFETY: Any task may remove an entry; the core has locks.
unsafe impl Send for Mapping {}
// SAFETY: `&Mapping` gives access to a number that does not change.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Lets the process map this memory. Sleeps.
    ///
    /// # Safety
    ///
    /// The value is dropped before the context is freed.
    pub(crate) unsafe fn new(call: Call, memory: Arc<Shared>) -> Result<Self> {
        let length = memory.len();
        let entry = Entry {
            core: cbindings::rdma_user_mmap_entry::default(),
            memory,
        };
        let entry = KBox::into_raw(KBox::new(entry, GFP_KERNEL_ACCOUNT)?);
        // SAFETY: The context is that of the call; the entry stays where it is until the core
        // frees it.
        let inserted = to_result(unsafe {
            cbindings::rdma_user_mmap_entry_insert_range(
                call.context(),
                &raw mut (*entry).core,
                length,
                MmapOffset::FIRST_PAGE,
                u32::MAX,
            )
        });
        if let Err(error) = inserted {
            // SAFETY: The pointer came from `into_raw`, and the core did not take it.
            drop(unsafe { KBox::from_raw(entry) });
            return Err(error);
        }
        // INVARIANT: It was just inserted, and the caller promises that the context stays.
        Ok(Self(NonNull::new(entry.cast()).ok_or(EINVAL)?))
    }

    /// Returns the offset.
    pub(crate) fn offset(&self) -> Result<MmapOffset> {
        // SAFETY: By the type invariants the entry is in a list.
        let offset = unsafe { cbindings::rdma_user_mmap_get_offset(self.0.as_ptr()) };
        MmapOffset::new(offset).ok_or(EINVAL)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the entry is in the list of a context that is there; it is
        // removed once.
        unsafe { cbindings::rdma_user_mmap_entry_remove(self.0.as_ptr()) };
    }
}

/// `mmap_free`: nobody can map the entry any more.
///
/// # Safety
///
/// For the core only: the entry is one of [`Mapping::new`].
pub(crate) unsafe extern "C" fn free(entry: *mut cbindings::rdma_user_mmap_entry) {
    // SAFETY: It is the first field of an [`Entry`] from `into_raw`, which the core frees once.
    drop(unsafe { KBox::from_raw(entry.cast::<Entry>()) });
}

/// `mmap`.
///
/// # Safety
///
/// For the core only: `vma` is about to be mapped.
pub(crate) unsafe extern "C" fn map(
    context: *mut cbindings::ib_ucontext,
    vma: *mut cbindings::vm_area_struct,
) -> ffi::c_int {
    errno(|| {
        // SAFETY: The core passes a new mapping.
        if unsafe { cbindings::vma_is_executable(vma) } {
            return Err(EPERM);
        }
        // The core checks that it is shared, and as long as the entry.
        // SAFETY: The core passes a context and a mapping that stay during the call.
        let entry = unsafe { cbindings::rdma_user_mmap_entry_get(context, vma) };
        let entry = NonNull::new(entry).ok_or(EINVAL)?;
        // SAFETY: The core passes a new mapping, whose lock it holds. The reference that was just
        // taken keeps the entry, and is dropped once.
        unsafe {
            cbindings::vma_restrict(vma);
            let mapped = entry.cast::<Entry>().as_ref().memory.map(vma);
            cbindings::rdma_user_mmap_entry_put(entry.as_ptr());
            mapped
        }
    })
}
