// SPDX-License-Identifier: GPL-2.0

//! A work queue: requests that are free, and those that are posted.
//!
//! Posting, in any context, moves a request from the free ones to the posted ones. Taking it and
//! giving it back when it is complete, which the driver does, make it free again.
//!
//! A process posts to a ring that it maps. There, taking moves what was posted from the ring to a
//! free request. There are as many of these as slots, so that is how many requests are in progress,
//! and nothing is allocated meanwhile.

use crate::{
    cq::Polled,
    fifo::Fifo,
    user::rings::RequestRing,
    wr::{
        ListOwner,
        Request, //
    }, //
};
use ext::lock::IrqLock;
use iwtrace::QpId;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// Requests that are free, and those that are posted.
pub(crate) struct WorkQueue<R> {
    free: Fifo<KBox<R>>,
    posted: Fifo<KBox<R>>,
    // That of a process, instead of `posted`.
    ring: Option<RequestRing>,
    // Posted requests are not carried out any more.
    closed: bool,
    // The number of completions that keep the places of their requests, which wraps around, and the
    // number of those that the consumer has polled since.
    completed: usize,
    polled: Arc<Polled>,
    // The event is due when fewer requests are posted; 0 if it is not wanted. It is here so that
    // whoever takes a request and whoever sets this see what the other has done.
    limit: u32,
}

impl<R: Request> WorkQueue<R> {
    /// Creates a queue of `size` requests, which are marked by `owner`. Sleeps.
    pub(crate) fn new(
        owner: usize,
        size: usize,
        max_sge: usize,
        ring: Option<RequestRing>,
    ) -> Result<Self> {
        let (list_owner, posted) = match ring {
            None => (ListOwner::Kernel, size),
            Some(_) => (ListOwner::Process, 0),
        };
        let flags = list_owner.flags();
        let mut free = Fifo::new(size, flags)?;
        for _ in 0..size {
            let request = KBox::new(R::new(owner, max_sge, list_owner)?, flags)?;
            free.push(request).map_err(|_| ENOMEM)?;
        }
        Ok(Self {
            free,
            posted: Fifo::new(posted, flags)?,
            ring,
            closed: false,
            completed: 0,
            polled: Polled::new(flags)?,
            limit: 0,
        })
    }

    /// Returns whether at least `count` requests, of which there is one at least, can be taken.
    pub(crate) fn can_take(&self, count: u32) -> bool {
        let has_free = || usize::try_from(count).is_ok_and(|count| self.free.len() >= count);
        self.has(count) && (self.ring.is_none() || has_free())
    }

    /// Returns whether at least `count` requests are posted, of which there is one at least.
    fn has(&self, count: u32) -> bool {
        match &self.ring {
            None => usize::try_from(count).is_ok_and(|count| self.posted.len() >= count),
            Some(ring) => ring.has_request_behind(count.saturating_sub(1)),
        }
    }

    /// Keeps requests that were not taken from being carried out.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Returns whether there is a request to be carried out.
    pub(crate) fn has_next(&self) -> bool {
        !self.closed && self.can_take(1)
    }

    /// Drops the oldest request that a process has posted. Returns whether there was one.
    pub(crate) fn drop_posted(&mut self) -> bool {
        let ring = self.ring.as_mut();
        ring.is_some_and(|ring| R::copy(ring).is_some())
    }

    /// Wants the event when fewer than `limit` requests are posted, or none if that is 0.
    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Returns the limit, or 0 if no event is wanted.
    pub(crate) fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns whether the event is due. Then it is not wanted any more.
    pub(crate) fn take_event(&mut self) -> bool {
        let is_due = self.limit != 0 && !self.has(self.limit);
        if is_due {
            self.limit = 0;
        }
        is_due
    }

    /// Returns the number of completions that were polled.
    pub(crate) fn polled(&self) -> &Arc<Polled> {
        &self.polled
    }

    /// Returns whether a request is free whose completion a consumer in the kernel has polled.
    fn has_place(&self) -> bool {
        self.free.len() > self.completed.wrapping_sub(self.polled.count())
    }

    /// Takes back a request that is complete. If it `keeps_place`, it has a completion that a
    /// consumer in the kernel has to poll first.
    pub(crate) fn give_back(&mut self, request: KBox<R>, keeps_place: bool) {
        if keeps_place {
            self.completed = self.completed.wrapping_add(1);
        }
        // There is room for all.
        let _ = self.free.push(request);
    }

    /// Takes the oldest posted request; with the copy that it is to be decoded from, if a process
    /// posted it.
    pub(crate) fn take(&mut self) -> Option<(KBox<R>, Option<R::Copy>)> {
        let Some(ring) = &mut self.ring else {
            return Some((self.posted.pop()?, None));
        };
        let request = self.free.pop()?;
        match R::copy(ring) {
            Some(copy) => Some((request, Some(copy))),
            None => {
                let _ = self.free.push(request);
                None
            }
        }
    }
}

/// Takes the oldest posted request, unless the queue is closed and it is `to_carry_out`.
pub(crate) fn take<R: Request>(
    lists: &IrqLock<WorkQueue<R>>,
    to_carry_out: bool,
) -> Option<KBox<R>> {
    let (request, copy) = lists.with(|lists| match lists.closed && to_carry_out {
        true => None,
        false => lists.take(),
    })?;
    Some(decoded(request, copy))
}

/// Returns a request that was taken, decoded if a process posted it: without the lock.
pub(crate) fn decoded<R: Request>(mut request: KBox<R>, copy: Option<R::Copy>) -> KBox<R> {
    if let Some(copy) = copy {
        request.decode(&copy);
    }
    request
}

/// Posts a chain of requests to queues of `qp`. Stops at the first that fails, which `bad` then
/// names. `ENOMEM` if there is no place for it: a completion that was not polled has one.
///
/// # Safety
///
/// `raw` begins a chain of valid requests, whose memory stays allocated until they are completed.
/// `bad` is valid or null.
pub(crate) unsafe fn post<R: Request>(
    lists: &IrqLock<WorkQueue<R>>,
    mut raw: *const R::Raw,
    bad: *mut *const R::Raw,
    signal_all: bool,
    qp: impl Fn() -> QpId,
) -> Result {
    while !raw.is_null() {
        let posted = lists.with(|lists| {
            if !lists.has_place() {
                return Err(ENOMEM);
            }
            let mut request = lists.free.pop().ok_or(ENOMEM)?;
            // SAFETY: The caller promises a chain of valid requests.
            let filled = unsafe { request.fill(raw, signal_all) };
            let list = match filled {
                Ok(()) => &mut lists.posted,
                Err(_) => &mut lists.free,
            };
            // There is room: either list can hold all requests.
            let _ = list.push(request);
            filled
        });
        if let Err(error) = posted {
            if iwtrace::iwarp_wr_refused::is_on() {
                // SAFETY: The caller promises a chain of valid requests.
                let (id, opcode) = unsafe { R::id_and_opcode(raw) };
                iwtrace::iwarp_wr_refused::emit(qp(), R::IS_RECEIVE, id, opcode, error);
            }
            if !bad.is_null() {
                // SAFETY: The caller promises that `bad` is valid.
                unsafe { bad.write(raw) };
            }
            return Err(error);
        }
        // SAFETY: The caller promises a chain of valid requests.
        raw = unsafe { R::next(raw) };
    }
    Ok(())
}
