// SPDX-License-Identifier: GPL-2.0

//! Queue pairs as this module uses them: with a pool of Send buffers, and credits for RDMA Reads and Writes.

use super::{
    send_buffers::SendBuffers,
    send_policy::SendPolicy,
    sq_credits::SqCredits, //
};
use kernel::{
    alloc::Flags,
    error::Result,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    cm::Id,
    qp,
    send::{
        Buffer,
        Buffers,
        UnpostedSend, //
    },
    transfer::{
        Attached,
        Prepared,
        Transfer, //
    },
    BatchMemory,
    Handler,
    ProtectionDomain,
    QueuePair,
    ReadHandler,
    SendPolicy as _, //
};

/// The sizes of a connection's queue pair.
pub(crate) struct Parameters {
    /// How many Receives may be posted at the same time.
    pub(crate) receives: u32,
    /// How many Send buffers there are at most, and so posted Sends.
    pub(crate) send_buffers: usize,
    /// How many of them there are from the start.
    pub(crate) first_send_buffers: usize,
    /// How long each is.
    pub(crate) send_bytes: usize,
    /// Scatter elements of a Send at most, and of a Write, if the device takes as many.
    pub(crate) send_elements: usize,
    /// How many regions are registered, and later invalidated, for one Send at most.
    pub(crate) regions_per_send: u32,
    /// How many RDMA Reads and Writes may be posted at the same time. Half of them is a batch: longer
    /// transfers go in several.
    pub(crate) transfers: u32,
}

impl Parameters {
    /// Makes the queue pair of `id` in `pd` ([`QueuePair::new`]), with the Send buffers in `reusable`, which are of
    /// that domain and of [`Self::send_bytes`], and new ones. What it does not need stays there, and all if it fails.
    /// Sleeps.
    pub(crate) fn make<H>(
        &self,
        id: Arc<Id<H>>,
        pd: Arc<ProtectionDomain<H>>,
        reusable: &mut Buffers<H>,
    ) -> Result<Arc<QueuePair<H>>>
    where
        H: Handler<SendPolicy = SendPolicy<H>>,
    {
        // If there is one, it is free, or a thread has it, or it comes back with a completion.
        let first = self.first_send_buffers.max(1).min(self.send_buffers);
        let buffers = SendBuffers::new(self.send_buffers, first, self.send_bytes);
        let credits = SqCredits::new(usize::try_from(self.transfers)?);
        let parameters = qp::Parameters {
            receives: self.receives,
            sends: self.send_buffers,
            send_elements: self.send_elements,
            regions_per_send: self.regions_per_send,
            transfers: self.transfers,
        };
        let policy = SendPolicy::new(buffers, credits);
        let queue = QueuePair::new(id, pd, &parameters, policy)?;
        for _ in 0..first {
            let buffer = match reusable.pop() {
                Some(buffer) => Ok(buffer),
                None => Buffer::new(queue.pd(), self.send_bytes, GFP_KERNEL),
            };
            match buffer {
                Ok(buffer) => queue.put_back_send_buffer(buffer),
                Err(error) => {
                    reusable.append(&mut queue.take_send_buffers());
                    return Err(error);
                }
            }
        }
        Ok(queue)
    }
}

/// Why Reads were not posted.
pub(crate) enum UnpostedReads<H: ReadHandler> {
    /// There are too few SQ credits now.
    Full(Prepared<H>, H::ReadDone),
    /// The connection is at its end.
    Lost,
}

/// What a queue pair with this module's [`SendPolicy`] can do.
pub(crate) trait SendBuffering<H: Handler> {
    /// A Send buffer, or [`None`] if all are posted: [`Handler::send_resumed`] tells of the next.
    fn take_send_buffer(&self) -> Option<Buffer<H>>;

    /// As [`Self::take_send_buffer`], but if all are posted, and there may be more, makes one. Sleeps.
    fn make_send_buffer(&self) -> Option<Buffer<H>>;

    /// Whether all buffers are posted, and another one could not be made. The Sends that have them
    /// may have asked for no completion, as there was to be another.
    fn lacks_send_buffers(&self) -> bool;

    /// Makes Send buffers until there are `count`, or as many as there may be. Sleeps if `flags` allow it.
    fn grow_send_buffers(&self, count: usize, flags: Flags) -> Result;

    /// As [`Self::take_send_buffer`], for a Send that need not be soon: leaves some to those that must
    /// go out for others to come back, and does not promise to tell of the next.
    fn take_spare_send_buffer(&self) -> Option<Buffer<H>>;

    /// How many SQ credits are free, and how many there are.
    fn sq_credits(&self) -> (usize, usize);

    /// Gives back a buffer that is not to be sent after all.
    fn put_back_send_buffer(&self, buffer: Buffer<H>);

    /// Takes all buffers that are free, when none is needed any more.
    fn take_send_buffers(&self) -> Buffers<H>;

    /// Gives up what is kept for the next Sends and transfers, but for so many Send buffers. It is made again when it is needed. Does not
    /// sleep.
    fn give_up_spares(&self, send_buffers: usize);

    /// An empty transfer of RDMA Writes. Its methods sleep if `flags` allow it.
    fn writes(&self, flags: Flags) -> Result<Transfer<H>>;

    /// An empty transfer of RDMA Reads. Its methods sleep if `flags` allow it.
    fn reads(&self, flags: Flags) -> Result<Transfer<H>>;
}

impl<H: Handler<SendPolicy = SendPolicy<H>>> SendBuffering<H> for QueuePair<H> {
    fn take_send_buffer(&self) -> Option<Buffer<H>> {
        self.send_queue().policy().take_buffer()
    }

    fn make_send_buffer(&self) -> Option<Buffer<H>> {
        let mut sends = self.send_queue();
        let Some(len) = sends.policy().buffers.begin_making() else {
            return sends.policy().take_buffer();
        };
        drop(sends);
        Buffer::new(self.pd(), len, GFP_KERNEL).ok().or_else(|| {
            let mut sends = self.send_queue();
            sends.policy().buffers.not_made();
            sends.policy().take_buffer()
        })
    }

    fn lacks_send_buffers(&self) -> bool {
        self.send_queue().policy().buffers.lacks_memory()
    }

    fn grow_send_buffers(&self, count: usize, flags: Flags) -> Result {
        loop {
            let next = self.send_queue().policy().buffers.begin_adding(count);
            let Some(len) = next else { return Ok(()) };
            match Buffer::new(self.pd(), len, flags) {
                Ok(buffer) => self.put_back_send_buffer(buffer),
                Err(error) => {
                    self.send_queue().policy().buffers.not_made();
                    return Err(error);
                }
            }
        }
    }

    fn take_spare_send_buffer(&self) -> Option<Buffer<H>> {
        self.send_queue().policy().take_spare_buffer()
    }

    fn sq_credits(&self) -> (usize, usize) {
        let mut sends = self.send_queue();
        let credits = &sends.policy().credits;
        (credits.free(), credits.total())
    }

    fn put_back_send_buffer(&self, buffer: Buffer<H>) {
        self.send_queue().policy().put_back(buffer);
    }

    fn take_send_buffers(&self) -> Buffers<H> {
        self.send_queue().policy().buffers.take_all()
    }

    fn give_up_spares(&self, send_buffers: usize) {
        let mut sends = self.send_queue();
        let policy = sends.policy();
        let spares = (
            policy.buffers.give_up(send_buffers),
            policy.transfers.take_all(),
        );
        drop(sends);
        drop(spares);
    }

    fn writes(&self, flags: Flags) -> Result<Transfer<H>> {
        let spare = self.send_queue().policy().transfers.take();
        Transfer::writes(self, spare, flags)
    }

    fn reads(&self, flags: Flags) -> Result<Transfer<H>> {
        let spare = self.send_queue().policy().transfers.take();
        Transfer::reads(self, spare, flags)
    }
}

/// What a Responder posts. It needs SQ credits, and what is more than a batch goes in several.
pub(crate) trait Responding<H: ReadHandler> {
    /// Takes SQ credits for the first batch of so many RDMA Writes. If there are too few, [`Handler::send_resumed`] tells when to
    /// try again.
    fn reserve(&self, requests: usize) -> Option<usize> {
        self.reserve_reads(requests, 0)
    }

    /// As [`Self::reserve`], for RDMA Reads with so many [registrations](Prepared::registrations).
    fn reserve_reads(&self, requests: usize, registrations: usize) -> Option<usize>;

    /// The memory without which [`Self::post_reply`] cannot post so many RDMA Writes; [`None`] if it needs none. Sleeps.
    fn batch_memory(&self, requests: usize) -> Result<Option<BatchMemory<H>>>;

    /// Posts `send`, and what goes with it: with one doorbell, if that is not more than a batch. [`Self::reserve`] took
    /// `credits` for it, and [`Self::batch_memory`] made `memory`.
    ///
    /// Any failure is the end of the connection. One is that something is of another domain,
    /// or that Reads go with it. Does not sleep.
    fn post_reply(
        &self,
        attached: Attached<H>,
        credits: usize,
        send: UnpostedSend<H>,
        memory: Option<BatchMemory<H>>,
    ) -> Result;

    /// Gives back the credits of Reads that are not posted after all. Who waits for some is to be told.
    fn release(&self, credits: usize);

    /// Posts `reads`, for which [`Self::reserve`] took `credits`; [`ReadHandler::read_done`] or [`ReadHandler::read_failed`] gives back
    /// `done`.
    ///
    /// If these are too few both come back at once, and [`Handler::send_resumed`] tells when
    /// to try again. Any other failure is the end of the connection. One is that there are none. Sleeps.
    fn post_reads(
        &self,
        reads: Prepared<H>,
        credits: usize,
        done: H::ReadDone,
    ) -> Result<(), UnpostedReads<H>>;
}

impl<H: ReadHandler + Handler<SendPolicy = SendPolicy<H>>> Responding<H> for QueuePair<H> {
    fn reserve_reads(&self, requests: usize, registrations: usize) -> Option<usize> {
        if requests == 0 {
            return Some(0);
        }
        let mut sends = self.send_queue();
        let batch = requests.min(sends.policy().credits.batch());
        // What they need is posted with the first batch.
        let batch = batch.max(registrations);
        sends.policy().reserve(batch).then_some(batch)
    }

    fn batch_memory(&self, requests: usize) -> Result<Option<BatchMemory<H>>> {
        // A batch is one request at least.
        let is_longer = requests > 1 && requests > self.send_queue().policy().credits.batch();
        is_longer.then(|| BatchMemory::new(GFP_KERNEL)).transpose()
    }

    fn post_reply(
        &self,
        attached: Attached<H>,
        credits: usize,
        send: UnpostedSend<H>,
        memory: Option<BatchMemory<H>>,
    ) -> Result {
        self.send_queue()
            .post_reply(attached, credits, send, memory)
    }

    fn release(&self, credits: usize) {
        self.send_queue().policy().credits.release(credits);
    }

    fn post_reads(
        &self,
        reads: Prepared<H>,
        credits: usize,
        done: H::ReadDone,
    ) -> Result<(), UnpostedReads<H>> {
        let mut sends = self.send_queue();
        let policy = sends.policy();
        // What they need is posted with the first batch.
        let batch = reads.len().min(policy.credits.batch());
        let batch = batch.max(reads.registrations());
        if !sends.is_open() || batch > sends.policy().credits.total() {
            sends.policy().credits.release(credits);
            drop(sends);
            return Err(UnpostedReads::Lost);
        }
        if !sends.policy().resize(credits, batch) {
            return Err(UnpostedReads::Full(reads, done));
        }
        sends
            .post_reads(reads, batch, done)
            .map_err(|_| UnpostedReads::Lost)
    }
}
