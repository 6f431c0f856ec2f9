// SPDX-License-Identifier: GPL-2.0

//! The private state of a listening `svc_xprt`: the CM queues connection requests, an nfsd thread
//! accepts them.

use super::{
    page_pool::PagePool,
    rejected_calls::RejectedCalls,
    transport::{
        log_rejected,
        ConnectRequest,
        Connection,
        ServerTransport, //
    },
};
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Full,
            Release, //
        },
        Arc,
        Mutex, //
    },
    time::{
        delay::fsleep,
        Delta, //
    },
};
use rdma::listener;
use sunrpc::{
    Net,
    SockAddr,
    SvcClass,
    SvcLink,
    SvcListener, //
};

/// How often to bind the address again after it moved to another device, once a second.
const REBIND_TRIES: usize = 5;

/// The transport class `rdma`, which administrators name in `/proc/fs/nfsd/portlist`.
pub(crate) static CLASS: SvcClass<Listener> = SvcClass::new();

/// The private state of a listening `svc_xprt`.
#[pin_data]
pub(crate) struct Listener {
    requests: Arc<RequestQueue>,
    page_pool: Arc<PagePool>,
    rejected_calls: Arc<RejectedCalls>,
    /// [`None`] before it listens and after it has stopped.
    #[pin]
    listen_id: Mutex<Option<ListenId>>,
}

/// The id that listens, and its network namespace.
struct ListenId {
    net: Net,
    id: listener::Listener<RequestQueue>,
}

/// The context of the listening id: connection requests that wait to be accepted.
#[pin_data]
pub(super) struct RequestQueue {
    link: SvcLink<Listener>,
    /// How many requests may wait. Later ones are rejected.
    max: usize,
    /// Set when the address has moved to another device, until the listener has followed it.
    address_changed: AtomicFlag,
    #[pin]
    pub(super) queue: Mutex<KVec<ConnectRequest>>,
}

impl RequestQueue {
    /// How many requests may wait for a listener.
    const MAX: usize = 128;

    /// How many requests the CM may hold back.
    const BACKLOG: u16 = 64;

    /// A queue for at most `max` requests.
    pub(super) fn new(link: SvcLink<Listener>, max: usize) -> Result<Arc<Self>> {
        let queue = KVec::with_capacity(max, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                link,
                max,
                address_changed: AtomicFlag::new(false),
                queue <- new_mutex!(queue, "rpcrdma::connect_requests"),
            }),
            GFP_KERNEL,
        )
    }

    fn push(&self, request: &listener::Request<'_, Connection>) -> Result {
        let mut queue = self.queue.lock();
        if queue.len() >= self.max {
            return Err(EBUSY);
        }
        let connection = Connection::new(request.private_data(), request.initiator_depth())?;
        let id = request.adopt(connection.clone())?;
        // There is room, and an adopted id must not be dropped here.
        let _ = queue.push_within_capacity(ConnectRequest { id, connection });
        Ok(())
    }

    /// Takes the first request whose client still waits, and says whether there are more. Sleeps.
    pub(super) fn next(&self) -> (Option<ConnectRequest>, bool) {
        loop {
            let mut queue = self.queue.lock();
            let request = queue.remove(0).ok();
            let more = !queue.is_empty();
            drop(queue);
            match request {
                // The client is gone again, and costs no queue pair.
                Some(request) if !request.connection.state.is_requested() => drop(request),
                request => return (request, more),
            }
        }
    }
}

impl listener::Listen for RequestQueue {
    type Connection = Connection;

    fn connect_request(&self, request: &listener::Request<'_, Connection>) {
        match self.push(request) {
            Ok(()) => _ = self.link.with(|xprt| xprt.connection_pending()),
            // Not adopted, so the CM turns the client away.
            Err(error) => log_rejected(&request.remote_address(), error),
        }
    }

    fn address_changed(&self) {
        self.address_changed.store(true, Release);
        // The id cannot be destroyed in its own handler, so an nfsd thread does the rest.
        self.link.with(|xprt| xprt.connection_pending());
    }

    fn listener_lost(&self) {
        pr_warn!("a listener's device or address went away, and with it the listener\n");
        self.link.with(|xprt| xprt.deferred_close());
    }
}

impl Listener {
    /// Replaces the listening id by one that is bound to the device which has the address now.
    /// Sleeps.
    fn rebind(&self) {
        let mut listen_id = self.listen_id.lock();
        let Some(ListenId { net, id }) = listen_id.take() else {
            return;
        };
        let address = id.local_address();
        // Only one id can listen at an address.
        drop(id);
        for _ in 0..REBIND_TRIES {
            // The devices learn of the move at the same time as this listener. A device that had
            // the address would still take the id.
            fsleep(Delta::from_secs(1));
            let bound = address.as_ref().map(|address| self.bind(&net, address));
            if let Ok(Ok(id)) = bound {
                *listen_id = Some(ListenId { net, id });
                return;
            }
        }
        listener::Listen::listener_lost(&*self.requests);
    }

    /// A new id that listens at `address`. Sleeps.
    fn bind(&self, net: &Net, address: &SockAddr) -> Result<listener::Listener<RequestQueue>> {
        listener::Listener::new(net, address, RequestQueue::BACKLOG, self.requests.clone())
    }
}

impl SvcListener for Listener {
    type Connection = ServerTransport;
    type Incoming = ConnectRequest;

    const NAME: &'static CStr = c"rdma";
    const IDENT: i32 = 256;
    const MAX_PAYLOAD: u32 = 4 << 20;

    fn class() -> &'static SvcClass<Self> {
        &CLASS
    }

    fn new(link: SvcLink<Self>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            requests: RequestQueue::new(link, RequestQueue::MAX)?,
            page_pool: PagePool::new()?,
            rejected_calls: RejectedCalls::new()?,
            listen_id <- new_mutex!(None, "rpcrdma::listen_id"),
        })
    }

    fn listen(&self, net: Net, address: &SockAddr) -> Result<SockAddr> {
        let id = self.bind(&net, address)?;
        let local = id.local_address()?;
        *self.listen_id.lock() = Some(ListenId { net, id });
        Ok(local)
    }

    fn next(&self) -> (Option<ConnectRequest>, bool) {
        if self.requests.address_changed.xchg(false, Full) {
            self.rebind();
        }
        self.requests.next()
    }

    fn accept(
        &self,
        request: ConnectRequest,
        link: SvcLink<ServerTransport>,
    ) -> impl PinInit<ServerTransport, Error> {
        ServerTransport::new(
            request,
            link,
            self.page_pool.clone(),
            self.rejected_calls.clone(),
        )
    }

    fn detach(&self) {
        let listen_id = self.listen_id.lock().take();
        drop(listen_id);
        loop {
            let request = self.requests.queue.lock().pop();
            match request {
                Some(request) => drop(request),
                None => break,
            }
        }
    }
}
