// SPDX-License-Identifier: GPL-2.0

//! Making regions invalid: by a message of the peer, and by local invalidations.

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

/// Regions, and what goes with their invalidation.
type Held<H> = (Registered<H>, <H as Context>::InvalidateContext);

impl<H: Handler> Registered<H> {
    /// Whether one of them has the key that a message says is invalid.
    pub fn have(&self, key: &Invalidated<'_, H>) -> bool {
        self.have_key(key.rkey)
    }

    /// What traces show of the region that a message says is invalid, if it is one of these.
    pub fn info_of(&self, key: &Invalidated<'_, H>) -> Option<RegionInfo> {
        self.info().find(|region| region.rkey == key.rkey)
    }

    /// Takes out the region that a message says is invalid, if it is one of these, and if the device's
    /// word for it is good ([`crate::device::Limits::remote_invalidation`]). Else the key comes back.
    pub fn remote_invalidated<'a>(
        &mut self,
        key: Invalidated<'a, H>,
    ) -> Result<Idle<H>, Invalidated<'a, H>> {
        let Invalidated { rkey, queue } = key;
        // A peer that guesses keys may name one before the request that makes it valid was posted,
        // and that request is part of the region.
        if !queue.remote_invalidation || queue.ring().is_err() {
            return Err(key);
        }
        match self.take_key(rkey, &queue.deferred_dereg) {
            // SAFETY: The Receive that tells of it has completed, and the device checked the key.
            Some(region) => Ok(unsafe { region.into_idle() }),
            None => Err(key),
        }
    }

    /// Whether all were registered on `queue`, which alone may invalidate them.
    pub fn are_on(&self, queue: &QueuePair<H>) -> bool {
        self.all_on(&queue.deferred_dereg)
    }
}

impl<H: Handler> QueuePair<H> {
    /// Invalidates `regions` with one doorbell; [`Handler::invalidated`] or
    /// [`Handler::invalidate_failed`] gives back both arguments, if there are any regions. Does not sleep.
    ///
    /// If it cannot be posted, both come back at once: the connection is at its end. So it is if more
    /// regions would be invalidated at the same time than all Sends together have, or none.
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
        // SAFETY: It was just given up. Until its completion takes it out it is nobody else's. If there
        // is none it is freed with the queue pair.
        unsafe { sends.invalidations_in_flight.add(entry) };
        // SAFETY: The list was just made; its regions live until the completion of the last takes
        // them back. Their own registrations, if deferred, come first.
        match unsafe { self.post(&mut sends, first) } {
            Ok(()) => Ok(()),
            // The box stays, as some device may have posted what it says it did not.
            // SAFETY: It is in the list, which is locked.
            Err(_) => unsafe { Invalidation::<H>::lose(entry) }.map_or(Ok(()), Err),
        }
    }

    /// Links the invalidations of all. The last one asks for a completion, whose entry is returned with
    /// the first request: what is there has the regions and `context` until it is taken back.
    ///
    /// Both come back if there is no region, or if the invalidations of these were lost before.
    pub(crate) fn link_invalidation(
        &self,
        mut regions: Registered<H>,
        context: H::InvalidateContext,
    ) -> Result<(NonNull<Entry>, *mut raw::ib_send_wr), Held<H>> {
        let Some(mut invalidation) = regions.take_invalidation() else {
            return Err((regions, context));
        };
        let first = regions.link_invalidations(invalidation.cqe(), self.failed_cqe());
        let entry = invalidation.give_up(self, invalidate_done::<H>, regions, context);
        Ok((entry, first))
    }
}

/// # Safety
///
/// Only the core calls this, for the completion of a chain of invalidations of a [`QueuePair<H>`].
unsafe extern "C" fn invalidate_done<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::called_for::<H>(cq, wc) };
    // SAFETY: The request was posted with the address of the entry of a `LocalInvalidate`, its first field.
    let entry = unsafe { Entry::completed(wc) };
    // SAFETY: The `LocalInvalidate` lives until its completion, which is this one, or longer than there are
    // callbacks. So does the queue pair that it was posted to, a `QueuePair<H>`.
    let queue = unsafe { &*Invalidation::<H>::queue(entry).cast::<QueuePair<H>>() };
    let mut sends = queue.sends.lock();
    if sends.is_drained() {
        // Too late: it was given back.
        return;
    }
    // SAFETY: It is in that list since it was posted.
    unsafe { sends.invalidations_in_flight.remove(entry) };
    // SAFETY: This is the only completion of a request with it, and it was just taken out.
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
        // SAFETY: A connection's requests complete in order: with the last, all are done.
        None => handler.invalidated(queue, unsafe { regions.into_idle() }, context),
    }
}
