// SPDX-License-Identifier: GPL-2.0

//! A connection: the context that the id and the completion queue share, events of the RDMA CM, and
//! completions of work requests.
//!
//! A [`ClientConn`] owns neither its id nor its completion queue. What it does own of the
//! device (Receive buffers that are not posted, idle memory regions) keeps the protection domain
//! alive, and through that the id, which keeps this context: [`ClientConn::finish_close`]
//! ends that reference cycle.

use super::{
    cause::ConnectError,
    chunk::MarshalLimits,
    config::Config,
    connection_state::ConnectionState,
    regions::RegionPool,
    reply,
    slot::InvalidateContext,
    transport::ReusableResources, //
};
use crate::prelude::*;
use core::sync::atomic::AtomicBool;
use kernel::{
    new_mutex,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Mutex,
        SetOnce, //
    },
    time::{
        Instant,
        Monotonic, //
    }, //
};
use proto::{
    backing::Backing,
    cm_private_data::PrivateData,
    conn::client as conn,
    credit::Window,
    plan, //
};
use rdma::{
    cm,
    mr,
    receive,
    Completing,
    Invalidated,
    WcStatus, //
};
use sunrpc::{
    WeakXprt,
    Xprt, //
};

/// The credits of a connection.
pub(crate) struct Credits {
    pub(super) window: Window,
    pub(super) backing: Backing,
}

/// The context of one connection.
#[pin_data]
pub(crate) struct ClientConn {
    /// The transport. A handler must not keep it alive.
    pub(super) xprt: WeakXprt<ClientTransport>,
    config: Config,
    pub(super) counters: Arc<Counters>,
    pub(super) device_removed: AtomicBool,
    /// Set when a zero grant of the server has been logged.
    zero_grant_logged: AtomicBool,
    /// [`Cause::WorkRequestFailed`] of the first work request that failed.
    failure: SetOnce<Cause>,
    /// [`Cause::WorkRequestFlushed`], if that ended the connection.
    flushed: SetOnce<Cause>,
    #[pin]
    state: ConnectionState,
    /// [`Self::limits`] as far as the device decides them; the inline thresholds depend on the
    /// private data of the server. Set before the connection request.
    device_limits: SetOnce<MarshalLimits>,
    /// The limits of its RPCs. Set before the connection is open.
    limits: SetOnce<MarshalLimits>,
    #[pin]
    pub(super) credits: SpinLock<Credits>,
    /// The grant of the last reply, if the window allows as many Calls. Then another reply with
    /// the same grant changes nothing. Otherwise zero. Only completion handlers use it.
    settled_grant: Atomic<u32>,
    /// Serialises the allocation of resources for more credits.
    #[pin]
    pub(super) growth: Mutex<()>,
    created: Instant<Monotonic>,
    #[pin]
    pub(super) regions: RegionPool,
}

impl ClientConn {
    pub(super) fn new(
        xprt: WeakXprt<ClientTransport>,
        config: Config,
        counters: Arc<Counters>,
    ) -> Result<Arc<Self>> {
        let credits = Credits {
            window: Window::new(u32::try_from(config.credits)?),
            backing: Backing::new(1),
        };
        Arc::pin_init(
            pin_init!(Self {
                xprt,
                config,
                counters,
                device_removed: AtomicBool::new(false),
                zero_grant_logged: AtomicBool::new(false),
                failure: SetOnce::new(),
                flushed: SetOnce::new(),
                state <- ConnectionState::new(),
                device_limits: SetOnce::new(),
                limits: SetOnce::new(),
                credits <- new_spinlock!(credits, "rpcrdma::credits"),
                settled_grant: Atomic::new(0),
                growth <- new_mutex!((), "rpcrdma::growth"),
                created: Instant::now(),
                regions <- RegionPool::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the state. [`Self::end`] reports what may end the connection once it is open.
    pub(super) fn state(&self) -> &ConnectionState {
        &self.state
    }

    /// Returns whether Calls may be sent.
    pub(super) fn is_open(&self) -> bool {
        self.state.is_open()
    }

    /// Returns the limits of its RPCs.
    pub(super) fn limits(&self) -> &MarshalLimits {
        self.limits.as_ref().unwrap_or(&MarshalLimits::DEFAULT)
    }

    /// Sets how many regions of the device cover one payload, how many credits to request, and for
    /// how many of them there are resources from the start. Called once, before the connection
    /// request.
    pub(super) fn set_queue_limits(&self, payload_segments: usize, requested: u32, backed: u32) {
        let mut credits = self.credits.lock();
        credits.window.request(requested);
        credits.backing = Backing::new(backed);
        let requested_credits = credits.window.requested();
        drop(credits);
        self.device_limits.populate(MarshalLimits {
            payload_segments,
            requested_credits,
            ..MarshalLimits::DEFAULT
        });
    }

    /// Handles the server's accept, with its private data.
    pub(super) fn established(&self, private_data: &[u8], id: &cm::EventId<'_>) {
        let theirs = PrivateData::parse(private_data);
        let device_limits = self.device_limits.as_ref();
        self.limits.populate(MarshalLimits {
            thresholds: plan::Thresholds::negotiate(plan::Role::Client, self.config.inline, theirs),
            ..*device_limits.unwrap_or(&MarshalLimits::DEFAULT)
        });
        if let (Ok(local), Ok(remote)) = (id.local_address(), id.remote_address()) {
            let plan::Thresholds { call, reply } = self.limits().thresholds;
            let wished = self.config.inline;
            trace::event!(xprtrdma_inline_thresh(
                &local,
                &remote,
                [call, reply],
                [wished.send_size(), wished.receive_size()]
            ));
        }
        self.state.report(conn::Event::Established);
    }

    /// Applies the credit grant of a reply and returns the new congestion window, which the caller
    /// sets. [`None`] if nothing changes. If resources, not the grant, limit the window and `xprt`
    /// uses it, schedules their growth. Runs in a completion handler.
    pub(super) fn on_grant(&self, grant: u32, xprt: &Xprt<ClientTransport>) -> Option<u32> {
        // Most servers send the same grant for hours. The resources never become fewer while the
        // connection is open, so what was enough for this grant still is, and the window that was
        // set for it stays: growth sets it to the lesser of the two as well.
        if grant == self.settled_grant.load(Relaxed) && grant != 0 && !self.regions.is_short() {
            return None;
        }
        if grant == 0 {
            self.log_zero_grant();
        }
        let mut credits = self.credits.lock();
        let granted = credits.window.on_reply(grant);
        let grows = self.regions.is_short() && self.begin_for_regions(&mut credits)
            // Mostly there is no shortage, and the number in use is not needed.
            || credits.backing.is_short(granted)
                && credits
                    .backing
                    .begin(granted, xprt.credits_in_use(), || self.age_ms());
        let window = credits.backing.limit(granted);
        drop(credits);
        let is_settled = window == granted;
        self.settled_grant
            .store(if is_settled { grant } else { 0 }, Relaxed);
        if grows {
            xprt.schedule_growth();
        }
        Some(window)
    }

    /// Begins growth because a Call found too few regions. Returns whether to schedule it.
    ///
    /// Calls of several regions each wait for these and do not use their credits, so growth depends
    /// neither on how many are used nor on how many the server grants.
    pub(super) fn begin_for_regions(&self, credits: &mut Credits) -> bool {
        let all = config::credits_with_all_regions(credits.window.requested());
        if credits.backing.credits() >= all {
            self.regions.set_complete();
            return false;
        }
        credits.backing.begin(all, u32::MAX, || self.age_ms())
    }

    /// Returns whether there are resources for fewer credits than it requests. If so,
    /// [`Xprt::schedule_growth`] allocates the others.
    pub(super) fn needs_full_growth(&self) -> bool {
        let mut credits = self.credits.lock();
        let all = credits.window.requested();
        credits.backing.begin_all(all)
    }

    /// Returns the age of the connection in milliseconds.
    pub(super) fn age_ms(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_millis()).unwrap_or(0)
    }

    /// Returns the length of its Receives.
    pub(super) fn receive_size(&self) -> usize {
        self.config.inline.receive_size()
    }

    /// Logs the first zero grant of the server, which may come with each reply.
    fn log_zero_grant(&self) {
        if !self.zero_grant_logged.swap(true, Ordering::Relaxed) {
            self.log_message(|server| {
                pr_info!("{server} granted no credits at all, which is taken for one\n");
            });
        }
    }

    /// Calls `f` with the server's address and port as text. `f` must not sleep.
    pub(super) fn with_peer(&self, f: impl FnOnce(trace::Peer<'_>)) {
        self.xprt.with(|xprt| xprt.with_peer(f));
    }

    /// Puts regions back into the pool, and wakes the sender if a Call waits for them.
    pub(super) fn put_regions(&self, regions: Idle<Self>) {
        if !regions.is_empty() && self.regions.put(regions) {
            self.xprt.with(|xprt| xprt.write_space());
        }
    }

    /// Ends the connection, or the attempt to connect, because of `cause`; but an open connection
    /// survives some [`Cause::Malformed`]. If it was open, logs the cause and makes sunrpc call
    /// `close`, unless sunrpc does that because the caller returns an error
    /// ([`Cause::fails_transmission`]). An attempt to connect fails with the error of `cause`,
    /// which the connect worker logs. Does not sleep.
    pub(super) fn end(&self, cause: Cause) {
        match cause {
            // If the server rejects the connection request, the Receives are flushed before the
            // RDMA CM reports that. It always reports something.
            Cause::WorkRequestFlushed(_) if !self.is_open() => return,
            Cause::WorkRequestFailed(_) => {
                self.failure.populate(cause);
            }
            _ => (),
        }
        if !self.state.end(cause.event(), cause.connect_error()) {
            return;
        }
        if let Cause::WorkRequestFlushed(_) = cause {
            // The request that failed may complete later.
            self.flushed.populate(cause);
        } else {
            self.log_lost(cause);
        }
        if !cause.fails_transmission() {
            self.xprt.with(|xprt| xprt.force_disconnect());
        }
    }

    fn log_lost(&self, cause: Cause) {
        let reason = cause.text();
        endpoint::log(|| {
            self.with_peer(|server| {
                pr_info!("connection to {} lost: {reason}\n", server.addr);
            });
        });
    }

    /// Calls `line` with the server's address, unless too many lines about messages were logged.
    pub(super) fn log_message(&self, line: impl FnOnce(&CStr)) {
        endpoint::log_message(|| self.with_peer(|server| line(server.addr)));
    }

    /// Logs the reason for the end of the connection, if flushed requests ended it. Called when the
    /// queue pair is drained.
    fn log_flushed(&self) {
        if let Some(flushed) = self.flushed.as_ref() {
            self.log_lost(*self.failure.as_ref().unwrap_or(flushed));
        }
    }

    /// Logs that a Call fails because the server sent `sent`.
    pub(super) fn log_failed_call(&self, sent: &str) {
        self.log_message(|server| {
            pr_warn!("a call to {server} failed, because the server sent {sent}\n");
        });
    }

    /// Counts and traces that this side invalidates the memory of `rqst`.
    pub(super) fn note_local_invalidations(
        &self,
        rqst: &Rqst<ClientTransport>,
        registered: &mr::Registered<Self>,
    ) {
        let invalidations = &self.counters.rare.local_invalidations;
        invalidations.add(registered.len() as u64);
        if trace::xprtrdma_mr_localinv::is_on() {
            for region in registered.info() {
                trace::xprtrdma_mr_localinv::emit(rqst.task_id(), region);
            }
        }
    }

    /// Handles the removal of the device. Resources that an earlier connection left may still delay
    /// it.
    pub(super) fn on_device_removal(&self, id: &cm::EventId<'_>) {
        if let (Some(device), Ok(server)) = (id.device_name(), id.remote_address()) {
            trace::event!(xprtrdma_device_removal(device, &server));
        }
        self.device_removed.store(true, Ordering::Release);
        self.end(Cause::DeviceRemoved);
        self.xprt.with(|xprt| {
            xprt.force_disconnect();
            // The next connect does not find the device, and then releases the resources that were
            // kept for it.
            xprt.expedite_connect();
        });
    }

    /// Begins to close the connection. Work requests that are posted from now on are flushed soon.
    pub(super) fn begin_close(&self) {
        self.state.report(conn::Event::Close);
    }

    /// Ends all waits in [`ConnectionState::wait_until_closed`], and returns the resources, which
    /// another connection may use. Called when `queue` is drained.
    pub(super) fn finish_close(&self, queue: &QueuePair<Self>) -> ReusableResources {
        self.log_flushed();
        let (regions, receives) = (self.regions.close(), queue.close_receives());
        let sends = queue.take_send_buffers();
        let resources = ReusableResources {
            pd: queue.pd().clone(),
            credits: config::credits_for(regions.len(), receives.len(), sends.len()),
            regions,
            receives,
            sends,
            inline: self.config.inline,
        };
        self.state.report(conn::Event::Drained);
        resources
    }
}

impl From<WcStatus> for Cause {
    fn from(status: WcStatus) -> Self {
        if status.is_flush() {
            Self::WorkRequestFlushed(status.reason())
        } else {
            Self::WorkRequestFailed(status.reason())
        }
    }
}

impl rdma::Context for ClientConn {
    type InvalidateContext = InvalidateContext;
    type MessageContext = ();
    type SendTag = ();

    fn cm_event(&self, event: cm::Event<'_>, id: &cm::EventId<'_>) {
        let state = self.state();
        match event {
            cm::Event::AddrResolved => state.report(conn::Event::AddressResolved),
            cm::Event::RouteResolved => state.report(conn::Event::RouteResolved),
            cm::Event::Established { private_data } => self.established(private_data, id),
            cm::Event::AddrError => state.fail(ConnectError::Address),
            cm::Event::RouteError => state.fail(ConnectError::Route),
            cm::Event::Unreachable => self.end(Cause::Unreachable),
            cm::Event::ConnectError => self.end(Cause::SetupFailed),
            cm::Event::Rejected { stale: false } => self.end(Cause::Rejected),
            cm::Event::Rejected { stale: true } => self.end(Cause::RejectedAsStale),
            cm::Event::Disconnected => self.end(Cause::Disconnected),
            // The resolved path is no longer valid.
            cm::Event::AddrChange => self.end(Cause::AddressChanged),
            cm::Event::DeviceRemoval => self.on_device_removal(id),
            cm::Event::Other => (),
        }
    }
}

impl rdma::Handler for ClientConn {
    type SendPolicy = endpoint::SendPolicy<Self>;

    fn received(
        &self,
        queue: &mut Completing<'_, Self>,
        message: receive::Message<Self>,
        invalidated: Option<Invalidated<'_, Self>>,
    ) {
        trace::event!(xprtrdma_wc_receive(
            message.id(queue),
            message.bytes().len(),
            0,
            0
        ));
        reply::received(self, queue, message, invalidated);
    }

    fn receive_failed(
        &self,
        queue: &mut Completing<'_, Self>,
        buffer: receive::Buffer<Self>,
        status: WcStatus,
    ) {
        trace::event!(xprtrdma_wc_receive(
            buffer.id(queue),
            0,
            status.number(),
            status.vendor_err()
        ));
        queue.keep_failed(buffer);
        self.end(status.into());
    }

    fn request_failed(&self, status: WcStatus) {
        self.end(status.into());
    }

    fn send_space_freed(&self, _queue: &QueuePair<Self>) {
        self.xprt.with(|xprt| xprt.write_space());
    }

    fn invalidated(
        &self,
        queue: &mut Completing<'_, Self>,
        regions: mr::Idle<Self>,
        context: InvalidateContext,
    ) {
        self.put_regions(regions);
        match context {
            InvalidateContext::Reply(reply) => reply.complete(self, queue),
            InvalidateContext::Release(slot) => slot.invalidated(),
        }
    }

    fn invalidate_failed(&self, regions: mr::Registered<Self>, context: InvalidateContext) {
        match context {
            // The Call is sent again on the next connection.
            InvalidateContext::Reply(reply) => reply.rqst.slot().take_back(regions),
            InvalidateContext::Release(slot) => {
                // They are deregistered when the queue pair is drained.
                self.counters.rare.broken_regions.add(regions.len() as u64);
                drop(regions);
                slot.invalidate_failed();
            }
        }
    }
}
