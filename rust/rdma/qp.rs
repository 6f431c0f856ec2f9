// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: reliable connections of a device.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! This file has the life of a queue pair and its events. The files below post work requests:
//! [`send`], [`receive`](mod@receive), [`invalidate`], [`read_write`].

pub(crate) mod invalidate;
pub(crate) mod read_write;
pub(crate) mod receive;
mod send;

pub use self::{
    read_write::{
        BatchMemory,
        NotPosted, //
    },
    receive::Completing,
    send::SendQueue, //
};

use crate::prelude::*;
use crate::{
    cm::ConnectParameters,
    cq,
    handler::QueueEvent,
    in_flight::InFlight,
    lock_names,
    read_mr_pool::ReadMrPool,
    sq::{
        SendPolicy,
        SqState, //
    }, //
};
use core::mem::offset_of;
use kernel::{
    static_lock_class,
    sync::{
        Mutex,
        SpinLock,
        UniqueArc, //
    }, //
};

/// The key of a memory region that the peer invalidated with a message. The number may name another
/// region later, so the value must not outlive the handling of the message.
pub struct Invalidated<'a, H: Handler> {
    rkey: u32,
    /// The queue pair that the message arrived on.
    queue: &'a QueuePair<H>,
}

/// The sizes of a queue pair.
pub struct Parameters {
    /// The number of Receives that may be posted at the same time.
    pub receives: u32,
    /// The number of Sends that may be posted at the same time.
    pub sends: usize,
    /// The most scatter elements of a Send or Write, if the device supports as many.
    pub send_elements: usize,
    /// The most regions that are registered for one Send.
    pub regions_per_send: u32,
    /// The number of registrations for Sends that may be posted at the same time. At least as many
    /// as one Send may have.
    pub registrations: u32,
    /// The number of regions that may be invalidated at the same time.
    pub invalidations: u32,
    /// The number of RDMA Reads and Writes that may be posted at the same time.
    pub transfers: u32,
}

impl Parameters {
    /// Returns the number of work requests of the Send queue, on a device where an RDMA Read takes
    /// `requests_per_read` ([`crate::device::Limits::requests_per_read`]).
    pub fn send_queue_depth(&self, requests_per_read: u32) -> Result<u32> {
        let transfers = self.transfers.saturating_mul(requests_per_read);
        // One more is for the drain, and one for a barrier where it is used.
        let others = 1 + u32::from(self.transfers != 0);
        Ok(u32::try_from(self.sends)?
            .saturating_add(self.registrations)
            .saturating_add(self.invalidations)
            .saturating_add(transfers)
            .saturating_add(others))
    }
}

/// A queue pair and its completion queue.
///
/// # Invariants
///
/// The queue pair of `id` was made by `rdma_create_qp` in `pd` with `_cq` for both directions. It
/// is live as long as `ended` is false, and so as long as the lock of an `open` side is held:
/// posting ends before the queue pair does.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use rdma::{
///     receive::Buffers,
///     Handler,
///     QueuePair, //
/// };
///
/// /// Posts `count` Receives of `len` bytes. Each comes back in a method of `Handler`.
/// fn post_receives<H: Handler>(queue: &QueuePair<H>, count: usize, len: usize) -> Result {
///     let mut buffers = Buffers::new();
///     for _ in 0..count {
///         buffers.allocate(queue.pd(), len, GFP_KERNEL)?;
///     }
///     queue.post_receives(&mut buffers)
/// }
///
/// /// Ends the connection. No memory is under DMA and no handler runs when this returns.
/// fn close<H: Handler>(queue: &QueuePair<H>) {
///     // An error means that the connection has ended.
///     let _ = queue.disconnect();
///     queue.drain();
/// }
/// ```
#[pin_data(PinnedDrop)]
pub struct QueuePair<H: Handler> {
    // The drain in `drop`, if there was none before, destroys the queue pair; then the fields are
    // dropped in this order. No callback runs after the first is dropped.
    _cq: cq::CompletionQueue<H>,
    /// The completion entry of unsignalled RDMA Writes, registrations and invalidations, used if
    /// they fail.
    failed: cbindings::ib_cqe,
    /// The completion entry of unsignalled RDMA Reads, RDMA Writes whose Send is not posted yet,
    /// and the registrations that they need, used if they fail.
    transfer_failed: cbindings::ib_cqe,
    /// The most scatter elements of one Write or Send.
    max_write_elements: usize,
    /// The most scatter elements of one Read.
    max_read_elements: usize,
    /// [`Parameters::regions_per_send`].
    regions_per_send: usize,
    /// Whether the queue pair was drained and destroyed.
    #[pin]
    ended: Mutex<bool>,
    /// [`crate::device::Limits::remote_invalidation`].
    remote_invalidation: bool,
    /// The pool of regions for RDMA Reads, if their destination must be registered.
    read_mrs: Option<Arc<ReadMrPool<H>>>,
    #[pin]
    receives: SpinLock<receive::RqState>,
    handled: receive::HandledReceives<H>,
    #[pin]
    sends: SpinLock<SqState<H, H::SendPolicy>>,
    /// [`SendPolicy::spares`].
    spares: Arc<<H::SendPolicy as SendPolicy<H>>::Spares>,
    /// Regions that are registered here and were dropped by their owner.
    deferred_dereg: Arc<mr::DeferredDereg<H>>,
    pd: Arc<ProtectionDomain<H>>,
    id: Arc<Id<H>>,
}

// SAFETY: Any task may call verbs for the queue pair; `failed` and `transfer_failed` never change.
unsafe impl<H: Handler> Send for QueuePair<H> {}
// SAFETY: Any task may call verbs for the queue pair; `failed` and `transfer_failed` never change,
// and mutable state is behind locks, but for that in `handled`, which completion handlers alone
// use, one at a time.
unsafe impl<H: Handler> Sync for QueuePair<H> {}

impl<H: Handler> QueuePair<H> {
    /// Creates the queue pair of `id` in `pd`, which is on its device. [`EINVAL`] if it has one.
    /// Sleeps.
    ///
    /// [`EINVAL`], [`ENOMEM`], `EAGAIN` or `ENOSPC` may also mean that the device does not support
    /// that many work requests of that size, although its limits say so.
    pub fn new(
        id: Arc<Id<H>>,
        pd: Arc<ProtectionDomain<H>>,
        parameters: &Parameters,
        policy: H::SendPolicy,
    ) -> Result<Arc<Self>> {
        if !pd.serves(&id) {
            return Err(EINVAL);
        }
        let regions_per_send = usize::try_from(parameters.regions_per_send)?;
        let room = usize::try_from(parameters.receives)?;
        let limits = id.limits()?;
        let max_send_wr = parameters.send_queue_depth(limits.requests_per_read())?;
        // One more is for the drain.
        let max_recv_wr = parameters.receives.saturating_add(1);
        let entries = max_send_wr.saturating_add(max_recv_wr);
        let cq = cq::CompletionQueue::new(id.clone(), entries)?;
        let spares = policy.spares().clone();
        let sends = SqState::new(parameters, policy)?;
        let receives = receive::RqState::new(room);
        let deferred_dereg = mr::DeferredDereg::new()?;
        let read_mrs = match limits.read_mr_pages {
            Some(pages) if parameters.transfers != 0 => Some(ReadMrPool::new(pd.clone(), pages)?),
            _ => None,
        };
        let max_write_elements = limits.write_elements.min(parameters.send_elements);
        let mut attributes = cbindings::ib_qp_init_attr {
            send_cq: cq.as_raw(),
            recv_cq: cq.as_raw(),
            cap: cbindings::ib_qp_cap {
                max_send_wr,
                max_recv_wr,
                max_send_sge: u32::try_from(max_write_elements)?,
                max_recv_sge: 1,
                ..Default::default()
            },
            sq_sig_type: cbindings::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: cbindings::ib_qp_type_IB_QPT_RC,
            port_num: u32::MAX,
            event_handler: Some(queue_event::<H>),
            // The context lives as long as the id, and so longer than the queue pair.
            qp_context: Arc::as_ptr(id.context()).cast_mut().cast(),
            ..Default::default()
        };
        let place = UniqueArc::new_uninit(GFP_KERNEL)?;
        id.claim_queue()?;
        // SAFETY: The id is live, and `claim_queue` ensures that it has no queue pair; `pd` and
        // `cq` are on its device. The value made below destroys the queue pair before it drops
        // them.
        to_result(unsafe { cbindings::rdma_create_qp(id.as_raw(), pd.as_raw(), &mut attributes) })
            .inspect_err(|_| id.release_queue())?;
        // SAFETY: The queue pair was just created, and these fields never change.
        let (write_elements, read_elements) = unsafe {
            let queue = (*id.as_raw()).qp;
            ((*queue).max_write_sge, (*queue).max_read_sge)
        };
        // CAST: To the wider type.
        let (write_elements, read_elements) = (write_elements as usize, read_elements as usize);
        // INVARIANT: The queue pair was just created in `pd` with `cq`. Nothing fails from here on.
        let made = place.pin_init_with(pin_init!(Self {
            failed: cbindings::ib_cqe {
                done: Some(request_failed::<H>),
            },
            transfer_failed: cbindings::ib_cqe {
                done: Some(transfer_failed::<H>),
            },
            max_write_elements: max_write_elements.min(write_elements).max(1),
            max_read_elements: limits.read_elements.min(read_elements).max(1),
            regions_per_send,
            ended <- Mutex::new(false, lock_names::ENDED, static_lock_class!()),
            remote_invalidation: limits.remote_invalidation,
            read_mrs,
            receives <- SpinLock::new(receives, lock_names::RECEIVES, static_lock_class!()),
            handled: receive::HandledReceives::new(),
            sends <- SpinLock::new(sends, lock_names::SENDS, static_lock_class!()),
            spares,
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

    /// Returns the number of its completion queue, for traces.
    pub fn queue_number(&self) -> u32 {
        self._cq.number()
    }

    /// Returns the trace identifier of buffer `number`.
    fn completion_id(&self, number: u32) -> CompletionId {
        self._cq.completion_id(number)
    }

    /// Returns the protection domain of the queue pair.
    pub fn pd(&self) -> &Arc<ProtectionDomain<H>> {
        &self.pd
    }

    /// Returns the id that the queue pair belongs to.
    pub fn id(&self) -> &Id<H> {
        &self.id
    }

    /// Starts to connect. [`enotconn`] after the drain, as the CM uses the queue pair. Sleeps,
    /// and waits for the id's handler, so it must not be called there.
    pub fn connect(&self, parameters: &ConnectParameters<'_>) -> Result {
        let ended = self.ended.lock();
        if *ended {
            Err(enotconn())
        } else {
            self.id.connect(parameters)
        }
    }

    /// Accepts the peer that the id was made for; [`EINVAL`] if there is none. Otherwise as
    /// [`Self::connect`].
    pub fn accept(&self, parameters: &ConnectParameters<'_>) -> Result {
        let ended = self.ended.lock();
        if *ended {
            Err(enotconn())
        } else {
            self.id.accept(parameters)
        }
    }

    /// Starts to end the connection, if there is one. Does nothing after the drain, as the iWARP CM
    /// modifies the queue pair for this. An error means that there was no connection. Sleeps.
    pub fn disconnect(&self) -> Result {
        let ended = self.ended.lock();
        if *ended {
            Err(enotconn())
        } else {
            self.id.disconnect()
        }
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn cq(&self) -> *mut cbindings::ib_cq {
        self._cq.as_raw()
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn sends(&self) -> &SpinLock<SqState<H, H::SendPolicy>> {
        &self.sends
    }

    /// Returns the most scatter elements of one Write or Send, and of one Read.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn max_elements(&self) -> (usize, usize) {
        (self.max_write_elements, self.max_read_elements)
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn receives(&self) -> &SpinLock<receive::RqState> {
        &self.receives
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn handled(&self) -> &receive::HandledReceives<H> {
        &self.handled
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn deferred_dereg(&self) -> &Arc<mr::DeferredDereg<H>> {
        &self.deferred_dereg
    }

    /// Ends all posting, waits until no work request is left, destroys the queue pair, and releases
    /// the memory that the device may have accessed. Only the first call does that; later ones wait
    /// until it is done. Sleeps; must not be called in a completion handler.
    pub fn drain(&self) {
        self.receives.lock().open = false;
        let mut sends = self.sends.lock();
        sends.open = false;
        // Deferred requests were never posted, so no completion is missing.
        sends.take_deferred(null_mut());
        drop(sends);
        let mut ended = self.ended.lock();
        if core::mem::replace(&mut *ended, true) {
            return;
        }
        // SAFETY: The queue pair is live by the type invariants, as `ended` was false and is
        // locked. `new` left room on both sides for the requests of this one drain, and nobody
        // posts any more.
        unsafe { cbindings::ib_drain_qp(self.as_raw()) };
        // The drain does not report whether it failed. If the queue pair could not enter the error
        // state, or the drain's requests could not be posted, the device may still access memory;
        // it does not after the queue pair is destroyed.
        // SAFETY: The queue pair is live by the type invariants. Only methods that post and those
        // of the CM use it: both sides are closed, and the latter lock `ended`. The call returns
        // when the driver does not use it any more.
        // INVARIANT: `ended` was set above.
        unsafe { cbindings::rdma_destroy_qp(self.id.as_raw()) };
        self.handled.set_drained();
        let mut sends = self.sends.lock();
        let completed = sends.retire_all();
        let lost = core::mem::replace(&mut sends.invalidations_in_flight, InFlight::new());
        drop(sends);
        drop(completed);
        for entry in lost.iter() {
            // SAFETY: The entry is in the list that was just taken, so the box is lent and nobody
            // else accesses it: callbacks that come late see that the queue is drained, and leave
            // it alone.
            if let Some((regions, context)) = unsafe { mr::Invalidation::<H>::take_values(entry) } {
                self.id.context().invalidate_failed(regions, context);
            }
        }
        // A late completion still finds its entry.
        self.sends.lock().invalidations_in_flight = lost;
        // No request names a region any more. A region that stayed registered would be within reach
        // of the next peer of the domain. Regions of lost Reads do stay registered, but a domain
        // that is used for Reads serves no other connection.
        self.deferred_dereg.close();
    }

    /// Returns the queue pair, or null after it was destroyed.
    fn as_raw(&self) -> *mut cbindings::ib_qp {
        // SAFETY: `id` keeps the CM id live. Its `qp` was set by `rdma_create_qp`, and only the
        // drain changes it.
        unsafe { (*self.id.as_raw()).qp }
    }

    fn failed_cqe(&self) -> *mut cbindings::ib_cqe {
        (&raw const self.failed).cast_mut()
    }

    pub(crate) fn transfer_failed_cqe(&self) -> *mut cbindings::ib_cqe {
        (&raw const self.transfer_failed).cast_mut()
    }
}

#[pinned_drop]
impl<H: Handler> PinnedDrop for QueuePair<H> {
    fn drop(self: Pin<&mut Self>) {
        self.drain();
        self.id.release_queue();
    }
}

/// Passes an event of a queue pair to its context.
///
/// # Safety
///
/// Only the core calls this, for a queue pair of a [`QueuePair<H>`], with a valid event.
unsafe extern "C" fn queue_event<H: Handler>(
    event: *mut cbindings::ib_event,
    context: *mut c_void,
) {
    // SAFETY: `new` created the queue pair with this context, an `H` that the id keeps longer than
    // the queue pair.
    let context = unsafe { &*context.cast::<H>() };
    // SAFETY: The core passes an event that is valid during the call.
    context.queue_event(&unsafe { QueueEvent::new(&*event) });
}

/// Handles the failure of a request that asked for no completion.
///
/// # Safety
///
/// Only the core calls this, for a request of a [`QueuePair<H>`].
unsafe extern "C" fn request_failed<H: Handler>(
    cq: *mut cbindings::ib_cq,
    wc: *mut cbindings::ib_wc,
) {
    // SAFETY: The core passes these arguments for a `CompletionQueue<H>`, and both references are
    // used only during the callback.
    let (handler, wc) = unsafe { cq::callback_args::<H>(cq, wc) };
    let Some(failure) = WcStatus::of(wc) else {
        return;
    };
    // SAFETY: Requests that complete here were posted with the address of their queue pair's
    // `failed`, and a queue pair outlives its callbacks: it frees its completion queue first.
    let queue = unsafe { queue_of::<H>(wc, offset_of!(QueuePair<H>, failed)) };
    let tag = if failure.is_flush() {
        None
    } else {
        queue.sends.lock().oldest_with_writes()
    };
    match tag {
        Some(tag) => handler.write_failed(tag, failure),
        None => handler.request_failed(failure),
    }
}

/// Handles the failure of a request of a transfer that asked for no completion.
///
/// # Safety
///
/// Only the core calls this, for a request of a [`QueuePair<H>`].
unsafe extern "C" fn transfer_failed<H: Handler>(
    cq: *mut cbindings::ib_cq,
    wc: *mut cbindings::ib_wc,
) {
    // SAFETY: The core passes these arguments for a `CompletionQueue<H>`, and both references are
    // used only during the callback.
    let (handler, wc) = unsafe { cq::callback_args::<H>(cq, wc) };
    let Some(failure) = WcStatus::of(wc) else {
        return;
    };
    // SAFETY: Requests that complete here were posted with the address of their queue pair's
    // `transfer_failed`, and a queue pair outlives its callbacks: it frees its completion queue
    // first.
    let queue = unsafe { queue_of::<H>(wc, offset_of!(QueuePair<H>, transfer_failed)) };
    if !failure.is_flush() {
        queue.sends.lock().transfer_failure = Some(failure);
    }
    handler.request_failed(failure);
}

/// Returns the queue pair whose field at `offset` the request of `wc` completed to.
///
/// # Safety
///
/// The request of `wc` was posted with the address of that field, and the queue pair lives for
/// `'a`.
unsafe fn queue_of<'a, H: Handler>(wc: &cbindings::ib_wc, offset: usize) -> &'a QueuePair<H> {
    // SAFETY: The caller promises that the address is that of the field at `offset` of a queue pair
    // that lives for `'a`.
    unsafe {
        &*wc.__bindgen_anon_1
            .wr_cqe
            .byte_sub(offset)
            .cast::<QueuePair<H>>()
    }
}
