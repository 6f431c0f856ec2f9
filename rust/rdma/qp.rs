// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: reliable connections as the device sees them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod respond;

pub use respond::{
    Unposted,
    UnpostedReads, //
};

use crate::{
    cm::Id,
    cq::{
        CompletionQueue,
        WcStatus, //
    },
    dma::Direction,
    error::not_connected,
    in_flight::InFlight,
    invalidation::LocalInvalidate,
    mr,
    receive,
    send::{
        self,
        Doorbell,
        Verb, //
    },
    sink::Sinks,
    transfer::{
        self,
        Inserted, //
    },
    Handler,
    ProtectionDomain, //
};
use core::{
    mem::offset_of,
    ptr::{
        null,
        null_mut, //
    },
    sync::atomic::{
        AtomicUsize,
        Ordering, //
    },
};
use kernel::{
    error::{
        to_result,
        Result, //
    },
    new_mutex, new_spinlock,
    prelude::*,
    sync::{
        Arc,
        Mutex,
        SpinLock,
        UniqueArc, //
    },
};

/// The shape of a queue pair.
pub struct Parameters {
    /// How many Receives may be posted at the same time.
    pub receives: u32,
    /// How many Send buffers there are at most, and how many from the start.
    pub send_buffers: usize,
    /// See above.
    pub first_send_buffers: usize,
    /// How long each is.
    pub send_bytes: usize,
    /// Scatter elements of a Send at most, and of a Write, if the device takes as many.
    pub send_elements: usize,
    /// How many regions are registered, and later invalidated, for one Send at most.
    pub regions_per_send: u32,
    /// How many RDMA Reads and Writes may be posted at the same time. Half of them is a batch: longer
    /// transfers go in several.
    pub transfers: u32,
}

/// A queue pair, its completion queue and its Send buffers.
///
/// # Invariants
///
/// The queue pair of `id` was made by `rdma_create_qp` in `pd` with `cq` for both directions. It
/// is destroyed only in `drop`, after a drain that followed the end of all posting.
#[pin_data(PinnedDrop)]
pub struct QueuePair<H: Handler> {
    // Teardown in `drop` destroys the queue pair; then the fields go in this order. No callback runs when
    // the first is gone.
    _cq: CompletionQueue<H>,
    /// Completion of Writes, registrations and invalidations that asked for none: they failed.
    failed: raw::ib_cqe,
    /// The same for transfers that are under way, and what they need.
    transfer_failed: raw::ib_cqe,
    /// Scatter elements of one Write, and of one Read.
    max_elements: [usize; 2],
    /// [`Parameters::regions_per_send`].
    regions_per_send: usize,
    /// How many requests of all transfers are posted at the same time, and how many of one.
    transfers: usize,
    batch: usize,
    /// Regions that may still be invalidated at the same time.
    invalidations: AtomicUsize,
    /// Each drain takes a request, for which there is room once on either side.
    #[pin]
    draining: Mutex<()>,
    /// [`crate::device::Limits::remote_invalidation`].
    remote_invalidation: bool,
    /// Regions for what Reads bring, if that must be registered.
    sinks: Option<Arc<Sinks<H>>>,
    #[pin]
    receives: SpinLock<receive::State>,
    #[pin]
    sends: SpinLock<send::State<H>>,
    /// Regions that are registered here and that nobody has any more.
    deferred_dereg: Arc<mr::DeferredDereg<H>>,
    pd: Arc<ProtectionDomain<H>>,
    id: Arc<Id<H>>,
}

// SAFETY: Verbs may be called from any task; `failed` never changes.
unsafe impl<H: Handler> Send for QueuePair<H> {}
// SAFETY: As above, and what changes is behind locks.
unsafe impl<H: Handler> Sync for QueuePair<H> {}

impl<H: Handler> QueuePair<H> {
    /// Makes the queue pair of `id` in `pd`, which is on its device. [`EINVAL`] if it has one. Sleeps.
    ///
    /// [`EINVAL`] and [`ENOMEM`] may also mean that the device cannot do that many work requests of
    /// that size, though its limits say so.
    pub fn new(
        id: Arc<Id<H>>,
        pd: Arc<ProtectionDomain<H>>,
        parameters: &Parameters,
    ) -> Result<Arc<Self>> {
        if !pd.serves(&id) {
            return Err(EINVAL);
        }
        let buffers = u32::try_from(parameters.send_buffers)?;
        let regions_per_send = usize::try_from(parameters.regions_per_send)?;
        let room = usize::try_from(parameters.receives)?;
        let per_send = parameters
            .regions_per_send
            .saturating_mul(2)
            .saturating_add(1);
        let at_once = usize::try_from(parameters.transfers)?;
        let batch = at_once.div_ceil(2);
        let limits = id.limits()?;
        let transfers = parameters
            .transfers
            .saturating_mul(limits.requests_per_read());
        let invalidations = regions_per_send.saturating_mul(parameters.send_buffers);
        // One more on either side is for the drain.
        let max_send_wr = buffers
            .saturating_mul(per_send)
            .saturating_add(transfers)
            .saturating_add(1);
        let max_recv_wr = parameters.receives.saturating_add(1);
        let entries = max_send_wr.saturating_add(max_recv_wr);
        let cq = CompletionQueue::new(id.clone(), entries)?;
        let sends = send::State::new(
            &pd,
            parameters.send_buffers,
            parameters.first_send_buffers,
            parameters.send_bytes,
            at_once,
            GFP_KERNEL,
        )?;
        let receives = receive::State {
            open: true,
            drained: false,
            room,
            posted: InFlight::new(),
        };
        let deferred_dereg = mr::DeferredDereg::new()?;
        let sinks = match limits.sink_pages {
            Some(pages) if parameters.transfers != 0 => Some(Sinks::new(pd.clone(), pages)?),
            _ => None,
        };
        let max_elements = [
            limits.write_elements.min(parameters.send_elements),
            limits.read_elements,
        ];
        let mut attributes = raw::ib_qp_init_attr {
            send_cq: cq.as_raw(),
            recv_cq: cq.as_raw(),
            cap: raw::ib_qp_cap {
                max_send_wr,
                max_recv_wr,
                max_send_sge: u32::try_from(max_elements[0])?,
                max_recv_sge: 1,
                ..Default::default()
            },
            sq_sig_type: raw::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: raw::ib_qp_type_IB_QPT_RC,
            port_num: u32::MAX,
            ..Default::default()
        };
        let place = UniqueArc::new_uninit(GFP_KERNEL)?;
        id.claim_queue()?;
        // SAFETY: The id is live and has no queue pair, `pd` and `cq` are on its device. The value made
        // below destroys the queue pair before it gives them up.
        to_result(unsafe { raw::rdma_create_qp(id.as_raw(), pd.as_raw(), &mut attributes) })
            .inspect_err(|_| id.release_queue())?;
        // INVARIANT: Just made so. Nothing fails from here on.
        let made = place.pin_init_with(pin_init!(Self {
            failed: raw::ib_cqe {
                done: Some(request_failed::<H>),
            },
            transfer_failed: raw::ib_cqe {
                done: Some(transfer_failed::<H>),
            },
            max_elements,
            regions_per_send,
            transfers: at_once,
            batch,
            invalidations: AtomicUsize::new(invalidations),
            draining <- new_mutex!((), "rdma::draining"),
            remote_invalidation: limits.remote_invalidation,
            sinks,
            receives <- new_spinlock!(receives, "rdma::receives"),
            sends <- new_spinlock!(sends, "rdma::sends"),
            deferred_dereg,
            _cq: cq,
            pd,
            id,
        }));
        match made {
            Ok(queue) => Ok(queue.into()),
            Err(never) => match never {},
        }
    }

    /// The domain that it is in.
    pub fn pd(&self) -> &Arc<ProtectionDomain<H>> {
        &self.pd
    }

    /// The id that it belongs to.
    pub fn id(&self) -> &Id<H> {
        &self.id
    }

    /// Whether what was made in `pd` may be posted here.
    fn is_in(&self, pd: &Arc<ProtectionDomain<H>>) -> bool {
        Arc::ptr_eq(&self.pd, pd)
    }

    /// [`crate::device::Limits::remote_invalidation`].
    pub(crate) fn remote_invalidation(&self) -> bool {
        self.remote_invalidation
    }

    pub(crate) fn deferred_dereg(&self) -> &Arc<mr::DeferredDereg<H>> {
        &self.deferred_dereg
    }

    pub(crate) fn sends(&self) -> &SpinLock<send::State<H>> {
        &self.sends
    }

    pub(crate) fn receives(&self) -> &SpinLock<receive::State> {
        &self.receives
    }

    /// Posts all of `buffers` with one doorbell. What could not be posted stays in `buffers`.
    /// [`EINVAL`] if one is of another domain, or if more would be posted than may be. Does not sleep.
    pub fn post_receives(&self, buffers: &mut receive::Buffers<H>) -> Result {
        if buffers.is_empty() {
            return Ok(());
        }
        if !buffers.all_in(|pd| self.is_in(pd)) {
            return Err(EINVAL);
        }
        let mut receives = self.receives.lock();
        if !receives.open {
            return Err(not_connected());
        }
        let left = receives.room.checked_sub(buffers.len());
        receives.room = left.ok_or(EINVAL)?;
        let first = buffers.take_work_requests(self, &mut receives.posted);
        let mut bad = null();
        // SAFETY: The list was just made, of requests that live until their completions take them
        // back. The queue pair is live by the type invariants.
        let result = to_result(unsafe { raw::ib_post_recv(self.as_raw(), first, &mut bad) });
        if result.is_err() {
            // SAFETY: The device posted what precedes `bad`, and nothing from there on.
            unsafe { buffers.reclaim(bad, &mut receives.posted) };
            receives.room = receives.room.saturating_add(buffers.len());
        }
        result
    }

    /// A Send buffer, or [`None`] if all are posted: [`Handler::send_resumed`] tells of the next.
    pub fn take_send_buffer(&self) -> Option<send::Buffer<H>> {
        self.sends.lock().take()
    }

    /// As [`Self::take_send_buffer`], but if all are posted, and there may be more, makes one. Sleeps.
    pub fn make_send_buffer(&self) -> Option<send::Buffer<H>> {
        let mut sends = self.sends.lock();
        let Some(len) = sends.reserve() else {
            return sends.take();
        };
        drop(sends);
        let made = send::Inner::new(&self.pd, len, GFP_KERNEL);
        made.map(send::Buffer).ok().or_else(|| {
            let mut sends = self.sends.lock();
            sends.cancel();
            sends.take()
        })
    }

    /// As [`Self::take_send_buffer`], for a Send that need not be soon: leaves some to those that must
    /// go out for others to come back, and does not promise to tell of the next.
    pub fn take_spare_send_buffer(&self) -> Option<send::Buffer<H>> {
        self.sends.lock().take_spare()
    }

    /// Gives back a buffer that is not to be sent after all.
    pub fn put_back_send_buffer(&self, buffer: send::Buffer<H>) {
        self.sends.lock().put_back(buffer);
    }

    /// Registers `regions`, then sends the first `len` bytes of `buffer`, with `inserted` among them,
    /// with one doorbell at most. Does not sleep.
    ///
    /// The regions are as good as valid afterwards even if this fails, for then some may have
    /// been posted. A failure is the end of the connection, also for what was deferred before.
    /// [`EINVAL`] if something is of another domain, or if there are more regions than a Send may have.
    pub fn post_send(
        &self,
        regions: mr::Prepared<H>,
        buffer: send::Buffer<H>,
        len: usize,
        inserted: Option<Inserted<H>>,
        doorbell: Doorbell,
    ) -> (mr::Registered<H>, Result) {
        let inserted = inserted.map(|inserted| inserted.0);
        let memory_is_here = inserted
            .as_ref()
            .is_none_or(|memory| memory.is_for(self, Direction::ToDevice));
        if !memory_is_here || !regions.all_in(|pd| self.is_in(pd)) {
            self.put_back_send_buffer(buffer);
            drop(regions);
            return (mr::Registered::new(), Err(EINVAL));
        }
        if regions.len() > self.regions_per_send {
            self.put_back_send_buffer(buffer);
            return (regions.into_registered(&self.deferred_dereg), Err(EINVAL));
        }
        let mut regions = regions.into_registered(&self.deferred_dereg);
        let mut sends = self.sends.lock();
        if !sends.open {
            sends.put_back(buffer);
            return (regions, Err(not_connected()));
        }
        let send = match sends.enqueue(self, buffer, len, Verb::Send, inserted) {
            Ok(send) => send,
            Err(error) => return (regions, Err(error)),
        };
        let first = regions.link_registrations(self.failed_cqe(), send);
        // SAFETY: The request is in the queue of posted Sends, which is locked.
        let signalled = unsafe { (*send).send_flags } & raw::ib_send_flags_IB_SEND_SIGNALED != 0;
        if doorbell == Doorbell::Defer && !signalled {
            sends.defer(first, send);
            return (regions, Ok(()));
        }
        // If this fails the Send stays where it is until the drain, as some device may have posted what it says
        // it did not.
        // SAFETY: The list was just made. Its registrations live in `regions`, which can only be
        // freed after a drain, a later completion, or `ring`; its Send lives in the queue of posted
        // ones.
        let result = unsafe { self.post(&mut sends, first) };
        (regions, result)
    }

    /// Tells the device of Sends that were deferred. Does not sleep. A failure is the end of the
    /// connection.
    pub fn ring(&self) -> Result {
        let mut sends = self.sends.lock();
        if sends.is_deferring() {
            // SAFETY: There is nothing to add to what waits.
            unsafe { self.post(&mut sends, null_mut()) }
        } else {
            Ok(())
        }
    }

    /// Posts what was deferred, then the list from `first`. If that fails nothing can be posted any
    /// more, as what is missing from now on would be missed by nobody.
    ///
    /// # Safety
    ///
    /// The list, which may be empty if something was deferred, consists of requests that live until
    /// they complete or the queue pair is drained.
    pub(crate) unsafe fn post(
        &self,
        sends: &mut send::State<H>,
        first: *mut raw::ib_send_wr,
    ) -> Result {
        let first = sends.take_deferred(first);
        let mut bad = null();
        // SAFETY: The caller vouches for the list, and whoever deferred requests for those. The
        // queue pair is live by the type invariants.
        let result = to_result(unsafe { raw::ib_post_send(self.as_raw(), first, &mut bad) });
        if result.is_err() {
            sends.open = false;
        }
        result
    }

    /// Posts the first `len` bytes of `buffer` as a Send, and before it the requests of `transfer` from
    /// `posted` on, with one doorbell. Does not sleep.
    ///
    /// The outer error says that the buffer is not one of ours, and nothing was posted; the inner one
    /// that perhaps some was, and that both stand in `sends` until the queue is drained.
    pub(crate) fn post_message(
        &self,
        sends: &mut send::State<H>,
        mut transfer: Option<KBox<transfer::Inner<H>>>,
        posted: usize,
        buffer: send::Buffer<H>,
        len: usize,
        verb: Verb,
    ) -> Result<Result> {
        let room = transfer.as_ref().map_or(0, |transfer| transfer.room);
        // The requests do not move with their box.
        let requests = transfer.as_mut().map(|transfer| &raw mut **transfer);
        let send = sends
            .enqueue(self, buffer, len, verb, transfer)
            .inspect_err(|_| {
                sends.leave(room);
            })?;
        let first = match requests {
            // SAFETY: The box is in the queue of posted Sends, which only the lock's owner changes.
            Some(requests) => unsafe {
                let batch = posted..(*requests).len();
                (*requests).link(batch, self.failed_cqe(), send)
            },
            None => send,
        };
        // SAFETY: The list was just made. All of it lives in the queue of posted Sends until a
        // completion covers it.
        Ok(unsafe { self.post(sends, first) })
    }

    /// Waits until nothing is left in the Send queue, where nobody posts any more. Sleeps.
    pub(crate) fn drain_sends(&self) {
        let _alone = self.draining.lock();
        // SAFETY: The queue pair is live by the type invariants, and there is room for the request
        // of one drain. Nobody posts any more.
        unsafe { raw::ib_drain_sq(self.as_raw()) };
    }

    /// How many scatter elements one request takes.
    pub(crate) fn max_elements(&self, direction: Direction) -> usize {
        let [write, read] = self.max_elements;
        match direction {
            Direction::ToDevice => write,
            Direction::FromDevice => read,
        }
    }

    /// What registers the memory of a transfer in `direction`, if that must be.
    pub(crate) fn sinks(&self, direction: Direction) -> Option<&Arc<Sinks<H>>> {
        match direction {
            Direction::ToDevice => None,
            Direction::FromDevice => self.sinks.as_ref(),
        }
    }

    /// Invalidates `regions` with one doorbell; [`Handler::invalidated`] or
    /// [`Handler::invalidate_failed`] gives back both arguments, if there are any regions. Does not sleep.
    ///
    /// If it cannot be posted, both come back at once: the connection is at its end. So it is if more
    /// regions would be invalidated at the same time than all Sends together have, or none.
    pub fn post_invalidate(
        &self,
        regions: mr::Registered<H>,
        context: H::InvalidateContext,
    ) -> Result<(), (mr::Registered<H>, H::InvalidateContext)> {
        let mut sends = self.sends.lock();
        // The lock keeps others from taking room; completions only make some.
        let (room, count) = (self.invalidations.load(Ordering::Relaxed), regions.len());
        if !sends.open || !regions.are_on(self) || count > room {
            return Err((regions, context));
        }
        self.invalidations.fetch_sub(count, Ordering::Relaxed);
        let (fence, first) = regions.into_invalidation(self, self.failed_cqe(), context)?;
        // SAFETY: It was just given up. Until its completion takes it out it is nobody else's. If there
        // is none it is freed with the queue pair.
        unsafe { sends.invalidations_in_flight.add(fence) };
        // SAFETY: The list was just made; its regions live until the completion of the last takes
        // them back. Their own registrations, if deferred, come first.
        match unsafe { self.post(&mut sends, first) } {
            Ok(()) => Ok(()),
            // The box stays, as some device may have posted what it says it did not.
            // SAFETY: It stands in the list, which is locked.
            Err(_) => unsafe { LocalInvalidate::lose(fence) }.map_or(Ok(()), Err),
        }
    }

    /// The device is done with `count` invalidations.
    pub(crate) fn invalidated(&self, count: usize) {
        self.invalidations.fetch_add(count, Ordering::Relaxed);
    }

    /// Ends all posting and waits until no work request is left. Idempotent. Sleeps; not for a
    /// completion handler.
    pub fn drain(&self) {
        self.receives.lock().open = false;
        let mut sends = self.sends.lock();
        sends.open = false;
        // Never posted, so nobody will miss it.
        sends.take_deferred(null_mut());
        drop(sends);
        let alone = self.draining.lock();
        // SAFETY: The queue pair is live by the type invariants, and both its sides have room for
        // the requests of one drain. Nobody posts any more.
        unsafe { raw::ib_drain_qp(self.as_raw()) };
        self.receives.lock().drained = true;
        let mut sends = self.sends.lock();
        let spent = sends.retire_all();
        let lost = core::mem::replace(&mut sends.invalidations_in_flight, InFlight::new());
        drop(sends);
        drop(spent);
        for fence in lost.iter() {
            // SAFETY: It stands in the list, which is ours, and callbacks that come too late leave it there
            // with all that it holds.
            if let Some((regions, context)) = unsafe { LocalInvalidate::<H>::lose(fence) } {
                self.id.context().invalidate_failed(regions, context);
            }
        }
        // A completion may yet come, and then finds its fence.
        self.sends.lock().invalidations_in_flight = lost;
        drop(alone);
        // No request names a region any more. One that stayed registered would be within reach of
        // whoever the domain is used with next. Those of Reads that were lost do; a domain that Reads
        // came to is not used again.
        self.deferred_dereg.close();
    }

    fn as_raw(&self) -> *mut raw::ib_qp {
        // SAFETY: The id is live by the type invariants, and its queue pair is set.
        unsafe { (*self.id.as_raw()).qp }
    }

    fn failed_cqe(&self) -> *mut raw::ib_cqe {
        (&raw const self.failed).cast_mut()
    }

    pub(crate) fn transfer_failed_cqe(&self) -> *mut raw::ib_cqe {
        (&raw const self.transfer_failed).cast_mut()
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for QueuePair<H> {
    fn drop(self: Pin<&mut Self>) {
        self.drain();
        // SAFETY: The queue pair is live by the type invariants, drained and unknown to anybody
        // else: only `&self` methods name it.
        unsafe { raw::rdma_destroy_qp(self.id.as_raw()) };
        self.id.release_queue();
    }
}

/// # Safety
///
/// Only the core calls this, for a request of a [`QueuePair<H>`].
unsafe extern "C" fn request_failed<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { crate::cq::called_for::<H>(cq, wc) };
    let Some(failure) = WcStatus::of(wc.status) else {
        return;
    };
    // SAFETY: The request was posted with the address of its queue pair's `failed`, and a queue pair
    // outlives its callbacks.
    let queue = unsafe { queue_of::<H>(wc, offset_of!(QueuePair<H>, failed)) };
    let message = match failure.is_flush() {
        true => None,
        false => queue.sends.lock().oldest_with_writes(),
    };
    match message {
        Some(message) => handler.write_failed(message, failure),
        None => handler.request_failed(failure),
    }
}

/// # Safety
///
/// Only the core calls this, for a request of a [`QueuePair<H>`].
unsafe extern "C" fn transfer_failed<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { crate::cq::called_for::<H>(cq, wc) };
    let Some(failure) = WcStatus::of(wc.status) else {
        return;
    };
    // SAFETY: The request was posted with the address of its queue pair's `transfer_failed`, and a queue pair
    // outlives its callbacks.
    let queue = unsafe { queue_of::<H>(wc, offset_of!(QueuePair<H>, transfer_failed)) };
    if !failure.is_flush() {
        queue.sends.lock().transfer_failure = Some(failure);
    }
    handler.request_failed(failure);
}

/// The queue pair whose field at `offset` the request of `wc` completed to.
///
/// # Safety
///
/// It did, and the queue pair lives for `'a`.
unsafe fn queue_of<'a, H: Handler>(wc: &raw::ib_wc, offset: usize) -> &'a QueuePair<H> {
    // SAFETY: The caller vouches for the field, and for the life of what it is part of.
    unsafe {
        &*wc.__bindgen_anon_1
            .wr_cqe
            .byte_sub(offset)
            .cast::<QueuePair<H>>()
    }
}
