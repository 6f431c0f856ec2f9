// SPDX-License-Identifier: GPL-2.0

//! The private state of a listening `svc_xprt`: the CM queues connection requests, and nfsd threads
//! accept them, one after the other.
//!
//! The timer of the listener does what the CM or the removal of a device waits for, as no nfsd
//! thread may be free. It drops requests of clients that have gone, destroys the listening id when
//! its device is removed, and rebinds when the address moves to another device.
//!
//! After an outage all clients connect at the same time. A rejected client backs off for longer and
//! longer, so requests are queued instead, up to limits that bound the memory. An address that asks
//! for many connections in a short time is [delayed](proto::admission), and others pass it.

use super::{
    rdma_read::PagePool,
    transport::{
        log_rejected,
        ConnectRequest, //
    }, //
};
use crate::prelude::*;
use core::mem::{
    replace,
    take, //
};
use kernel::{
    new_mutex,
    sync::{
        Mutex,
        SetOnce, //
    }, //
};
use proto::admission::Admission;
use rdma::listener;
use sunrpc::{
    AddrText,
    Net,
    SvcClass,
    SvcListener, //
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
    const MAX_PAYLOAD: u32 = config::MAX_PAYLOAD;

    fn class() -> &'static SvcClass<Self> {
        &CLASS
    }

    fn new(link: WeakSvcXprt<Self>) -> impl PinInit<Self, Error> {
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
        link: WeakSvcXprt<ServerTransport>,
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
        self.requests.detached.store(true, Release);
        let bind_state = replace(&mut *self.bind_state.lock(), BindState::Unbound);
        drop(bind_state);
        self.requests.drop_all();
    }
}

/// The limits of requests that wait for a listener. Requests beyond them are rejected.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// The limit for all addresses together.
    pub(super) all: usize,
    /// The limit for one address.
    pub(super) of_host: usize,
}

impl Limits {
    /// Enough for all clients of a large site at the same time. Each takes some KiB.
    const DEFAULT: Self = Self {
        all: 4096,
        of_host: 256,
    };
}

/// The context of the listening id: the queue of connection requests that wait to be accepted.
#[pin_data]
pub(super) struct AcceptQueue {
    link: WeakSvcXprt<Listener>,
    /// The address that the listener is bound to. Unset until it listens.
    pub(super) address: SetOnce<SockAddr>,
    limits: Limits,
    began: Instant<Monotonic>,
    /// Set when the address has moved to another device, until the listener begins to rebind.
    address_changed: AtomicFlag,
    /// Whether the listener can accept no more connections.
    lost: AtomicFlag,
    /// Whether the listener has ended. sunrpc may then have let go of its namespace.
    detached: AtomicFlag,
    #[pin]
    pub(super) waiting: Mutex<PendingRequests>,
}

/// The requests, and the admission state of their addresses.
pub(super) struct PendingRequests {
    pub(super) requests: KVVec<ConnectRequest>,
    pub(super) admission: Admission,
    /// Whether a delay was logged since the queue was last empty.
    logged: bool,
}

/// The result of taking the next request.
enum NextRequest {
    /// A request whose client may be accepted, or has gone.
    Request(ConnectRequest),
    /// Every client is delayed: the shortest delay in milliseconds, and the address of that client
    /// if the delay is to be logged.
    Delayed(u64, Option<SockAddr>),
    Empty,
}

impl PendingRequests {
    /// Takes the first request whose client may be accepted at `now`, or has gone.
    fn pop(&mut self, now: u64) -> NextRequest {
        let admission = &self.admission;
        let delay = |request: &ConnectRequest| {
            if request.connection.state.is_requested() {
                admission.delay(&request.host, now)
            } else {
                0
            }
        };
        let mut soonest: Option<(usize, u64)> = None;
        for (at, request) in self.requests.iter().enumerate() {
            let delay = delay(request);
            if soonest.is_none_or(|(_, least)| delay < least) {
                soonest = Some((at, delay));
            }
            if delay == 0 {
                break;
            }
        }
        match soonest {
            Some((at, 0)) => match self.requests.remove(at) {
                Ok(request) => NextRequest::Request(request),
                Err(_) => NextRequest::Empty,
            },
            Some((at, delay)) => {
                let request = self.requests.get(at).filter(|_| !self.logged);
                let client = request.and_then(|request| request.id.remote_address().ok());
                self.logged = true;
                NextRequest::Delayed(delay, client)
            }
            None => {
                // The memory that many requests took is not kept.
                drop(take(&mut self.requests));
                self.logged = false;
                NextRequest::Empty
            }
        }
    }
}

impl AcceptQueue {
    /// Creates a queue with `limits`.
    pub(super) fn new(link: WeakSvcXprt<Listener>, limits: Limits) -> Result<Arc<Self>> {
        let waiting = PendingRequests {
            requests: KVVec::new(),
            admission: Admission::new(),
            logged: false,
        };
        Arc::pin_init(
            pin_init!(Self {
                link,
                address: SetOnce::new(),
                limits,
                began: Instant::now(),
                address_changed: AtomicFlag::new(false),
                lost: AtomicFlag::new(false),
                detached: AtomicFlag::new(false),
                waiting <- new_mutex!(waiting, "rpcrdma::accept_queue"),
            }),
            GFP_KERNEL,
        )
    }

    fn push(&self, request: &listener::Request<'_, ServerConn>) -> Result {
        let host = request.remote_address()?.host_key();
        let mut waiting = self.waiting.lock();
        let of_host = waiting.requests.iter().filter(|other| other.host == host);
        if waiting.requests.len() >= self.limits.all || of_host.count() >= self.limits.of_host {
            return Err(EBUSY);
        }
        waiting.requests.reserve(1, GFP_KERNEL)?;
        let connection = ServerConn::new(
            self.link.clone(),
            request.private_data(),
            request.initiator_depth(),
        )?;
        let id = request.adopt(connection.clone())?;
        // The capacity was reserved. An adopted id must not be dropped here.
        let _ = waiting.requests.push_within_capacity(ConnectRequest {
            id,
            connection,
            host,
        });
        Ok(())
    }

    /// Takes the first request whose client still waits and may be accepted now, and returns
    /// whether there are more. If all are delayed, starts the timer of the listener. Sleeps.
    pub(super) fn next(&self) -> (Option<ConnectRequest>, bool) {
        self.next_at(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(0))
    }

    /// Does what [`Self::next`] does, `now` milliseconds after the queue was created.
    pub(super) fn next_at(&self, now: u64) -> (Option<ConnectRequest>, bool) {
        loop {
            let mut waiting = self.waiting.lock();
            match waiting.pop(now) {
                // The client has gone; no queue pair is created for it.
                NextRequest::Request(request) if !request.connection.state.is_requested() => {
                    drop(waiting);
                    drop(request);
                }
                NextRequest::Request(request) => {
                    waiting.admission.accepted(&request.host, now);
                    let more = !waiting.requests.is_empty();
                    drop(waiting);
                    return (Some(request), more);
                }
                NextRequest::Delayed(delay, client) => {
                    drop(waiting);
                    if let Some(client) = client {
                        log_delayed(&client);
                    }
                    let delay = u32::try_from(delay).unwrap_or(u32::MAX);
                    self.link.with(|xprt| xprt.start_timer(delay));
                    return (None, false);
                }
                NextRequest::Empty => return (None, false),
            }
        }
    }

    /// Wakes an nfsd thread to retry delayed requests, if there are any. Sleeps.
    fn retry_delayed(&self) {
        let is_empty = self.waiting.lock().requests.is_empty();
        if !is_empty {
            // A namespace that ends waits for RCU readers, as this is, between the end of the
            // listener and its own.
            self.link.with(|xprt| {
                if !self.detached.load(Acquire) {
                    xprt.connection_pending();
                }
            });
        }
    }

    /// Drops requests whose client or device has gone. Sleeps.
    pub(super) fn drop_gone(&self) {
        loop {
            let mut waiting = self.waiting.lock();
            let gone = waiting
                .requests
                .iter()
                .position(|request| !request.connection.state.is_requested());
            let request = gone.and_then(|index| waiting.requests.remove(index).ok());
            drop(waiting);
            if request.is_none() {
                break;
            }
        }
    }

    /// Drops all requests. Sleeps.
    fn drop_all(&self) {
        let requests = take(&mut self.waiting.lock().requests);
        drop(requests);
    }

    /// Returns whether the address has moved since the last call.
    fn has_moved(&self) -> bool {
        self.address_changed.xchg(false, Full)
    }

    /// Returns whether the listener can accept no more connections.
    fn is_lost(&self) -> bool {
        self.lost.load(Acquire)
    }
}

/// Logs that connection requests of `client` wait.
fn log_delayed(client: &SockAddr) {
    let client = client.text();
    endpoint::log(|| {
        let client = client.as_c_str();
        pr_info!("{client} asks for many connections, and waits for the next ones\n");
    });
}

impl listener::Listen for AcceptQueue {
    type Connection = ServerConn;

    fn connect_request(&self, request: &listener::Request<'_, ServerConn>) {
        match self.push(request) {
            Ok(()) => _ = self.link.with(|xprt| xprt.connection_pending()),
            // Not adopted, so the CM turns the client away.
            Err(error) => log_rejected(&request.remote_address(), error),
        }
    }

    fn address_changed(&self) {
        self.address_changed.store(true, Release);
        // The id cannot be destroyed in its own handler.
        self.link.with(|xprt| xprt.start_timer(0));
    }

    fn listener_lost(&self) {
        let address = self.address.as_ref();
        let address = address.map_or(AddrText::EMPTY, |address| address.text());
        endpoint::log(|| {
            let address = address.as_c_str();
            pr_warn!("the device or address of the listener at {address} went away, and with it the listener\n");
        });
        self.lost.store(true, Release);
        self.link.with(|xprt| {
            xprt.deferred_close();
            xprt.start_timer(0);
        });
    }
}
