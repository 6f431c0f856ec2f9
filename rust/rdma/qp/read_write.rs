// SPDX-License-Identifier: GPL-2.0

//! Posting of RDMA Reads, and of RDMA Writes with the Send that follows them; in batches, if they
//! are many.
//!
//! The layer above reserves SQ credits for a transfer once, for a batch of its requests. The last
//! request of a batch is signalled, and its completion posts the next batch with the same credits.
//! So a queue need not be as long as the longest transfer. After the last Read,
//! [`ReadHandler::read_done`] is called; the last Writes are posted with the Send that they belong
//! to, and are part of it.
//!
//! ```text
//! SendQueue::post_reads, or post_reply with more Writes than credits
//!   v
//! the transfer is added to `rw_contexts`
//!   v
//! RwContext::post_next_batch <-------------------------------------------+
//!   |   posts as many requests as there are credits, with one doorbell;  |
//!   |   the last one is signalled. The regions that Reads need are       |
//!   |   registered before the first batch.                               |
//!   v                                                                    |
//! batch_done: the last request of the batch has completed                |
//!   |                                                                    |
//!   +-- all succeeded; Reads are left, or more Writes than credits ------+
//!   |
//!   +-- all succeeded; Writes are left, not more than credits:
//!   |       they are posted as one chain with the Send, which owns the transfer from then on
//!   |
//!   +-- all succeeded, and none is left; or one failed:
//!           the transfer leaves `rw_contexts`, its credits are released, its memory is unmapped,
//!           and the layer above gets `read_done`, `read_failed` or `write_failed`
//! ```
//!
//! If a batch cannot be posted the connection ends, and the transfer stays in `rw_contexts` until
//! the queue pair is freed.
//!
//! Requests complete in order, so the completion of a batch also covers the Sends before it.
//!
//! The layer above chooses the length of a batch. The next one is posted here, from a completion,
//! as only that shows that the device is done with the one before.

use super::{
    send::{
        recycle_transfers,
        SendQueue, //
    },
    QueuePair, //
};
use crate::prelude::*;
use crate::{
    cq,
    handler::ReadHandler,
    in_flight::Entry,
    send::UnpostedSend,
    sq::{
        SendPolicy,
        SqState, //
    },
    sq_credits::SqPermit,
    transfer::{
        Attached,
        EmptyTransfer,
        EmptyTransfers,
        PreparedTransfer,
        Transfer,
        TransferData, //
    }, //
};
use core::{
    mem::MaybeUninit,
    ops::Range, //
};
use ext::memory::Page;

impl<H: Handler> QueuePair<H> {
    /// Frees the idle regions that are kept for later RDMA Reads, on iWARP. They are allocated
    /// again on demand. Sleeps.
    pub fn free_idle_read_mrs(&self) {
        if let Some(read_mrs) = &self.read_mrs {
            read_mrs.free_idle();
        }
    }
}

impl<H: Handler> Transfer<H> {
    /// Returns an empty transfer of RDMA Writes over `queue`. `empty` is the remainder of an
    /// earlier transfer.
    pub fn writes(
        queue: &QueuePair<H>,
        empty: Option<EmptyTransfer<H>>,
        flags: Flags,
    ) -> Result<Self> {
        let empty = empty.map_or_else(|| EmptyTransfer::new(&queue.pd, flags), Ok)?;
        let max_elements = queue.max_write_elements;
        Ok(Self::new(
            empty,
            DataDirection::ToDevice,
            max_elements,
            None,
            flags,
        ))
    }

    /// Returns an empty transfer of RDMA Reads over `queue`. `empty` is the remainder of an earlier
    /// transfer.
    pub fn reads(
        queue: &QueuePair<H>,
        empty: Option<EmptyTransfer<H>>,
        flags: Flags,
    ) -> Result<Self> {
        let empty = empty.map_or_else(|| EmptyTransfer::new(&queue.pd, flags), Ok)?;
        let (max_elements, read_mrs) = (queue.max_read_elements, queue.read_mrs.as_ref());
        Ok(Self::new(
            empty,
            DataDirection::FromDevice,
            max_elements,
            read_mrs,
            flags,
        ))
    }
}

impl<H: ReadHandler> SendQueue<'_, H> {
    /// Posts `send` and `attached`, with one doorbell if that is not more requests than `permit`
    /// has SQ credits, which is the length of a batch. `memory` is needed if there are more Writes.
    ///
    /// A failure ends the connection. It is an error to pass memory of another domain, Reads,
    /// memory that would be gathered behind the end of the Send, or no `memory` if that is needed.
    /// Does not sleep.
    pub fn post_reply(
        self,
        attached: Attached<H>,
        permit: SqPermit,
        send: UnpostedSend<H>,
        memory: Option<BatchMemory<H>>,
    ) -> Result {
        let Self { queue, mut state } = self;
        let (count, batch) = (attached.requests(), permit.credits());
        let fits = attached.inner().is_none_or(|memory| {
            memory.is_for(&queue.pd, DataDirection::ToDevice) && memory.fits_message(send.len)
        });
        let unprepared = count > batch && memory.is_none();
        if !fits || !state.open || (batch == 0 && count != 0) || unprepared {
            let open = state.open;
            state.policy.put_back(send.buffer);
            drop(state);
            drop(attached);
            return Err(if open { EINVAL } else { enotconn() });
        }
        let mut transfer = attached.into_inner();
        if let Some(transfer) = &mut transfer {
            transfer.permit = permit;
        }
        match (transfer, memory) {
            (Some(transfer), Some(memory)) if count > batch => {
                drop(state);
                let begun = queue.begin(memory, transfer, Continuation::Send(send));
                begun.map_err(Error::from)
            }
            (transfer, _) => queue.post_message(&mut state, transfer, 0, send),
        }
    }

    /// Posts `reads`. [`ReadHandler::read_done`] or [`ReadHandler::read_failed`] returns `done`.
    /// As many requests as `permit` has SQ credits are posted at a time.
    ///
    /// A failure ends the connection; `done` comes back at once, if none of the Reads may have been
    /// posted. It is an error to pass no Reads, or fewer credits than
    /// [`PreparedTransfer::registrations`]. Sleeps.
    pub fn post_reads(
        self,
        mut reads: PreparedTransfer<H>,
        permit: SqPermit,
        done: H::ReadDone,
    ) -> Result<(), NotPosted<H::ReadDone>> {
        let Self { queue, state } = self;
        let fits = reads.0.is_for(&queue.pd, DataDirection::FromDevice) && permit.credits() != 0;
        if reads.is_empty() || !fits || !state.open {
            let open = state.open;
            drop(state);
            drop(reads);
            let error = if open { EINVAL } else { enotconn() };
            return Err(NotPosted::new(error, done));
        }
        drop(state);
        reads.0.permit = permit;
        let memory = match BatchMemory::new(GFP_KERNEL) {
            Ok(memory) => memory,
            Err(error) => return Err(NotPosted::new(error, done)),
        };
        let begun = queue.begin(memory, reads.0, Continuation::ReadDone(done));
        begun.map_err(|unposted| NotPosted {
            error: unposted.error,
            context: match unposted.context {
                Some(Continuation::ReadDone(done)) => Some(done),
                Some(Continuation::Send(_)) | None => None,
            },
        })
    }
}

impl<H: ReadHandler> QueuePair<H> {
    /// Posts the first batch of `transfer`, which has its credits.
    fn begin(
        &self,
        memory: BatchMemory<H>,
        transfer: KBox<TransferData<H>>,
        continuation: Continuation<H>,
    ) -> Result<(), NotPosted<Continuation<H>>> {
        RwContext::new(memory, transfer, continuation, self)?.begin(self)
    }
}

/// A transfer that was not posted.
pub struct NotPosted<C> {
    /// The reason.
    pub error: Error,
    /// The context, if none of its requests may have been posted. Otherwise the posted requests
    /// have it until they complete.
    pub context: Option<C>,
}

impl<C> NotPosted<C> {
    /// Returns a transfer of which nothing was posted because of `error`.
    fn new(error: Error, context: C) -> Self {
        Self {
            error,
            context: Some(context),
        }
    }
}

impl<C> From<NotPosted<C>> for Error {
    fn from(unposted: NotPosted<C>) -> Self {
        unposted.error
    }
}

/// The action after all batches have completed.
pub(crate) enum Continuation<H: ReadHandler> {
    /// The upper layer gets the value back.
    ReadDone(H::ReadDone),
    /// The Send is posted with the last batch.
    Send(UnpostedSend<H>),
}

/// A transfer that is posted in batches. Completions find it by the first field.
#[repr(C)]
pub(crate) struct RwContext<H: ReadHandler> {
    entry: Entry,
    transfer: KBox<TransferData<H>>,
    regions: mr::Registered<H>,
    /// The number of its requests that were posted.
    posted: usize,
    /// The sequence number of the last Send before the posted batch, if that was outstanding.
    after: Option<u64>,
    continuation: Continuation<H>,
    queue: *const QueuePair<H>,
}

/// Memory for posting a transfer in several batches.
pub struct BatchMemory<H: ReadHandler>(KBox<MaybeUninit<RwContext<H>>>);

// SAFETY: The memory is uninitialised, so there is no value in it that could belong to a task.
unsafe impl<H: ReadHandler> Send for BatchMemory<H> {}

impl<H: ReadHandler> BatchMemory<H> {
    /// Allocates the memory. Sleeps if `flags` allow it.
    pub fn new(flags: Flags) -> Result<Self> {
        Ok(Self(KBox::new_uninit(flags)?))
    }
}

impl<H: ReadHandler> RwContext<H> {
    /// Prepares `transfer`, which has its credits, for `queue`. [`EINVAL`] if it has more
    /// registrations than credits.
    pub(crate) fn new(
        memory: BatchMemory<H>,
        mut transfer: KBox<TransferData<H>>,
        continuation: Continuation<H>,
        queue: &QueuePair<H>,
    ) -> Result<KBox<Self>, NotPosted<Continuation<H>>> {
        let regions = core::mem::take(&mut transfer.regions);
        if regions.len() > transfer.permit.credits() {
            return Err(NotPosted::new(EINVAL, continuation));
        }
        let rw = Self {
            entry: Entry::new(),
            transfer,
            regions: regions.into_registered(&queue.deferred_dereg),
            posted: 0,
            after: None,
            continuation,
            queue,
        };
        Ok(KBox::write(memory.0, rw))
    }

    /// Links the requests of `batch`, the last of which is signalled. Registrations precede the
    /// first batch.
    fn link(
        &mut self,
        batch: Range<usize>,
        failed: *mut cbindings::ib_cqe,
    ) -> *mut cbindings::ib_send_wr {
        self.posted = batch.end;
        let is_first = batch.start == 0;
        let done = &raw mut self.entry.cqe;
        let first = self.transfer.link(batch.clone(), failed, null_mut());
        if let Some(last) = self.transfer.last_of(batch) {
            last.wr.send_flags = cbindings::ib_send_flags_IB_SEND_SIGNALED;
            last.wr.__bindgen_anon_1.wr_cqe = done;
        }
        if is_first {
            self.regions.link_registrations(failed, first)
        } else {
            first
        }
    }

    /// Lends the box for as long as its requests are posted.
    pub(crate) fn lend(mut self: KBox<Self>) -> NonNull<Entry> {
        self.entry.arm(batch_done::<H>, free_rw_context::<H>);
        // CAST: The entry is the first field.
        NonNull::from(KBox::leak(self)).cast()
    }

    /// Takes back a box that was lent.
    ///
    /// # Safety
    ///
    /// `entry` came from [`Self::lend`], is in no list, and this is the first call for it.
    unsafe fn take_back(entry: NonNull<Entry>) -> KBox<Self> {
        // SAFETY: The caller promises that `entry`, the first field, came from the box that
        // `lend` leaked, is in no list, and is taken back by nobody else.
        unsafe { KBox::from_raw(entry.cast().as_ptr()) }
    }

    /// Posts the first batch. An error ends the connection.
    fn begin(self: KBox<Self>, queue: &QueuePair<H>) -> Result<(), NotPosted<Continuation<H>>> {
        let mut sends = queue.sends.lock();
        if !sends.open {
            drop(sends);
            let Self { continuation, .. } = KBox::into_inner(self);
            return Err(NotPosted::new(enotconn(), continuation));
        }
        let entry = self.lend();
        // SAFETY: The entry was just lent, so it is live and in no list. Only its completion takes
        // it out, under the lock; without one the box is freed after a drain, when none of its
        // requests is posted, by whichever task does that.
        unsafe { sends.rw_contexts.add(entry) };
        // SAFETY: The entry was just added to that list, and none of its requests is posted. It is
        // not accessed again unless the result is [`None`].
        let posted = unsafe { Self::post_next_batch(entry, queue, &mut sends) };
        // What was not posted stays in the list, as some of it may have been.
        posted.unwrap_or(Err(EINVAL)).map_err(|error| NotPosted {
            error,
            context: None,
        })
    }

    /// Posts the next batch. [`None`] if all were posted. An error ends the connection; the
    /// transfer stays in `sends` until the queue pair is freed, as some of it may have been posted.
    ///
    /// # Safety
    ///
    /// `entry` is that of an `RwContext<H>` in the list of `sends`, which are those of `queue`.
    /// None of its requests is posted. The caller does not access it again unless the result is
    /// [`None`].
    unsafe fn post_next_batch(
        entry: NonNull<Entry>,
        queue: &QueuePair<H>,
        sends: &mut SqState<H, H::SendPolicy>,
    ) -> Option<Result> {
        // SAFETY: The caller promises that `entry`, the first field of a lent box, is in the list
        // of `sends`. The holder of that lock may access it.
        let rw = unsafe { &mut *entry.cast::<Self>().as_ptr() };
        let left = rw.transfer.len().saturating_sub(rw.posted);
        if left == 0 {
            return None;
        }
        if !sends.open {
            return Some(Err(enotconn()));
        }
        let count = left.min(rw.transfer.permit.credits());
        if count == left && matches!(rw.continuation, Continuation::Send(_)) {
            // SAFETY: The caller promises that `entry` is in the list of `sends`, those of `queue`,
            // that none of its requests is posted, and that it does not access the entry again.
            return Some(unsafe { Self::send(entry, queue, sends) });
        }
        let batch = rw.posted..rw.posted.saturating_add(count);
        rw.after = sends.last_posted();
        let first = rw.link(batch, queue.transfer_failed_cqe());
        // SAFETY: The list was just linked, and lives as long as the box, which stays in `sends`
        // until the requests complete or the queue pair is drained. The caller passes the locked
        // `sends`, which were found open.
        Some(unsafe { queue.post(sends, first) })
    }

    /// Posts the last batch with its Send, which owns the transfer from now on.
    ///
    /// # Safety
    ///
    /// The same as for [`Self::post_next_batch`].
    unsafe fn send(
        entry: NonNull<Entry>,
        queue: &QueuePair<H>,
        sends: &mut SqState<H, H::SendPolicy>,
    ) -> Result {
        // SAFETY: The caller promises that `entry` is in the list of `sends`, so it was lent, and
        // that it does not access it again, so nobody else takes it back.
        let rw = unsafe {
            sends.rw_contexts.remove(entry);
            Self::take_back(entry)
        };
        let Self {
            entry,
            mut transfer,
            posted,
            continuation,
            ..
        } = KBox::into_inner(rw);
        // The age of the message counts from its first batch.
        transfer.begun = Some(entry.since());
        match continuation {
            Continuation::Send(send) => queue.post_message(sends, Some(transfer), posted, send),
            Continuation::ReadDone(_) => Err(EINVAL),
        }
    }

    /// Unmaps the memory, returns the lists to `queue`, and returns the action that follows, with
    /// the pages that were moved into the transfer.
    ///
    /// # Safety
    ///
    /// None of its requests is posted. If `done`, all of them have succeeded.
    unsafe fn finish(
        self: KBox<Self>,
        queue: &QueuePair<H>,
        done: bool,
    ) -> (Continuation<H>, KVec<Page>) {
        let Self {
            mut transfer,
            regions,
            continuation,
            ..
        } = KBox::into_inner(self);
        match &transfer.read_mrs {
            // SAFETY: The last Read of each region invalidates it, and the caller promises that all
            // have succeeded.
            Some(read_mrs) if done => unsafe { read_mrs.put_back(regions) },
            // Regions whose keys may still be valid are kept until the queue pair is drained.
            _ => drop(regions),
        }
        // The device is done with them, as none of the requests is posted.
        let pages = transfer.scatter.take_pages();
        let mut empty = EmptyTransfers::new();
        empty.push(EmptyTransfer::of(transfer));
        queue.sends.lock().keep(&mut empty);
        // Dropped without the lock if it was not kept.
        drop(empty);
        (continuation, pages)
    }
}

/// Frees the box of `entry`.
///
/// # Safety
///
/// `entry` is that of an [`RwContext<H>`] that was lent and is in no list, none of whose requests
/// is posted.
unsafe fn free_rw_context<H: ReadHandler>(entry: NonNull<Entry>) {
    // SAFETY: The caller promises that `entry` was lent, is in no list, and is taken back by nobody
    // else.
    drop(unsafe { RwContext::<H>::take_back(entry) });
}

/// Handles the completion of a batch: posts the next one, or finishes the transfer.
///
/// # Safety
///
/// Only the core calls this, for the completion of the last request of a batch.
unsafe extern "C" fn batch_done<H: ReadHandler>(
    cq: *mut cbindings::ib_cq,
    wc: *mut cbindings::ib_wc,
) {
    // SAFETY: The core passes these arguments for a `CompletionQueue<H>`, and both references are
    // used only during the callback.
    let (handler, wc) = unsafe { cq::callback_args::<H>(cq, wc) };
    // SAFETY: Requests that complete here were posted with the address of the entry of an
    // `RwContext`, its first field.
    let entry = unsafe { Entry::completed(wc) };
    // SAFETY: The `RwContext` lives until its last completion, which no earlier one was, or, if one
    // was lost, until the queue pair is freed, after the last callback. The queue pair that it was
    // posted to outlives its callbacks.
    let queue = unsafe { &*(*entry.cast::<RwContext<H>>().as_ptr()).queue };
    let mut sends = queue.sends.lock();
    if sends.is_drained() {
        // Too late: the transfer is freed with the queue pair.
        return;
    }
    // If an earlier request failed, the last one is only flushed.
    let failure = WcStatus::of(wc).map(|last| sends.transfer_failure.take().unwrap_or(last));
    // SAFETY: The entry was added to the list before it was posted, and the queue is not drained,
    // so it is still there, and the holder of the lock may access it.
    let after = unsafe { (*entry.cast::<RwContext<H>>().as_ptr()).after };
    // Requests complete in order, so the Sends before the batch have completed.
    let (mut resume, completed) = match after.filter(|_| failure.is_none()) {
        Some(last) => sends.retire(last),
        None => (false, Chain::new()),
    };
    let posted = match failure {
        // SAFETY: The entry is in the list of `sends`, those of `queue`, as above. Requests
        // complete in order, so all of the batch have completed with the last. The entry is not
        // accessed again unless the result is [`None`].
        None => unsafe { RwContext::<H>::post_next_batch(entry, queue, &mut sends) },
        Some(_) => None,
    };
    match posted {
        Some(Ok(())) => {
            // A waiter is not delayed until the transfer ends.
            resume |= sends.policy.wakes_waiter();
            drop(sends);
            recycle_transfers(queue, completed);
            if resume {
                handler.send_space_freed(queue);
            }
            return;
        }
        Some(Err(_)) => {
            drop(sends);
            recycle_transfers(queue, completed);
            return handler.batch_not_posted();
        }
        None => (),
    }
    // SAFETY: The entry came from `lend` and is in that list, as above. This was its last
    // completion, so nobody else takes it back.
    let mut rw = unsafe {
        sends.rw_contexts.remove(entry);
        RwContext::<H>::take_back(entry)
    };
    rw.transfer.release_credits();
    resume |= sends.policy.wakes_waiter();
    drop(sends);
    recycle_transfers(queue, completed);
    // SAFETY: All requests of a batch complete with its last one, and no batch is left or, after a
    // failure, is posted any more. Without a failure all have succeeded.
    let (continuation, pages) = unsafe { rw.finish(queue, failure.is_none()) };
    match (continuation, failure) {
        (Continuation::ReadDone(done), None) => handler.read_done(queue, done, pages),
        (Continuation::ReadDone(done), Some(failure)) => {
            drop(pages);
            handler.read_failed(queue, done, failure);
        }
        // Not reached: the last batch is posted with its Send, which owns the transfer then.
        (Continuation::Send(_), None) => (),
        (Continuation::Send(send), Some(failure)) => handler.write_failed(send.tag, failure),
    }
    if resume {
        handler.send_space_freed(queue);
    }
}
