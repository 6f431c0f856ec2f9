// SPDX-License-Identifier: GPL-2.0

//! Listening: the connection manager queues peers, a service thread takes them off.

use super::{
    connection::{
        self,
        Connection, //
    },
    endpoint::Endpoint,
    page_pool::PagePool, //
    rejected_calls::RejectedCalls,
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
use rdma::{
    cm::Id,
    listener, //
};
use sunrpc::{
    Net,
    SockAddr,
    SvcClass,
    SvcLink,
    SvcListener, //
};

/// How often to look for an address that moved, a second after the other.
const FOLLOW_TRIES: usize = 5;

/// What administrators find as transport `rdma`.
pub(crate) static CLASS: SvcClass<Listener> = SvcClass::new();

/// A peer that waits to be accepted.
pub(crate) struct Incoming {
    pub(super) id: Arc<Id<Endpoint>>,
    pub(super) endpoint: Arc<Endpoint>,
}

/// The private state of a listening `svc_xprt`.
#[pin_data]
pub(crate) struct Listener {
    waiting: Arc<Waiting>,
    pages: Arc<PagePool>,
    rejected_calls: Arc<RejectedCalls>,
    /// [`None`] before it listens and after it has stopped.
    #[pin]
    ear: Mutex<Option<Ear>>,
}

/// What listens, and where.
struct Ear {
    net: Net,
    id: listener::Listener<Waiting>,
}

/// Peers that wait, and whom to tell.
#[pin_data]
struct Waiting {
    link: SvcLink<Listener>,
    /// The address is that of other hardware now.
    moved: AtomicFlag,
    #[pin]
    queue: Mutex<KVec<Incoming>>,
}

impl Waiting {
    /// Peers beyond these are turned away.
    const MAX: usize = 128;

    /// Connection requests that the connection manager holds back.
    const BACKLOG: u16 = 64;

    fn new(link: SvcLink<Listener>) -> Result<Arc<Self>> {
        let queue = KVec::with_capacity(Self::MAX, GFP_KERNEL)?;
        Arc::pin_init(
            pin_init!(Self {
                link,
                moved: AtomicFlag::new(false),
                queue <- new_mutex!(queue, "rpcrdma::waiting"),
            }),
            GFP_KERNEL,
        )
    }

    fn admit(&self, request: &listener::Request<'_, Endpoint>) -> Result {
        let mut queue = self.queue.lock();
        if queue.len() >= Self::MAX {
            return Err(EBUSY);
        }
        let endpoint = Endpoint::new(request.private_data(), request.initiator_depth())?;
        let id = request.adopt(endpoint.clone())?;
        // There is room, and an adopted id must not be dropped here.
        let _ = queue.push_within_capacity(Incoming { id, endpoint });
        Ok(())
    }
}

impl listener::Listen for Waiting {
    type Connection = Endpoint;

    fn connect_request(&self, request: &listener::Request<'_, Endpoint>) {
        if self.admit(request).is_ok() {
            self.link.with(|xprt| xprt.connection_pending());
        }
    }

    fn moved(&self) {
        self.moved.store(true, Release);
        // What has to be done may not be done here.
        self.link.with(|xprt| xprt.connection_pending());
    }

    fn deaf(&self) {
        pr_warn!("a listener's device or address went away, and with it the listener\n");
        self.link.with(|xprt| xprt.deferred_close());
    }
}

impl Listener {
    /// Listens at the same address, wherever that is now. Sleeps.
    fn follow(&self) {
        let mut ear = self.ear.lock();
        let Some(Ear { net, id }) = ear.take() else {
            return;
        };
        let address = id.local_address();
        // There is one listener for an address.
        drop(id);
        for _ in 0..FOLLOW_TRIES {
            // The devices learn of it at the same time as we do. One that had the address would take us.
            fsleep(Delta::from_secs(1));
            let heard = address.as_ref().map(|address| self.hear(&net, address));
            if let Ok(Ok(id)) = heard {
                *ear = Some(Ear { net, id });
                return;
            }
        }
        listener::Listen::deaf(&*self.waiting);
    }

    fn hear(&self, net: &Net, address: &SockAddr) -> Result<listener::Listener<Waiting>> {
        listener::Listener::new(net, address, Waiting::BACKLOG, self.waiting.clone())
    }
}

impl SvcListener for Listener {
    type Connection = Connection;
    type Incoming = Incoming;

    const NAME: &'static CStr = c"rdma";
    const IDENT: i32 = 256;
    const MAX_PAYLOAD: u32 = 4 << 20;

    fn class() -> &'static SvcClass<Self> {
        &CLASS
    }

    fn new(link: SvcLink<Self>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            waiting: Waiting::new(link)?,
            pages: PagePool::new()?,
            rejected_calls: RejectedCalls::new()?,
            ear <- new_mutex!(None, "rpcrdma::listener"),
        })
    }

    fn listen(&self, net: Net, address: &SockAddr) -> Result<SockAddr> {
        let id = self.hear(&net, address)?;
        let local = id.local_address()?;
        *self.ear.lock() = Some(Ear { net, id });
        Ok(local)
    }

    fn next(&self) -> (Option<Incoming>, bool) {
        if self.waiting.moved.xchg(false, Full) {
            self.follow();
        }
        let mut queue = self.waiting.queue.lock();
        let incoming = queue.remove(0).ok();
        (incoming, !queue.is_empty())
    }

    fn accept(
        &self,
        incoming: Incoming,
        link: SvcLink<Connection>,
    ) -> impl PinInit<Connection, Error> {
        connection::Connection::new(
            incoming,
            link,
            self.pages.clone(),
            self.rejected_calls.clone(),
        )
    }

    fn detach(&self) {
        let ear = self.ear.lock().take();
        drop(ear);
        loop {
            let incoming = self.waiting.queue.lock().pop();
            match incoming {
                Some(incoming) => drop(incoming),
                None => break,
            }
        }
    }
}
