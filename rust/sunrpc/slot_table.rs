// SPDX-License-Identifier: GPL-2.0

//! The slot table of one transport.
//!
//! Each [`Rqst`] is allocated with the transport and serves one RPC after another. The free ones
//! are on a stack under `reserve_lock`, so that the one used last, whose memory is still in the
//! CPU's caches, is used next.

use crate::rqst::{
    HasSlot,
    Rqst, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::prelude::*;

/// All slots of a transport, and which of them are free.
///
/// # Invariants
///
/// * `free` has capacity for all of `all`, and each of its entries points into `all`.
/// * A slot that is not in `free` belongs to one RPC task.
/// * `free` is accessed under the `reserve_lock` of the transport.
pub(crate) struct SlotTable<T: HasSlot> {
    free: UnsafeCell<KVVec<NonNull<Rqst<T>>>>,
    all: KVVec<Pin<KBox<Rqst<T>>>>,
}

// SAFETY: The slots are `Send` and `Sync`, and a lock guards `free` by the type invariants.
unsafe impl<T: HasSlot> Send for SlotTable<T> {}
// SAFETY: `&SlotTable` gives `&Rqst`, which is `Sync`, and a lock guards `free` by the type
// invariants.
unsafe impl<T: HasSlot> Sync for SlotTable<T> {}

impl<T: HasSlot> SlotTable<T> {
    /// Allocates `count` slots.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let mut all = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut free = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let slot = KBox::pin_init(Rqst::new(), GFP_KERNEL)?;
            free.push(NonNull::from(&*slot), GFP_KERNEL)?;
            all.push(slot, GFP_KERNEL)?;
        }
        // INVARIANT: All are free, `free` has room for as many, and no other thread knows of them
        // yet.
        Ok(Self {
            free: UnsafeCell::new(free),
            all,
        })
    }

    /// Returns all slots, free or not.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rqst<T>> {
        self.all.iter().map(|slot| &**slot)
    }

    /// Takes a free slot.
    ///
    /// # Safety
    ///
    /// The caller holds `reserve_lock`.
    pub(crate) unsafe fn take(&self) -> Option<NonNull<Rqst<T>>> {
        // SAFETY: The lock gives exclusive access.
        unsafe { &mut *self.free.get() }.pop()
    }

    /// Puts a slot back.
    ///
    /// # Safety
    ///
    /// The caller holds `reserve_lock`, and `slot` is one that [`Self::take`] gave and nobody uses
    /// any more.
    pub(crate) unsafe fn put(&self, slot: NonNull<Rqst<T>>) {
        // SAFETY: The lock gives exclusive access.
        let free = unsafe { &mut *self.free.get() };
        // INVARIANT: `slot` is one of `all` and was not in `free`, which therefore has room.
        let pushed = free.push_within_capacity(slot);
        debug_assert!(pushed.is_ok());
    }

    /// Returns the number of slots that are taken.
    ///
    /// # Safety
    ///
    /// The caller holds `reserve_lock`.
    pub(crate) unsafe fn taken(&self) -> usize {
        // SAFETY: The lock gives exclusive access.
        self.all.len() - unsafe { &*self.free.get() }.len()
    }
}
