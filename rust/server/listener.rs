// SPDX-License-Identifier: GPL-2.0

//! The private state of a listening `svc_xprt`: the CM queues [connection
//! requests](super::connect_requests), and nfsd threads accept them.
//!
//! The timer of the listener does what the CM or the removal of a device waits for, as no nfsd
//! thread may be free. It drops requests of clients that have gone, destroys the listening id when
//! its device is removed, and rebinds when the address moves to another device.

use super::{
    connect_requests::{
        Limits,
        RequestQueue, //
    },
    page_pool::PagePool,
    queue_limits::MAX_PAYLOAD,
    rejected_calls::RejectedCalls,
    transport::{
        log_rejected,
        ConnectRequest,
        ServerTransport, //
    },
};
use core::mem::replace;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        Instant,
        Monotonic,
        Msecs, //
    }, //
};
use rdma::listener;
use sunrpc::{
    Net,
    SockAddr,
    SvcClass,
    SvcLink,
    SvcListener,
    SvcXprt, //
};

/// The number of attempts to bind the address again after it has moved to another device.
const REBIND_TRIES: usize = 5;

/// The delay before each attempt. The devices learn of the move at the same time as the listener,
/// and until then the former device would still accept the id.
const REBIND_INTERVAL_MS: Msecs = 1_000;

/// The number of requests that the CM may queue.
const BACKLOG: u16 = 64;

/// The transport class `rdma`, which administrators name in `/proc/fs/nfsd/portlist`.
pub(crate) static CLASS: SvcClass<Listener> = SvcClass::new();

/// The private state of a listening `svc_xprt`.
#[pin_data]
pub(crate) struct Listener {
    requests: Arc<RequestQueue>,
    page_pool: Arc<PagePool>,
    rejected_calls: Arc<RejectedCalls>,
    #[pin]
    place: Mutex<Place>,
}

/// The state of the listening id.
enum Place {
    /// The listener is not bound yet, or no longer.
    Nowhere,
    At(ListenId),
    /// The address has moved to another device. At most `tries` attempts to bind it are left.
    Moved {
        net: Net,
        address: SockAddr,
        tries: usize,
        /// When the address moved, or the last attempt was made.
        since: Instant<Monotonic>,
    },
}

/// The listening id and its network namespace.
struct ListenId {
    net: Net,
    id: listener::Listener<RequestQueue>,
}

impl Listener {
    /// Destroys the listening id because its address has moved. Sleeps.
    fn leave(listening: ListenId) -> Place {
        let ListenId { net, id } = listening;
        // Only one id can listen at an address, so this one is destroyed first.
        match id.local_address() {
            Ok(address) => Place::Moved {
                net,
                address,
                tries: REBIND_TRIES,
                since: Instant::now(),
            },
            Err(_) => Place::Nowhere,
        }
    }

    /// Binds `address` to the device that has it now, if attempts are left. Sleeps.
    fn follow(&self, net: Net, address: SockAddr, tries: usize) -> Place {
        match (self.bind(&net, &address), tries.checked_sub(1)) {
            (Ok(id), _) => Place::At(ListenId { net, id }),
            (Err(_), Some(tries @ 1..)) => Place::Moved {
                net,
                address,
                tries,
                since: Instant::now(),
            },
            (Err(_), _) => Place::Nowhere,
        }
    }

    /// Creates an id that listens at `address`. Sleeps.
    fn bind(&self, net: &Net, address: &SockAddr) -> Result<listener::Listener<RequestQueue>> {
        listener::Listener::new(net, address, BACKLOG, self.requests.clone())
    }
}

impl SvcListener for Listener {
    type Connection = ServerTransport;
    type Incoming = ConnectRequest;

    const NAME: &'static CStr = c"rdma";
    const IDENT: i32 = 256;
    const MAX_PAYLOAD: u32 = MAX_PAYLOAD;

    fn class() -> &'static SvcClass<Self> {
        &CLASS
    }

    fn new(link: SvcLink<Self>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            requests: RequestQueue::new(link, Limits::DEFAULT)?,
            page_pool: PagePool::new()?,
            rejected_calls: RejectedCalls::new()?,
            place <- new_mutex!(Place::Nowhere, "rpcrdma::listen_place"),
        })
    }

    fn listen(&self, net: Net, address: &SockAddr) -> Result<SockAddr> {
        // Locked before the id is bound, as the device may be removed right after.
        let mut place = self.place.lock();
        let id = self.bind(&net, address)?;
        let local = id.local_address()?;
        self.requests.address.populate(local);
        *place = Place::At(ListenId { net, id });
        Ok(local)
    }

    fn next(&self) -> (Option<ConnectRequest>, bool) {
        self.requests.next()
    }

    fn peer(request: &ConnectRequest) -> Result<SockAddr> {
        request.id.remote_address()
    }

    fn rejected(&self, peer: &Result<SockAddr>, error: Error) {
        log_rejected(peer, error);
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

    fn timer_expired(&self, xprt: &SvcXprt<Self>) {
        self.requests.drop_gone();
        self.requests.look_again();
        let mut place = self.place.lock();
        let moved = self.requests.has_moved();
        let before = replace(&mut *place, Place::Nowhere);
        let is_somewhere = !matches!(before, Place::Nowhere);
        *place = match before {
            // The removal of the device waits until the id is dropped.
            _ if self.requests.is_lost() => return,
            Place::At(listening) if moved => Self::leave(listening),
            // The timer may have been started for another reason, or expire a moment early.
            Place::Moved {
                net,
                address,
                tries,
                since,
            } if since.elapsed().as_millis() >= i64::from(REBIND_INTERVAL_MS / 2) => {
                self.follow(net, address, tries)
            }
            unchanged => unchanged,
        };
        match *place {
            Place::Moved { .. } => xprt.start_timer(REBIND_INTERVAL_MS),
            Place::Nowhere if is_somewhere => {
                listener::Listen::listener_lost(&*self.requests);
            }
            Place::Nowhere | Place::At(_) => (),
        }
    }

    fn detach(&self) {
        let place = replace(&mut *self.place.lock(), Place::Nowhere);
        drop(place);
        self.requests.drop_all();
    }
}
