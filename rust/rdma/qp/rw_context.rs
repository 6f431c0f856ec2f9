// SPDX-License-Identifier: GPL-2.0

//! Transfers that are posted in batches: RDMA Reads, and RDMA Writes that are more than a batch.
//!
//! The layer above reserves SQ credits for a transfer once, for a batch of its requests. The last request
//! of a batch asks for a completion, which posts the next batch with the same credits. So a queue
//! need not be as long as what a peer may ask for. What follows the last Read is
//! [`ReadHandler::read_done`]; the last Writes are posted with the Send that they belong to, and are part of that.
//!
//! Requests complete in order, so the completion of a batch also tells that the Sends before it have arrived.
//!
//! How long a batch is, is the layer's above to say. That the next one is posted from a completion is done
//! here: only here it is known that the device is done with the one before.

use super::{
    send::give_back,
    Handler,
    QueuePair, //
};
use crate::{
    chain::Chain,
    cq,
    error::not_connected,
    in_flight::Entry,
    mr,
    send::UnpostedSend,
    sq::{
        SendPolicy,
        State, //
    },
    transfer::{
        Empty,
        Inner, //
    },
    wc::WcStatus, //
};
use core::{
    mem::MaybeUninit,
    ops::Range,
    ptr::{
        null_mut,
        NonNull, //
    },
};
use kernel::{
    alloc::Flags,
    error::{
        code::EINVAL,
        Result, //
    },
    prelude::*, //
};

/// An upper layer that reads memory of its peer.
pub trait ReadHandler: Handler {
    /// What comes back when the Reads of one [`Transfer`](crate::transfer::Transfer) have completed.
    type ReadDone: Send;

    /// All RDMA Reads have completed, and the memory that they brought data to is not mapped any more.
    fn read_done(&self, queue: &QueuePair<Self>, done: Self::ReadDone);

    /// An RDMA Read failed. The connection is lost.
    fn read_failed(&self, queue: &QueuePair<Self>, done: Self::ReadDone, failure: WcStatus);

    /// The next batch of a transfer could not be posted, though nothing that was posted has failed. The connection is lost.
    fn batch_not_posted(&self);
}

/// What follows when all batches have completed.
pub(crate) enum Then<H: ReadHandler> {
    /// The upper layer is told.
    ReadDone(H::ReadDone),
    /// This is posted with the last batch.
    Send(UnpostedSend<H>),
}

/// A transfer that is posted in batches. The completions find it by the first field.
#[repr(C)]
pub(crate) struct RwContext<H: ReadHandler> {
    entry: Entry,
    transfer: KBox<Inner<H>>,
    regions: mr::Registered<H>,
    /// How many of its requests were posted.
    posted: usize,
    /// The last Send before the batch that is posted, if that was not known to have completed.
    after: Option<u64>,
    then: Then<H>,
    queue: *const QueuePair<H>,
}

/// Memory that posting a transfer in several batches takes.
pub struct BatchMemory<H: ReadHandler>(KBox<MaybeUninit<RwContext<H>>>);

// SAFETY: There is nothing in it.
unsafe impl<H: ReadHandler> Send for BatchMemory<H> {}

impl<H: ReadHandler> BatchMemory<H> {
    /// Allocates it. Sleeps if `flags` allow it.
    pub fn new(flags: Flags) -> Result<Self> {
        Ok(Self(KBox::new_uninit(flags)?))
    }
}

impl<H: ReadHandler> RwContext<H> {
    /// Readies `transfer`, which has its credits, for `queue`. [`EINVAL`] if more would be registered
    /// for it than it has credits for.
    pub(crate) fn new(
        memory: BatchMemory<H>,
        mut transfer: KBox<Inner<H>>,
        then: Then<H>,
        queue: &QueuePair<H>,
    ) -> Result<KBox<Self>> {
        let regions = core::mem::take(&mut transfer.regions);
        if regions.len() > transfer.credits {
            return Err(EINVAL);
        }
        let rw = Self {
            entry: Entry::new(),
            transfer,
            regions: regions.into_registered(&queue.deferred_dereg),
            posted: 0,
            after: None,
            then,
            queue,
        };
        Ok(KBox::write(memory.0, rw))
    }

    /// Links the requests of `batch`, the last of which asks for a completion. What they need goes
    /// before the first of all.
    fn link(&mut self, batch: Range<usize>, failed: *mut raw::ib_cqe) -> *mut raw::ib_send_wr {
        self.posted = batch.end;
        let is_first = batch.start == 0;
        let done = &raw mut self.entry.cqe;
        let first = self.transfer.link(batch.clone(), failed, null_mut());
        if let Some(last) = self.transfer.last_of(batch) {
            last.wr.send_flags = raw::ib_send_flags_IB_SEND_SIGNALED;
            last.wr.__bindgen_anon_1.wr_cqe = done;
        }
        match is_first {
            true => self.regions.link_registrations(failed, first),
            false => first,
        }
    }

    /// Gives up the box, for as long as it is outstanding.
    pub(crate) fn give_up(mut self: KBox<Self>) -> NonNull<Entry> {
        self.entry.arm(batch_done::<H>, free_rw_context::<H>);
        // CAST: The entry is the first field.
        NonNull::from(KBox::leak(self)).cast()
    }

    /// # Safety
    ///
    /// `entry` came from [`Self::give_up`], and this is the first call for it.
    unsafe fn take_back(entry: NonNull<Entry>) -> KBox<Self> {
        // SAFETY: The caller vouches for it.
        unsafe { KBox::from_raw(entry.cast().as_ptr()) }
    }

    /// Posts the first batch. An error is the end of the connection.
    pub(crate) fn begin(self: KBox<Self>, queue: &QueuePair<H>) -> Result {
        let mut sends = queue.sends.lock();
        if !sends.open {
            drop(sends);
            return Err(not_connected());
        }
        let entry = self.give_up();
        // SAFETY: Until its completion takes it out the box is nobody else's, and touched under the
        // lock. If there is none it is freed after a drain, when no request of it is posted.
        unsafe { sends.rw_contexts.add(entry) };
        // SAFETY: It is in that list now, and none of its requests is posted.
        unsafe { Self::go_on(entry, queue, &mut sends) }.unwrap_or(Err(EINVAL))
    }

    /// Posts what comes next. [`None`] if nothing does. If that fails, the connection is at its end, and
    /// what may have been posted is in `sends` until the queue pair is freed.
    ///
    /// # Safety
    ///
    /// `entry` is that of an `RwContext<H>` that is in `sends`, those of `queue`. None of its
    /// requests is posted. The caller does not touch it again, unless it gets [`None`].
    unsafe fn go_on(
        entry: NonNull<Entry>,
        queue: &QueuePair<H>,
        sends: &mut State<H, H::SendPolicy>,
    ) -> Option<Result> {
        // SAFETY: The caller vouches for it; whoever has the lock may touch it.
        let rw = unsafe { &mut *entry.cast::<Self>().as_ptr() };
        let left = rw.transfer.len().saturating_sub(rw.posted);
        if left == 0 {
            return None;
        }
        if !sends.open {
            return Some(Err(not_connected()));
        }
        let count = left.min(rw.transfer.credits);
        if count == left && matches!(rw.then, Then::Send(_)) {
            // SAFETY: The caller vouches for it.
            return Some(unsafe { Self::send(entry, queue, sends) });
        }
        let batch = rw.posted..rw.posted.saturating_add(count);
        rw.after = sends.last_posted();
        let first = rw.link(batch, queue.transfer_failed_cqe());
        // SAFETY: The list was just made; it lives as long as the box is outstanding.
        Some(unsafe { queue.post(sends, first) })
    }

    /// Posts the last batch with its Send, which has the transfer from now on.
    ///
    /// # Safety
    ///
    /// As for [`Self::go_on`].
    unsafe fn send(
        entry: NonNull<Entry>,
        queue: &QueuePair<H>,
        sends: &mut State<H, H::SendPolicy>,
    ) -> Result {
        // SAFETY: The caller vouches for it.
        let rw = unsafe {
            sends.rw_contexts.remove(entry);
            Self::take_back(entry)
        };
        let Self {
            entry,
            mut transfer,
            posted,
            then,
            ..
        } = KBox::into_inner(rw);
        // The deadline of the message is that of its first batch.
        transfer.begun = Some(entry.since());
        match then {
            Then::Send(send) => queue.post_message(sends, Some(transfer), posted, send),
            Then::ReadDone(_) => Err(EINVAL),
        }
    }

    /// Unmaps all, gives the lists back to `queue`, and returns what was waiting.
    ///
    /// # Safety
    ///
    /// No request of it is posted. If `done`, all of them have succeeded.
    unsafe fn finish(self: KBox<Self>, queue: &QueuePair<H>, done: bool) -> Then<H> {
        let Self {
            transfer,
            regions,
            then,
            ..
        } = KBox::into_inner(self);
        match &transfer.sinks {
            // SAFETY: The last Read of each region has invalidated it, and the caller vouches for
            // all.
            Some(sinks) if done => unsafe { sinks.put_back(regions) },
            // What the peer may have a good key for stays until the queue pair is drained.
            _ => drop(regions),
        }
        let empty = Empty::of(transfer);
        let excess = queue.sends.lock().keep(empty);
        drop(excess);
        then
    }
}

/// # Safety
///
/// `entry` is that of an [`RwContext<H>`] that was given up, none of whose requests is posted.
unsafe fn free_rw_context<H: ReadHandler>(entry: NonNull<Entry>) {
    // SAFETY: The caller vouches for it.
    drop(unsafe { RwContext::<H>::take_back(entry) });
}

/// # Safety
///
/// Only the core calls this, for the completion of the last request of a batch.
unsafe extern "C" fn batch_done<H: ReadHandler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::called_for::<H>(cq, wc) };
    // SAFETY: The request was posted with the address of the entry of an `RwContext`, its first field.
    let entry = unsafe { Entry::completed(wc) };
    // SAFETY: The `RwContext` lives until its last completion, which no earlier one was, or longer than
    // there are callbacks. So does the queue pair that it was posted to.
    let queue = unsafe { &*(*entry.cast::<RwContext<H>>().as_ptr()).queue };
    let mut sends = queue.sends.lock();
    if sends.is_drained() {
        // Too late: it goes with the queue pair.
        return;
    }
    // The last request is only flushed if one before it failed.
    let failure = WcStatus::of(wc).map(|last| sends.transfer_failure.take().unwrap_or(last));
    // SAFETY: It is in that list since it was posted, so who has the lock may touch it.
    let after = unsafe { (*entry.cast::<RwContext<H>>().as_ptr()).after };
    // Requests complete in order: the Sends before the batch have arrived.
    let (mut resume, spent) = match after.filter(|_| failure.is_none()) {
        Some(last) => sends.retire(last),
        None => (false, Chain::new()),
    };
    let posted = match failure {
        // SAFETY: It is in that list since it was posted. Requests complete in order: with the last, all
        // of the batch are done.
        None => unsafe { RwContext::<H>::go_on(entry, queue, &mut sends) },
        Some(_) => None,
    };
    match posted {
        Some(Ok(())) => {
            // Who waits does so no longer than it takes to get on.
            resume |= sends.policy.resumes();
            drop(sends);
            give_back(queue, spent);
            if resume {
                handler.send_resumed(queue);
            }
            return;
        }
        Some(Err(_)) => {
            drop(sends);
            give_back(queue, spent);
            return handler.batch_not_posted();
        }
        None => (),
    }
    // SAFETY: It is in that list since it was posted, and this completion was the last to come for it.
    let rw = unsafe {
        sends.rw_contexts.remove(entry);
        RwContext::<H>::take_back(entry)
    };
    sends.policy.release(rw.transfer.credits);
    resume |= sends.policy.resumes();
    drop(sends);
    give_back(queue, spent);
    // SAFETY: As above.
    let then = unsafe { rw.finish(queue, failure.is_none()) };
    match (then, failure) {
        (Then::ReadDone(done), None) => handler.read_done(queue, done),
        (Then::ReadDone(done), Some(failure)) => handler.read_failed(queue, done, failure),
        // Its Send takes the others along.
        (Then::Send(_), None) => (),
        (Then::Send(send), Some(failure)) => handler.write_failed(send.tag, failure),
    }
    if resume {
        handler.send_resumed(queue);
    }
}
