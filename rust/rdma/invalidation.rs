// SPDX-License-Identifier: GPL-2.0

//! What waits for invalidations.
//!
//! A [`LocalInvalidate`] belongs to the first region of a chain, and is lent to the queue pair with the chain's
//! invalidations. The completion of the last of them brings all back. A device may lose that: soft iWARP
//! does, if it serves the peer's Reads when the connection is closed. What would have waited for ever is
//! given back when the queue pair is drained.

use crate::{
    cq::{
        self,
        WcStatus, //
    },
    in_flight::Entry,
    mr::Registered,
    Handler,
    QueuePair, //
};
use core::ptr::{
    null,
    NonNull, //
};
use kernel::prelude::*;

/// What comes back when invalidations have completed, or never will.
pub(crate) type Held<H> = (Registered<H>, <H as Handler>::InvalidateContext);

/// The completions find it by the first field.
#[repr(C)]
pub(crate) struct LocalInvalidate<H: Handler> {
    entry: Entry,
    /// What to give back, while it is outstanding.
    held: Option<Held<H>>,
    /// Where it is outstanding; valid as long.
    queue: *const QueuePair<H>,
}

impl<H: Handler> LocalInvalidate<H> {
    pub(crate) fn new() -> Self {
        Self {
            entry: Entry::new(invalidate_done::<H>, free::<H>),
            held: None,
            queue: null(),
        }
    }

    /// What a request completes to that has it.
    pub(crate) fn cqe(&mut self) -> *mut raw::ib_cqe {
        &raw mut self.entry.cqe
    }

    /// Gives up the box, with `regions` and `context`, for as long as it is outstanding on `queue`.
    pub(crate) fn give_up(
        mut self: KBox<Self>,
        queue: &QueuePair<H>,
        regions: Registered<H>,
        context: H::InvalidateContext,
    ) -> NonNull<Entry> {
        self.held = Some((regions, context));
        self.queue = queue;
        // CAST: The entry is the first field.
        NonNull::from(KBox::leak(self)).cast()
    }

    /// Takes the box back, which returns to the regions. [`None`] if they were lost before.
    ///
    /// # Safety
    ///
    /// `entry` came from [`Self::give_up`], stands in no list, and this is the first call for it.
    pub(crate) unsafe fn take_back(entry: NonNull<Entry>) -> Option<Held<H>> {
        // SAFETY: The caller vouches for it.
        let mut fence: KBox<Self> = unsafe { KBox::from_raw(entry.cast().as_ptr()) };
        let (mut regions, context) = fence.held.take()?;
        regions.put_invalidation(fence);
        Some((regions, context))
    }

    /// Takes what it holds; the box stays where it is.
    ///
    /// # Safety
    ///
    /// `entry` came from [`Self::give_up`] and was not taken back, and nobody else touches it meanwhile.
    pub(crate) unsafe fn lose(entry: NonNull<Entry>) -> Option<Held<H>> {
        // SAFETY: The caller vouches for it.
        unsafe { (*entry.cast::<Self>().as_ptr()).held.take() }
    }
}

/// # Safety
///
/// `entry` is that of a [`LocalInvalidate<H>`] that was given up, which no completion will take back.
unsafe fn free<H: Handler>(entry: NonNull<Entry>) {
    // SAFETY: The caller vouches for it.
    drop(unsafe { LocalInvalidate::<H>::take_back(entry) });
}

/// # Safety
///
/// Only the core calls this, for the completion of an invalidation that was posted with a [`LocalInvalidate`].
unsafe extern "C" fn invalidate_done<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::called_for::<H>(cq, wc) };
    // SAFETY: The request was posted with the address of the entry of a `LocalInvalidate`, its first field.
    let entry = unsafe { Entry::completed(wc) };
    // SAFETY: The `LocalInvalidate` lives until its completion, which is this one, or longer than there are
    // callbacks. So does the queue pair that it was posted to.
    let queue = unsafe { &*(*entry.cast::<LocalInvalidate<H>>().as_ptr()).queue };
    let mut sends = queue.sends().lock();
    if sends.is_drained() {
        // Too late: it was given back.
        return;
    }
    // SAFETY: It stands there since it was posted.
    unsafe { sends.invalidations_in_flight.remove(entry) };
    drop(sends);
    // SAFETY: This is the only completion of a request with it, and it was just taken out.
    let Some((regions, context)) = (unsafe { LocalInvalidate::<H>::take_back(entry) }) else {
        return;
    };
    queue.invalidated(regions.len());
    match WcStatus::of(wc.status) {
        Some(failure) => {
            handler.request_failed(failure);
            handler.invalidate_failed(regions, context);
        }
        // SAFETY: A connection's requests complete in order: with the last, all are done.
        None => handler.invalidated(queue, unsafe { regions.into_idle() }, context),
    }
}
