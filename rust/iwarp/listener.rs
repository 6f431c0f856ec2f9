// SPDX-License-Identifier: GPL-2.0

//! Listeners.
//!
//! The consumer's backlog limits the number of undecided connections, whether their peer or the
//! consumer is silent; both have a time limit. When the limit is reached, peers wait in the backlog
//! of the LLP, which has the same size.
//!
//! An LLP that can refuse a peer has that many silent peers, and as many requests that the consumer
//! has not decided on: a request beyond these is refused at once. So a peer in the backlog waits
//! for silent peers only.

use crate::counters::Count;
use crate::event_target::EventTarget;
use crate::llp::Llp;
use crate::request::Consumer;
use crate::request::Request;
use crate::request::Requests;
use crate::shared::DeviceState;
use core::net::SocketAddr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use provider::cm::CmId;
use provider::cm::Endpoints;
use provider::cm::EventParams;
use provider::errno::econnrefused;
use provider::netdev::NetDevice;
use provider::new_worker;
use provider::work;
use provider::work::Work;
use provider::work::Worker;

/// Connections that are accepted in a row, before other work runs.
const ACCEPT_BUDGET: usize = 16;

/// The delay after which a listener that found no memory tries again, in milliseconds.
const RETRY_MS: u32 = 100;

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
}

impl<L: Llp> Drop for RequestSlot<L> {
    fn drop(&mut self) {
        match self.admitted.load(Ordering::Relaxed) {
            true => drop(self.acceptor.admitted.fetch_sub(1, Ordering::SeqCst)),
            false => Acceptor::release_slot(&self.acceptor),
        }
    }
}

impl<L: Llp> Consumer for RequestSlot<L> {
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

    fn indicate(&self, endpoints: Endpoints, params: EventParams<'_>, handle: u32) -> Result {
        let listening = self.acceptor.listening.lock();
        let listening = listening.as_ref().ok_or(econnrefused())?;
        listening.id.connect_request(endpoints, params, handle)
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
            let started = KBox::new(RequestSlot::new(this.clone()), GFP_KERNEL)
                .map_err(Error::from)
                .and_then(|undecided| {
                    let (shared, requests) = (this.shared.clone(), this.requests.clone());
                    Request::begin(shared, requests, undecided, accepted)
                });
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
        let socket = L::listen(netdev, address, backlog, this.acceptor.events.clone())?;
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
