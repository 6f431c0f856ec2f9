// SPDX-License-Identifier: GPL-2.0

//! The Send queue of a queue pair: the posted requests, and the policy of the layer above.
//!
//! Most Sends need no completion of their own: a reliable connection completes in order, so the
//! completion of one Send covers those before it. The [`SendPolicy`] chooses the Sends that ask for
//! one. It is protected by the lock of this queue, so that the layer above needs no lock of its
//! own.

use crate::prelude::*;
use crate::{
    clock::{
        self,
        MinRtt, //
    },
    in_flight::InFlight,
    qp::Parameters,
    send::{
        Buffer,
        SendKind,
        SendRequest, //
    },
    transfer::{
        self,
        EmptyTransfers, //
    }, //
};

/// The policy of the layer above for a Send queue.
///
/// Its methods are called with the queue's lock held. They must neither sleep nor drop values whose
/// drop sleeps.
pub trait SendPolicy<H: Context>: Send + Unpin + 'static {
    /// The part that the layer above uses without the queue's lock ([`QueuePair::spares`]).
    ///
    /// [`QueuePair::spares`]: crate::QueuePair::spares
    type Spares: Send + Sync + 'static;

    /// Returns what is used without the queue's lock. Called once, before that exists.
    fn spares(&self) -> &Arc<Self::Spares>;

    /// Returns whether the Send that is posted next asks for a completion.
    fn asks_for_completion(&mut self, send: &NextSend) -> bool;

    /// Takes `buffer`, whose Send was not posted.
    fn put_back(&mut self, buffer: Buffer<H>);

    /// Takes `buffer`, whose Send completed. [`Self::wakes_waiter`] follows.
    fn completed(&mut self, buffer: Buffer<H>);

    /// Keeps those of `transfers` that it wants for later. The others are freed.
    fn keep(&mut self, transfers: &mut EmptyTransfers<H>);

    /// Returns whether to call [`Handler::send_space_freed`] after a completion returned buffers or
    /// credits.
    ///
    /// [`Handler::send_space_freed`]: crate::Handler::send_space_freed
    fn wakes_waiter(&mut self) -> bool;
}

/// The properties of a Send that matter to a [`SendPolicy`].
pub struct NextSend {
    /// Whether RDMA Writes precede it, whose memory is kept until a completion.
    pub has_writes: bool,
    /// Whether it gathers memory, which is kept until a completion.
    pub has_gathered: bool,
    /// Whether the queue has room for fewer registrations than the next Send may need, until a
    /// completion.
    pub lacks_room: bool,
    /// The time of the kernel's coarse clock.
    pub now: Jiffies,
}

/// A posted Send.
struct Posted<H: Context> {
    buffer: KBox<SendRequest<H>>,
    /// The RDMA Writes that precede it in its chain, or memory that is part of it.
    attached: Option<KBox<transfer::TransferData<H>>>,
    tag: Option<H::SendTag>,
    /// The number of registrations before it.
    registrations: usize,
    since: Jiffies,
}

/// A [barrier](crate::QueuePair::post_barrier), of which there is one at a time. Completions find
/// it by the first field.
#[repr(C)]
pub(crate) struct Barrier {
    pub(crate) cqe: cbindings::ib_cqe,
    /// The queue pair, set by the first barrier. It does not change after that.
    pub(crate) queue: *const c_void,
    /// The sequence number of the last Send before it, while it is posted.
    pub(crate) last: Option<u64>,
}

// SAFETY: The pointers are to a function, and to the queue pair that contains it.
unsafe impl Send for Barrier {}

/// The state of the Send side of a queue pair.
pub(crate) struct SqState<H: Context, P> {
    /// Whether posting is allowed: from creation to the drain, or to the first error.
    pub(crate) open: bool,
    pub(crate) policy: P,
    /// The posted Sends, each at its sequence number modulo the length.
    posted: KVec<Option<Posted<H>>>,
    /// The sequence numbers of the oldest posted Send, and of the next one.
    oldest: u64,
    newest: u64,
    /// Transfers that are posted in batches, or that the device lost.
    pub(crate) rw_contexts: InFlight,
    /// Invalidations that are posted, or that the device lost.
    pub(crate) invalidations_in_flight: InFlight,
    /// The number of registrations that there is room for, and the most that one Send needs.
    registrations: usize,
    registrations_per_send: usize,
    /// The number of regions that may still be invalidated at the same time.
    pub(crate) invalidations: usize,
    drained: bool,
    /// The status of an unsignalled request of a transfer that failed. The next signalled one is of
    /// the same transfer.
    pub(crate) transfer_failure: Option<WcStatus>,
    pub(crate) barrier: Barrier,
    /// A signalled Send and the time at which it was posted.
    measured: Option<(u64, u64)>,
    pub(crate) min_rtt: MinRtt,
    /// The first and last of the requests that wait for the doorbell, or null. They are live: Sends
    /// in `posted`, registrations in regions that are not released before it rings.
    deferred: [*mut cbindings::ib_send_wr; 2],
}

/// The transfers of completed Sends, to be dropped after the lock is released.
pub(crate) type CompletedTransfers<H> = Chain<transfer::TransferData<H>>;

impl<H: Context, P: SendPolicy<H>> SqState<H, P> {
    /// Creates the state of a queue with these sizes. Sleeps.
    pub(crate) fn new(sizes: &Parameters, policy: P) -> Result<Self> {
        let mut posted = KVec::with_capacity(sizes.sends, GFP_KERNEL)?;
        for _ in 0..sizes.sends {
            posted.push(None, GFP_KERNEL)?;
        }
        Ok(Self {
            open: true,
            policy,
            posted,
            oldest: 0,
            newest: 0,
            rw_contexts: InFlight::new(),
            invalidations_in_flight: InFlight::new(),
            registrations: usize::try_from(sizes.registrations)?,
            registrations_per_send: usize::try_from(sizes.regions_per_send)?,
            invalidations: usize::try_from(sizes.invalidations)?,
            drained: false,
            transfer_failure: None,
            barrier: Barrier {
                cqe: cbindings::ib_cqe { done: None },
                queue: null(),
                last: None,
            },
            measured: None,
            min_rtt: MinRtt::default(),
            deferred: [null_mut(); 2],
        })
    }

    /// Returns whether there is room for a Send with so many registrations.
    pub(crate) fn has_room_for(&self, registrations: usize) -> bool {
        self.registrations >= registrations
    }

    /// Makes a Send of the first `len` bytes of `buffer`, with `attached`, the next one on `queue`.
    /// Returns its work request, which must be posted before the lock is released, with so many
    /// `registrations` before it. It completes to `done` if it is signalled or fails.
    ///
    /// `kind` is the kind of the Send. A signalled Send must not be deferred, as others may wait
    /// for it. [`EINVAL`] if the buffer is of another domain than `pd`, or if the queue is full.
    #[expect(clippy::too_many_arguments)]
    pub(crate) fn enqueue<Q>(
        &mut self,
        queue: &Q,
        done: unsafe extern "C" fn(*mut cbindings::ib_cq, *mut cbindings::ib_wc),
        pd: &Arc<ProtectionDomain<H>>,
        registrations: usize,
        mut buffer: Buffer<H>,
        len: usize,
        kind: SendKind,
        mut attached: Option<KBox<transfer::TransferData<H>>>,
        tag: Option<H::SendTag>,
    ) -> Result<*mut cbindings::ib_send_wr> {
        let sequence = self.newest;
        let place = self.place(sequence).ok_or(EINVAL)?;
        let room = self.registrations.checked_sub(registrations);
        let (Some(place @ None), Some(room)) = (self.posted.get_mut(place), room) else {
            self.policy.put_back(buffer);
            return Err(EINVAL);
        };
        let sge = match buffer.sge(pd, len) {
            Ok(sge) => sge,
            Err(error) => {
                self.policy.put_back(buffer);
                return Err(error);
            }
        };
        let gathered = attached.as_ref().map(|memory| memory.is_gathered());
        let now = clock::now();
        let signal = self.policy.asks_for_completion(&NextSend {
            has_writes: gathered == Some(false),
            has_gathered: gathered == Some(true),
            lacks_room: room < self.registrations_per_send,
            now,
        });
        self.registrations = room;
        let since = attached.as_ref().and_then(|transfer| transfer.begun);
        let inner = &mut buffer.0;
        inner.prepare(sge, kind);
        inner.cqe.done = Some(done);
        inner.queue = (&raw const *queue).cast();
        inner.sequence = sequence;
        // The elements do not move with their box.
        if let Some(elements) = attached
            .as_mut()
            .and_then(|memory| memory.gather_elements(sge))
        {
            inner.wr.sg_list = elements.as_mut_ptr();
            // CAST: Fewer than any device takes.
            inner.wr.num_sge = elements.len() as i32;
        }
        if signal {
            self.measured
                .get_or_insert_with(|| (sequence, clock::nanoseconds()));
            inner.wr.send_flags = cbindings::ib_send_flags_IB_SEND_SIGNALED;
        }
        // The request does not move with its box.
        let wr = &raw mut inner.wr;
        *place = Some(Posted {
            buffer: buffer.0,
            attached,
            tag,
            registrations,
            since: since.unwrap_or(now),
        });
        self.newest = sequence.wrapping_add(1);
        Ok(wr)
    }

    /// Defers the requests from `first` to `last` until the doorbell. The structures that contain
    /// them must be neither freed nor reused before [`Self::take_deferred`].
    pub(crate) fn defer(
        &mut self,
        first: *mut cbindings::ib_send_wr,
        last: *mut cbindings::ib_send_wr,
    ) {
        self.deferred = [self.take_deferred(first), last];
    }

    /// Returns whether requests wait for the doorbell.
    pub(crate) fn is_deferring(&self) -> bool {
        let [first, _] = self.deferred;
        !first.is_null()
    }

    /// Links the deferred requests before `then`, and returns the first of all, which must be
    /// posted before the lock is released.
    pub(crate) fn take_deferred(
        &mut self,
        then: *mut cbindings::ib_send_wr,
    ) -> *mut cbindings::ib_send_wr {
        let [first, last] = core::mem::replace(&mut self.deferred, [null_mut(); 2]);
        if first.is_null() {
            return then;
        }
        // SAFETY: `last` was deferred, so it is live until now, as `defer` demands, and the driver
        // does not know it yet.
        unsafe { (*last).next = then };
        first
    }

    /// Takes back all Sends up to the one posted as `sequence`. Returns whether there is a waiter,
    /// and the transfers.
    pub(crate) fn retire(&mut self, sequence: u64) -> (bool, CompletedTransfers<H>) {
        if let Some((_, since)) = self.measured.take_if(|(posted, _)| *posted <= sequence) {
            let now = clock::nanoseconds();
            self.min_rtt.record(now.saturating_sub(since), now);
        }
        let mut completed = Chain::new();
        while self.oldest <= sequence && self.oldest != self.newest {
            let oldest = self.oldest;
            self.free_posted(oldest, &mut completed);
            self.oldest = oldest.wrapping_add(1);
        }
        (self.policy.wakes_waiter(), completed)
    }

    /// Returns the tag of the oldest posted Send that has Writes before it.
    ///
    /// Each such Send is signalled. So if a Write failed, and the completions before that were
    /// handled, it is one of this message.
    pub(crate) fn oldest_with_writes(&self) -> Option<H::SendTag> {
        let mut posted = (self.oldest..self.newest).filter_map(|sequence| {
            let place = self.place(sequence)?;
            self.posted.get(place)?.as_ref()
        });
        let has_writes = |posted: &&Posted<H>| {
            let attached = posted.attached.as_deref();
            attached.is_some_and(|attached| !attached.is_gathered())
        };
        posted.find(has_writes)?.tag
    }

    /// Returns the sequence number of the last posted Send, if any is outstanding.
    pub(crate) fn last_posted(&self) -> Option<u64> {
        (self.oldest != self.newest).then(|| self.newest.wrapping_sub(1))
    }

    /// Returns the ages at `now` of the outstanding Sends. A Send after batches of its transfer is
    /// as old as the first of these.
    pub(crate) fn ages(&self, now: Jiffies) -> impl Iterator<Item = Jiffies> + '_ {
        (self.oldest..self.newest).filter_map(move |sequence| {
            let posted = self.posted.get(self.place(sequence)?)?.as_ref()?;
            Some(now.wrapping_sub(posted.since))
        })
    }

    /// Takes the transfers of all Sends, because the queue is drained. The device lost the
    /// completions that are outstanding. They may still arrive, so the buffers stay in the queue.
    pub(crate) fn retire_all(&mut self) -> CompletedTransfers<H> {
        self.drained = true;
        self.oldest = self.newest;
        let mut completed = Chain::new();
        for posted in self.posted.iter_mut().flatten() {
            if let Some(attached) = posted.attached.take() {
                completed.push(attached);
            }
        }
        completed
    }

    /// Returns whether the queue pair is drained, so that a late completion must be ignored.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained
    }

    /// Keeps those of `transfers` that are wanted for later. The others are to be freed after the
    /// lock is released.
    pub(crate) fn keep(&mut self, transfers: &mut EmptyTransfers<H>) {
        if self.open {
            self.policy.keep(transfers);
        }
    }

    fn place(&self, sequence: u64) -> Option<usize> {
        let places = u64::try_from(self.posted.len()).ok()?;
        usize::try_from(sequence.checked_rem(places)?).ok()
    }

    fn free_posted(&mut self, sequence: u64, completed: &mut CompletedTransfers<H>) {
        let place = self.place(sequence);
        let Some(place) = place.and_then(|place| self.posted.get_mut(place)) else {
            return;
        };
        if let Some(posted) = place.take() {
            self.registrations = self.registrations.saturating_add(posted.registrations);
            if let Some(mut attached) = posted.attached {
                // Before the caller asks for waiters.
                attached.release_credits();
                completed.push(attached);
            }
            self.policy.completed(Buffer(posted.buffer));
        }
    }
}
