// SPDX-License-Identifier: GPL-2.0

//! Posting Sends.

use super::{
    Handler,
    QueuePair, //
};
use crate::{
    cq,
    error::not_connected,
    mr,
    send::{
        Buffer,
        Doorbell,
        Inner,
        PostedSend,
        UnpostedSend,
        Verb, //
    },
    sq::{
        SendPolicy,
        Spent,
        State, //
    },
    transfer::{
        self,
        Empty,
        EmptyList,
        Inserted, //
    },
    wc::WcStatus, //
};
use core::ptr::null_mut;
use kernel::{
    dma::DataDirection,
    error::{
        to_result,
        Result, //
    },
    prelude::*,
    sync::SpinLockGuard, //
};
use shared::trace::CompletionId;

/// The Send queue of a queue pair, locked. Dropping it unlocks.
pub struct SendQueue<'a, H: Handler> {
    pub(super) queue: &'a QueuePair<H>,
    pub(super) state: SpinLockGuard<'a, State<H, H::SendPolicy>>,
}

impl<H: Handler> Buffer<H> {
    /// What traces call the Send of it on `queue`.
    pub fn id(&self, queue: &QueuePair<H>) -> CompletionId {
        queue.completion_id(self.0.number)
    }
}

impl<H: Handler> SendQueue<'_, H> {
    /// Whether anything can be posted.
    pub fn is_open(&self) -> bool {
        self.state.open
    }

    /// What the layer above decides about this queue.
    pub fn policy(&mut self) -> &mut H::SendPolicy {
        &mut self.state.policy
    }
}

impl<H: Handler> QueuePair<H> {
    /// Locks the Send queue. Whoever has it must not sleep, nor call other methods that post.
    pub fn send_queue(&self) -> SendQueue<'_, H> {
        SendQueue {
            queue: self,
            state: self.sends.lock(),
        }
    }

    /// Registers `regions`, then sends the first `len` bytes of `buffer`, with `inserted` among them,
    /// with one doorbell at most. Does not sleep.
    ///
    /// The regions are as good as valid afterwards even if this fails, for then some may have
    /// been posted. A failure is the end of the connection, also for what was deferred before.
    /// [`EINVAL`] if something is of another domain, if there are more regions than a Send may have, or if
    /// `inserted` would be behind the first `len` bytes.
    ///
    /// `posted` is called when all is ready to be posted, with the queue's lock held; it must not sleep.
    pub fn post_send(
        &self,
        regions: mr::Prepared<H>,
        buffer: Buffer<H>,
        len: usize,
        inserted: Option<Inserted<H>>,
        doorbell: Doorbell,
        posted: impl FnOnce(PostedSend<'_, H>),
    ) -> (mr::Registered<H>, Result) {
        let inserted = inserted.map(|inserted| inserted.0);
        let memory_is_here = inserted
            .as_ref()
            .is_none_or(|memory| memory.is_for(&self.pd, DataDirection::ToDevice));
        if !memory_is_here || !regions.all_in(&self.pd) {
            self.send_queue().policy().put_back(buffer);
            drop(regions);
            return (mr::Registered::new(), Err(EINVAL));
        }
        let fits = inserted
            .as_ref()
            .is_none_or(|memory| memory.fits_message(len));
        if !fits || regions.len() > self.regions_per_send {
            self.send_queue().policy().put_back(buffer);
            return (regions.into_registered(&self.deferred_dereg), Err(EINVAL));
        }
        let mut regions = regions.into_registered(&self.deferred_dereg);
        let mut sends = self.sends.lock();
        if !sends.open {
            sends.policy.put_back(buffer);
            return (regions, Err(not_connected()));
        }
        let send = match self.enqueue(&mut sends, buffer, len, Verb::Send, inserted, None) {
            Ok(send) => send,
            Err(error) => return (regions, Err(error)),
        };
        // SAFETY: The request is in the queue of posted Sends, which is locked.
        posted(unsafe { PostedSend::of(send, &self._cq) });
        let first = regions.link_registrations(self.failed_cqe(), send);
        // SAFETY: The request is in the queue of posted Sends, which is locked.
        let signalled = unsafe { (*send).send_flags } & raw::ib_send_flags_IB_SEND_SIGNALED != 0;
        if doorbell == Doorbell::Defer && !signalled {
            sends.defer(first, send);
            return (regions, Ok(()));
        }
        // If this fails the Send stays where it is until the drain, as some device may have posted what it says
        // it did not.
        // SAFETY: The list was just made. Its registrations live in `regions`, which can only be
        // freed after a drain, a later completion, or `ring`; its Send lives in the queue of posted
        // ones.
        let result = unsafe { self.post(&mut sends, first) };
        (regions, result)
    }

    /// Tells the device of Sends that were deferred. Does not sleep. A failure is the end of the
    /// connection.
    pub fn ring(&self) -> Result {
        let mut sends = self.sends.lock();
        if sends.is_deferring() && sends.open {
            // SAFETY: There is nothing to add to what waits.
            unsafe { self.post(&mut sends, null_mut()) }
        } else {
            Ok(())
        }
    }

    /// Makes `buffer` the next posted Send. Its work request is to be posted before the lock is given up.
    fn enqueue(
        &self,
        sends: &mut State<H, H::SendPolicy>,
        buffer: Buffer<H>,
        len: usize,
        verb: Verb,
        attached: Option<KBox<transfer::Inner<H>>>,
        tag: Option<H::SendTag>,
    ) -> Result<*mut raw::ib_send_wr> {
        let (done, pd) = (send_done::<H>, &self.pd);
        sends.enqueue(self, done, pd, buffer, len, verb, attached, tag)
    }

    /// Posts what was deferred, then the list from `first`. If that fails nothing can be posted any
    /// more, as what is missing from now on would be missed by nobody.
    ///
    /// # Safety
    ///
    /// The list, which may be empty if something was deferred, consists of requests that live until
    /// they complete or the queue pair is drained. `sends` is this queue pair's, locked and open.
    pub(crate) unsafe fn post(
        &self,
        sends: &mut State<H, H::SendPolicy>,
        first: *mut raw::ib_send_wr,
    ) -> Result {
        let first = sends.take_deferred(first);
        let mut bad = core::ptr::null();
        // SAFETY: The caller vouches for the list, and whoever deferred requests for those. The
        // queue pair is live by the type invariants: the caller has the lock, and found the side open.
        let result = to_result(unsafe { raw::ib_post_send(self.as_raw(), first, &mut bad) });
        if result.is_err() {
            sends.open = false;
        }
        result
    }

    /// Posts `send`, and before it the requests of `transfer` from `posted` on, with one doorbell. Does not sleep.
    ///
    /// If that fails, some of it may have been posted; it stays in `sends` until the queue pair is drained.
    pub(super) fn post_message(
        &self,
        sends: &mut State<H, H::SendPolicy>,
        mut transfer: Option<KBox<transfer::Inner<H>>>,
        posted: usize,
        send: UnpostedSend<H>,
    ) -> Result {
        let UnpostedSend {
            buffer,
            len,
            verb,
            tag,
        } = send;
        let credits = transfer.as_ref().map_or(0, |transfer| transfer.credits);
        // The requests do not move with their box.
        let requests = transfer.as_mut().map(|transfer| &raw mut **transfer);
        let send = self
            .enqueue(sends, buffer, len, verb, transfer, Some(tag))
            .inspect_err(|_| sends.policy.release(credits))?;
        // SAFETY: As above.
        let posted_send = unsafe { PostedSend::of(send, &self._cq) };
        self.id.context().reply_posted(posted_send);
        let first = match requests {
            // SAFETY: The box is in the queue of posted Sends, which only the lock's owner changes.
            Some(requests) => unsafe {
                let batch = posted..(*requests).len();
                (*requests).link(batch, self.failed_cqe(), send)
            },
            None => send,
        };
        // SAFETY: The list was just made. All of it lives in the queue of posted Sends until a
        // completion covers it.
        unsafe { self.post(sends, first) }
    }
}

/// # Safety
///
/// Only the core calls this, for the completion of a Send that was posted from an [`Inner`].
unsafe extern "C" fn send_done<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::called_for::<H>(cq, wc) };
    // SAFETY: The request was posted with the address of an `Inner`'s first field; it is among the
    // posted ones until `retire` below, or longer than there are callbacks.
    let (queue, sequence) = unsafe {
        let inner = wc.__bindgen_anon_1.wr_cqe.cast::<Inner<H>>();
        ((*inner).queue, (*inner).sequence)
    };
    // SAFETY: The queue pair that the buffer was posted to outlives its callbacks. Only a `QueuePair<H>` posts
    // requests that complete here.
    let queue = unsafe { &*queue.cast::<QueuePair<H>>() };
    let (resume, spent) = queue.sends.lock().retire(sequence);
    give_back(queue, spent);
    if let Some(failure) = WcStatus::of(wc) {
        handler.request_failed(failure);
    }
    if resume {
        handler.send_resumed(queue);
    }
}

/// Unmaps what completed Sends were posted with, and keeps the lists for others.
pub(super) fn give_back<H: Handler>(queue: &QueuePair<H>, mut spent: Spent<H>) {
    if spent.is_empty() {
        return;
    }
    let mut empty = EmptyList::new();
    while let Some(transfer) = spent.pop() {
        empty.push(Empty::of(transfer));
    }
    let mut excess = EmptyList::new();
    let mut sends = queue.sends.lock();
    while let Some(transfer) = empty.pop() {
        if let Some(transfer) = sends.keep(transfer) {
            excess.push(transfer);
        }
    }
    drop(sends);
    drop(excess);
}
