// SPDX-License-Identifier: GPL-2.0

//! The age of posted work requests, and barriers after unsignalled Sends.
//!
//! Most Sends are unsignalled, so the completion of the last ones before a pause is unknown. A
//! barrier finds out: a signalled RDMA Write of zero bytes, which completes after everything that was
//! posted before. It needs no memory at the peer (by RFC 5040 and the InfiniBand specification,
//! neither key nor address of such a Write are checked).
//!
//! While a transfer is posted there is no barrier. The transfer's completion covers the Sends before
//! it; those after it wait for a later transfer, or for a barrier when there is none. The reason is
//! soft RoCE: to repeat the response to an RDMA Read it looks for the memory where the last request
//! left it, finds none if that was a Write of zero bytes, warns, and denies the Read.

use super::{
    send::give_back,
    Handler,
    QueuePair, //
};
use crate::{
    clock,
    cq,
    sq::Barrier,
    wc::WcStatus, //
};
use kernel::{
    error::Result,
    time::Jiffies, //
};

impl<H: Handler> QueuePair<H> {
    /// Returns the age in jiffies of the oldest Send, RDMA Read or RDMA Write that is not known to
    /// have completed. [`None`] if there is none. Does not sleep.
    ///
    /// A transfer that is posted in batches counts from its first one. After a drain the result is
    /// meaningless.
    pub fn oldest_posted(&self) -> Option<Jiffies> {
        let sends = self.sends.lock();
        let now = clock::now();
        sends.ages(now).chain(sends.rw_contexts.ages(now)).max()
    }

    /// Returns whether the completion of a Send means that the peer has acknowledged it. On iWARP
    /// it only means that the lower layer has it.
    pub fn sends_complete_acknowledged(&self) -> bool {
        // Both hold for all devices except iWARP.
        self.remote_invalidation
    }

    /// Returns the shortest recent time in nanoseconds from a Send to its completion, about a round
    /// trip to the peer. [`None`] before the first completion. Does not sleep.
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
        let mut write = raw::ib_rdma_wr {
            // Not zero, which is a key on iWARP; no region has the key 1 there.
            rkey: 1,
            ..Default::default()
        };
        write.wr.opcode = raw::ib_wr_opcode_IB_WR_RDMA_WRITE;
        write.wr.send_flags = raw::ib_send_flags_IB_SEND_SIGNALED;
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
unsafe extern "C" fn barrier_done<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
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
    give_back(queue, completed);
    if let Some(failure) = WcStatus::of(wc) {
        handler.request_failed(failure);
    }
    if resume {
        handler.send_space_freed(queue);
    }
}
