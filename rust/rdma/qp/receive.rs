// SPDX-License-Identifier: GPL-2.0

//! The Receive queue of a queue pair, and posting of Receives.
//!
//! # Two lists of posted Receives
//!
//! Any task may post Receives, and adds them to a list under the lock `receives`. A completion
//! takes one out. Completion handlers of a queue pair run one at a time, so they have a list of
//! their own, without a lock ([`HandledReceives`]). One that finds its Receive in the other list
//! moves all of that to its own, once for each series that is posted. A Receive says in which list
//! it is: who posts it says so under the lock and before the device knows it, and from then on only
//! the handler changes that, under the lock as well.
//!
//! The number of Receives that have completed is written by handlers alone, and read by tasks that
//! post. If one reads an old number, it finds less room than there is.

use super::{
    Invalidated,
    QueuePair, //
};
use crate::prelude::*;
use crate::{
    cq,
    in_flight::{
        Entry,
        InFlight, //
    },
    receive::{
        Buffer,
        Buffers,
        Message, //
    }, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::Deref, //
};
use kernel::sync::atomic::{
    Acquire,
    Release, //
};

impl<H: Handler> Message<H> {
    /// Returns the trace identifier of the message, which arrived on `queue`.
    pub fn id(&self, queue: &QueuePair<H>) -> CompletionId {
        queue.completion_id(self.number())
    }
}

impl<H: Handler> Buffer<H> {
    /// Returns the trace identifier of the buffer, which was posted on `queue`.
    pub fn id(&self, queue: &QueuePair<H>) -> CompletionId {
        queue.completion_id(self.number())
    }
}

impl<H: Handler> QueuePair<H> {
    /// Posts all of `buffers` with one doorbell. Those that could not be posted stay in `buffers`.
    /// [`EINVAL`] if one is of another domain, or if the queue has no room for all. Does not sleep.
    pub fn post_receives(&self, buffers: &mut Buffers<H>) -> Result {
        if buffers.is_empty() {
            return Ok(());
        }
        if !buffers.all_in(&self.pd) {
            return Err(EINVAL);
        }
        let mut receives = self.receives.lock();
        if !receives.open {
            return Err(enotconn());
        }
        receives.begin(buffers.len(), self.handled.completed())?;
        let first = self.take_work_requests(buffers, &mut receives.posted);
        let mut bad = null();
        // SAFETY: The list was just linked, of requests that live until their completions take them
        // back. The queue pair is live by the type invariants: this side is locked and open.
        let result = to_result(unsafe { cbindings::ib_post_recv(self.as_raw(), first, &mut bad) });
        if result.is_err() {
            // SAFETY: The driver posted the requests before `bad`, and neither `bad` nor those
            // after it.
            unsafe { buffers.reclaim(bad, &mut receives.posted) };
            receives.undo(buffers.len());
        }
        result
    }

    /// Takes the Receive of `entry`, which has completed, out of its list. Returns false if the
    /// queue pair was drained: then it stays there.
    ///
    /// # Safety
    ///
    /// A completion handler of this queue pair is the caller, for the completion of the Receive of
    /// `entry`, which [`Self::post_receives`] has posted here.
    unsafe fn take_completed(&self, entry: NonNull<Entry>) -> bool {
        // A handler that reads the old value while the queue pair is drained is one that came in
        // time.
        if self.handled.drained.load(Acquire) {
            return false;
        }
        // SAFETY: Handlers of this queue pair run one at a time, and only they use the list, until
        // the queue pair is freed after the last of them.
        let list = unsafe { &mut *self.handled.list.get() };
        // SAFETY: `post_receives` lent the entry, and its only completion is this one, so it was
        // not taken back. The caller is a handler, and others do not claim.
        if !unsafe { Buffer::<H>::is_claimed(entry) } {
            let mut receives = self.receives.lock();
            receives.posted.move_to(list, |entry| {
                // SAFETY: Lent Receives are in this list, and only their completions, which are
                // handled later, take them back. The caller is a handler, and others do not claim.
                unsafe { Buffer::<H>::claim(entry) };
            });
        }
        // SAFETY: `post_receives` added the entry to the list behind the lock. It is claimed, so it
        // was moved to this one.
        unsafe { list.remove(entry) };
        self.handled.count_completed();
        true
    }

    /// Lends `buffers` to `posted`, and returns the first of their linked work requests.
    pub(crate) fn take_work_requests(
        &self,
        buffers: &mut Buffers<H>,
        posted: &mut InFlight,
    ) -> *mut cbindings::ib_recv_wr {
        buffers.take_work_requests(self, receive_done::<H>, posted)
    }
}

/// Handles the completion of a Receive.
///
/// # Safety
///
/// Only the core calls this, for the completion of a Receive of a [`QueuePair<H>`].
unsafe extern "C" fn receive_done<H: Handler>(
    cq: *mut cbindings::ib_cq,
    wc: *mut cbindings::ib_wc,
) {
    // SAFETY: The core passes these arguments for a `CompletionQueue<H>`, and both references are
    // used only during the callback.
    let (handler, wc) = unsafe { cq::callback_args::<H>(cq, wc) };
    // SAFETY: Requests that complete here were posted with the address of the entry of a Receive,
    // its first field.
    let entry = unsafe { Entry::completed(wc) };
    // SAFETY: The entry lives until its completion, which is this one, or, if it was lost, until
    // the queue pair is freed, after the last callback. It was posted to a `QueuePair<H>`, which
    // outlives its callbacks.
    let queue = unsafe { &*Buffer::<H>::queue(entry).cast::<QueuePair<H>>() };
    // SAFETY: This is a completion handler of the queue pair, for the Receive of the entry.
    if !unsafe { queue.take_completed(entry) } {
        // Too late: the buffer is freed with the queue pair.
        return;
    }
    // SAFETY: The entry was lent by `take_work_requests` and just removed from its list. This is
    // the only completion of its request, so the device is done with the buffer.
    let buffer = unsafe { Buffer::take_back(entry) };
    // SAFETY: This is a completion handler of the queue pair.
    let mut completing = unsafe { Completing::new(queue) };
    if let Some(failure) = WcStatus::of(wc) {
        handler.receive_failed(&mut completing, buffer, failure);
        return;
    }
    let len = match wc.opcode {
        // `byte_len` is that of the RDMA Write, whose data is elsewhere. The buffer was not
        // written.
        cbindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM => 0,
        _ => usize::try_from(wc.byte_len).unwrap_or(0),
    };
    let message = Message::new(buffer, len);
    let with_key = wc.wc_flags & cbindings::ib_wc_flags_IB_WC_WITH_INVALIDATE as i32 != 0;
    // SAFETY: Both arms of the union are plain 32-bit words, so any contents are valid.
    let rkey = unsafe { wc.ex.invalidate_rkey };
    let invalidated = with_key.then_some(Invalidated { rkey, queue });
    handler.received(&mut completing, message, invalidated);
}

/// A queue pair during one of its completion handlers. They run one at a time, so what only they
/// use needs no lock.
///
/// # Invariants
///
/// A completion handler of `queue` is running, and this is its only value of this type.
pub struct Completing<'a, H: Handler> {
    queue: &'a QueuePair<H>,
    /// Not for other tasks.
    _of_this_task: PhantomData<*mut ()>,
}

impl<'a, H: Handler> Completing<'a, H> {
    /// # Safety
    ///
    /// The caller is a completion handler of `queue`, and makes no second value.
    pub(super) unsafe fn new(queue: &'a QueuePair<H>) -> Self {
        // INVARIANT: The caller promises it.
        Self {
            queue,
            _of_this_task: PhantomData,
        }
    }

    /// Returns Receives that handlers keep until they post them again, or put them elsewhere. Those
    /// that are left are freed with the queue pair.
    pub fn spare_receives(&mut self) -> &mut Buffers<H> {
        // SAFETY: By the type invariants a handler is running, and this is its only value. No other
        // handler of the queue pair runs, and nobody else uses the Receives, until the queue pair
        // is freed after the last handler. `&mut self` makes the reference unique.
        unsafe { &mut *self.queue.handled.spare.get() }
    }
}

impl<H: Handler> Deref for Completing<'_, H> {
    type Target = QueuePair<H>;

    fn deref(&self) -> &QueuePair<H> {
        self.queue
    }
}

/// The state of the Receive side of a queue pair.
pub(crate) struct RqState {
    /// Whether posting is allowed: from creation to the drain.
    pub(crate) open: bool,
    /// The most Receives that may be posted at the same time.
    limit: usize,
    /// The number of Receives that were ever posted. It may wrap.
    count: usize,
    /// The posted Receives that no handler has moved to its list.
    pub(crate) posted: InFlight,
}

impl RqState {
    /// Creates the state of a queue with room for that many Receives.
    pub(crate) const fn new(limit: usize) -> Self {
        Self {
            open: true,
            limit,
            count: 0,
            posted: InFlight::new(),
        }
    }

    /// Counts `more` Receives that are to be posted, when so many have `completed`. [`EINVAL`] if
    /// there is no room for all.
    fn begin(&mut self, more: usize, completed: usize) -> Result {
        let posted = self.count.wrapping_sub(completed);
        let room = self.limit.checked_sub(posted).ok_or(EINVAL)?;
        if more > room {
            return Err(EINVAL);
        }
        self.count = self.count.wrapping_add(more);
        Ok(())
    }

    /// Takes back what [`Self::begin`] counted, for Receives that were not posted.
    fn undo(&mut self, not_posted: usize) {
        self.count = self.count.wrapping_sub(not_posted);
    }
}

/// The part of the Receive side of a queue pair that completion handlers have.
pub(crate) struct HandledReceives<H: Context> {
    /// The posted Receives that a handler has taken over. Handlers run one at a time; only they use
    /// it.
    list: UnsafeCell<InFlight>,
    /// Receives that handlers keep ([`Completing::spare_receives`]).
    spare: UnsafeCell<Buffers<H>>,
    /// The number of Receives that have completed. It may wrap. Only handlers write it.
    completed: Atomic<usize>,
    /// Whether the queue pair is drained, so that a late completion must be ignored.
    drained: Atomic<bool>,
}

impl<H: Context> HandledReceives<H> {
    /// Creates the part of a queue without posted Receives.
    pub(crate) const fn new() -> Self {
        Self {
            list: UnsafeCell::new(InFlight::new()),
            spare: UnsafeCell::new(Buffers::new()),
            completed: Atomic::new(0),
            drained: Atomic::new(false),
        }
    }

    /// Returns the number of Receives that have completed.
    fn completed(&self) -> usize {
        self.completed.load(Acquire)
    }

    /// Counts a completed Receive, in a handler.
    fn count_completed(&self) {
        // Nobody else writes it.
        let completed = self.completed.load(Relaxed);
        self.completed.store(completed.wrapping_add(1), Release);
    }

    /// Makes handlers ignore completions from now on.
    pub(crate) fn set_drained(&self) {
        self.drained.store(true, Release);
    }

    /// Returns the posted Receives of handlers.
    ///
    /// # Safety
    ///
    /// No handler runs.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) unsafe fn list(&self) -> &InFlight {
        // SAFETY: The caller promises that nobody uses the list.
        unsafe { &*self.list.get() }
    }
}
