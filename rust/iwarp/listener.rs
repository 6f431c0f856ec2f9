// SPDX-License-Identifier: GPL-2.0

//! Listeners.
//!
//! The consumer's backlog limits the number of undecided connections, whether their peer or the
//! consumer is silent; both have a time limit. When the limit is reached, peers wait in the backlog
//! of the lower layer, which has the same size.
//!
//! A lower layer that can refuse a peer has that many silent peers, and as many requests that the
//! consumer has not decided on: a request beyond these is refused at once. So a peer in the backlog
//! waits for silent peers only.

use crate::counters::Count;
use crate::lower::Lower;
use crate::request::Consumer;
use crate::request::Request;
use crate::request::Requests;
use crate::shared::Shared;
use crate::waker::Waker;
use core::net::SocketAddr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use provider::cm::Addresses;
use provider::cm::CmId;
use provider::cm::Told;
use provider::errno::econnrefused;
use provider::netdev::NetDevice;
use provider::new_worker;
use provider::work;
use provider::work::Work;
use provider::work::Worker;

/// Connections that are accepted in a row, before other work runs.
const BATCH: usize = 16;

/// The delay after which a listener that found no memory tries again, in milliseconds.
const RETRY_MS: u32 = 100;

/// The state of a listener as long as the consumer wants it.
struct Open<L: Lower> {
    socket: Option<L::Listener>,
    id: CmId,
}

/// Accepts connections, and indicates them to the consumer.
#[pin_data]
pub(crate) struct Acceptor<L: Lower> {
    shared: Arc<Shared>,
    requests: Arc<Requests<L>>,
    waker: Arc<Waker>,
    // The numbers of undecided and of admitted connections, and the limit of either.
    undecided: AtomicU32,
    admitted: AtomicU32,
    limit: u32,
    #[pin]
    open: Mutex<Option<Open<L>>>,
    #[pin]
    worker: Worker,
}

impl<L: Lower> Acceptor<L> {
    /// Frees the place of an undecided connection.
    fn give_back(this: &Arc<Self>) {
        if this.undecided.fetch_sub(1, Ordering::SeqCst) >= this.limit {
            Worker::kick(this);
        }
    }
}

/// A place among the undecided connections of a listener, or among the admitted ones. It is free
/// again when this is dropped.
struct Undecided<L: Lower> {
    acceptor: Arc<Acceptor<L>>,
    admitted: AtomicBool,
}

impl<L: Lower> Undecided<L> {
    fn new(acceptor: Arc<Acceptor<L>>) -> Self {
        acceptor.undecided.fetch_add(1, Ordering::SeqCst);
        Self {
            acceptor,
            admitted: AtomicBool::new(false),
        }
    }
}

impl<L: Lower> Drop for Undecided<L> {
    fn drop(&mut self) {
        match self.admitted.load(Ordering::Relaxed) {
            true => drop(self.acceptor.admitted.fetch_sub(1, Ordering::SeqCst)),
            false => Acceptor::give_back(&self.acceptor),
        }
    }
}

impl<L: Lower> Consumer for Undecided<L> {
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
        Acceptor::give_back(&self.acceptor);
        true
    }

    fn tell(&self, ends: Addresses, told: Told<'_>, handle: u32) -> Result {
        let open = self.acceptor.open.lock();
        let open = open.as_ref().ok_or(econnrefused())?;
        open.id.connect_request(ends, told, handle)
    }
}

impl<L: Lower> Work for Acceptor<L> {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        for _ in 0..BATCH {
            // A connection that ends from now on queues this work.
            if this.undecided.load(Ordering::SeqCst) >= this.limit {
                return;
            }
            let (accepted, look_again) = match &mut *this.open.lock() {
                Some(Open {
                    socket: Some(socket),
                    ..
                }) => (L::accept(socket), L::look_again(socket)),
                _ => return,
            };
            if let Some(milliseconds) = look_again {
                Worker::kick_later(&this, milliseconds);
            }
            let accepted = match accepted {
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                // There is no memory for it, and it stays in the backlog.
                Err(_) => {
                    this.shared.counters.add(Count::NoMemory);
                    Worker::kick_later(&this, RETRY_MS);
                    return;
                }
            };
            let begun = KBox::new(Undecided::new(this.clone()), GFP_KERNEL)
                .map_err(Error::from)
                .and_then(|undecided| {
                    let (shared, requests) = (this.shared.clone(), this.requests.clone());
                    Request::begin(shared, requests, undecided, accepted)
                });
            // The peer has gone, or there is no memory for it.
            if begun.is_err() {
                this.shared.counters.add(Count::RequestLost);
            }
        }
        Worker::kick(&this);
    }
}

/// A listener, which stops when it is dropped.
pub(crate) struct Listener<L: Lower> {
    acceptor: Arc<Acceptor<L>>,
}

impl<L: Lower> Listener<L> {
    /// Listens. A wildcard is for `netdev`, and for the VLANs on it that have no device. Sleeps.
    pub(crate) fn new(
        shared: Arc<Shared>,
        requests: Arc<Requests<L>>,
        netdev: NetDevice,
        address: SocketAddr,
        backlog: u32,
        id: CmId,
    ) -> Result<Self> {
        let (queue, waker) = (work::current()?, Waker::new()?);
        let open = Open { socket: None, id };
        let acceptor = Arc::pin_init(
            pin_init!(Acceptor {
                shared,
                requests,
                waker,
                undecided: AtomicU32::new(0),
                admitted: AtomicU32::new(0),
                // iw_cm has memory for as many requests, and loses those beyond them.
                limit: backlog.max(1),
                open <- new_mutex!(Some(open), "iwarp_listener"),
                worker <- new_worker!(Acceptor<L>, queue),
            }),
            GFP_KERNEL,
        )?;
        // From here on `drop` cleans up after a failure.
        let this = Self { acceptor };
        let socket = L::listen(netdev, address, backlog, this.acceptor.waker.clone())?;
        if let Some(open) = &mut *this.acceptor.open.lock() {
            open.socket = Some(socket);
        }
        this.acceptor.waker.point_at(&this.acceptor)?;
        Ok(this)
    }
}

impl<L: Lower> Drop for Listener<L> {
    fn drop(&mut self) {
        self.acceptor.waker.let_go();
        Worker::stop(&self.acceptor);
        // A request that would be indicated now finds no consumer.
        let open = self.acceptor.open.lock().take();
        drop(open);
    }
}
