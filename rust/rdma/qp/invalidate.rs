// SPDX-License-Identifier: GPL-2.0

//! Invalidation of regions: by a message of the peer, or by local invalidations.

use super::{
    Handler,
    Invalidated,
    QueuePair, //
};
use crate::{
    context::Context,
    cq,
    in_flight::Entry,
    mr::{
        Idle,
        Invalidation,
        Registered, //
    },
    wc::WcStatus, //
};
use core::ptr::NonNull;
use shared::trace::RegionInfo;

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
    ) -> Result<Idle<H>, Invalidated<'a, H>> {
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
            Err(_) => unsafe { Invalidation::<H>::take_values(entry) }.map_or(Ok(()), Err),
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
    ) -> Result<(NonNull<Entry>, *mut raw::ib_send_wr), Held<H>> {
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
unsafe extern "C" fn invalidate_done<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::callback_args::<H>(cq, wc) };
    // SAFETY: Requests that complete here were posted with the address of the entry of a
    // `LocalInvalidate`, its first field.
    let entry = unsafe { Entry::completed(wc) };
    // SAFETY: The `LocalInvalidate` lives until its completion, which is this one, or, if it was
    // lost, until the queue pair is freed, after the last callback. It was posted to a
    // `QueuePair<H>`, which outlives its callbacks.
    let queue = unsafe { &*Invalidation::<H>::queue(entry).cast::<QueuePair<H>>() };
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
    let taken = unsafe { Invalidation::<H>::take_back(entry) };
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
        // SAFETY: The requests of a connection complete in order, so all invalidations have
        // completed with the last.
        None => handler.invalidated(queue, unsafe { regions.into_idle() }, context),
    }
}
