// SPDX-License-Identifier: GPL-2.0

//! The private state of a listening `svc_xprt`: the CM queues [connection
//! requests](super::accept_queue), and nfsd threads accept them.
//!
//! The timer of the listener does what the CM or the removal of a device waits for, as no nfsd
//! thread may be free. It drops requests of clients that have gone, destroys the listening id when
//! its device is removed, and rebinds when the address moves to another device.

use super::{
    accept_queue::{
        AcceptQueue,
        Limits, //
    },
    denied_calls::DeniedCalls,
    page_pool::PagePool,
    queue_limits::MAX_PAYLOAD,
    transport::{
        log_rejected,
        ConnectRequest,
        ServerTransport, //
    }, //
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
    requests: Arc<AcceptQueue>,
    page_pool: Arc<PagePool>,
    denied_calls: Arc<DeniedCalls>,
    #[pin]
    bind_state: Mutex<BindState>,
}

/// The state of the listening id.
enum BindState {
    /// The listener is not bound yet, or no longer.
    Unbound,
    Bound(ListenId),
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
    id: listener::CmListener<AcceptQueue>,
}

impl Listener {
    /// Destroys the listening id because its address has moved. Sleeps.
    fn unbind(listening: ListenId) -> BindState {
        let ListenId { net, id } = listening;
        // Only one id can listen at an address, so this one is destroyed first.
        match id.local_address() {
            Ok(address) => BindState::Moved {
                net,
                address,
                tries: REBIND_TRIES,
                since: Instant::now(),
            },
            Err(_) => BindState::Unbound,
        }
    }

    /// Binds `address` to the device that has it now, if attempts are left. Sleeps.
    fn rebind(&self, net: Net, address: SockAddr, tries: usize) -> BindState {
        match (self.bind(&net, &address), tries.checked_sub(1)) {
            (Ok(id), _) => BindState::Bound(ListenId { net, id }),
            (Err(_), Some(tries @ 1..)) => BindState::Moved {
                net,
                address,
                tries,
                since: Instant::now(),
            },
            (Err(_), _) => BindState::Unbound,
        }
    }

    /// Creates an id that listens at `address`. Sleeps.
    fn bind(&self, net: &Net, address: &SockAddr) -> Result<listener::CmListener<AcceptQueue>> {
        listener::CmListener::new(net, address, BACKLOG, self.requests.clone())
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
            requests: AcceptQueue::new(link, Limits::DEFAULT)?,
            page_pool: PagePool::new()?,
            denied_calls: DeniedCalls::new()?,
            bind_state <- new_mutex!(BindState::Unbound, "rpcrdma::bind_state"),
        })
    }

    fn listen(&self, net: Net, address: &SockAddr) -> Result<SockAddr> {
        // Locked before the id is bound, as the device may be removed right after.
        let mut bind_state = self.bind_state.lock();
        let id = self.bind(&net, address)?;
        let local = id.local_address()?;
        self.requests.address.populate(local);
        *bind_state = BindState::Bound(ListenId { net, id });
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
            self.denied_calls.clone(),
        )
    }

    fn timer_expired(&self, xprt: &SvcXprt<Self>) {
        self.requests.drop_gone();
        self.requests.retry_delayed();
        let mut bind_state = self.bind_state.lock();
        let moved = self.requests.has_moved();
        let before = replace(&mut *bind_state, BindState::Unbound);
        let was_bound = !matches!(before, BindState::Unbound);
        *bind_state = match before {
            // The removal of the device waits until the id is dropped.
            _ if self.requests.is_lost() => return,
            BindState::Bound(listening) if moved => Self::unbind(listening),
            // The timer may have been started for another reason, or expire a moment early.
            BindState::Moved {
                net,
                address,
                tries,
                since,
            } if since.elapsed().as_millis() >= i64::from(REBIND_INTERVAL_MS / 2) => {
                self.rebind(net, address, tries)
            }
            unchanged => unchanged,
        };
        match *bind_state {
            BindState::Moved { .. } => xprt.start_timer(REBIND_INTERVAL_MS),
            BindState::Unbound if was_bound => {
                listener::Listen::listener_lost(&*self.requests);
            }
            BindState::Unbound | BindState::Bound(_) => (),
        }
    }

    fn detach(&self) {
        let bind_state = replace(&mut *self.bind_state.lock(), BindState::Unbound);
        drop(bind_state);
        self.requests.drop_all();
    }
}
