// SPDX-License-Identifier: GPL-2.0

//! Connections that a peer began, until the consumer has accepted or rejected them.
//!
//! iw_cm may drop a request silently when it has no memory for it. So a request has a time limit,
//! and iw_cm keeps only a number in the table of the device.

use crate::counters::Count;
use crate::event_target::EventTarget;
use crate::id::ConnId;
use crate::llp::Llp;
use crate::llp::Passive;
use crate::llp::RequestStatus;
use crate::qp::Qp;
use crate::shared::DeviceState;
use crate::stream::Stream;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::time::Instant;
use kernel::time::Monotonic;
use provider::cm::CmId;
use provider::cm::ConnParams;
use provider::cm::Endpoints;
use provider::cm::EventParams;
use provider::errno::econnreset;
use provider::new_worker;
use provider::table::Table;
use provider::work;
use provider::work::Work;
use provider::work::Worker;
use rdmap::cm::clamp_reads;
use rdmap::cm::Accepting;

/// The time that a peer has for its Request, in milliseconds.
const REQUEST_TIMEOUT_MS: u32 = 5_000;

/// The time that a consumer has to decide, in milliseconds.
const DECISION_TIMEOUT_MS: u32 = 60_000;

/// The consumer of a request, as long as nobody has decided.
pub(crate) trait Consumer: Send + Sync {
    /// Admits the request to those that the consumer is to decide on. Returns false if the limit is
    /// reached.
    fn admit(&self) -> bool;

    /// Indicates a request. Fails if nobody listens any more, or if there are too many at once.
    fn indicate(&self, endpoints: Endpoints, params: EventParams<'_>, handle: u32) -> Result;
}

/// The requests of a device, by the numbers that iw_cm has of them.
pub(crate) type Requests<L> = Table<Arc<Request<L>>>;

/// The state of a request until it is decided.
struct Pending<L: Llp> {
    // [`None`] if the peer has ended it while the consumer decides. Then the request stays, as the
    // consumer still has it.
    passive: Option<L::Passive>,
    // The request was indicated to the consumer.
    indicated: bool,
    endpoints: Endpoints,
    since: Instant<Monotonic>,
    consumer: KBox<dyn Consumer>,
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
    pub(crate) fn begin(
        shared: Arc<DeviceState>,
        requests: Arc<Requests<L>>,
        consumer: KBox<dyn Consumer>,
        accepted: L::Accepted,
    ) -> Result {
        let (queue, events) = (work::module_queue()?, EventTarget::new()?);
        let (endpoints, passive) = L::attach(accepted, events.clone())?;
        let pending = Pending {
            passive: Some(passive),
            indicated: false,
            endpoints,
            since: Instant::now(),
            consumer,
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
        if let Some(passive) = pending.and_then(|pending| pending.passive) {
            passive.refuse();
        }
    }

    /// Ends the request, as the device goes. Sleeps.
    pub(crate) fn stop(this: &Arc<Self>) {
        Self::remove(this);
        Worker::disable_sync(this);
    }

    /// Looks for the request of the peer, and indicates it to the consumer. Says whether it still
    /// waits for something.
    fn step(this: &Arc<Self>, pending: &mut Pending<L>) -> bool {
        let waited = pending.since.elapsed().as_millis();
        let Some(passive) = &mut pending.passive else {
            return waited < i64::from(DECISION_TIMEOUT_MS);
        };
        if pending.indicated {
            if !passive.is_intact() {
                this.shared.counters.add(Count::RequestLost);
                if let Some(passive) = pending.passive.take() {
                    passive.refuse();
                }
            }
            return waited < i64::from(DECISION_TIMEOUT_MS);
        }
        match passive.step(|| pending.consumer.admit()) {
            RequestStatus::Ready => {
                let Some(params) = passive.request_params() else {
                    return false;
                };
                let handle = this.handle.load(Ordering::Relaxed);
                if pending
                    .consumer
                    .indicate(pending.endpoints, params, handle)
                    .is_err()
                {
                    return false;
                }
                pending.indicated = true;
                pending.since = Instant::now();
                true
            }
            RequestStatus::Pending => waited < i64::from(REQUEST_TIMEOUT_MS),
            RequestStatus::Ended => false,
        }
    }

    /// Takes the connection out, as the consumer has decided. `ECONNRESET` if there is none any
    /// more.
    fn decide(this: &Arc<Self>) -> Result<(L::Passive, Endpoints)> {
        let pending = this.pending.lock().take();
        Worker::disable_sync(this);
        this.events.clear();
        let Pending {
            passive, endpoints, ..
        } = pending.ok_or(econnreset())?;
        Ok((passive.ok_or(econnreset())?, endpoints))
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
            Ok((KBox::new(stream, GFP_KERNEL)?, Accepting::new(id)))
        })?;
        this.shared.counters.add(Count::Accepted);
        Ok(())
    }

    /// Rejects for the consumer. Sleeps.
    pub(crate) fn reject(this: &Arc<Self>, private_data: &[u8]) -> Result {
        this.shared.counters.add(Count::Rejected);
        let (passive, _) = Self::decide(this)?;
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
        if Self::step(&this, inner) {
            let wait = match inner.indicated {
                true => DECISION_TIMEOUT_MS,
                false => REQUEST_TIMEOUT_MS,
            };
            Worker::queue_work_after(&this, wait);
            return;
        }
        // It is taken here, so that nobody accepts it any more.
        let lost = pending.take().and_then(|pending| pending.passive);
        drop(pending);
        // Nobody stops the work of a request that is in no table: a timer of it could outlive the
        // module.
        Worker::disable(&this);
        Self::remove(&this);
        if let Some(passive) = lost {
            this.shared.counters.add(Count::RequestLost);
            passive.refuse();
        }
    }
}
