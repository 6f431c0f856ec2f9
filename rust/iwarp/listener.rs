// SPDX-License-Identifier: GPL-2.0

//! What listens for a consumer.
//!
//! So many connections as the consumer's backlog says may be undecided at once, whether their peer or the consumer is silent; both
//! have a time limit. As long as there are so many, peers wait in the backlog of the protocol below, which is of the same size.
//!
//! A protocol that can tell a peer that it is one too many has so many silent peers, and as many requests that the consumer has not
//! decided on: who asks when there are so many is told at once. So who waits in the backlog waits for silent peers only.

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

/// Connections that are taken over in a row, before others have their turn.
const BATCH: usize = 16;

/// Milliseconds until a listener tries again for which there was no memory.
const RETRY_MS: u32 = 100;

/// What a listener has as long as the consumer wants it.
struct Open<L: Lower> {
    socket: Option<L::Listener>,
    id: CmId,
}

/// Accepts connections, and tells the consumer of them.
#[pin_data]
pub(crate) struct Acceptor<L: Lower> {
    shared: Arc<Shared>,
    requests: Arc<Requests<L>>,
    waker: Arc<Waker>,
    // Connections that are undecided; those that were admitted; and how many of either there may be.
    undecided: AtomicU32,
    admitted: AtomicU32,
    limit: u32,
    #[pin]
    open: Mutex<Option<Open<L>>>,
    #[pin]
    worker: Worker,
}

impl<L: Lower> Acceptor<L> {
    /// A connection is not undecided any more, so another one may be.
    fn give_back(this: &Arc<Self>) {
        if this.undecided.fetch_sub(1, Ordering::SeqCst) >= this.limit {
            Worker::kick(this);
        }
    }
}

/// One of the undecided connections of a listener, or of those that were admitted. Dropped, another one may take its place.
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
        // It is asked once for each request.
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
            // Who ends one from now on kicks this worker.
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
                // There is no memory for it, and it stays where it is.
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

/// What listens. Dropped, it does not.
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
                // iw_cm has memory for so many requests, and loses those beyond them.
                limit: backlog.max(1),
                open <- new_mutex!(Some(open), "iwarp_listener"),
                worker <- new_worker!(Acceptor<L>, queue),
            }),
            GFP_KERNEL,
        )?;
        // From here on a failure is cleaned up by `drop`.
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
        // Who would tell the consumer of a request finds nothing any more.
        let open = self.acceptor.open.lock().take();
        drop(open);
    }
}
