// SPDX-License-Identifier: GPL-2.0

//! Queue pairs with a pool of Send buffers, and credits for RDMA Reads and Writes.

use super::{
    receive_ring::Reposted,
    send_policy::SendPolicy,
    spares::{
        SendBuffers,
        Spares, //
    }, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};
use rdma::{
    cm::Id,
    qp,
    receive,
    send,
    transfer::{
        Attached,
        PreparedTransfer,
        Transfer, //
    },
    BatchMemory,
    Handler,
    ProtectionDomain,
    QueuePair,
    ReadHandler,
    SqCredits,
    SqPermit, //
};

/// The sizes of a connection's queue pair.
pub struct Parameters {
    /// The number of Receives that may be posted at the same time.
    pub receives: u32,
    /// The largest number of Send buffers, and so of posted Sends.
    pub send_buffers: usize,
    /// The number of Send buffers from the start.
    pub first_send_buffers: usize,
    /// The number of free Send buffers that [`SendBufferExt::take_spare_send_buffer`] leaves. At
    /// least one is reserved. Any task takes those beyond that without a lock.
    pub reserved_send_buffers: usize,
    /// The length of a Send buffer.
    pub send_bytes: usize,
    /// The most scatter elements of a Send or Write, if the device supports as many.
    pub send_elements: usize,
    /// The most regions that are registered for one Send.
    pub regions_per_send: u32,
    /// The number of registrations for Sends that may be posted at the same time. At least as many
    /// as one Send may have.
    pub registrations: u32,
    /// The number of regions that may be invalidated at the same time.
    pub invalidations: u32,
    /// The number of RDMA Reads and Writes that may be posted at the same time. Half of them is a
    /// batch: longer transfers are posted in several.
    pub transfers: u32,
}

impl Parameters {
    /// Returns the sizes for [`QueuePair::new`].
    pub fn queue_pair(&self) -> qp::Parameters {
        qp::Parameters {
            receives: self.receives,
            sends: self.send_buffers,
            send_elements: self.send_elements,
            regions_per_send: self.regions_per_send,
            registrations: self.registrations,
            invalidations: self.invalidations,
            transfers: self.transfers,
        }
    }

    /// Creates the queue pair of `id` in `pd` ([`QueuePair::new`]), with the Send buffers in
    /// `reusable`, which are of that domain and of [`Self::send_bytes`], and new ones. Buffers that
    /// it does not need stay there, and all of them if it fails. Sleeps.
    pub fn make<H>(
        &self,
        id: Arc<Id<H>>,
        pd: Arc<ProtectionDomain<H>>,
        reusable: &mut send::Buffers<H>,
    ) -> Result<Arc<QueuePair<H>>>
    where
        H: Handler<SendPolicy = SendPolicy<H>>,
    {
        // At least one: it is free, in use by a thread, or comes back with a completion.
        let first = self.first_send_buffers.max(1).min(self.send_buffers);
        let buffers = SendBuffers::new(
            self.send_buffers,
            first,
            self.send_bytes,
            self.reserved_send_buffers,
        );
        let credits = SqCredits::new(usize::try_from(self.transfers)?)?;
        let policy = SendPolicy::new(Spares::new(buffers, credits)?);
        let queue = QueuePair::new(id, pd, &self.queue_pair(), policy)?;
        for _ in 0..first {
            let buffer = match reusable.pop() {
                Some(buffer) => Ok(buffer),
                None => send::Buffer::new(queue.pd(), self.send_bytes, GFP_KERNEL),
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

/// The reason why Reads were not posted.
pub enum UnpostedReads<H: ReadHandler> {
    /// Too few SQ credits are free. The Reads and their context come back.
    Full(PreparedTransfer<H>, H::ReadDone),
    /// The connection must end. The context comes back, unless some of the Reads may have been
    /// posted: then it is freed with the queue pair.
    Lost(Option<H::ReadDone>),
}

/// The Send buffers of a queue pair with this module's [`SendPolicy`].
pub trait SendBufferExt<H: Handler> {
    /// Takes a free Send buffer. [`None`] if there is none: [`Handler::send_space_freed`] is called
    /// when one comes back.
    fn take_send_buffer(&self) -> Option<send::Buffer<H>>;

    /// Takes a free Send buffer, or allocates one if none is free and the limit allows it. Sleeps.
    fn make_send_buffer(&self) -> Option<send::Buffer<H>>;

    /// Returns whether no buffer is free and the last attempt to allocate one failed. All posted
    /// Sends may be unsignalled then, as another buffer was to be allocated.
    fn lacks_send_buffers(&self) -> bool;

    /// Allocates Send buffers until there are `count`, or as many as the limit allows. Sleeps if
    /// `flags` allow it.
    fn grow_send_buffers(&self, count: usize, flags: Flags) -> Result;

    /// Takes a free Send buffer for a Send that can wait. Leaves the
    /// [reserve](Parameters::reserved_send_buffers), and does not arrange for a call of
    /// [`Handler::send_space_freed`].
    fn take_spare_send_buffer(&self) -> Option<send::Buffer<H>>;

    /// Returns whether there is room for a Send with so many registrations. If not,
    /// [`Handler::send_space_freed`] is called when there is.
    fn has_room_for(&self, registrations: usize) -> bool;

    /// Returns the number of free SQ credits, and of all.
    fn sq_credits(&self) -> (usize, usize);

    /// Returns a buffer that is not sent to the pool.
    fn put_back_send_buffer(&self, buffer: send::Buffer<H>);

    /// Takes all free buffers, when none is needed any more.
    fn take_send_buffers(&self) -> send::Buffers<H>;

    /// Frees spare transfers, and free Send buffers until `send_buffers` are left. They are
    /// allocated again on demand. Does not sleep.
    fn free_spares(&self, send_buffers: usize);

    /// Returns an empty transfer of RDMA Writes. Its methods sleep if `flags` allow it.
    fn writes(&self, flags: Flags) -> Result<Transfer<H>>;

    /// Returns an empty transfer for the memory that a Send gathers, which is short. Its methods
    /// sleep if `flags` allow it.
    fn gathers(&self, flags: Flags) -> Result<Transfer<H>>;

    /// Returns an empty transfer of RDMA Reads. Its methods sleep if `flags` allow it.
    fn reads(&self, flags: Flags) -> Result<Transfer<H>>;
}

impl<H: Handler<SendPolicy = SendPolicy<H>>> SendBufferExt<H> for QueuePair<H> {
    fn take_send_buffer(&self) -> Option<send::Buffer<H>> {
        self.spares().take_buffer()
    }

    fn make_send_buffer(&self) -> Option<send::Buffer<H>> {
        let spares = self.spares();
        let len = match spares.take_or_allocate() {
            Ok(buffer) => return Some(buffer),
            Err(len) => len?,
        };
        send::Buffer::new(self.pd(), len, GFP_KERNEL)
            .ok()
            .or_else(|| spares.take_after_failure())
    }

    fn lacks_send_buffers(&self) -> bool {
        self.spares()
            .with_all_buffers(|buffers| buffers.lacks_memory())
    }

    fn grow_send_buffers(&self, count: usize, flags: Flags) -> Result {
        loop {
            let next = self
                .spares()
                .with_buffers(|buffers| buffers.begin_growth(count));
            let Some(len) = next else { return Ok(()) };
            match send::Buffer::new(self.pd(), len, flags) {
                Ok(buffer) => self.put_back_send_buffer(buffer),
                Err(error) => {
                    self.spares().with_buffers(SendBuffers::allocation_failed);
                    return Err(error);
                }
            }
        }
    }

    fn take_spare_send_buffer(&self) -> Option<send::Buffer<H>> {
        self.spares().take_spare_buffer()
    }

    fn has_room_for(&self, registrations: usize) -> bool {
        let mut sends = self.send_queue();
        let has_room = sends.has_room_for(registrations);
        sends.policy().found_room(has_room);
        has_room
    }

    fn sq_credits(&self) -> (usize, usize) {
        let credits = &self.spares().credits;
        (credits.free(), credits.total())
    }

    fn put_back_send_buffer(&self, buffer: send::Buffer<H>) {
        self.spares().put_back(buffer);
    }

    fn take_send_buffers(&self) -> send::Buffers<H> {
        self.spares().with_all_buffers(SendBuffers::take_all)
    }

    fn free_spares(&self, send_buffers: usize) {
        let spares = self.spares();
        // Dropped without the lock.
        let buffers = spares.with_all_buffers(|buffers| buffers.shrink(send_buffers));
        drop(buffers);
        drop(spares.take_transfers());
    }

    fn writes(&self, flags: Flags) -> Result<Transfer<H>> {
        let spare = self.spares().take_transfer();
        Transfer::writes(self, spare, flags)
    }

    fn gathers(&self, flags: Flags) -> Result<Transfer<H>> {
        let spare = self.spares().take_short_transfer();
        Transfer::writes(self, spare, flags)
    }

    fn reads(&self, flags: Flags) -> Result<Transfer<H>> {
        let spare = self.spares().take_transfer();
        Transfer::reads(self, spare, flags)
    }
}

/// The RDMA Reads, RDMA Writes and replies of a Responder. Reads and Writes need SQ credits, and
/// are posted in batches.
pub trait ResponderExt<H: ReadHandler> {
    /// Reserves SQ credits for the first batch of `requests` RDMA Writes. If too few are free,
    /// [`Handler::send_space_freed`] is called when to try again.
    fn reserve(&self, requests: usize) -> Option<SqPermit> {
        self.reserve_reads(requests, 0)
    }

    /// Reserves SQ credits as [`Self::reserve`] does, for RDMA Reads with these
    /// [registrations](PreparedTransfer::registrations).
    fn reserve_reads(&self, requests: usize, registrations: usize) -> Option<SqPermit>;

    /// Allocates the memory that [`Self::post_reply`] needs for `requests` RDMA Writes. [`None`] if
    /// it needs none. Sleeps.
    fn batch_memory(&self, requests: usize) -> Result<Option<BatchMemory<H>>>;

    /// Takes back `answered`, the Receive buffer of the message that is answered, as
    /// [`ReceiveBufferExt::repost`](super::ReceiveBufferExt::repost) does. Then posts `send` and
    /// `attached`, with one doorbell if that is not more than a batch. `permit` comes from
    /// [`Self::reserve`], and `memory` from [`Self::batch_memory`].
    ///
    /// Returns whether the Receive buffer was freed instead, and the result of posting. Any failure
    /// ends the connection. It is an error to pass memory of another domain, or Reads. Does not
    /// sleep.
    fn post_reply(
        &self,
        answered: Option<receive::Buffer<H>>,
        attached: Attached<H>,
        permit: SqPermit,
        send: send::UnpostedSend<H>,
        memory: Option<BatchMemory<H>>,
    ) -> (bool, Result);

    /// Posts `reads` with `permit`, which comes from [`Self::reserve_reads`].
    /// [`ReadHandler::read_done`] or [`ReadHandler::read_failed`] returns `done`.
    ///
    /// If its credits are too few, the Reads and `done` come back at once, and
    /// [`Handler::send_space_freed`] is called when to try again. After any other failure the
    /// caller ends the connection. It is an error to pass no Reads. Sleeps.
    fn post_reads(
        &self,
        reads: PreparedTransfer<H>,
        permit: SqPermit,
        done: H::ReadDone,
    ) -> Result<(), UnpostedReads<H>>;
}

impl<H: ReadHandler + Handler<SendPolicy = SendPolicy<H>>> ResponderExt<H> for QueuePair<H> {
    fn reserve_reads(&self, requests: usize, registrations: usize) -> Option<SqPermit> {
        if requests == 0 {
            return Some(SqPermit::EMPTY);
        }
        let spares = self.spares();
        let batch = requests.min(spares.batch());
        // Their registrations are posted with the first batch.
        let batch = batch.max(registrations);
        // Most often enough are free. If not, another attempt under the lock of the Send queue says
        // so, and then it is noted that the caller waits: credits that come back later wake it.
        let permit = spares.credits.reserve(batch);
        permit.or_else(|| self.send_queue().policy().reserve(batch))
    }

    fn batch_memory(&self, requests: usize) -> Result<Option<BatchMemory<H>>> {
        // A batch has at least one request.
        let is_longer = requests > 1 && requests > self.spares().batch();
        is_longer.then(|| BatchMemory::new(GFP_KERNEL)).transpose()
    }

    fn post_reply(
        &self,
        answered: Option<receive::Buffer<H>>,
        attached: Attached<H>,
        permit: SqPermit,
        send: send::UnpostedSend<H>,
        memory: Option<BatchMemory<H>>,
    ) -> (bool, Result) {
        let mut sends = self.send_queue();
        let reposted = answered.map(|buffer| sends.policy().receives.repost(self, buffer));
        let result = sends.post_reply(attached, permit, send, memory);
        // The lock is released now.
        (reposted.is_some_and(Reposted::free), result)
    }

    fn post_reads(
        &self,
        reads: PreparedTransfer<H>,
        permit: SqPermit,
        done: H::ReadDone,
    ) -> Result<(), UnpostedReads<H>> {
        let mut sends = self.send_queue();
        // Their registrations are posted with the first batch.
        let batch = reads.len().min(self.spares().batch());
        let batch = batch.max(reads.registrations());
        if !sends.is_open() || batch > self.spares().credits.total() {
            drop(sends);
            return Err(UnpostedReads::Lost(Some(done)));
        }
        let Some(permit) = sends.policy().resize(permit, batch) else {
            return Err(UnpostedReads::Full(reads, done));
        };
        sends
            .post_reads(reads, permit, done)
            .map_err(|unposted| UnpostedReads::Lost(unposted.context))
    }
}
