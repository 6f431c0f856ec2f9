// SPDX-License-Identifier: GPL-2.0

//! Request slots of one transport.
//!
//! Each [`Rqst`] is allocated with the transport and serves one RPC after another. The free ones
//! lie on a stack under `reserve_lock`, so that the one used last, whose memory the caches still
//! know, is used next.
//!
//! The lock is held across the calls that put a task on the backlog queue and that take one from
//! it, as sunrpc's own slot table does. A slot thus cannot come back between the look at the stack
//! and the moment the task is on the queue, which would leave the task asleep beside a free slot.

use crate::{
    Rqst,
    Transport, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::prelude::*;

/// All slots, and those that are free.
///
/// # Invariants
///
/// * `free` has capacity for all of `all`, and each of its entries points into `all`.
/// * A slot that is not in `free` belongs to one RPC task.
/// * `free` is accessed under the `reserve_lock` of the transport.
pub(crate) struct Slots<T: Transport> {
    free: UnsafeCell<KVVec<NonNull<Rqst<T>>>>,
    all: KVVec<Pin<KBox<Rqst<T>>>>,
}

// SAFETY: The slots are `Send` and `Sync`, and a lock guards `free` by the type invariants.
unsafe impl<T: Transport> Send for Slots<T> {}
// SAFETY: As above.
unsafe impl<T: Transport> Sync for Slots<T> {}

impl<T: Transport> Slots<T> {
    /// Allocates `count` slots.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let mut all = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut free = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let slot = KBox::pin_init(Rqst::new(), GFP_KERNEL)?;
            free.push(NonNull::from(&*slot), GFP_KERNEL)?;
            all.push(slot, GFP_KERNEL)?;
        }
        // INVARIANT: All are free, `free` has room for as many, and no other thread knows it yet.
        Ok(Self {
            free: UnsafeCell::new(free),
            all,
        })
    }

    /// All slots, free or not.
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

    /// Puts one back.
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

    /// How many are taken.
    ///
    /// # Safety
    ///
    /// The caller holds `reserve_lock`.
    pub(crate) unsafe fn taken(&self) -> usize {
        // SAFETY: The lock gives exclusive access.
        self.all.len() - unsafe { &*self.free.get() }.len()
    }
}
