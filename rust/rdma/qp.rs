// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: reliable connections as the device sees them.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! Here are the life of a queue pair, and what it reports. What is posted is in the files below: [`send`],
//! [`receive`](mod@receive), [`invalidate`], [`read_write`], [`rw_context`], [`flush`].

mod flush;
mod invalidate;
mod read_write;
mod receive;
pub(crate) mod rw_context;
mod send;

pub use self::{
    rw_context::{
        BatchMemory,
        ReadHandler, //
    },
    send::SendQueue, //
};

use crate::{
    cm::{
        ConnectParameters,
        Id, //
    },
    context::{
        Context,
        QueueEvent, //
    },
    cq::{
        self,
        CompletionQueue, //
    },
    error::not_connected,
    in_flight::InFlight,
    lock_names,
    mr::{
        self,
        DeferredDereg, //
    },
    pd::ProtectionDomain,
    receive::{
        Buffer,
        Message, //
    },
    rq,
    send::PostedSend,
    sink::Sinks,
    sq::{
        self,
        SendPolicy, //
    },
    wc::WcStatus, //
};
use core::{
    mem::offset_of,
    ptr::null_mut, //
};
use kernel::{
    error::{
        to_result,
        Result, //
    },
    prelude::*,
    static_lock_class,
    sync::{
        Arc,
        Mutex,
        SpinLock,
        UniqueArc, //
    },
};
use shared::trace::CompletionId;

/// The methods of an upper layer that hear of the completions of its queue pair.
pub trait Handler: Context {
    /// What the upper layer decides about the Send queue.
    type SendPolicy: SendPolicy<Self>;

    /// A message arrived, and perhaps invalidated a region. `queue` posts to the queue pair that it
    /// arrived on.
    fn received(
        &self,
        queue: &QueuePair<Self>,
        message: Message<Self>,
        invalidated: Option<Invalidated<'_, Self>>,
    );

    /// A Receive ended without a message: the connection is being lost.
    fn receive_failed(&self, queue: &QueuePair<Self>, buffer: Buffer<Self>, failure: WcStatus);

    /// Another request failed: the connection is lost.
    fn request_failed(&self, failure: WcStatus);

    /// An RDMA Write failed that goes with the Send which has this tag: the connection is lost.
    fn write_failed(&self, tag: Self::SendTag, failure: WcStatus) {
        let _ = tag;
        self.request_failed(failure);
    }

    /// A Send that follows RDMA Writes, or may, is posted next. Called with the queue's lock held; must not sleep.
    fn reply_posted(&self, send: PostedSend<'_, Self>) {
        let _ = send;
    }

    /// A completion gave something back to `queue`, and [`SendPolicy::resumes`] said that somebody waits for it.
    fn send_resumed(&self, queue: &QueuePair<Self>);

    /// Every region of the chain is invalid, unmapped and free for reuse.
    fn invalidated(
        &self,
        queue: &QueuePair<Self>,
        regions: mr::Idle<Self>,
        context: Self::InvalidateContext,
    );

    /// The chain did not complete; its regions may still be valid. The connection is lost. Also called by
    /// [`QueuePair::drain`], for chains whose completion the device lost; must not drain the queue pair.
    fn invalidate_failed(&self, regions: mr::Registered<Self>, context: Self::InvalidateContext);
}

/// The memory region key that the peer invalidated with a message. The same number means another
/// region later, so it is worth something only while the message is handled.
pub struct Invalidated<'a, H: Handler> {
    rkey: u32,
    /// The queue pair that the message arrived on.
    queue: &'a QueuePair<H>,
}

/// The sizes of a queue pair.
pub struct Parameters {
    /// How many Receives may be posted at the same time.
    pub receives: u32,
    /// How many Sends may be posted at the same time.
    pub sends: usize,
    /// Scatter elements of a Send at most, and of a Write, if the device takes as many.
    pub send_elements: usize,
    /// How many regions are registered, and later invalidated, for one Send at most.
    pub regions_per_send: u32,
    /// How many RDMA Reads and Writes may be posted at the same time.
    pub transfers: u32,
}

/// A queue pair and its completion queue.
///
/// # Invariants
///
/// The queue pair of `id` was made by `rdma_create_qp` in `pd` with `cq` for both directions. It
/// is live as long as `ended` is false, and so as long as the lock of an `open` side is held: posting ends
/// before the queue pair does.
#[pin_data(PinnedDrop)]
pub struct QueuePair<H: Handler> {
    // The drain in `drop`, if there was none before, destroys the queue pair; then the fields go in this order.
    // No callback runs when the first is gone.
    _cq: CompletionQueue<H>,
    /// The completion of RDMA Writes, registrations and invalidations that asked for none. It comes if they fail.
    failed: raw::ib_cqe,
    /// The same for RDMA Reads, for RDMA Writes whose Send is not posted yet, and for the registrations that they
    /// need.
    transfer_failed: raw::ib_cqe,
    /// Scatter elements of one Write or Send.
    max_write_elements: usize,
    /// Scatter elements of one Read.
    max_read_elements: usize,
    /// [`Parameters::regions_per_send`].
    regions_per_send: usize,
    /// Whether the queue pair was drained and destroyed.
    #[pin]
    ended: Mutex<bool>,
    /// [`crate::device::Limits::remote_invalidation`].
    remote_invalidation: bool,
    /// Regions for what Reads bring, if that must be registered.
    sinks: Option<Arc<Sinks<H>>>,
    #[pin]
    receives: SpinLock<rq::State>,
    #[pin]
    sends: SpinLock<sq::State<H, H::SendPolicy>>,
    /// Regions that are registered here and that nobody has any more.
    deferred_dereg: Arc<DeferredDereg<H>>,
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
        policy: H::SendPolicy,
    ) -> Result<Arc<Self>> {
        if !pd.serves(&id) {
            return Err(EINVAL);
        }
        let sends = u32::try_from(parameters.sends)?;
        let regions_per_send = usize::try_from(parameters.regions_per_send)?;
        let room = usize::try_from(parameters.receives)?;
        let per_send = parameters
            .regions_per_send
            .saturating_mul(2)
            .saturating_add(1);
        let limits = id.limits()?;
        let transfers = parameters
            .transfers
            .saturating_mul(limits.requests_per_read());
        let invalidations = regions_per_send.saturating_mul(parameters.sends);
        // One more on either side is for the drain, and one for a flush where there may be one.
        let others = 1 + u32::from(parameters.transfers != 0);
        let max_send_wr = sends
            .saturating_mul(per_send)
            .saturating_add(transfers)
            .saturating_add(others);
        let max_recv_wr = parameters.receives.saturating_add(1);
        let entries = max_send_wr.saturating_add(max_recv_wr);
        let cq = CompletionQueue::new(id.clone(), entries)?;
        let sends = sq::State::new(parameters.sends, invalidations, policy)?;
        let receives = rq::State::new(room);
        let deferred_dereg = DeferredDereg::new()?;
        let sinks = match limits.sink_pages {
            Some(pages) if parameters.transfers != 0 => Some(Sinks::new(pd.clone(), pages)?),
            _ => None,
        };
        let max_write_elements = limits.write_elements.min(parameters.send_elements);
        let mut attributes = raw::ib_qp_init_attr {
            send_cq: cq.as_raw(),
            recv_cq: cq.as_raw(),
            cap: raw::ib_qp_cap {
                max_send_wr,
                max_recv_wr,
                max_send_sge: u32::try_from(max_write_elements)?,
                max_recv_sge: 1,
                ..Default::default()
            },
            sq_sig_type: raw::ib_sig_type_IB_SIGNAL_REQ_WR,
            qp_type: raw::ib_qp_type_IB_QPT_RC,
            port_num: u32::MAX,
            event_handler: Some(queue_event::<H>),
            // The context lives as long as the id, and so longer than the queue pair.
            qp_context: Arc::as_ptr(id.context()).cast_mut().cast(),
            ..Default::default()
        };
        let place = UniqueArc::new_uninit(GFP_KERNEL)?;
        id.claim_queue()?;
        // SAFETY: The id is live and has no queue pair, `pd` and `cq` are on its device. The value made
        // below destroys the queue pair before it gives them up.
        to_result(unsafe { raw::rdma_create_qp(id.as_raw(), pd.as_raw(), &mut attributes) })
            .inspect_err(|_| id.release_queue())?;
        // SAFETY: The queue pair was just made, and nothing changes these.
        let (write_elements, read_elements) = unsafe {
            let queue = (*id.as_raw()).qp;
            ((*queue).max_write_sge, (*queue).max_read_sge)
        };
        // CAST: To the wider type.
        let (write_elements, read_elements) = (write_elements as usize, read_elements as usize);
        // INVARIANT: Just made so. Nothing fails from here on.
        let made = place.pin_init_with(pin_init!(Self {
            failed: raw::ib_cqe {
                done: Some(request_failed::<H>),
            },
            transfer_failed: raw::ib_cqe {
                done: Some(transfer_failed::<H>),
            },
            max_write_elements: max_write_elements.min(write_elements).max(1),
            max_read_elements: limits.read_elements.min(read_elements).max(1),
            regions_per_send,
            ended <- Mutex::new(false, lock_names::ENDED, static_lock_class!()),
            remote_invalidation: limits.remote_invalidation,
            sinks,
            receives <- SpinLock::new(receives, lock_names::RECEIVES, static_lock_class!()),
            sends <- SpinLock::new(sends, lock_names::SENDS, static_lock_class!()),
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

    /// What traces call its completion queue.
    pub fn queue_number(&self) -> u32 {
        self._cq.number()
    }

    /// What traces call buffer `number`.
    fn completion_id(&self, number: u32) -> CompletionId {
        self._cq.completion_id(number)
    }

    /// The protection domain of the queue pair.
    pub fn pd(&self) -> &Arc<ProtectionDomain<H>> {
        &self.pd
    }

    /// The id that the queue pair belongs to.
    pub fn id(&self) -> &Id<H> {
        &self.id
    }

    /// Starts to connect. The CM names the queue pair to the peer, so [`not_connected`] after the drain.
    /// Sleeps; waits for the id's handler, so not to be called there.
    pub fn connect(&self, parameters: &ConnectParameters<'_>) -> Result {
        let ended = self.ended.lock();
        match *ended {
            true => Err(not_connected()),
            false => self.id.connect(parameters),
        }
    }

    /// Accepts the peer that the id came from; [`EINVAL`] if there is none. As [`Self::connect`].
    pub fn accept(&self, parameters: &ConnectParameters<'_>) -> Result {
        let ended = self.ended.lock();
        match *ended {
            true => Err(not_connected()),
            false => self.id.accept(parameters),
        }
    }

    /// Starts to end the connection, if there is one. The iWARP CM modifies the queue pair for that, so
    /// nothing happens after the drain. An error says that there was nothing to end. Sleeps.
    pub fn disconnect(&self) -> Result {
        let ended = self.ended.lock();
        match *ended {
            true => Err(not_connected()),
            false => self.id.disconnect(),
        }
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn cq(&self) -> *mut raw::ib_cq {
        self._cq.as_raw()
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn sends(&self) -> &SpinLock<sq::State<H, H::SendPolicy>> {
        &self.sends
    }

    /// Scatter elements of one Write or Send, and of one Read.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn max_elements(&self) -> (usize, usize) {
        (self.max_write_elements, self.max_read_elements)
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn receives(&self) -> &SpinLock<rq::State> {
        &self.receives
    }

    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn deferred_dereg(&self) -> &Arc<DeferredDereg<H>> {
        &self.deferred_dereg
    }

    /// Ends all posting, waits until no work request is left, destroys the queue pair, and lets go of what
    /// the device may have touched. Does that once; who comes later waits until it is done. Sleeps; not for a
    /// completion handler.
    pub fn drain(&self) {
        self.receives.lock().open = false;
        let mut sends = self.sends.lock();
        sends.open = false;
        // Never posted, so nobody will miss it.
        sends.take_deferred(null_mut());
        drop(sends);
        let mut ended = self.ended.lock();
        if core::mem::replace(&mut *ended, true) {
            return;
        }
        // SAFETY: The queue pair is live by the type invariants, and both its sides have room for
        // the requests of this one drain. Nobody posts any more.
        unsafe { raw::ib_drain_qp(self.as_raw()) };
        // The drain does not say whether it failed. If the queue pair could not be brought in error state, or the
        // drain's requests could not be posted, the device may still be at work; it is not when there is no
        // queue pair.
        // SAFETY: The queue pair is live by the type invariants, and only a method that posts, and those of the CM, name it:
        // both sides are closed, and the latter take `ended`. The call returns when the driver has no use of it any more.
        // INVARIANT: `ended` was set above.
        unsafe { raw::rdma_destroy_qp(self.id.as_raw()) };
        self.receives.lock().drained = true;
        let mut sends = self.sends.lock();
        let spent = sends.retire_all();
        let lost = core::mem::replace(&mut sends.invalidations_in_flight, InFlight::new());
        drop(sends);
        drop(spent);
        for entry in lost.iter() {
            // SAFETY: It is in the list, which is ours, and callbacks that come too late leave it there
            // with all that it holds.
            if let Some((regions, context)) = unsafe { mr::Invalidation::<H>::lose(entry) } {
                self.id.context().invalidate_failed(regions, context);
            }
        }
        // A completion may yet come, and then finds its entry.
        self.sends.lock().invalidations_in_flight = lost;
        // No request names a region any more. One that stayed registered would be within reach of
        // whoever the domain is used with next. Those of Reads that were lost do; a domain that Reads
        // came to is not used again.
        self.deferred_dereg.close();
    }

    /// The queue pair, or null when it is destroyed.
    fn as_raw(&self) -> *mut raw::ib_qp {
        // SAFETY: The id is live by the type invariants. Its queue pair is set, until the drain.
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
        self.id.release_queue();
    }
}

/// # Safety
///
/// Only the core calls this, for a queue pair of a [`QueuePair<H>`], with a valid event.
unsafe extern "C" fn queue_event<H: Handler>(event: *mut raw::ib_event, context: *mut c_void) {
    // SAFETY: The queue pair was made with this context, which outlives it.
    let context = unsafe { &*context.cast::<H>() };
    // SAFETY: The event is valid during the call.
    context.queue_event(&unsafe { QueueEvent::new(&*event) });
}

/// # Safety
///
/// Only the core calls this, for a request of a [`QueuePair<H>`].
unsafe extern "C" fn request_failed<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::called_for::<H>(cq, wc) };
    let Some(failure) = WcStatus::of(wc) else {
        return;
    };
    // SAFETY: The request was posted with the address of its queue pair's `failed`, and a queue pair
    // outlives its callbacks.
    let queue = unsafe { queue_of::<H>(wc, offset_of!(QueuePair<H>, failed)) };
    let tag = match failure.is_flush() {
        true => None,
        false => queue.sends.lock().oldest_with_writes(),
    };
    match tag {
        Some(tag) => handler.write_failed(tag, failure),
        None => handler.request_failed(failure),
    }
}

/// # Safety
///
/// Only the core calls this, for a request of a [`QueuePair<H>`].
unsafe extern "C" fn transfer_failed<H: Handler>(cq: *mut raw::ib_cq, wc: *mut raw::ib_wc) {
    // SAFETY: The queue belongs to a `CompletionQueue<H>`, and we are in its callback.
    let (handler, wc) = unsafe { cq::called_for::<H>(cq, wc) };
    let Some(failure) = WcStatus::of(wc) else {
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
