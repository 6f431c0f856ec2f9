// SPDX-License-Identifier: GPL-2.0

//! The Receive queue of a queue pair, and posting of Receives.

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
        let left = receives.room.checked_sub(buffers.len());
        receives.room = left.ok_or(EINVAL)?;
        let first = self.take_work_requests(buffers, &mut receives.posted);
        let mut bad = null();
        // SAFETY: The list was just linked, of requests that live until their completions take them
        // back. The queue pair is live by the type invariants: this side is locked and open.
        let result = to_result(unsafe { cbindings::ib_post_recv(self.as_raw(), first, &mut bad) });
        if result.is_err() {
            // SAFETY: The driver posted the requests before `bad`, and neither `bad` nor those
            // after it.
            unsafe { buffers.reclaim(bad, &mut receives.posted) };
            receives.room = receives.room.saturating_add(buffers.len());
        }
        result
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
    let mut receives = queue.receives.lock();
    if receives.drained {
        // Too late: the buffer is freed with the queue pair.
        return;
    }
    // SAFETY: `post_receives` added the entry to that list, and the queue is not drained, so it is
    // still there.
    unsafe { receives.posted.remove(entry) };
    receives.room = receives.room.saturating_add(1);
    drop(receives);
    // SAFETY: The entry was lent by `take_work_requests` and just removed from its list. This is
    // the only completion of its request, so the device is done with the buffer.
    let buffer = unsafe { Buffer::take_back(entry) };
    if let Some(failure) = WcStatus::of(wc) {
        handler.receive_failed(queue, buffer, failure);
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
    handler.received(queue, message, invalidated);
}

/// The state of the Receive side of a queue pair.
pub(crate) struct RqState {
    /// Whether posting is allowed: from creation to the drain.
    pub(crate) open: bool,
    /// Whether the queue pair is drained, so that a late completion must be ignored.
    pub(crate) drained: bool,
    /// The number of Receives that may still be posted.
    pub(crate) room: usize,
    /// The posted Receives.
    pub(crate) posted: InFlight,
}

impl RqState {
    /// Creates the state of a queue with room for that many Receives.
    pub(crate) const fn new(room: usize) -> Self {
        Self {
            open: true,
            drained: false,
            room,
            posted: InFlight::new(),
        }
    }
}
