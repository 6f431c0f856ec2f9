// SPDX-License-Identifier: GPL-2.0

//! Invalidation of regions: by a message of the peer, or by local invalidations.
//!
//! A [`LocalInvalidate`] belongs to the first region of a chain, and is lent to the queue pair with
//! the chain's invalidations. The completion of the last of them returns all. A device may lose
//! that completion: soft iWARP does, if it serves the peer's Reads when the connection is closed.
//! Then the drain of the queue pair returns the regions.

use super::{
    Completing,
    Invalidated,
    QueuePair, //
};
use crate::prelude::*;
use crate::{
    cq,
    in_flight::Entry,
    mr::Registered, //
};
use ext::trace::RegionInfo;

/// Regions and the context of their invalidation.
type Held<H> = (Registered<H>, <H as Context>::InvalidateContext);

impl<H: Handler> Registered<H> {
    /// Returns whether a region has the key that a message invalidated.
    pub fn have(&self, key: &Invalidated<'_, H>) -> bool {
        self.have_key(key.rkey)
    }

    /// Returns the description for traces of the region that a message invalidated, if it is in the
    /// list.
    pub fn info_of(&self, key: &Invalidated<'_, H>) -> Option<RegionInfo> {
        self.info().find(|region| region.rkey == key.rkey)
    }

    /// Takes the region that a message invalidated, if it is in the list, and if the device's
    /// invalidation can be trusted ([`crate::device::Limits::remote_invalidation`]). Otherwise
    /// returns the key.
    pub fn remote_invalidated<'a>(
        &mut self,
        key: Invalidated<'a, H>,
    ) -> Result<mr::Idle<H>, Invalidated<'a, H>> {
        let Invalidated { rkey, queue } = key;
        // A peer that guesses keys may name a region before the request that makes it valid was
        // posted, and that request is part of the region. So deferred requests are posted first.
        if !queue.remote_invalidation || queue.ring().is_err() {
            return Err(key);
        }
        match self.take_key(rkey, &queue.deferred_dereg) {
            // SAFETY: The Receive that reports the key has completed, so the device has invalidated
            // the region with that key, after it checked the key.
            Some(region) => Ok(unsafe { region.into_idle() }),
            None => Err(key),
        }
    }

    /// Returns whether all regions were registered on `queue`, which alone may invalidate them.
    pub fn are_on(&self, queue: &QueuePair<H>) -> bool {
        self.all_on(&queue.deferred_dereg)
    }
}

impl<H: Handler> QueuePair<H> {
    /// Invalidates `regions` with one doorbell. [`Handler::invalidated`] or
    /// [`Handler::invalidate_failed`] returns both arguments, if there are any regions. Does not
    /// sleep.
    ///
    /// If the chain cannot be posted, both come back at once, and the connection has ended. That
    /// includes an empty list, and more regions at the same time than all Sends together may have.
    pub fn post_invalidate(
        &self,
        regions: Registered<H>,
        context: H::InvalidateContext,
    ) -> Result<(), Held<H>> {
        let mut sends = self.sends.lock();
        let Some(left) = sends.invalidations.checked_sub(regions.len()) else {
            return Err((regions, context));
        };
        if !sends.open || !regions.are_on(self) {
            return Err((regions, context));
        }
        let (entry, first) = self.link_invalidation(regions, context)?;
        sends.invalidations = left;
        // SAFETY: The entry was just lent, so it is live and in no list. Only its completion takes
        // it out, and without one it is freed with the queue pair, by whichever task does that.
        unsafe { sends.invalidations_in_flight.add(entry) };
        // SAFETY: The list was just linked; its regions live until the completion of the last
        // request takes them back. Their own registrations, if deferred, are posted first. The side
        // is locked and was found open.
        match unsafe { self.post(&mut sends, first) } {
            Ok(()) => Ok(()),
            // The box stays in the list, as a device may have posted requests although it reports
            // that it did not.
            // SAFETY: The entry is in the list, which is locked, so it is lent and nobody else
            // accesses it.
            Err(_) => unsafe { mr::Invalidation::<H>::take_values(entry) }.map_or(Ok(()), Err),
        }
    }

    /// Links the invalidations of all regions. The last one is signalled. Returns its entry, whose
    /// box owns the regions and `context` until it is taken back, and the first request.
    ///
    /// Both come back if there is no region, or if invalidations of these regions were lost before.
    pub(crate) fn link_invalidation(
        &self,
        mut regions: Registered<H>,
        context: H::InvalidateContext,
    ) -> Result<(NonNull<Entry>, *mut cbindings::ib_send_wr), Held<H>> {
        let Some(mut invalidation) = regions.take_invalidation() else {
            return Err((regions, context));
        };
        let first = regions.link_invalidations(invalidation.cqe(), self.failed_cqe());
        let entry = invalidation.lend(self, invalidate_done::<H>, regions, context);
        Ok((entry, first))
    }
}

/// Handles the completion of a chain of invalidations.
///
/// # Safety
///
/// Only the core calls this, for the completion of a chain of invalidations of a [`QueuePair<H>`].
unsafe extern "C" fn invalidate_done<H: Handler>(
    cq: *mut cbindings::ib_cq,
    wc: *mut cbindings::ib_wc,
) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::callback_args::<H>(cq, wc) };
    // SAFETY: Requests that complete here were posted with the address of the entry of a
    // `LocalInvalidate`, its first field.
    let entry = unsafe { Entry::completed(wc) };
    // SAFETY: The `LocalInvalidate` lives until its completion, which is this one, or, if it was
    // lost, until the queue pair is freed, after the last callback. It was posted to a
    // `QueuePair<H>`, which outlives its callbacks.
    let queue = unsafe { &*mr::Invalidation::<H>::queue(entry).cast::<QueuePair<H>>() };
    let mut sends = queue.sends.lock();
    if sends.is_drained() {
        // Too late: the drain has returned the regions.
        return;
    }
    // SAFETY: `post_invalidate` added the entry to that list, and the queue is not drained, so it
    // is still there.
    unsafe { sends.invalidations_in_flight.remove(entry) };
    // SAFETY: The entry came from `lend`, was just removed from its list, and this is the only
    // completion of a request with it.
    let taken = unsafe { mr::Invalidation::<H>::take_back(entry) };
    let Some((invalidation, mut regions, context)) = taken else {
        return;
    };
    sends.invalidations = sends.invalidations.saturating_add(regions.len());
    drop(sends);
    regions.put_invalidation(invalidation);
    match WcStatus::of(wc) {
        Some(failure) => {
            handler.request_failed(failure);
            handler.invalidate_failed(regions, context);
        }
        None => {
            // SAFETY: This is a completion handler of the queue pair.
            let mut queue = unsafe { Completing::new(queue) };
            // SAFETY: The requests of a connection complete in order, so all invalidations have
            // completed with the last.
            handler.invalidated(&mut queue, unsafe { regions.into_idle() }, context);
        }
    }
}

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
    pub(crate) fn cqe(&mut self) -> *mut cbindings::ib_cqe {
        &raw mut self.entry.cqe
    }

    /// Lends the box, with `regions` and `context`, to `queue` while it is posted there. The
    /// request completes to `done`.
    pub(crate) fn lend<Q>(
        mut self: KBox<Self>,
        queue: &Q,
        done: unsafe extern "C" fn(*mut cbindings::ib_cq, *mut cbindings::ib_wc),
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
