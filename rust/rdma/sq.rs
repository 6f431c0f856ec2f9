// SPDX-License-Identifier: GPL-2.0

//! The Send queue of a queue pair: what is posted there, and what the layer above decides about it.
//!
//! Most Sends need no completion of their own: a reliable connection completes in order, so the
//! completion of one Send covers those before it. Which Send asks for one is up to the [`SendPolicy`], which is
//! kept under the lock of this queue, so that the layer above needs none of its own.

use crate::{
    chain::Chain,
    clock,
    context::Context,
    in_flight::InFlight,
    pd::ProtectionDomain,
    round_trip::LeastRoundTrip,
    send::{
        Buffer,
        Inner,
        Verb, //
    },
    transfer::{
        self,
        Empty, //
    },
    wc::WcStatus, //
};
use core::ptr::{
    null,
    null_mut, //
};
use kernel::{
    error::Result,
    ffi::c_void,
    prelude::*,
    sync::Arc,
    time::Jiffies, //
};

/// What the layer above decides about a Send queue.
///
/// Its methods are called with the queue's lock held. They must not sleep, nor drop values whose drop sleeps.
pub trait SendPolicy<H: Context>: Send + Unpin + 'static {
    /// Whether the Send that is posted next asks for a completion.
    fn asks_for_completion(&mut self, send: &NextSend) -> bool;

    /// `buffer` is free: its Send completed, or was not posted.
    fn put_back(&mut self, buffer: Buffer<H>);

    /// The Reads or Writes that so many SQ credits were reserved for are done, or were not posted.
    fn release(&mut self, credits: usize);

    /// Keeps `transfer` for the next one; or returns it, to be freed.
    fn keep(&mut self, transfer: Empty<H>) -> Option<Empty<H>>;

    /// Whether to call [`Handler::send_resumed`], now that a completion gave something back.
    ///
    /// [`Handler::send_resumed`]: crate::Handler::send_resumed
    fn resumes(&mut self) -> bool;
}

/// What a [`SendPolicy`] may want to know of a Send.
pub struct NextSend {
    /// RDMA Writes go before it. What they are of is kept until a completion.
    pub has_writes: bool,
    /// Memory that is not copied is part of it. It is kept until a completion.
    pub has_inserted: bool,
    /// The kernel's coarse clock.
    pub now: Jiffies,
}

/// A posted Send.
struct Posted<H: Context> {
    buffer: KBox<Inner<H>>,
    /// RDMA Writes that precede it in its chain, or memory that is part of it.
    attached: Option<KBox<transfer::Inner<H>>>,
    tag: Option<H::SendTag>,
    since: Jiffies,
}

/// A [flush](crate::QueuePair::flush_sends), of which there is one at a time. Completions find it by the first field.
#[repr(C)]
pub(crate) struct Flush {
    pub(crate) cqe: raw::ib_cqe,
    /// The queue pair, when it was posted once. It does not change after that.
    pub(crate) queue: *const c_void,
    /// The last Send before it, while it is posted.
    pub(crate) last: Option<u64>,
}

// SAFETY: The pointers in it are to a function, and to a queue pair that contains it.
unsafe impl Send for Flush {}

/// The Send side of a queue pair.
pub(crate) struct State<H: Context, P> {
    /// Whether posting is allowed: from creation to the drain, or to the first error.
    pub(crate) open: bool,
    pub(crate) policy: P,
    /// Posted Sends at their sequence number modulo the length.
    posted: KVec<Option<Posted<H>>>,
    /// Sequence number of the oldest posted Send, and of the next.
    oldest: u64,
    newest: u64,
    /// Transfers that are posted in batches, or that a device lost.
    pub(crate) rw_contexts: InFlight,
    /// Invalidations that are posted, or that a device lost.
    pub(crate) invalidations_in_flight: InFlight,
    /// Regions that may still be invalidated at the same time.
    pub(crate) invalidations: usize,
    drained: bool,
    /// Why a request of a transfer failed that asked for no completion. The next of them that did is of the
    /// same transfer.
    pub(crate) transfer_failure: Option<WcStatus>,
    pub(crate) flush: Flush,
    /// A Send that asked for a completion, and when it was posted.
    measured: Option<(u64, u64)>,
    pub(crate) round_trip: LeastRoundTrip,
    /// First and last of the requests that wait for the doorbell; null if there is none. They live:
    /// Sends in `posted`, registrations in regions that cannot be had back before it rang.
    deferred: [*mut raw::ib_send_wr; 2],
}

/// What Sends were posted with, for its owner to drop when the lock is released.
pub(crate) type Spent<H> = Chain<transfer::Inner<H>>;

impl<H: Context, P: SendPolicy<H>> State<H, P> {
    /// For `count` Sends that are posted at the same time. Sleeps.
    pub(crate) fn new(count: usize, invalidations: usize, policy: P) -> Result<Self> {
        let mut posted = KVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
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
            invalidations,
            drained: false,
            transfer_failure: None,
            flush: Flush {
                cqe: raw::ib_cqe { done: None },
                queue: null(),
                last: None,
            },
            measured: None,
            round_trip: LeastRoundTrip::default(),
            deferred: [null_mut(); 2],
        })
    }

    /// Makes `buffer` the Send of its first `len` bytes that follows the last posted one on `queue`, and
    /// returns its work request, to be posted before the lock is given up. With it goes `attached`.
    /// It completes to `done`, if it asks for a completion or fails.
    ///
    /// `verb` says what kind of Send it is. One that asks for a completion must not be deferred: it
    /// may be what others wait for. [`EINVAL`] if the buffer is not one of `pd`, or if more Sends would be
    /// posted than may be.
    #[expect(clippy::too_many_arguments)]
    pub(crate) fn enqueue<Q>(
        &mut self,
        queue: &Q,
        done: unsafe extern "C" fn(*mut raw::ib_cq, *mut raw::ib_wc),
        pd: &Arc<ProtectionDomain<H>>,
        mut buffer: Buffer<H>,
        len: usize,
        verb: Verb,
        mut attached: Option<KBox<transfer::Inner<H>>>,
        tag: Option<H::SendTag>,
    ) -> Result<*mut raw::ib_send_wr> {
        let sequence = self.newest;
        let place = self.place(sequence).ok_or(EINVAL)?;
        let Some(place @ None) = self.posted.get_mut(place) else {
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
        let inserted = attached.as_ref().map(|memory| memory.is_inserted());
        let now = clock::now();
        let signal = self.policy.asks_for_completion(&NextSend {
            has_writes: inserted == Some(false),
            has_inserted: inserted == Some(true),
            now,
        });
        let since = attached.as_ref().and_then(|transfer| transfer.begun);
        let inner = &mut buffer.0;
        inner.prepare(sge, verb);
        inner.cqe.done = Some(done);
        inner.queue = (&raw const *queue).cast();
        inner.sequence = sequence;
        // The elements do not move with their box.
        if let Some(elements) = attached.as_mut().and_then(|memory| memory.surround(sge)) {
            inner.wr.sg_list = elements.as_mut_ptr();
            // CAST: Fewer than any device takes.
            inner.wr.num_sge = elements.len() as i32;
        }
        if signal {
            self.measured
                .get_or_insert_with(|| (sequence, clock::nanoseconds()));
            inner.wr.send_flags = raw::ib_send_flags_IB_SEND_SIGNALED;
        }
        // The request does not move with its box.
        let wr = &raw mut inner.wr;
        *place = Some(Posted {
            buffer: buffer.0,
            attached,
            tag,
            since: since.unwrap_or(now),
        });
        self.newest = sequence.wrapping_add(1);
        Ok(wr)
    }

    /// Lets the requests from `first` to `last` wait for the doorbell. What they are part of must
    /// not be freed or reused before [`Self::take_deferred`].
    pub(crate) fn defer(&mut self, first: *mut raw::ib_send_wr, last: *mut raw::ib_send_wr) {
        self.deferred = [self.take_deferred(first), last];
    }

    /// Whether something waits for the doorbell.
    pub(crate) fn is_deferring(&self) -> bool {
        let [first, _] = self.deferred;
        !first.is_null()
    }

    /// Links what waits for the doorbell before `then`, and returns the first of all, which is to be
    /// posted before the lock is given up.
    pub(crate) fn take_deferred(&mut self, then: *mut raw::ib_send_wr) -> *mut raw::ib_send_wr {
        let [first, last] = core::mem::replace(&mut self.deferred, [null_mut(); 2]);
        if first.is_null() {
            return then;
        }
        // SAFETY: What was deferred lives, and is not known to the device.
        unsafe { (*last).next = then };
        first
    }

    /// Takes back all Sends up to the one posted as `sequence`. Returns whether somebody waits.
    pub(crate) fn retire(&mut self, sequence: u64) -> (bool, Spent<H>) {
        if let Some((_, since)) = self.measured.take_if(|(posted, _)| *posted <= sequence) {
            let now = clock::nanoseconds();
            self.round_trip.add(now.saturating_sub(since), now);
        }
        let mut spent = Chain::new();
        while self.oldest <= sequence && self.oldest != self.newest {
            let oldest = self.oldest;
            self.free_posted(oldest, &mut spent);
            self.oldest = oldest.wrapping_add(1);
        }
        (self.policy.resumes(), spent)
    }

    /// The tag of the oldest posted Send that has Writes before it.
    ///
    /// A completion covers the Send of each such message. So if a Write failed, and the completions
    /// before that were seen, it is one of this message.
    pub(crate) fn oldest_with_writes(&self) -> Option<H::SendTag> {
        let mut posted = (self.oldest..self.newest).filter_map(|sequence| {
            let place = self.place(sequence)?;
            self.posted.get(place)?.as_ref()
        });
        let has_writes = |posted: &&Posted<H>| {
            let attached = posted.attached.as_deref();
            attached.is_some_and(|attached| !attached.is_inserted())
        };
        posted.find(has_writes)?.tag
    }

    /// The sequence number of the last posted Send, if one has not completed yet, as far as is known.
    pub(crate) fn last_posted(&self) -> Option<u64> {
        (self.oldest != self.newest).then(|| self.newest.wrapping_sub(1))
    }

    /// How old those Sends are `now` that have not completed yet, as far as is known. One that followed on batches of its transfer is as
    /// old as the first of these.
    pub(crate) fn ages(&self, now: Jiffies) -> impl Iterator<Item = Jiffies> + '_ {
        (self.oldest..self.newest).filter_map(move |sequence| {
            let posted = self.posted.get(self.place(sequence)?)?.as_ref()?;
            Some(now.wrapping_sub(posted.since))
        })
    }

    /// Takes back what all Sends were posted with, as the queue is drained. What is outstanding yet was lost
    /// by the device. It may still come up with it, so the buffers stay where they are.
    pub(crate) fn retire_all(&mut self) -> Spent<H> {
        self.drained = true;
        self.oldest = self.newest;
        let mut spent = Chain::new();
        for posted in self.posted.iter_mut().flatten() {
            if let Some(attached) = posted.attached.take() {
                spent.push(attached);
            }
        }
        spent
    }

    /// Whether the queue pair is drained, so that a completion which comes now must be ignored.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained
    }

    /// Keeps `transfer` for the next one; or returns it, to be freed when the lock is released.
    pub(crate) fn keep(&mut self, transfer: Empty<H>) -> Option<Empty<H>> {
        match self.open {
            true => self.policy.keep(transfer),
            false => Some(transfer),
        }
    }

    fn place(&self, sequence: u64) -> Option<usize> {
        let places = u64::try_from(self.posted.len()).ok()?;
        usize::try_from(sequence.checked_rem(places)?).ok()
    }

    fn free_posted(&mut self, sequence: u64, spent: &mut Spent<H>) {
        let place = self.place(sequence);
        let Some(place) = place.and_then(|place| self.posted.get_mut(place)) else {
            return;
        };
        if let Some(posted) = place.take() {
            if let Some(attached) = posted.attached {
                self.policy.release(attached.credits);
                spent.push(attached);
            }
            self.policy.put_back(Buffer(posted.buffer));
        }
    }
}
