// SPDX-License-Identifier: GPL-2.0

//! The context of a chain of local invalidations.
//!
//! A [`LocalInvalidate`] belongs to the first region of a chain, and is lent to the queue pair with
//! the chain's invalidations. The completion of the last of them returns all. A device may lose
//! that completion: soft iWARP does, if it serves the peer's Reads when the connection is closed.
//! Then the drain of the queue pair returns the regions.

use crate::in_flight::Entry;
use core::ptr::{
    null,
    NonNull, //
};
use kernel::prelude::*;

/// The context of a chain of local invalidations: the `regions`, and a context of the upper layer.
/// The completion finds it by the first field.
#[repr(C)]
pub(crate) struct LocalInvalidate<R, C> {
    entry: Entry,
    /// The values to return, while it is posted.
    held: Option<(R, C)>,
    /// The queue pair where it is posted. Valid while it is.
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

    /// Returns the completion entry for a request.
    pub(crate) fn cqe(&mut self) -> *mut raw::ib_cqe {
        &raw mut self.entry.cqe
    }

    /// Lends the box, with `regions` and `context`, to `queue` while it is posted there. The
    /// request completes to `done`.
    pub(crate) fn lend<Q>(
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

    /// Takes back the box and the values that it holds. [`None`] if [`Self::take_values`] took
    /// those.
    ///
    /// # Safety
    ///
    /// `entry` came from [`Self::lend`], is in no list, and this is the first call for it.
    pub(crate) unsafe fn take_back(entry: NonNull<Entry>) -> Option<(KBox<Self>, R, C)> {
        // SAFETY: The caller promises that `entry`, the first field, came from the box that
        // `lend` leaked, and that nobody else takes it.
        let mut this: KBox<Self> = unsafe { KBox::from_raw(entry.cast().as_ptr()) };
        let (regions, context) = this.held.take()?;
        Some((this, regions, context))
    }

    /// Takes the values that it holds; the box stays lent.
    ///
    /// # Safety
    ///
    /// `entry` came from [`Self::lend`] and was not taken back, and nobody else accesses it
    /// during the call.
    pub(crate) unsafe fn take_values(entry: NonNull<Entry>) -> Option<(R, C)> {
        // SAFETY: The caller promises that `entry`, the first field of a lent box, was not taken
        // back and that nobody else accesses it.
        unsafe { (*entry.cast::<Self>().as_ptr()).held.take() }
    }

    /// Returns the queue pair where it is posted.
    ///
    /// # Safety
    ///
    /// `entry` came from [`Self::lend`] and was not taken back.
    pub(crate) unsafe fn queue(entry: NonNull<Entry>) -> *const () {
        // SAFETY: The caller promises that `entry`, the first field of a lent box, was not taken
        // back.
        unsafe { (*entry.cast::<Self>().as_ptr()).queue }
    }
}

/// Frees the box of `entry` and the values that it holds.
///
/// # Safety
///
/// `entry` is that of a [`LocalInvalidate`] that was lent and is in no list, and no completion will
/// take it back.
unsafe fn free<R, C>(entry: NonNull<Entry>) {
    // SAFETY: The caller promises that `entry` came from `lend`, is in no list, and is taken
    // back by nobody else.
    drop(unsafe { LocalInvalidate::<R, C>::take_back(entry) });
}
