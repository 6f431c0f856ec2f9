// SPDX-License-Identifier: GPL-2.0

//! Connections that a peer began, until the consumer has accepted or rejected them.
//!
//! iw_cm may forget a request without a word: when it has no memory for it. So a request has a time limit, and what iw_cm keeps
//! of it is a number in the table of the device.

use crate::counters::Count;
use crate::id::Id;
use crate::qp::Qp;
use crate::shared::Shared;
use crate::startup;
use crate::startup::Arrived;
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
use provider::table::Table;
use provider::work;
use provider::work::Work;
use provider::work::Worker;
use rdmap::cm::clamp_reads;
use rdmap::cm::Accepting;
use rdmap::mpa::startup::Failed;
use rdmap::mpa::startup::Frame;
use rdmap::mpa::startup::Kind;
use rdmap::mpa::startup::Responder;
use socket::Accepted;
use socket::Connection;
use socket::Octets;
use socket::Then;

/// Milliseconds that a peer may take for its Request.
const PEER_MS: u32 = 5_000;

/// Milliseconds that a consumer may take to decide.
const CONSUMER_MS: u32 = 60_000;

/// Who hears of requests.
pub(crate) trait Consumer: Send + Sync {
    /// Tells of a request. An error if nobody listens any more, or hears of too many at once.
    fn tell(&self, ends: Addresses, told: Told<'_>, handle: u32) -> Result;
}

/// The requests of a device, by the numbers that iw_cm has of them.
pub(crate) type Requests = Table<Arc<Request>>;

/// What there is as long as nobody has decided.
struct Open {
    connection: Connection<Waker>,
    request: KBox<[u8; Frame::MAX_LEN]>,
    // Octets of the Request, once it is there and the consumer was told.
    told: Option<usize>,
    ends: Addresses,
    since: Instant<Monotonic>,
    consumer: Arc<dyn Consumer>,
}

/// A request.
#[pin_data]
pub(crate) struct Request {
    shared: Arc<Shared>,
    // The table that it is in.
    requests: Arc<Requests>,
    waker: Arc<Waker>,
    handle: AtomicU32,
    #[pin]
    open: Mutex<Option<Open>>,
    #[pin]
    worker: Worker,
}

impl Request {
    /// Goes on with a connection that a listener accepted. Sleeps.
    pub(crate) fn begin(
        shared: Arc<Shared>,
        requests: Arc<Requests>,
        consumer: Arc<dyn Consumer>,
        accepted: Accepted,
    ) -> Result {
        let (queue, waker) = (work::current()?, Waker::new()?);
        let ends = Addresses {
            local: accepted.local_address()?,
            peer: accepted.peer_address()?,
        };
        let open = Open {
            connection: accepted.attach(waker.clone())?,
            request: KBox::new([0; Frame::MAX_LEN], GFP_KERNEL)?,
            told: None,
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
                worker <- Worker::new::<Self>(queue),
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

    /// Nobody will hear of it any more. The connection is closed, unless somebody took it.
    fn forget(this: &Arc<Self>) {
        this.waker.let_go();
        drop(this.requests.remove(this.handle.load(Ordering::Relaxed)));
        drop(this.open.lock().take());
    }

    /// The device goes: so does this. Sleeps.
    pub(crate) fn stop(this: &Arc<Self>) {
        Self::forget(this);
        Worker::stop(this);
    }

    /// Looks for the Request, and tells the consumer. Says whether it still waits for something.
    fn step(this: &Arc<Self>, open: &mut Open) -> bool {
        if open.told.is_some() {
            return open.since.elapsed().as_millis() < i64::from(CONSUMER_MS);
        }
        match startup::receive(&mut open.connection, Kind::Request, &mut open.request) {
            Arrived::Frame(length) => {
                let octets = open.request.get(..length).unwrap_or_default();
                let Ok(Some((request, _))) = Frame::parse(Kind::Request, octets) else {
                    return false;
                };
                // What the peer takes and wants; without negotiation this side's limits.
                let enhanced = request.enhanced.unwrap_or_default();
                let reads = |reads: Option<u16>| clamp_reads(reads.unwrap_or(startup::MAX_READS));
                let (ird, ord) = match request.enhanced {
                    Some(_) => (reads(enhanced.ird.number()), reads(enhanced.ord.number())),
                    None => (reads(None), reads(None)),
                };
                let told = Told {
                    ird,
                    ord,
                    private_data: request.private_data,
                };
                let handle = this.handle.load(Ordering::Relaxed);
                if open.consumer.tell(open.ends, told, handle).is_err() {
                    return false;
                }
                open.told = Some(length);
                open.since = Instant::now();
                true
            }
            Arrived::Nothing => open.since.elapsed().as_millis() < i64::from(PEER_MS),
            Arrived::End | Arrived::Wrong => false,
        }
    }

    /// The consumer decides: takes the connection out, and what the Request said.
    fn decide(this: &Arc<Self>) -> Result<(Open, Responder)> {
        let open = this.open.lock().take();
        Worker::stop(this);
        this.waker.let_go();
        let open = open.ok_or(ECONNRESET)?;
        let octets = open
            .request
            .get(..open.told.unwrap_or(0))
            .unwrap_or_default();
        let parsed = Frame::parse(Kind::Request, octets);
        let (request, _) = parsed.ok().flatten().ok_or(EINVAL)?;
        let mut responder = Responder::new(startup::offer(
            startup::MAX_READS.into(),
            startup::MAX_READS.into(),
        ));
        responder.request(&request).map_err(|_| EINVAL)?;
        Ok((open, responder))
    }

    /// The consumer accepts. If this fails there is no event, and the connection is closed. Sleeps.
    pub(crate) fn accept(
        this: &Arc<Self>,
        qp: &Arc<Qp>,
        parameters: Parameters<'_>,
        id: CmId,
    ) -> Result {
        let octets_of = |open: &Open| open.told.unwrap_or(0);
        let (open, _) = Self::decide(this)?;
        let request = open.request.get(..octets_of(&open)).unwrap_or_default();
        let parsed = Frame::parse(Kind::Request, request);
        let (request, _) = parsed.ok().flatten().ok_or(EINVAL)?;
        let mut responder = Responder::new(startup::offer(parameters.ird, parameters.ord));
        responder.request(&request).map_err(|_| EINVAL)?;
        let mut buffer = KBox::new([0; Frame::MAX_LEN], GFP_KERNEL)?;
        let (reply, agreed) = match responder.accept(parameters.private_data) {
            Ok(accepted) => accepted,
            Err(Failed::Lower(_)) => {
                let (mut connection, refusal) = (open.connection, responder.reject(&[]));
                let refusal = refusal.map_err(|_| EINVAL)?;
                let length = refusal.emit(&mut *buffer).map_err(|_| EINVAL)?;
                say(&mut connection, buffer.get(..length).unwrap_or_default());
                return Err(EINVAL);
            }
            Err(Failed::Misuse(_)) => return Err(EINVAL),
        };
        let length = reply.emit(&mut *buffer).map_err(|_| EINVAL)?;
        let reply = buffer.get(..length).unwrap_or_default();
        let (connection, ends) = (open.connection, open.ends);
        Qp::accept(qp, this.waker.clone(), |queues| {
            let stream = Stream::new(connection, queues, &agreed, Some(reply))?;
            let id = Id {
                id,
                ends,
                ird: clamp_reads(agreed.reads.ird),
                ord: clamp_reads(agreed.reads.ord),
            };
            Ok((KBox::new(stream, GFP_KERNEL)?, Accepting::new(id)))
        })?;
        this.shared.counters.add(Count::Accepted);
        Ok(())
    }

    /// The consumer rejects. Sleeps.
    pub(crate) fn reject(this: &Arc<Self>, private_data: &[u8]) -> Result {
        this.shared.counters.add(Count::Rejected);
        let (mut open, mut responder) = Self::decide(this)?;
        let reply = responder.reject(private_data).map_err(|_| EINVAL)?;
        let mut buffer = KBox::new([0; Frame::MAX_LEN], GFP_KERNEL)?;
        let length = reply.emit(&mut *buffer).map_err(|_| EINVAL)?;
        say(
            &mut open.connection,
            buffer.get(..length).unwrap_or_default(),
        );
        Ok(())
    }
}

/// Sends a Reply that is the last thing to be sent. A peer that does not take so little hears of the end all the same.
fn say(connection: &mut Connection<Waker>, octets: &[u8]) {
    let _ = connection.send([Octets::from(octets)], Then::Push);
    connection.shutdown();
}

impl Work for Request {
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
                Some(_) => CONSUMER_MS,
                None => PEER_MS,
            };
            Worker::kick_later(&this, wait);
            return;
        }
        drop(open);
        this.shared.counters.add(Count::RequestLost);
        // Nobody will stop what is in no table: a timer of it could outlive the module.
        Worker::finish(&this);
        Self::forget(&this);
    }
}
