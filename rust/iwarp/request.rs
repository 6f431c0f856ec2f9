// SPDX-License-Identifier: GPL-2.0

//! Connections that a peer began, until the consumer has accepted or rejected them.
//!
//! iw_cm may drop a request silently when it has no memory for it. So a request has a time limit,
//! and iw_cm keeps only a number in the table of the device.

use crate::counters::Count;
use crate::id::Id;
use crate::lower::Asked;
use crate::lower::Lower;
use crate::lower::Passive;
use crate::qp::Qp;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::waker::Waker;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use kernel::time::Instant;
use kernel::time::Monotonic;
use provider::cm::Addresses;
use provider::cm::CmId;
use provider::cm::Parameters;
use provider::cm::Told;
use provider::errno::econnreset;
use provider::new_worker;
use provider::table::Table;
use provider::work;
use provider::work::Work;
use provider::work::Worker;
use rdmap::cm::clamp_reads;
use rdmap::cm::Accepting;

/// The time that a peer has for its Request, in milliseconds.
const PEER_MS: u32 = 5_000;

/// The time that a consumer has to decide, in milliseconds.
const CONSUMER_MS: u32 = 60_000;

/// The consumer of a request, as long as nobody has decided.
pub(crate) trait Consumer: Send + Sync {
    /// Admits the request to those that the consumer is to decide on. Returns false if the limit is
    /// reached.
    fn admit(&self) -> bool;

    /// Indicates a request. Fails if nobody listens any more, or if there are too many at once.
    fn tell(&self, ends: Addresses, told: Told<'_>, handle: u32) -> Result;
}

/// The requests of a device, by the numbers that iw_cm has of them.
pub(crate) type Requests<L> = Table<Arc<Request<L>>>;

/// The state of a request until it is decided.
struct Open<L: Lower> {
    // [`None`] if the peer has ended it while the consumer decides. Then the request stays, as the
    // consumer still has it.
    passive: Option<L::Passive>,
    // The request was indicated to the consumer.
    told: bool,
    ends: Addresses,
    since: Instant<Monotonic>,
    consumer: KBox<dyn Consumer>,
}

/// A connection request.
#[pin_data]
pub(crate) struct Request<L: Lower> {
    shared: Arc<Shared>,
    // The table that contains it.
    requests: Arc<Requests<L>>,
    waker: Arc<Waker>,
    handle: AtomicU32,
    #[pin]
    open: Mutex<Option<Open<L>>>,
    #[pin]
    worker: Worker,
}

impl<L: Lower> Request<L> {
    /// Begins with a connection that a listener accepted. Sleeps.
    pub(crate) fn begin(
        shared: Arc<Shared>,
        requests: Arc<Requests<L>>,
        consumer: KBox<dyn Consumer>,
        accepted: L::Accepted,
    ) -> Result {
        let (queue, waker) = (work::current()?, Waker::new()?);
        let (ends, passive) = L::take_over(accepted, waker.clone())?;
        let open = Open {
            passive: Some(passive),
            told: false,
            ends,
            since: Instant::now(),
            consumer,
        };
        let this = Arc::pin_init(
            pin_init!(Self {
                shared,
                requests,
                waker,
                handle: AtomicU32::new(0),
                open <- new_mutex!(Some(open), "iwarp_request"),
                worker <- new_worker!(Self, queue),
            }),
            GFP_KERNEL,
        )?;
        let handle = this.requests.insert(|_| this.clone())?;
        this.handle.store(handle, Ordering::Relaxed);
        if let Err(error) = this.waker.point_at(&this) {
            Self::forget(&this);
            return Err(error);
        }
        Worker::kick_later(&this, PEER_MS);
        Ok(())
    }

    /// Removes the request. The connection is refused, unless somebody took it.
    fn forget(this: &Arc<Self>) {
        this.waker.let_go();
        drop(this.requests.remove(this.handle.load(Ordering::Relaxed)));
        let open = this.open.lock().take();
        if let Some(passive) = open.and_then(|open| open.passive) {
            passive.refuse();
        }
    }

    /// Ends the request, as the device goes. Sleeps.
    pub(crate) fn stop(this: &Arc<Self>) {
        Self::forget(this);
        Worker::stop(this);
    }

    /// Looks for the request of the peer, and indicates it to the consumer. Says whether it still
    /// waits for something.
    fn step(this: &Arc<Self>, open: &mut Open<L>) -> bool {
        let waited = open.since.elapsed().as_millis();
        let Some(passive) = &mut open.passive else {
            return waited < i64::from(CONSUMER_MS);
        };
        if open.told {
            if !passive.waits() {
                this.shared.counters.add(Count::RequestLost);
                if let Some(passive) = open.passive.take() {
                    passive.refuse();
                }
            }
            return waited < i64::from(CONSUMER_MS);
        }
        match passive.step(|| open.consumer.admit()) {
            Asked::Request => {
                let Some(told) = passive.told() else {
                    return false;
                };
                let handle = this.handle.load(Ordering::Relaxed);
                if open.consumer.tell(open.ends, told, handle).is_err() {
                    return false;
                }
                open.told = true;
                open.since = Instant::now();
                true
            }
            Asked::Nothing => waited < i64::from(PEER_MS),
            Asked::End => false,
        }
    }

    /// Takes the connection out, as the consumer has decided. `ECONNRESET` if there is none any
    /// more.
    fn decide(this: &Arc<Self>) -> Result<(L::Passive, Addresses)> {
        let open = this.open.lock().take();
        Worker::stop(this);
        this.waker.let_go();
        let Open { passive, ends, .. } = open.ok_or(econnreset())?;
        Ok((passive.ok_or(econnreset())?, ends))
    }

    /// Accepts for the consumer. If this fails there is no event, and the connection is closed.
    /// Sleeps.
    pub(crate) fn accept(
        this: &Arc<Self>,
        qp: &Arc<Qp<L>>,
        parameters: Parameters<'_>,
        id: CmId,
    ) -> Result {
        let (passive, ends) = Self::decide(this)?;
        let (open, reads) = passive.accept(parameters)?;
        Qp::accept(qp, this.waker.clone(), |queues| {
            let stream = Stream::new(open, queues, reads)?;
            let id = Id {
                id,
                ends,
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

impl<L: Lower> Work for Request<L> {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        let mut open = this.open.lock();
        let Some(inner) = &mut *open else {
            return;
        };
        if Self::step(&this, inner) {
            let wait = match inner.told {
                true => CONSUMER_MS,
                false => PEER_MS,
            };
            Worker::kick_later(&this, wait);
            return;
        }
        // It is taken here, so that nobody accepts it any more.
        let lost = open.take().and_then(|open| open.passive);
        drop(open);
        // Nobody stops the work of a request that is in no table: a timer of it could outlive the
        // module.
        Worker::finish(&this);
        Self::forget(&this);
        if let Some(passive) = lost {
            this.shared.counters.add(Count::RequestLost);
            passive.refuse();
        }
    }
}
