// SPDX-License-Identifier: GPL-2.0

//! What listens for a consumer.

use crate::counters::Count;
use crate::request::Consumer;
use crate::request::Request;
use crate::request::Requests;
use crate::shared::Shared;
use crate::startup;
use crate::waker::Waker;
use core::net::SocketAddr;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::sync::Mutex;
use provider::cm::Addresses;
use provider::cm::CmId;
use provider::cm::Told;
use provider::netdev::NetDevice;
use provider::work;
use provider::work::Work;
use provider::work::Worker;

/// Connections that are taken over in a row, before others have their turn.
const BATCH: usize = 16;

/// What a listener has as long as the consumer wants it.
struct Open {
    socket: Option<socket::Listener<Waker>>,
    id: CmId,
}

/// Accepts connections, and tells the consumer of them.
#[pin_data]
pub(crate) struct Acceptor {
    shared: Arc<Shared>,
    requests: Arc<Requests>,
    waker: Arc<Waker>,
    #[pin]
    open: Mutex<Option<Open>>,
    #[pin]
    worker: Worker,
}

impl Consumer for Acceptor {
    fn tell(&self, ends: Addresses, told: Told<'_>, handle: u32) -> Result {
        let open = self.open.lock();
        let open = open.as_ref().ok_or(ECONNREFUSED)?;
        open.id.connect_request(ends, told, handle)
    }
}

impl Work for Acceptor {
    fn worker(&self) -> &Worker {
        &self.worker
    }

    fn run(this: Arc<Self>) {
        for _ in 0..BATCH {
            let accepted = match &*this.open.lock() {
                Some(Open {
                    socket: Some(socket),
                    ..
                }) => socket.accept(),
                _ => return,
            };
            let begun = match accepted {
                Ok(Some(accepted)) => {
                    let (shared, requests) = (this.shared.clone(), this.requests.clone());
                    Request::begin(shared, requests, this.clone(), accepted)
                }
                Ok(None) => return,
                // The peer has gone, or there is no memory for it.
                Err(error) => Err(error),
            };
            if begun.is_err() {
                this.shared.counters.add(Count::RequestLost);
            }
        }
        Worker::kick(&this);
    }
}

/// What listens. Dropped, it does not.
pub(crate) struct Listener {
    acceptor: Arc<Acceptor>,
}

impl Listener {
    /// Listens. A wildcard is for `netdev` only. Sleeps.
    pub(crate) fn new(
        shared: Arc<Shared>,
        requests: Arc<Requests>,
        netdev: &NetDevice,
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
                open <- new_mutex!(Some(open), "iwarp_listener"),
                worker <- Worker::new::<Acceptor>(queue),
            }),
            GFP_KERNEL,
        )?;
        // From here on a failure is cleaned up by `drop`.
        let this = Self { acceptor };
        let interface = address.ip().is_unspecified().then(|| netdev.index());
        let waker = this.acceptor.waker.clone();
        let socket = socket::Listener::new(
            &netdev.net()?,
            address,
            interface,
            backlog,
            &startup::SETTINGS,
            waker,
        )?;
        if let Some(open) = &mut *this.acceptor.open.lock() {
            open.socket = Some(socket);
        }
        this.acceptor.waker.point_at(&this.acceptor)?;
        Ok(this)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.acceptor.waker.let_go();
        Worker::stop(&self.acceptor);
        // Who would tell the consumer of a request finds nothing any more.
        let open = self.acceptor.open.lock().take();
        drop(open);
    }
}
