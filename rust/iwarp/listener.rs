// SPDX-License-Identifier: GPL-2.0

//! Listeners, and the connections that peers began, until the consumer has accepted or rejected
//! them.
//!
//! The consumer's backlog limits the number of undecided connections, whether their peer or the
//! consumer is silent; both have a time limit. When the limit is reached, peers wait in the backlog
//! of the LLP, which has the same size.
//!
//! An LLP that can refuse a peer has that many silent peers, and as many requests that the consumer
//! has not decided on: a request beyond these is refused at once. So a peer in the backlog waits
//! for silent peers only.
//!
//! iw_cm may drop a request silently when it has no memory for it. So a request has a time limit,
//! and iw_cm keeps only a number in the table of the device.

use crate::prelude::*;
use crate::{
    addr_changes::AddrChanges,
    connect::{
        note_established,
        ConnId, //
    },
    llp::{
        Passive,
        RequestStatus, //
    },
    qp::Qp, //
};
use core::sync::atomic::{
    AtomicBool,
    AtomicU32, //
};
use kernel::{
    new_mutex,
    sync::Mutex, //
};
use provider::{
    cm::CmId,
    errno::{
        econnrefused,
        econnreset, //
    },
    new_worker,
    table::Table,
    work, //
};
use rdmap::cm::{
    clamp_reads,
    Accepting, //
};

/// Connections that are accepted in a row, before other work runs.
const ACCEPT_BUDGET: usize = 16;

/// The delay after which a listener that found no memory tries again, in milliseconds.
const RETRY_MS: u32 = 100;

/// The time that a peer has for its Request, in milliseconds.
const REQUEST_TIMEOUT_MS: u32 = 5_000;

/// The time that a consumer has to decide, in milliseconds.
const DECISION_TIMEOUT_MS: u32 = 60_000;

/// The state of a listener as long as the consumer wants it.
struct Listening<L: Llp> {
    socket: Option<L::Listener>,
    id: CmId,
}

/// Accepts connections, and indicates them to the consumer.
#[pin_data]
pub(crate) struct Acceptor<L: Llp> {
    shared: Arc<DeviceState>,
    requests: Arc<Requests<L>>,
    events: Arc<EventTarget>,
    // The numbers of undecided and of admitted connections, and the limit of either.
    undecided: AtomicU32,
    admitted: AtomicU32,
    limit: u32,
    #[pin]
    listening: Mutex<Option<Listening<L>>>,
    #[pin]
    worker: Worker,
}

impl<L: Llp> Acceptor<L> {
    /// Frees the place of an undecided connection.
    fn release_slot(this: &Arc<Self>) {
        if this.undecided.fetch_sub(1, Ordering::SeqCst) >= this.limit {
            Worker::queue_work(this);
        }
    }
}

/// A place among the undecided connections of a listener, or among the admitted ones. It is free
/// again when this is dropped.
struct RequestSlot<L: Llp> {
    acceptor: Arc<Acceptor<L>>,
    admitted: AtomicBool,
}

impl<L: Llp> RequestSlot<L> {
    fn new(acceptor: Arc<Acceptor<L>>) -> Self {
        acceptor.undecided.fetch_add(1, Ordering::SeqCst);
        Self {
            acceptor,
            admitted: AtomicBool::new(false),
        }
    }

    /// Admits the request to those that the consumer is to decide on. Returns false if the limit is
    /// reached.
    fn admit(&self) -> bool {
        let Acceptor {
            admitted, limit, ..
        } = &*self.acceptor;
        let one_more = |count: u32| (count < *limit).then_some(count.saturating_add(1));
        let added = admitted.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more);
        if added.is_err() {
            return false;
        }
        // This is called once for each request.
        self.admitted.store(true, Ordering::Relaxed);
        Acceptor::release_slot(&self.acceptor);
        true
    }

    /// Indicates a request. Fails if nobody listens any more, or if there are too many at once.
    fn indicate(&self, endpoints: Endpoints, params: EventParams<'_>, handle: u32) -> Result {
        let listening = self.acceptor.listening.lock();
        let listening = listening.as_ref().ok_or(econnrefused())?;
        listening.id.connect_request(endpoints, params, handle)
    }
}

impl<L: Llp> Drop for RequestSlot<L> {
    fn drop(&mut self) {
        match self.admitted.load(Ordering::Relaxed) {
            true => drop(self.acceptor.admitted.fetch_sub(1, Ordering::SeqCst)),
            false => Acceptor::release_slot(&self.acceptor),
        }
    }
}

impl<L: Llp> Work for Acceptor<L> {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        for _ in 0..ACCEPT_BUDGET {
            // A connection that ends from now on queues this work.
            if this.undecided.load(Ordering::SeqCst) >= this.limit {
                return;
            }
            let (accepted, poll_after_ms) = match &mut *this.listening.lock() {
                Some(Listening {
                    socket: Some(socket),
                    ..
                }) => (L::accept(socket), L::poll_after_ms(socket)),
                _ => return,
            };
            if let Some(milliseconds) = poll_after_ms {
                Worker::queue_work_after(&this, milliseconds);
            }
            let accepted = match accepted {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                // There is no memory for it, and it stays in the backlog.
                Err(_) => {
                    this.shared.counters.add(Count::NoMemory);
                    Worker::queue_work_after(&this, RETRY_MS);
                    return;
                }
            };
            let (shared, requests) = (this.shared.clone(), this.requests.clone());
            let slot = RequestSlot::new(this.clone());
            let started = Request::begin(shared, requests, slot, accepted);
            // The peer has gone, or there is no memory for it.
            if started.is_err() {
                this.shared.counters.add(Count::RequestLost);
            }
        }
        Worker::queue_work(&this);
    }
}

/// A listener, which stops when it is dropped.
pub(crate) struct Listener<L: Llp> {
    acceptor: Arc<Acceptor<L>>,
}

impl<L: Llp> Listener<L> {
    /// Listens. A wildcard is for `netdev`, and for the VLANs on it that have no device. Sleeps.
    pub(crate) fn new(
        shared: Arc<DeviceState>,
        requests: Arc<Requests<L>>,
        addr_changes: &AddrChanges,
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        id: CmId,
    ) -> Result<Self> {
        let (queue, events) = (work::module_queue()?, EventTarget::new()?);
        let listening = Listening { socket: None, id };
        let acceptor = Arc::pin_init(
            pin_init!(Acceptor {
                shared,
                requests,
                events,
                undecided: AtomicU32::new(0),
                admitted: AtomicU32::new(0),
                // iw_cm has memory for as many requests, and loses those beyond them.
                limit: backlog.max(1),
                listening <- new_mutex!(Some(listening), "iwarp_listener"),
                worker <- new_worker!(Acceptor<L>, queue),
            }),
            GFP_KERNEL,
        )?;
        // From here on `drop` cleans up after a failure.
        let this = Self { acceptor };
        let watch = addr_changes.watch(this.acceptor.events.clone())?;
        let socket = L::listen(netdev, address, backlog, watch)?;
        if let Some(listening) = &mut *this.acceptor.listening.lock() {
            listening.socket = Some(socket);
        }
        this.acceptor.events.set(&this.acceptor)?;
        Ok(this)
    }
}

impl<L: Llp> Drop for Listener<L> {
    fn drop(&mut self) {
        self.acceptor.events.clear();
        Worker::disable_sync(&self.acceptor);
        // A request that would be indicated now finds no consumer.
        let listening = self.acceptor.listening.lock().take();
        drop(listening);
    }
}

/// The requests of a device, by the numbers that iw_cm has of them.
pub(crate) type Requests<L> = Table<Arc<Request<L>>>;

/// The progress of a request until it is decided.
enum Progress<P> {
    /// The request of the peer is not complete.
    Arriving(P),
    /// It was indicated to the consumer, which decides.
    Indicated(P),
    /// The peer has ended it while the consumer decides. It stays, as the consumer still has it.
    Ended,
}

impl<P> Progress<P> {
    /// Takes the connection out.
    fn take(&mut self) -> Option<P> {
        match core::mem::replace(self, Self::Ended) {
            Self::Arriving(passive) | Self::Indicated(passive) => Some(passive),
            Self::Ended => None,
        }
    }

    /// Takes note that the request was indicated.
    fn indicated(&mut self) {
        if let Some(passive) = self.take() {
            *self = Self::Indicated(passive);
        }
    }
}

/// A request until it is decided.
struct Pending<L: Llp> {
    progress: Progress<L::Passive>,
    endpoints: Endpoints,
    since: Instant<Monotonic>,
    slot: RequestSlot<L>,
}

/// A connection request.
#[pin_data]
pub(crate) struct Request<L: Llp> {
    shared: Arc<DeviceState>,
    // The table that contains it.
    requests: Arc<Requests<L>>,
    events: Arc<EventTarget>,
    handle: AtomicU32,
    #[pin]
    pending: Mutex<Option<Pending<L>>>,
    #[pin]
    worker: Worker,
}

impl<L: Llp> Request<L> {
    /// Begins with a connection that a listener accepted. Sleeps.
    fn begin(
        shared: Arc<DeviceState>,
        requests: Arc<Requests<L>>,
        slot: RequestSlot<L>,
        accepted: L::Accepted,
    ) -> Result {
        let (queue, events) = (work::module_queue()?, EventTarget::new()?);
        let (endpoints, passive) = L::attach(accepted, events.clone())?;
        let pending = Pending {
            progress: Progress::Arriving(passive),
            endpoints,
            since: Instant::now(),
            slot,
        };
        let this = Arc::pin_init(
            pin_init!(Self {
                shared,
                requests,
                events,
                handle: AtomicU32::new(0),
                pending <- new_mutex!(Some(pending), "iwarp_request"),
                worker <- new_worker!(Self, queue),
            }),
            GFP_KERNEL,
        )?;
        let handle = this.requests.insert(|_| this.clone())?;
        this.handle.store(handle, Ordering::Relaxed);
        if let Err(error) = this.events.set(&this) {
            Self::remove(&this);
            return Err(error);
        }
        Worker::queue_work_after(&this, REQUEST_TIMEOUT_MS);
        Ok(())
    }

    /// Removes the request. The connection is refused, unless somebody took it.
    fn remove(this: &Arc<Self>) {
        this.events.clear();
        drop(this.requests.remove(this.handle.load(Ordering::Relaxed)));
        let pending = this.pending.lock().take();
        if let Some(passive) = pending.and_then(|mut pending| pending.progress.take()) {
            passive.refuse();
        }
    }

    /// Ends the request, as the device goes. Sleeps.
    pub(crate) fn stop(this: &Arc<Self>) {
        Self::remove(this);
        Worker::disable_sync(this);
    }

    /// Looks for the request of the peer, and indicates it to the consumer. Returns the limit of
    /// the time that what it waits for may take, in milliseconds, or [`None`] if it is over.
    fn step(this: &Arc<Self>, pending: &mut Pending<L>) -> Option<u32> {
        let limit_ms = match &mut pending.progress {
            Progress::Arriving(passive) => match passive.step(|| pending.slot.admit()) {
                RequestStatus::Pending => REQUEST_TIMEOUT_MS,
                RequestStatus::Ready => {
                    let handle = this.handle.load(Ordering::Relaxed);
                    let params = passive.request_params()?;
                    let indicated = pending.slot.indicate(pending.endpoints, params, handle);
                    indicated.ok()?;
                    let Endpoints { local, peer } = pending.endpoints;
                    iwtrace::event!(iwarp_request_indicated(local, peer));
                    pending.progress.indicated();
                    pending.since = Instant::now();
                    DECISION_TIMEOUT_MS
                }
                RequestStatus::Ended => return None,
            },
            Progress::Indicated(passive) => {
                if !passive.is_intact() {
                    Self::note_lost(this, pending.endpoints);
                    if let Some(passive) = pending.progress.take() {
                        passive.refuse();
                    }
                }
                DECISION_TIMEOUT_MS
            }
            Progress::Ended => DECISION_TIMEOUT_MS,
        };
        let waited_ms = pending.since.elapsed().as_millis();
        (waited_ms < i64::from(limit_ms)).then_some(limit_ms)
    }

    fn note_lost(this: &Self, Endpoints { local, peer }: Endpoints) {
        this.shared.counters.add(Count::RequestLost);
        iwtrace::event!(iwarp_request_lost(local, peer));
    }

    /// Takes the connection out, as the consumer has decided. `ECONNRESET` if there is none any
    /// more.
    fn decide(this: &Arc<Self>) -> Result<(L::Passive, Endpoints)> {
        let pending = this.pending.lock().take();
        Worker::disable_sync(this);
        this.events.clear();
        let mut pending = pending.ok_or(econnreset())?;
        let passive = pending.progress.take().ok_or(econnreset())?;
        Ok((passive, pending.endpoints))
    }

    /// Accepts for the consumer. If this fails there is no event, and the connection is closed.
    /// Sleeps.
    pub(crate) fn accept(
        this: &Arc<Self>,
        qp: &Arc<Qp<L>>,
        parameters: ConnParams<'_>,
        id: CmId,
    ) -> Result {
        let (passive, endpoints) = Self::decide(this)?;
        let (conn, reads) = passive.accept(parameters)?;
        Qp::accept(qp, this.events.clone(), |queues| {
            let stream = Stream::new(conn, queues, reads)?;
            let id = ConnId {
                id,
                endpoints,
                ird: clamp_reads(reads.ird),
                ord: clamp_reads(reads.ord),
            };
            Ok((KBox::new(stream, GFP_KERNEL_ACCOUNT)?, Accepting::new(id)))
        })?;
        this.shared.counters.add(Count::Accepted);
        note_established(qp.id(), endpoints, reads);
        Ok(())
    }

    /// Rejects for the consumer. Sleeps.
    pub(crate) fn reject(this: &Arc<Self>, private_data: &[u8]) -> Result {
        this.shared.counters.add(Count::Rejected);
        let (passive, Endpoints { local, peer }) = Self::decide(this)?;
        iwtrace::event!(iwarp_request_rejected(local, peer));
        passive.reject(private_data)
    }
}

impl<L: Llp> Work for Request<L> {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        let mut pending = this.pending.lock();
        let Some(inner) = &mut *pending else {
            return;
        };
        if let Some(limit_ms) = Self::step(&this, inner) {
            return Worker::queue_work_after(&this, limit_ms);
        }
        // It is taken here, so that nobody accepts it any more.
        let lost = pending
            .take()
            .and_then(|mut pending| Some((pending.progress.take()?, pending.endpoints)));
        drop(pending);
        // Nobody stops the work of a request that is in no table: a timer of it could outlive the
        // module.
        Worker::disable(&this);
        Self::remove(&this);
        if let Some((passive, endpoints)) = lost {
            Self::note_lost(&this, endpoints);
            passive.refuse();
        }
    }
}
