// SPDX-License-Identifier: GPL-2.0

//! Posting of RDMA Reads, and of RDMA Writes with the Send that follows them.

use super::{
    rw_context::{
        BatchMemory,
        Continuation,
        ReadHandler,
        RwContext, //
    },
    send::SendQueue,
    Handler,
    QueuePair, //
};
use crate::{
    error::not_connected,
    send::UnpostedSend,
    sq::SendPolicy,
    transfer::{
        Attached,
        EmptyTransfer,
        PreparedTransfer,
        Transfer,
        TransferData, //
    }, //
};
use kernel::{
    alloc::Flags,
    dma::DataDirection,
    error::{
        code::EINVAL,
        Result, //
    },
    prelude::*, //
};

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
    /// Posts `send` and `attached`, with one doorbell if that is not more than `batch` requests.
    /// The caller reserved SQ credits for `batch` Writes, which are released in any case. `memory`
    /// is needed if there are more.
    ///
    /// A failure ends the connection. It is an error to pass memory of another domain, Reads,
    /// memory that would be gathered behind the end of the Send, or no `memory` if that is needed.
    /// Does not sleep.
    pub fn post_reply(
        self,
        attached: Attached<H>,
        batch: usize,
        send: UnpostedSend<H>,
        memory: Option<BatchMemory<H>>,
    ) -> Result {
        let Self { queue, mut state } = self;
        let count = attached.requests();
        let fits = attached.inner().is_none_or(|memory| {
            memory.is_for(&queue.pd, DataDirection::ToDevice) && memory.fits_message(send.len)
        });
        let unprepared = count > batch && memory.is_none();
        if !fits || !state.open || (batch == 0 && count != 0) || unprepared {
            let open = state.open;
            state.policy.release(batch);
            state.policy.put_back(send.buffer);
            drop(state);
            drop(attached);
            return Err(if open { EINVAL } else { not_connected() });
        }
        let mut transfer = attached.into_inner();
        if let Some(transfer) = &mut transfer {
            transfer.credits = batch;
        }
        match (transfer, memory) {
            (Some(transfer), Some(memory)) if count > batch => {
                drop(state);
                queue.begin(memory, transfer, Continuation::Send(send))
            }
            (transfer, _) => queue.post_message(&mut state, transfer, 0, send),
        }
    }

    /// Posts `reads`. [`ReadHandler::read_done`] or [`ReadHandler::read_failed`] returns `done`.
    /// The caller reserved SQ credits for `batch` requests at a time, which are released in any
    /// case.
    ///
    /// A failure ends the connection. It is an error to pass no Reads, or a batch that is shorter
    /// than [`PreparedTransfer::registrations`]. Sleeps.
    pub fn post_reads(
        self,
        mut reads: PreparedTransfer<H>,
        batch: usize,
        done: H::ReadDone,
    ) -> Result {
        let Self { queue, mut state } = self;
        let fits = reads.0.is_for(&queue.pd, DataDirection::FromDevice) && batch != 0;
        if reads.is_empty() || !fits || !state.open {
            let open = state.open;
            state.policy.release(batch);
            drop(state);
            drop((reads, done));
            return Err(if open { EINVAL } else { not_connected() });
        }
        drop(state);
        reads.0.credits = batch;
        let memory = BatchMemory::new(GFP_KERNEL)
            .inspect_err(|_| queue.sends.lock().policy.release(batch))?;
        queue.begin(memory, reads.0, Continuation::ReadDone(done))
    }
}

impl<H: ReadHandler> QueuePair<H> {
    /// Posts the first batch of `transfer`, which has its credits.
    fn begin(
        &self,
        memory: BatchMemory<H>,
        transfer: KBox<TransferData<H>>,
        continuation: Continuation<H>,
    ) -> Result {
        let credits = transfer.credits;
        match RwContext::new(memory, transfer, continuation, self) {
            Ok(posted) => posted.begin(self),
            Err(error) => {
                self.sends.lock().policy.release(credits);
                Err(error)
            }
        }
    }
}
