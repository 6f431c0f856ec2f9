// SPDX-License-Identifier: GPL-2.0

//! The context of one connection, which its id and its completion queue share.
//!
//! The context owns neither of them. The messages in its work queue keep the protection domain
//! alive, and through it the id, which keeps this context: [`ServerConn::clear`] breaks that
//! reference cycle.
//!
//! The states of a connection and their transitions are in [`proto::conn::server`]. The RDMA CM,
//! the completion handlers and nfsd threads report events; the reporter carries out the action that
//! follows.

use super::{
    credits::Credits,
    listener::Listener,
    malformed::MalformedRun,
    rdma_read::ReadBudget,
    waiting::Waiting,
    work_queue::MessageContext, //
};
use crate::prelude::*;
use kernel::sync::SetOnce;
use proto::{
    cm_private_data::PrivateData,
    conn::server as conn, //
};
use rdma::WcStatus;
use sunrpc::AddrText;

/// The client's address, and the calls whose chunks clients denied access to.
struct Client {
    address: SockAddr,
    denied_calls: Arc<DeniedCalls>,
    /// The value of [`DeniedCalls::added`] up to which no call is of this client.
    searched: Atomic<u64>,
}

/// The context of a connection.
#[pin_data]
pub(crate) struct ServerConn {
    /// The listener that got the connection request. Used until [`Self::link`] is set.
    listener: WeakSvcXprt<Listener>,
    pub(super) link: SetOnce<WeakSvcXprt<ServerTransport>>,
    client: SetOnce<Client>,
    /// The private data of the client's connection request.
    pub(super) client_private_data: Option<PrivateData>,
    /// The number of RDMA Reads that the client executes in parallel.
    pub(super) initiator_depth: u8,
    #[pin]
    pub(super) state: ConnectionState,
    #[pin]
    pub(super) waiting: Waiting,
    #[pin]
    pub(super) credits: Credits,
    pub(super) read_budget: ReadBudget,
    /// Whether Receives for replies to backchannel calls are posted.
    pub(super) expects_replies: Atomic<bool>,
    /// The numbers of messages received and of Receives given back. They may wrap.
    arrived: Atomic<u32>,
    given_back: Atomic<u32>,
    malformed: MalformedRun,
    /// Whether the timer of the transport runs.
    pub(super) watched: Atomic<bool>,
    /// Whether the connection was counted as lost.
    counted_lost: AtomicFlag,
    /// When the client was accepted.
    pub(super) accepted: SetOnce<Instant<Monotonic>>,
    /// Set by the watchdog when it has seen a first message.
    pub(super) has_message: Atomic<bool>,
    /// When `RDMA_CM_EVENT_ESTABLISHED` arrived.
    pub(super) established: SetOnce<Instant<Monotonic>>,
}

impl ServerConn {
    /// Creates the context for a connection request with `private_data` to `listener`. Sleeps.
    pub(super) fn new(
        listener: WeakSvcXprt<Listener>,
        private_data: &[u8],
        initiator_depth: u8,
    ) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                listener,
                link: SetOnce::new(),
                client: SetOnce::new(),
                client_private_data: PrivateData::parse(private_data),
                initiator_depth,
                state <- ConnectionState::new(),
                waiting <- Waiting::new(),
                credits <- Credits::new(),
                read_budget: ReadBudget::new(),
                expects_replies: Atomic::new(false),
                arrived: Atomic::new(0),
                given_back: Atomic::new(0),
                malformed: MalformedRun::new(),
                watched: Atomic::new(false),
                counted_lost: AtomicFlag::new(false),
                accepted: SetOnce::new(),
                has_message: Atomic::new(false),
                established: SetOnce::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Sets the address of the client, and the list of calls whose chunks clients denied access to.
    pub(super) fn set_client(&self, address: SockAddr, denied_calls: Arc<DeniedCalls>) {
        self.client.populate(Client {
            address,
            denied_calls,
            searched: Atomic::new(0),
        });
    }

    /// Sets the `svc_xprt`, which is enqueued for work from now on.
    pub(super) fn set_link(&self, link: WeakSvcXprt<ServerTransport>) {
        self.link.populate(link);
    }

    /// Ends the connection because of `cause`: starts to close it if it had not ended before, and
    /// counts and logs that it is lost if [`Cause::text`] says so. Does not sleep.
    pub(super) fn end(&self, cause: Cause) {
        if cause.is_timeout() {
            config::STALLED.add(1);
        }
        let first = self.state.on(cause.event()) == conn::Action::TearDown;
        if first || self.link.as_ref().is_none() {
            self.close();
        }
        // Flushed requests may complete before the one that failed.
        if first || matches!(cause, Cause::WorkRequestFailed(_)) {
            self.count_lost(cause);
        }
    }

    /// Ends the connection as [`Self::end`] does, from any context, interrupts included. It takes
    /// no lock, so it leaves the state to
    /// [`Responder::disconnect`](super::responder::Responder::disconnect), and may be called more
    /// than once.
    pub(super) fn end_in_interrupt(&self, cause: Cause) {
        if self.state.is_open() {
            self.count_lost(cause);
        }
        self.close();
    }

    /// Starts to close the connection in a work item. A deferred close would leave it to an nfsd
    /// thread, but the removal of a device may wait for the close while no thread is free. If no
    /// thread has accepted the connection yet, starts the timer of the listener, which drops the
    /// request. Does not sleep.
    pub(super) fn close(&self) {
        match self.link.as_ref() {
            Some(link) => link.with(|xprt| xprt.close_later()),
            None => self.listener.with(|xprt| xprt.start_timer(0)),
        };
    }

    /// Returns the client's address and port as text.
    pub(super) fn client_text(&self) -> AddrText {
        self.client
            .as_ref()
            .map_or(AddrText::EMPTY, |client| client.address.text())
    }

    /// Counts and logs that the connection is lost, the first time, if `cause` is a loss.
    fn count_lost(&self, cause: Cause) {
        let Some(reason) = cause.text() else {
            return;
        };
        // The state cannot tell: it does not change in an interrupt.
        if self.counted_lost.xchg(true, Relaxed) {
            return;
        }
        config::LOST.add(1);
        endpoint::log(|| {
            let client = self.client_text();
            pr_info!("connection of {} lost: {reason}\n", client.as_c_str());
        });
    }

    /// Calls `line` with the client's address and port, if the limit of log lines about messages
    /// allows.
    pub(super) fn log_message(&self, line: impl FnOnce(&CStr)) {
        endpoint::log_message(|| line(self.client_text().as_c_str()));
    }

    /// Notes that an RDMA Read or Write for the message with this `xid` failed, if that is because
    /// the client denied access.
    pub(super) fn note_denied(&self, xid: Option<u32>, status: WcStatus) {
        if let (true, Some(xid), Some(client)) = (status.is_denial(), xid, self.client.as_ref()) {
            client.denied_calls.add(client.address.host_key(), xid);
        }
    }

    /// Returns whether the client denied access to the chunks of its call `xid` before, over any
    /// connection, and forgets that.
    pub(super) fn was_denied(&self, xid: u32) -> bool {
        let Some(client) = self.client.as_ref() else {
            return false;
        };
        let added = client.denied_calls.added();
        if client.searched.load(Relaxed) == added {
            return false;
        }
        let host = client.address.host_key();
        let (was_denied, others) = client.denied_calls.take(&host, xid);
        if !others {
            client.searched.store(added, Relaxed);
        }
        was_denied
    }

    /// Counts a received message, and keeps its position with it.
    pub(super) fn begin_message(&self, message: &mut Message<Self>) {
        // Handlers of a queue pair run one at a time, so nobody else writes it.
        let position = self.arrived.load(Relaxed).wrapping_add(1);
        self.arrived.store(position, Relaxed);
        message.set_context(MessageContext::Received { position });
    }

    /// Notes that `message` is a call.
    pub(super) fn note_call(&self, message: &Message<Self>) {
        self.malformed.note_call(self.position(message));
    }

    /// Notes that `message` is malformed, or replies to no callback. Too many in a row end the
    /// connection.
    pub(super) fn note_malformed(&self, message: &Message<Self>) {
        if self.malformed.note_malformed(self.position(message)) {
            self.end(Cause::Malformed);
        }
    }

    /// Returns the position of `message` in what the client has sent.
    fn position(&self, message: &Message<Self>) -> u32 {
        match message.context() {
            MessageContext::Received { position } => *position,
            // Nobody asks when more than its reception is known.
            _ => self.arrived(),
        }
    }

    /// Counts, logs and traces a `message` that is dropped for this `reason`. Does not sleep.
    pub(super) fn note_dropped(
        &self,
        queue: &QueuePair<Self>,
        message: &Message<Self>,
        reason: call::Dropped,
    ) {
        let (id, bytes) = (message.id(queue), message.bytes());
        config::BAD_CALLS.add(1);
        self.note_malformed(message);
        self.log_message(|client| pr_info!("dropped a message of {client}: {reason:?}\n"));
        match reason {
            call::Dropped::Runt(_) => trace::event!(svcrdma_decode_short_err(id, bytes.len())),
            _ => trace::event!(svcrdma_decode_drop_err(id, bytes)),
        }
    }

    /// Returns the number of messages received.
    pub(super) fn arrived(&self) -> u32 {
        self.arrived.load(Relaxed)
    }

    /// Returns the number of messages in progress.
    pub(super) fn in_progress(&self) -> u32 {
        // Loaded in this order, the difference is never negative.
        let given_back = self.given_back.load(Acquire);
        self.arrived().wrapping_sub(given_back)
    }

    /// Reposts the Receive of `message`.
    pub(super) fn repost(&self, queue: &QueuePair<Self>, message: Message<Self>) {
        self.give_back();
        self.note_reposted(queue.repost(message.into_buffer()));
    }

    /// Counts a Receive that is given back next.
    pub(super) fn give_back(&self) {
        self.given_back.fetch_add(1, Release);
    }

    /// Notes that a Receive was given back, and whether it was `freed` instead of reposted.
    pub(super) fn note_reposted(&self, freed: bool) {
        if freed {
            self.credits.receives_freed(1);
        }
    }

    /// Frees the work and the Receives, of which `queue` has some, and returns the connection's
    /// share of what all connections share. Nothing is queued here from now on, though threads may
    /// still use the connection. No handler runs any more. Sleeps.
    pub(super) fn clear(&self, queue: &QueuePair<Self>) {
        self.waiting.close();
        drop(queue.close_receives());
        self.credits.end();
    }
}

/// The state of a connection, shared by nfsd threads and the handlers.
#[pin_data]
pub(super) struct ConnectionState {
    /// Whether `inner` is in [`conn::State::Open`]. Each call asks more than once, so this needs no
    /// lock.
    open: Atomic<bool>,
    #[pin]
    inner: SpinLock<conn::ConnMachine>,
}

impl ConnectionState {
    /// Creates the state of a connection that a client has requested.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            open: Atomic::new(false),
            inner <- new_spinlock!(conn::ConnMachine::new(), "rpcrdma::connection_state"),
        })
    }

    /// Applies `event` to the state, and returns the action that follows.
    pub(super) fn on(&self, event: conn::Event) -> conn::Action {
        let mut inner = self.inner.lock();
        let action = inner.on(event);
        self.open.store(inner.state() == conn::State::Open, Release);
        action
    }

    /// Returns whether the client waits to be accepted.
    pub(super) fn is_requested(&self) -> bool {
        self.inner.lock().state() == conn::State::Requested
    }

    /// Returns whether the client has yet to confirm that it was accepted.
    pub(super) fn is_accepting(&self) -> bool {
        self.inner.lock().state() == conn::State::Accepting
    }

    /// Returns whether replies can be sent.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Acquire)
    }
}
