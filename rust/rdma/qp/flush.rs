// SPDX-License-Identifier: GPL-2.0

//! How long what is posted has been waiting for its completion.
//!
//! Most Sends ask for no completion, so that of the last ones before a pause is not known whether they have completed. A
//! flush finds out: an RDMA Write of no bytes, which needs no memory at the peer (RFC 5040 and the InfiniBand
//! specification have neither key nor address of such a Write checked), and which completes after all that was posted before.
//!
//! While a transfer is posted there is no flush. Its completion covers the Sends before it; those after it wait for that of a
//! later transfer, or for a flush when there is none. The reason is soft RoCE: it looks for the memory of an RDMA Read whose response it
//! has to repeat where the last request left it, finds none if that was a Write of no bytes, warns, and denies the Read.

use super::{
    send::give_back,
    Handler,
    QueuePair, //
};
use crate::{
    clock,
    cq,
    sq::Flush,
    wc::WcStatus, //
};
use kernel::{
    error::Result,
    time::Jiffies, //
};

impl<H: Handler> QueuePair<H> {
    /// How many jiffies ago the oldest of the Sends, RDMA Reads and RDMA Writes was posted that have not completed yet, as
    /// far as is known. [`None`] if there is none. Does not sleep.
    ///
    /// What is posted in batches counts from its first one. After a drain it says nothing.
    pub fn oldest_posted(&self) -> Option<Jiffies> {
        let sends = self.sends.lock();
        let now = clock::now();
        sends.ages(now).chain(sends.rw_contexts.ages(now)).max()
    }

    /// Whether the completion of a Send says that the peer has acknowledged it: not on iWARP, where the lower layer has it by then.
    pub fn sends_complete_acknowledged(&self) -> bool {
        // Both are so on all but iWARP.
        self.remote_invalidation
    }

    /// The least number of nanoseconds that a Send took of late until its completion, which is about a round trip to the peer. [`None`]
    /// before the first completion. Does not sleep.
    pub fn least_round_trip(&self) -> Option<u64> {
        self.sends.lock().round_trip.get()
    }

    /// Posts a request whose completion covers all Sends that were posted before, unless there is none, or a transfer or one
    /// such request is posted. Not for a queue pair without [`transfers`](super::Parameters::transfers). A failure is the end of the connection.
    /// Does not sleep.
    pub fn flush_sends(&self) -> Result {
        let mut sends = self.sends.lock();
        let Some(last) = sends.last_posted() else {
            return Ok(());
        };
        let covered = sends.flush.last.is_some() || !sends.rw_contexts.is_empty();
        if !sends.open || covered {
            return Ok(());
        }
        sends.flush.last = Some(last);
        sends.flush.cqe.done = Some(flush_done::<H>);
        sends.flush.queue = (&raw const *self).cast();
        let mut write = raw::ib_rdma_wr {
            // There is no such key on iWARP, where zero is one.
            rkey: 1,
            ..Default::default()
        };
        write.wr.opcode = raw::ib_wr_opcode_IB_WR_RDMA_WRITE;
        write.wr.send_flags = raw::ib_send_flags_IB_SEND_SIGNALED;
        write.wr.__bindgen_anon_1.wr_cqe = &raw mut sends.flush.cqe;
        // SAFETY: The list is one request, which the driver copies. The queue has room for it, since there is one at a time.
        unsafe { self.post(&mut sends, &raw mut write.wr) }
    }
}

/// # Safety
///
/// Only the core calls this, for the completion of a flush.
unsafe extern "C" fn flush_done<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::called_for::<H>(cq, wc) };
    // SAFETY: The request was posted with the address of the first field of a `Flush`, whose queue pair was set before and is not
    // changed any more.
    let queue = unsafe { (*wc.__bindgen_anon_1.wr_cqe.cast::<Flush>()).queue };
    // SAFETY: A queue pair outlives its callbacks, and only a `QueuePair<H>` posts requests that complete here.
    let queue = unsafe { &*queue.cast::<QueuePair<H>>() };
    let mut sends = queue.sends.lock();
    let Some(last) = sends.flush.last.take() else {
        return;
    };
    let (resume, spent) = sends.retire(last);
    drop(sends);
    give_back(queue, spent);
    if let Some(failure) = WcStatus::of(wc) {
        handler.request_failed(failure);
    }
    if resume {
        handler.send_resumed(queue);
    }
}
