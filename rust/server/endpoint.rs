// SPDX-License-Identifier: GPL-2.0

//! The context of one connection: what arrives, and what the device reports.
//!
//! The connection's id and completion queue share it, so it owns neither. What waits in its queue
//! keeps the protection domain, and through it the id, which keeps this context:
//! [`Endpoint::clear`] cuts that circle.

use super::{
    config::STARVED,
    connection::Connection,
    rdma_read::ReadDone, //
    rejected_calls::RejectedCalls,
};
use crate::endpoint::ReceiveRing;
use kernel::{
    alloc::Flags,
    new_condvar, new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        CondVar,
        CondVarTimeoutResult,
        SetOnce,
        SpinLock, //
    },
    time::{
        msecs_to_jiffies,
        Msecs, //
    },
};
use proto::{
    cm_private_data::PrivateData, //
    conn::server::{
        Action,
        Connection as ConnectionState,
        Event,
        State, //
    },
};
use rdma::{
    cm,
    mr,
    receive,
    transfer::ReadHandler,
    QueuePair, //
    WcStatus,
};
use sunrpc::{
    SockAddr,
    SvcLink, //
};

/// How long a service thread waits for a client that takes nothing off. A client may have Sends tried
/// again for ever, and there are not many threads.
const STALLED_MS: Msecs = 30_000;

/// Something for a service thread to do.
pub(crate) enum Work {
    /// A message arrived.
    Message(receive::Message<Endpoint>),
    /// The memory of a call was pulled.
    ReadDone(ReadDone),
}

/// First in, first out, without allocating.
struct Queue {
    places: KVec<Option<Work>>,
    first: usize,
    len: usize,
}

/// All that waits for a thread.
struct Queues {
    /// They came before what came as messages meanwhile, and go first: RPCSEC_GSS refuses a call that too
    /// many have overtaken, and has the connection closed.
    pulled: Queue,
    messages: Queue,
}

impl Queues {
    const EMPTY: Self = Self {
        pulled: Queue::EMPTY,
        messages: Queue::EMPTY,
    };

    fn push(&mut self, work: Work) -> Result<(), Work> {
        match work {
            Work::ReadDone(_) => self.pulled.push(work),
            Work::Message(_) => self.messages.push(work),
        }
    }

    fn pop(&mut self) -> Option<Work> {
        self.pulled.pop().or_else(|| self.messages.pop())
    }

    fn is_empty(&self) -> bool {
        self.pulled.len == 0 && self.messages.len == 0
    }
}

impl Queue {
    const EMPTY: Self = Self {
        places: KVec::new(),
        first: 0,
        len: 0,
    };

    /// With places for `count`. Sleeps if `flags` allow it.
    fn new(count: usize, flags: Flags) -> Result<Self> {
        let mut places = KVec::with_capacity(count, flags)?;
        for _ in 0..count {
            places.push(None, flags)?;
        }
        Ok(Self {
            places,
            ..Self::EMPTY
        })
    }

    /// Moves what waits to `other`, if that has more places, and takes its place.
    fn move_to(&mut self, other: &mut Self) {
        if other.places.len() <= self.places.len() {
            return;
        }
        while let Some(work) = self.pop() {
            // It has more places.
            let _ = other.push(work);
        }
        core::mem::swap(self, other);
    }

    fn push(&mut self, work: Work) -> Result<(), Work> {
        let at = self.first.wrapping_add(self.len);
        let at = at.checked_rem(self.places.len()).unwrap_or(0);
        match self.places.get_mut(at) {
            Some(place @ None) => *place = Some(work),
            _ => return Err(work),
        }
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    fn pop(&mut self) -> Option<Work> {
        let work = self.places.get_mut(self.first)?.take()?;
        let next = self.first.wrapping_add(1);
        self.first = next.checked_rem(self.places.len()).unwrap_or(0);
        self.len = self.len.wrapping_sub(1);
        Some(work)
    }
}

/// A thread that waits for room.
struct Waiting<'a>(&'a Endpoint);

impl<'a> Waiting<'a> {
    fn new(endpoint: &'a Endpoint) -> Self {
        endpoint.waiters.add(1, Relaxed);
        Self(endpoint)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self(endpoint) = self;
        let last = endpoint.waiters.fetch_sub(1, Full) == 1;
        // Calls were not taken up meanwhile.
        if let (true, Some(link)) = (last, endpoint.link()) {
            link.with(|xprt| xprt.enqueue());
        }
    }
}

/// Who is at the other end, and what the listener knows of that one.
struct Client {
    address: SockAddr,
    rejected_calls: Arc<RejectedCalls>,
}

/// The context of one connection.
#[pin_data]
pub(crate) struct Endpoint {
    link: SetOnce<SvcLink<Connection>>,
    client: SetOnce<Client>,
    /// What the client said.
    pub(super) theirs: Option<PrivateData>,
    /// RDMA Reads that the client answers at the same time.
    pub(super) read_depth: u8,
    #[pin]
    connection_state: SpinLock<ConnectionState>,
    #[pin]
    queue: SpinLock<Queues>,
    /// Whether the connection_state says so. Each call asks more than once.
    open: Atomic<bool>,
    /// Threads that wait until something can be posted.
    waiters: Atomic<u32>,
    /// Changes, under the lock of `abandoned`, when it is worth to try again.
    turn: Atomic<u64>,
    /// Whether there is nothing to wait for any more.
    #[pin]
    abandoned: SpinLock<bool>,
    #[pin]
    roomier: CondVar,
    #[pin]
    pub(super) receives: ReceiveRing<Self>,
    /// Credits that the client has, once it hears of them.
    pub(super) granted: Atomic<u32>,
    /// Messages in work.
    serving: Atomic<u32>,
}

impl Endpoint {
    pub(super) fn new(private_data: &[u8], read_depth: u8) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                link: SetOnce::new(),
                client: SetOnce::new(),
                theirs: PrivateData::parse(private_data),
                read_depth,
                connection_state <- new_spinlock!(ConnectionState::new(), "rpcrdma::connection_state"),
                queue <- new_spinlock!(Queues::EMPTY, "rpcrdma::work"),
                open: Atomic::new(false),
                waiters: Atomic::new(0),
                turn: Atomic::new(0),
                abandoned <- new_spinlock!(false, "rpcrdma::abandoned"),
                roomier <- new_condvar!("rpcrdma::roomier"),
                receives <- ReceiveRing::new(),
                granted: Atomic::new(0),
                serving: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Ties the endpoint to its transport.
    pub(super) fn attach(&self, link: SvcLink<Connection>) {
        self.link.populate(link);
    }

    /// Makes places for what `count` Receives bring. Sleeps if `flags` allow it.
    pub(super) fn make_places(&self, count: usize, flags: Flags) -> Result {
        let mut pulled = Queue::new(count, flags)?;
        let mut messages = Queue::new(count, flags)?;
        let mut queue = self.queue.lock();
        queue.pulled.move_to(&mut pulled);
        queue.messages.move_to(&mut messages);
        drop(queue);
        // Frees the old ones, or the new ones if somebody made as many meanwhile.
        Ok(())
    }

    /// Says who the client is.
    pub(super) fn introduce(&self, address: SockAddr, rejected_calls: Arc<RejectedCalls>) {
        self.client.populate(Client {
            address,
            rejected_calls,
        });
    }

    /// Whether the client denied us memory for the call `xid` before. It is asked once.
    pub(super) fn was_rejected(&self, xid: u32) -> bool {
        let client = self.client.as_ref();
        client.is_some_and(|client| client.rejected_calls.take(&client.address, xid))
    }

    /// A transfer for the message with this first word failed.
    fn transfer_failed(&self, message: Option<[u8; 4]>, failure: WcStatus) {
        if let (true, Some(message), Some(client)) =
            (failure.is_denial(), message, self.client.as_ref())
        {
            let xid = u32::from_be_bytes(message);
            client.rejected_calls.add(client.address, xid);
        }
        self.failed(failure);
    }

    fn link(&self) -> Option<&SvcLink<Connection>> {
        self.link.as_ref()
    }

    /// Tells the state connection_state what happened.
    pub(super) fn step(&self, event: Event) -> Action {
        let mut connection_state = self.connection_state.lock();
        let action = connection_state.on(event);
        self.open
            .store(connection_state.state() == State::Open, Release);
        action
    }

    /// The connection is of no use any more. Returns whether that is news.
    pub(super) fn lost(&self, event: Event) -> bool {
        let news = self.step(event) == Action::TearDown;
        if news {
            self.abandon();
            if let Some(link) = self.link() {
                link.with(|xprt| xprt.deferred_close());
            }
        }
        news
    }

    /// A work request failed.
    fn failed(&self, failure: WcStatus) {
        if self.lost(Event::Disconnected) && !failure.is_flush() && rdma::may_log() {
            pr_info!("connection lost: {}\n", failure.reason());
        }
    }

    /// How many messages are in work.
    pub(super) fn serving(&self) -> u32 {
        self.serving.load(Relaxed)
    }

    /// Posts the Receive of `message` again, in time.
    pub(super) fn repost(&self, queue: &QueuePair<Self>, message: receive::Message<Self>) {
        // One less.
        self.serving.add(u32::MAX, Relaxed);
        self.receives.repost(queue, message.into_buffer());
    }

    /// Whether replies can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Acquire)
    }

    /// The next thing to do. `emptied` is called under the lock of the queue when nothing is left.
    pub(super) fn next(&self, emptied: impl FnOnce()) -> Option<Work> {
        let mut queue = self.queue.lock();
        let work = queue.pop();
        if queue.is_empty() {
            emptied();
        }
        work
    }

    fn add(&self, work: Work) {
        let Some(link) = self.link() else { return };
        let refused = link.with(|xprt| {
            let mut queue = self.queue.lock();
            let refused = queue.push(work).err();
            xprt.data_pending();
            drop(queue);
            xprt.enqueue();
            refused
        });
        // There are as many places as Receives.
        drop(refused);
    }

    /// Calls `attempt` until it does not say that there is no room. [`None`] if there will never
    /// be: the connection is at its end, or it is one of a client that lets nothing through for
    /// [`STALLED_MS`], which then is its end. Sleeps.
    pub(super) fn with_room<T, R>(
        &self,
        mut token: T,
        mut attempt: impl FnMut(T) -> Result<R, T>,
    ) -> Option<R> {
        // Who waits is counted until he has what he waits for, and sunrpc takes up no calls meanwhile: they
        // would take the room of who needs more of it.
        let mut waiting = None;
        loop {
            // Read before the attempt, so that what changes after it is not missed.
            let turn = self.turn.load(Acquire);
            token = match attempt(token) {
                Ok(done) => return Some(done),
                Err(token) => token,
            };
            STARVED.add(1);
            let mut left = msecs_to_jiffies(STALLED_MS);
            waiting.get_or_insert_with(|| Waiting::new(self));
            let mut abandoned = self.abandoned.lock();
            while self.turn.load(Relaxed) == turn && !*abandoned && left != 0 {
                use CondVarTimeoutResult as Wait;
                left = match self
                    .roomier
                    .wait_interruptible_timeout(&mut abandoned, left)
                {
                    Wait::Woken { jiffies } => jiffies,
                    // Threads of the kernel get no signals.
                    Wait::Timeout | Wait::Signal { .. } => 0,
                };
            }
            let (closed, stalled) = (*abandoned, self.turn.load(Relaxed) == turn);
            drop(abandoned);
            if closed {
                return None;
            }
            if stalled {
                self.lost(Event::Disconnected);
                return None;
            }
        }
    }

    /// Whether nobody waits for room.
    pub(super) fn has_room(&self) -> bool {
        // Who asks said before that there is something to take up, and whoever is the last to wait looks for
        // that when he waits no more: one of them must see what the other did. That takes a full barrier before the
        // load, which an addition of nothing has.
        self.waiters.fetch_add(0, Full) == 0
    }

    /// Sends away whoever waits.
    pub(super) fn abandon(&self) {
        *self.abandoned.lock() = true;
        self.roomier.notify_all();
    }

    /// Frees what is queued. No handler runs any more. Sleeps.
    pub(super) fn clear(&self) {
        loop {
            let work = self.queue.lock().pop();
            match work {
                Some(work) => drop(work),
                None => break,
            }
        }
        self.receives.clear();
    }
}

impl rdma::Handler for Endpoint {
    type InvalidateContext = ();

    fn cm_event(&self, event: cm::Event<'_>) {
        match event {
            cm::Event::Established { .. } => {
                let _ = self.step(Event::Established);
            }
            cm::Event::DeviceRemoval => {
                self.lost(Event::DeviceRemoved);
            }
            cm::Event::Disconnected
            | cm::Event::AddrChange
            | cm::Event::Rejected { .. }
            | cm::Event::Unreachable
            | cm::Event::ConnectError => {
                self.lost(Event::Disconnected);
            }
            cm::Event::AddrResolved
            | cm::Event::AddrError
            | cm::Event::RouteResolved
            | cm::Event::RouteError
            | cm::Event::Other => (),
        }
    }

    fn received(
        &self,
        _queue: &QueuePair<Self>,
        message: receive::Message<Self>,
        _invalidated: Option<receive::Invalidated<'_, Self>>,
    ) {
        // While it is open the connection_state has nothing to say.
        if self.is_open() || self.step(Event::Received) == Action::Serve {
            self.serving.add(1, Relaxed);
            self.add(Work::Message(message));
        }
    }

    fn receive_failed(&self, buffer: receive::Buffer<Self>, failure: WcStatus) {
        drop(buffer);
        self.failed(failure);
    }

    fn request_failed(&self, failure: WcStatus) {
        self.failed(failure);
    }

    fn write_failed(&self, message: [u8; 4], failure: WcStatus) {
        self.transfer_failed(Some(message), failure);
    }

    fn send_resumed(&self) {
        let abandoned = self.abandoned.lock();
        self.turn.add(1, Relaxed);
        drop(abandoned);
        self.roomier.notify_all();
    }

    // What a server registers is invalidated by the Reads that go there.

    fn invalidated(&self, _queue: &QueuePair<Self>, _regions: mr::Idle<Self>, _fenced: ()) {}

    fn invalidate_failed(&self, _regions: mr::Registered<Self>, _fenced: ()) {}
}

impl ReadHandler for Endpoint {
    type ReadDone = ReadDone;

    fn read_done(&self, _queue: &QueuePair<Self>, pulled: ReadDone) {
        self.add(Work::ReadDone(pulled));
    }

    fn read_failed(&self, pulled: ReadDone, failure: WcStatus) {
        let message = pulled.message.bytes().first_chunk().copied();
        drop(pulled);
        self.transfer_failed(message, failure);
    }
}
