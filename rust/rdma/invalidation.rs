// SPDX-License-Identifier: GPL-2.0

//! What waits for local invalidations.
//!
//! A [`LocalInvalidate`] belongs to the first region of a chain, and is lent to the queue pair with the chain's
//! invalidations. The completion of the last of them brings all back. A device may lose that: soft iWARP
//! does, if it serves the peer's Reads when the connection is closed. What would have waited for ever is
//! given back when the queue pair is drained.

use crate::in_flight::Entry;
use core::ptr::{
    null,
    NonNull, //
};
use kernel::prelude::*;

/// The completion of a chain of local invalidations: the `regions`, and what goes with them. The completion
/// finds it by the first field.
#[repr(C)]
pub(crate) struct LocalInvalidate<R, C> {
    entry: Entry,
    /// What to give back, while it is posted.
    held: Option<(R, C)>,
    /// The queue pair where it is posted; valid as long.
    queue: *const (),
}

impl<R, C> LocalInvalidate<R, C> {
    pub(crate) const fn new() -> Self {
        Self {
            entry: Entry::new(),
            held: None,
            queue: null(),
        }
    }

    /// What a request completes to that has it.
    pub(crate) fn cqe(&mut self) -> *mut raw::ib_cqe {
        &raw mut self.entry.cqe
    }

    /// Gives up the box, with `regions` and `context`, for as long as it is posted on `queue`, where its
    /// completion is `done`.
    pub(crate) fn give_up<Q>(
        mut self: KBox<Self>,
        queue: &Q,
        done: unsafe extern "C" fn(*mut raw::ib_cq, *mut raw::ib_wc),
        regions: R,
        context: C,
    ) -> NonNull<Entry> {
        self.entry.arm(done, free::<R, C>);
        self.held = Some((regions, context));
        self.queue = (&raw const *queue).cast();
        // CAST: The entry is the first field.
        NonNull::from(KBox::leak(self)).cast()
    }

    /// Takes the box back, and what it held. [`None`] if that was lost before.
    ///
    /// # Safety
    ///
    /// `entry` came from [`Self::give_up`], is in no list, and this is the first call for it.
    pub(crate) unsafe fn take_back(entry: NonNull<Entry>) -> Option<(KBox<Self>, R, C)> {
        // SAFETY: The caller vouches for it.
        let mut this: KBox<Self> = unsafe { KBox::from_raw(entry.cast().as_ptr()) };
        let (regions, context) = this.held.take()?;
        Some((this, regions, context))
    }

    /// Takes what it holds; the box stays where it is.
    ///
    /// # Safety
    ///
    /// `entry` came from [`Self::give_up`] and was not taken back, and nobody else touches it meanwhile.
    pub(crate) unsafe fn lose(entry: NonNull<Entry>) -> Option<(R, C)> {
        // SAFETY: The caller vouches for it.
        unsafe { (*entry.cast::<Self>().as_ptr()).held.take() }
    }

    /// Where it is posted.
    ///
    /// # Safety
    ///
    /// `entry` came from [`Self::give_up`] and was not taken back.
    pub(crate) unsafe fn queue(entry: NonNull<Entry>) -> *const () {
        // SAFETY: The caller vouches for it.
        unsafe { (*entry.cast::<Self>().as_ptr()).queue }
    }
}

/// # Safety
///
/// `entry` is that of a [`LocalInvalidate`] that was given up, which no completion will take back.
unsafe fn free<R, C>(entry: NonNull<Entry>) {
    // SAFETY: The caller vouches for it.
    drop(unsafe { LocalInvalidate::<R, C>::take_back(entry) });
}
