// SPDX-License-Identifier: GPL-2.0

//! The context of one connection: its state, and the handlers of its events and completions.
//!
//! The connection's id and completion queue share the context, so it owns neither of them. The
//! messages in its work queue keep the protection domain alive, and through it the id, which keeps
//! this context alive: [`Connection::clear`] breaks that circle.
//!
//! The handlers run in workers of the CM and of the completion queue. They only queue work and set
//! flags; an nfsd thread does the rest.

use super::{
    config::SQ_STARVE,
    rejected_calls::RejectedCalls,
    sq_waiters::{
        SqWaiters,
        WaitError, //
    },
    work_queue::{
        ChunkedCall,
        Work,
        WorkQueue, //
    },
};
use crate::endpoint::ReceiveRing;
use kernel::{
    alloc::Flags,
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc,
        SetOnce,
        SpinLock, //
    },
};
use proto::{
    cm_private_data::PrivateData,
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
    QueuePair,
    WcStatus, //
};
use sunrpc::{
    SockAddr,
    SvcConnection,
    SvcLink, //
};

/// The client, and the calls whose chunks it denied access to.
struct Client {
    address: SockAddr,
    rejected_calls: Arc<RejectedCalls>,
}

/// The context of one connection, for the `svc_xprt` whose private state is `T`.
///
/// `T` is a parameter because it owns the queue pair, whose type names this context.
#[pin_data]
pub(crate) struct Connection<T: SvcConnection> {
    link: SetOnce<SvcLink<T>>,
    client: SetOnce<Client>,
    /// The private data of the client's connection request.
    pub(super) client_private_data: Option<PrivateData>,
    /// How many RDMA Reads the client executes in parallel.
    pub(super) initiator_depth: u8,
    #[pin]
    state: SpinLock<ConnectionState>,
    /// Whether `state` is [`State::Open`]. Each call asks more than once.
    open: Atomic<bool>,
    #[pin]
    work: SpinLock<WorkQueue<Self>>,
    #[pin]
    sq_waiters: SqWaiters,
    #[pin]
    pub(super) receives: ReceiveRing<Self>,
    /// The credit grant that the next message carries.
    pub(super) granted: Atomic<u32>,
    /// Messages whose Receive was not given back yet.
    in_progress: Atomic<u32>,
}

impl<T: SvcConnection> Connection<T> {
    /// The context for a connection request with `private_data`. Sleeps.
    pub(super) fn new(private_data: &[u8], initiator_depth: u8) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                link: SetOnce::new(),
                client: SetOnce::new(),
                client_private_data: PrivateData::parse(private_data),
                initiator_depth,
                state <- new_spinlock!(ConnectionState::new(), "rpcrdma::connection_state"),
                open: Atomic::new(false),
                work <- new_spinlock!(WorkQueue::EMPTY, "rpcrdma::work"),
                sq_waiters <- SqWaiters::new(),
                receives <- ReceiveRing::new(),
                granted: Atomic::new(0),
                in_progress: Atomic::new(0),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the address of the client, and where the calls are kept whose chunks it denies access
    /// to.
    pub(super) fn set_client(&self, address: SockAddr, rejected_calls: Arc<RejectedCalls>) {
        self.client.populate(Client {
            address,
            rejected_calls,
        });
    }

    /// Sets the `svc_xprt`, which is told of work from now on.
    pub(super) fn set_link(&self, link: SvcLink<T>) {
        self.link.populate(link);
    }

    /// Reports `event` to the connection state.
    pub(super) fn step(&self, event: Event) -> Action {
        let mut state = self.state.lock();
        let action = state.on(event);
        self.open.store(state.state() == State::Open, Release);
        action
    }

    /// Whether replies can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Acquire)
    }

    /// Reports `event`, after which the connection is of no use. If it was of use before, has an
    /// nfsd thread close it, and returns true.
    pub(super) fn begin_close(&self, event: Event) -> bool {
        let first = self.step(event) == Action::TearDown;
        if first {
            self.sq_waiters.close();
            if let Some(link) = self.link.as_ref() {
                link.with(|xprt| xprt.deferred_close());
            }
        }
        first
    }

    /// Has an nfsd thread close the connection, because a work request failed.
    fn close_on_error(&self, status: WcStatus) {
        if self.begin_close(Event::Disconnected) && !status.is_flush() && rdma::may_log() {
            pr_info!("connection lost: {}\n", status.reason());
        }
    }

    /// Has an nfsd thread close the connection, because an RDMA Read or Write failed that belongs
    /// to the message whose first word, the XID, is `xid`.
    fn close_on_access_error(&self, xid: Option<[u8; 4]>, status: WcStatus) {
        if let (true, Some(xid), Some(client)) = (status.is_denial(), xid, self.client.as_ref()) {
            let xid = u32::from_be_bytes(xid);
            client.rejected_calls.add(client.address, xid);
        }
        self.close_on_error(status);
    }

    /// Whether the client denied access to the chunks of its call `xid` before. Forgets that it
    /// did.
    pub(super) fn was_rejected(&self, xid: u32) -> bool {
        let client = self.client.as_ref();
        client.is_some_and(|client| client.rejected_calls.take(&client.address, xid))
    }

    /// Makes room in the work queue for the messages of `count` Receives. Sleeps if `flags` allow
    /// it.
    pub(super) fn reserve_work(&self, count: usize, flags: Flags) -> Result {
        let mut queue = WorkQueue::with_capacity(count, flags)?;
        self.work.lock().move_to(&mut queue);
        // Frees the old entries, or the new ones if another thread made as many meanwhile.
        drop(queue);
        Ok(())
    }

    /// Takes the next work. `emptied` is called under the lock of the queue if no more is left.
    pub(super) fn next_work(&self, emptied: impl FnOnce()) -> Option<Work<Self>> {
        let mut queue = self.work.lock();
        let work = queue.pop();
        if queue.is_empty() {
            emptied();
        }
        work
    }

    fn queue_work(&self, work: Work<Self>) {
        let Some(link) = self.link.as_ref() else {
            return;
        };
        let refused = link.with(|xprt| {
            let mut queue = self.work.lock();
            let refused = queue.push(work).err();
            xprt.data_pending();
            drop(queue);
            xprt.enqueue();
            refused
        });
        // None: there is an entry for each Receive.
        drop(refused);
    }

    /// How many messages are in progress.
    pub(super) fn in_progress(&self) -> u32 {
        self.in_progress.load(Relaxed)
    }

    /// Gives back the Receive of `message`, to be posted again.
    pub(super) fn repost(&self, queue: &QueuePair<Self>, message: receive::Message<Self>) {
        // Subtracts one.
        self.in_progress.add(u32::MAX, Relaxed);
        self.receives.repost(queue, message.into_buffer());
    }

    /// Calls `attempt` until it does not return its argument, which says that the Send queue is
    /// full. [`None`] if the connection is being closed, as it is when the client lets nothing
    /// complete for long. Sleeps.
    pub(super) fn wait_for_sq<A, R>(
        &self,
        mut argument: A,
        mut attempt: impl FnMut(A) -> Result<R, A>,
    ) -> Option<R> {
        // The thread is counted until its attempt succeeds.
        let mut waiter = None;
        loop {
            let sequence = self.sq_waiters.sequence();
            argument = match attempt(argument) {
                Ok(done) => return Some(done),
                Err(argument) => argument,
            };
            SQ_STARVE.add(1);
            waiter.get_or_insert_with(|| self.sq_waiters.enter(|| self.enqueue()));
            match self.sq_waiters.wait(sequence) {
                Ok(()) => (),
                Err(WaitError::Closed) => return None,
                Err(WaitError::Stalled) => {
                    self.begin_close(Event::Disconnected);
                    return None;
                }
            }
        }
    }

    /// Has an nfsd thread take calls that were not taken while a thread waited for the Send queue.
    fn enqueue(&self) {
        if let Some(link) = self.link.as_ref() {
            link.with(|xprt| xprt.enqueue());
        }
    }

    /// Whether no thread waits for the Send queue.
    pub(super) fn has_wspace(&self) -> bool {
        self.sq_waiters.is_empty()
    }

    /// Has no thread wait for the Send queue any more.
    pub(super) fn end_sq_waits(&self) {
        self.sq_waiters.close();
    }

    /// Frees the work and the Receives. No handler runs any more. Sleeps.
    pub(super) fn clear(&self) {
        loop {
            let work = self.work.lock().pop();
            match work {
                Some(work) => drop(work),
                None => break,
            }
        }
        self.receives.clear();
    }
}

impl<T: SvcConnection> rdma::Handler for Connection<T> {
    type InvalidateContext = ();

    fn cm_event(&self, event: cm::Event<'_>) {
        match event {
            cm::Event::Established { .. } => {
                let _ = self.step(Event::Established);
            }
            cm::Event::DeviceRemoval => {
                self.begin_close(Event::DeviceRemoved);
            }
            cm::Event::Disconnected
            | cm::Event::AddrChange
            | cm::Event::Rejected { .. }
            | cm::Event::Unreachable
            | cm::Event::ConnectError => {
                self.begin_close(Event::Disconnected);
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
        // A message does not change the state of an open connection.
        if self.is_open() || self.step(Event::Received) == Action::Serve {
            self.in_progress.add(1, Relaxed);
            self.queue_work(Work::Received(message));
        }
    }

    fn receive_failed(&self, buffer: receive::Buffer<Self>, status: WcStatus) {
        drop(buffer);
        self.close_on_error(status);
    }

    fn request_failed(&self, status: WcStatus) {
        self.close_on_error(status);
    }

    fn write_failed(&self, xid: [u8; 4], status: WcStatus) {
        self.close_on_access_error(Some(xid), status);
    }

    fn send_resumed(&self) {
        self.sq_waiters.wake();
    }

    // The server registers memory for RDMA Reads only, on iWARP, and each Read invalidates the
    // region itself.

    fn invalidated(&self, _queue: &QueuePair<Self>, _regions: mr::Idle<Self>, _context: ()) {}

    fn invalidate_failed(&self, _regions: mr::Registered<Self>, _context: ()) {}
}

impl<T: SvcConnection> ReadHandler for Connection<T> {
    type ReadDone = ChunkedCall<Self>;

    fn read_done(&self, _queue: &QueuePair<Self>, call: ChunkedCall<Self>) {
        self.queue_work(Work::ReadDone(call));
    }

    fn read_failed(&self, call: ChunkedCall<Self>, status: WcStatus) {
        let xid = call.message.bytes().first_chunk().copied();
        drop(call);
        self.close_on_access_error(xid, status);
    }
}
