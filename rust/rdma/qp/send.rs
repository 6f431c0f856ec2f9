// SPDX-License-Identifier: GPL-2.0

//! Posting of Sends, and of barriers after unsignalled Sends.
//!
//! Most Sends are unsignalled, so the completion of the last ones before a pause is unknown. A
//! barrier finds out: a signalled RDMA Write of zero bytes, which completes after everything that
//! was posted before. It needs no memory at the peer (by RFC 5040 and the InfiniBand specification,
//! neither key nor address of such a Write is checked).
//!
//! While a transfer is posted there is no barrier. The transfer's completion covers the Sends
//! before it; those after it wait for a later transfer, or for a barrier when there is none. The
//! reason is soft RoCE: to repeat the response to an RDMA Read it looks for the memory where the
//! last request left it, finds none if that was a Write of zero bytes, warns, and denies the Read.

use super::QueuePair;
use crate::prelude::*;
use crate::{
    clock,
    cq,
    send,
    sq::{
        Barrier,
        CompletedTransfers,
        SendPolicy,
        SqState, //
    },
    transfer::{
        self,
        EmptyTransfer,
        EmptyTransfers,
        Gathered, //
    }, //
};
use kernel::sync::SpinLockGuard;

/// The locked Send queue of a queue pair. Dropping it unlocks.
pub struct SendQueue<'a, H: Handler> {
    pub(super) queue: &'a QueuePair<H>,
    pub(super) state: SpinLockGuard<'a, SqState<H, H::SendPolicy>>,
}

impl<H: Handler> send::Buffer<H> {
    /// Returns the trace identifier of a Send of the buffer on `queue`.
    pub fn id(&self, queue: &QueuePair<H>) -> CompletionId {
        queue.completion_id(self.0.number)
    }
}

impl<H: Handler> SendQueue<'_, H> {
    /// Returns whether posting is possible.
    pub fn is_open(&self) -> bool {
        self.state.open
    }

    /// Returns whether there is room for a Send with so many registrations. If not, the completion
    /// of an earlier Send makes room.
    pub fn has_room_for(&self, registrations: usize) -> bool {
        self.state.has_room_for(registrations)
    }

    /// Returns the policy of the layer above.
    pub fn policy(&mut self) -> &mut H::SendPolicy {
        &mut self.state.policy
    }
}

impl<H: Handler> QueuePair<H> {
    /// Returns what the layer above uses without the lock of the Send queue.
    pub fn spares(&self) -> &<H::SendPolicy as SendPolicy<H>>::Spares {
        &self.spares
    }

    /// Locks the Send queue. While it is locked, the caller must not sleep, and of the other
    /// methods that post may call only [`Self::post_receives`].
    pub fn send_queue(&self) -> SendQueue<'_, H> {
        SendQueue {
            queue: self,
            state: self.sends.lock(),
        }
    }

    /// Registers `regions`, then sends the first `len` bytes of `buffer`, with `gathered` among
    /// them, with one doorbell at most. Does not sleep.
    ///
    /// The regions must be treated as valid afterwards even if this fails, as some requests may
    /// have been posted. A failure ends the connection, and deferred requests with it. [`EINVAL`]
    /// if an argument is of another domain, if there are more regions than a Send may have or than
    /// there is [room for](SendQueue::has_room_for), or if `gathered` would be behind the first
    /// `len` bytes.
    ///
    /// `posted` is called when the Send is ready to be posted, with the queue's lock held; it must
    /// not sleep.
    pub fn post_send(
        &self,
        regions: mr::Prepared<H>,
        buffer: send::Buffer<H>,
        len: usize,
        gathered: Option<Gathered<H>>,
        doorbell: send::Doorbell,
        posted: impl FnOnce(send::PostedSend<'_, H>),
    ) -> (mr::Registered<H>, Result) {
        let gathered = gathered.map(|gathered| gathered.0);
        let memory_is_here = gathered
            .as_ref()
            .is_none_or(|memory| memory.is_for(&self.pd, DataDirection::ToDevice));
        if !memory_is_here || !regions.all_in(&self.pd) {
            self.send_queue().policy().put_back(buffer);
            drop(regions);
            return (mr::Registered::new(), Err(EINVAL));
        }
        let fits = gathered
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
            return (regions, Err(enotconn()));
        }
        let send = match self.enqueue(
            &mut sends,
            regions.len(),
            buffer,
            len,
            send::SendKind::Plain,
            gathered,
            None,
        ) {
            Ok(send) => send,
            Err(error) => return (regions, Err(error)),
        };
        // SAFETY: `enqueue` returned the request of a Send that is in the queue of posted Sends,
        // which stays locked during the call.
        posted(unsafe { send::PostedSend::of(send, &self._cq) });
        let first = regions.link_registrations(self.failed_cqe(), send);
        // SAFETY: The request is in the queue of posted Sends, which stays locked, so it is live.
        let flags = unsafe { (*send).send_flags };
        let signalled = flags & cbindings::ib_send_flags_IB_SEND_SIGNALED != 0;
        if doorbell == send::Doorbell::Defer && !signalled {
            sends.defer(first, send);
            return (regions, Ok(()));
        }
        // If this fails the Send stays in the queue until the drain, as a device may have posted
        // requests although it reports that it did not.
        // SAFETY: The list was just linked. Its registrations live in `regions`, which can only be
        // freed after a drain, a later completion, or `ring`; its Send lives in the queue of posted
        // ones. The side is locked and was found open.
        let result = unsafe { self.post(&mut sends, first) };
        (regions, result)
    }

    /// Rings the doorbell for Sends that were deferred. A failure ends the connection. Does not
    /// sleep.
    pub fn ring(&self) -> Result {
        let mut sends = self.sends.lock();
        if sends.is_deferring() && sends.open {
            // SAFETY: The list is empty, requests are deferred, and the side is locked and was
            // found open.
            unsafe { self.post(&mut sends, null_mut()) }
        } else {
            Ok(())
        }
    }

    /// Makes `buffer` the next posted Send, after so many `registrations`. Its work request must be
    /// posted before the lock is released.
    #[expect(clippy::too_many_arguments)]
    fn enqueue(
        &self,
        sends: &mut SqState<H, H::SendPolicy>,
        registrations: usize,
        buffer: send::Buffer<H>,
        len: usize,
        kind: send::SendKind,
        attached: Option<KBox<transfer::TransferData<H>>>,
        tag: Option<H::SendTag>,
    ) -> Result<*mut cbindings::ib_send_wr> {
        let (done, pd) = (send_done::<H>, &self.pd);
        sends.enqueue(
            self,
            done,
            pd,
            registrations,
            buffer,
            len,
            kind,
            attached,
            tag,
        )
    }

    /// Posts the deferred requests, then the list from `first`. After a failure nothing can be
    /// posted any more, as nobody would notice the missing requests.
    ///
    /// # Safety
    ///
    /// The list, which may be empty if requests are deferred, consists of requests that live until
    /// they complete or the queue pair is drained. `sends` is this queue pair's, locked and open.
    pub(crate) unsafe fn post(
        &self,
        sends: &mut SqState<H, H::SendPolicy>,
        first: *mut cbindings::ib_send_wr,
    ) -> Result {
        let first = sends.take_deferred(first);
        let mut bad = core::ptr::null();
        // SAFETY: The caller promises that the requests of the list live long enough, and `defer`
        // demanded it for the deferred ones. The queue pair is live by the type invariants: the
        // caller promises that the side is locked and open.
        let result = to_result(unsafe { cbindings::ib_post_send(self.as_raw(), first, &mut bad) });
        if result.is_err() {
            sends.open = false;
        }
        result
    }

    /// Posts the requests of `transfer` from `posted` on, and `send` after them, with one doorbell.
    /// Does not sleep.
    ///
    /// If that fails, some of it may have been posted; it stays in `sends` until the queue pair is
    /// drained.
    pub(super) fn post_message(
        &self,
        sends: &mut SqState<H, H::SendPolicy>,
        mut transfer: Option<KBox<transfer::TransferData<H>>>,
        posted: usize,
        send: send::UnpostedSend<H>,
    ) -> Result {
        let send::UnpostedSend {
            buffer,
            len,
            kind,
            tag,
        } = send;
        // The requests do not move with their box.
        let requests = transfer.as_mut().map(|transfer| &raw mut **transfer);
        let send = self.enqueue(sends, 0, buffer, len, kind, transfer, Some(tag))?;
        // SAFETY: `enqueue` returned the request of a Send that is in the queue of posted Sends,
        // which stays locked during the call.
        let posted_send = unsafe { send::PostedSend::of(send, &self._cq) };
        self.id.context().reply_posted(posted_send);
        let first = match requests {
            // SAFETY: The box is in the queue of posted Sends, which stays locked, so it is live
            // and nobody else accesses it.
            Some(requests) => unsafe {
                let batch = posted..(*requests).len();
                (*requests).link(batch, self.failed_cqe(), send)
            },
            None => send,
        };
        // SAFETY: The list was just linked. All of it lives in the queue of posted Sends until a
        // completion covers it. The callers pass the locked `sends`, which they found open.
        unsafe { self.post(sends, first) }
    }
}

/// Handles the completion of a Send, which covers those before it.
///
/// # Safety
///
/// Only the core calls this, for the completion of a Send that was posted from a
/// [`send::SendRequest`].
unsafe extern "C" fn send_done<H: Handler>(cq: *mut cbindings::ib_cq, wc: *mut cbindings::ib_wc) {
    // SAFETY: The core passes these arguments for a `CompletionQueue<H>`, and both references are
    // used only during the callback.
    let (handler, wc) = unsafe { cq::callback_args::<H>(cq, wc) };
    // SAFETY: Requests that complete here were posted with the address of a `SendRequest`'s first
    // field. It is among the posted Sends until `retire` below, or, after a drain, until the queue
    // pair is freed, after the last callback.
    let (queue, sequence) = unsafe {
        let inner = wc.__bindgen_anon_1.wr_cqe.cast::<send::SendRequest<H>>();
        ((*inner).queue, (*inner).sequence)
    };
    // SAFETY: Only a `QueuePair<H>` posts requests that complete here, and it outlives its
    // callbacks: it frees its completion queue first.
    let queue = unsafe { &*queue.cast::<QueuePair<H>>() };
    let (resume, completed) = queue.sends.lock().retire(sequence);
    recycle_transfers(queue, completed);
    if let Some(failure) = WcStatus::of(wc) {
        handler.request_failed(failure);
    }
    if resume {
        handler.send_space_freed(queue);
    }
}

/// Unmaps the transfers of completed Sends, and keeps their lists for others.
pub(super) fn recycle_transfers<H: Handler>(
    queue: &QueuePair<H>,
    mut completed: CompletedTransfers<H>,
) {
    if completed.is_empty() {
        return;
    }
    let mut empty = EmptyTransfers::new();
    while let Some(transfer) = completed.pop() {
        empty.push(EmptyTransfer::of(transfer));
    }
    // The lock is dropped before those that are left.
    queue.sends.lock().keep(&mut empty);
    drop(empty);
}

impl<H: Handler> QueuePair<H> {
    /// Returns the age in jiffies of the oldest Send, RDMA Read or RDMA Write that is not known to
    /// have completed. [`None`] if there is none. Does not sleep.
    ///
    /// A transfer that is posted in batches counts from its first one. After a drain the result is
    /// meaningless.
    pub fn oldest_posted(&self) -> Option<Jiffies> {
        let sends = self.sends.lock();
        let now = clock::now();
        Iterator::chain(sends.ages(now), sends.rw_contexts.ages(now)).max()
    }

    /// Returns whether the completion of a Send means that the peer has acknowledged it. On iWARP
    /// it only means that the lower layer has it.
    pub fn sends_complete_acknowledged(&self) -> bool {
        // Both hold for all devices except iWARP.
        self.remote_invalidation
    }

    /// Returns the shortest recent time in nanoseconds from a Send to its completion, about a round
    /// trip to the peer. [`None`] until there are enough samples. Does not sleep.
    pub fn min_rtt(&self) -> Option<u64> {
        self.sends.lock().min_rtt.get()
    }

    /// Posts a request whose completion covers all Sends that were posted before. Does nothing if
    /// there is none, or if a transfer or another such request is posted. Not for a queue pair
    /// without [`transfers`](super::Parameters::transfers). A failure ends the connection. Does not
    /// sleep.
    pub fn post_barrier(&self) -> Result {
        let mut sends = self.sends.lock();
        let Some(last) = sends.last_posted() else {
            return Ok(());
        };
        let covered = sends.barrier.last.is_some() || !sends.rw_contexts.is_empty();
        if !sends.open || covered {
            return Ok(());
        }
        sends.barrier.last = Some(last);
        sends.barrier.cqe.done = Some(barrier_done::<H>);
        sends.barrier.queue = (&raw const *self).cast();
        let mut write = cbindings::ib_rdma_wr {
            // Not zero, which is a key on iWARP; no region has the key 1 there.
            rkey: 1,
            ..Default::default()
        };
        write.wr.opcode = cbindings::ib_wr_opcode_IB_WR_RDMA_WRITE;
        write.wr.send_flags = cbindings::ib_send_flags_IB_SEND_SIGNALED;
        write.wr.__bindgen_anon_1.wr_cqe = &raw mut sends.barrier.cqe;
        // SAFETY: The list is one request, which the driver copies; its completion entry is in
        // `sends`, which outlives its completion. The side is locked and was found open, and the
        // queue has room, as there is one barrier at a time.
        unsafe { self.post(&mut sends, &raw mut write.wr) }
    }
}

/// Handles the completion of a barrier.
///
/// # Safety
///
/// Only the core calls this, for the completion of a barrier.
unsafe extern "C" fn barrier_done<H: Handler>(
    cq: *mut cbindings::ib_cq,
    wc: *mut cbindings::ib_wc,
) {
    // SAFETY: The core passes these arguments for a `CompletionQueue<H>`, and both references are
    // used only during the callback.
    let (handler, wc) = unsafe { cq::callback_args::<H>(cq, wc) };
    // SAFETY: Requests that complete here were posted with the address of the first field of a
    // `Barrier` in a live queue pair. Its `queue` was set before and does not change any more.
    let queue = unsafe { (*wc.__bindgen_anon_1.wr_cqe.cast::<Barrier>()).queue };
    // SAFETY: Only a `QueuePair<H>` posts requests that complete here, and it outlives its
    // callbacks: it frees its completion queue first.
    let queue = unsafe { &*queue.cast::<QueuePair<H>>() };
    let mut sends = queue.sends.lock();
    let Some(last) = sends.barrier.last.take() else {
        return;
    };
    let (resume, completed) = sends.retire(last);
    drop(sends);
    recycle_transfers(queue, completed);
    if let Some(failure) = WcStatus::of(wc) {
        handler.request_failed(failure);
    }
    if resume {
        handler.send_space_freed(queue);
    }
}
