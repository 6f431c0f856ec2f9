// SPDX-License-Identifier: GPL-2.0

//! One connection: its state, its resources, and what the device reports of it.
//!
//! This is the context that the connection's id and completion queue share, so it
//! owns neither. What it does own of the device (spare Receives, idle regions)
//! keeps the protection domain, and through it the id, which keeps this context:
//! [`Connection::closed`] cuts that circle.

use super::{
    region_pool::RegionPool,
    reply,
    slot,
    stats::Counters,
    Active,
    Config,
    Link, //
};
use crate::endpoint::ReceiveRing;
use core::sync::atomic::{
    AtomicBool,
    Ordering, //
};
use kernel::{
    new_condvar, new_spinlock,
    prelude::*,
    sync::{
        Arc,
        CondVar,
        SetOnce,
        SpinLock, //
    },
    time::{
        msecs_to_jiffies,
        Msecs, //
    },
};
use proto::{
    cm_private_data::PrivateData,
    conn::client::{
        Action,
        Connection as ConnectionState,
        Event,
        State, //
    },
    credit::Window,
    plan::{
        Role,
        Thresholds, //
    },
    reverse, //
};
use rdma::{
    cm,
    mr,
    receive,
    QueuePair, //
    WcStatus,
};

/// Why a connection was not made, as sunrpc wants to hear it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// No device leads there.
    Address,
    /// No path.
    Route,
    /// The server does not answer.
    Unreachable,
    /// It says no.
    Rejected,
    /// It still knows an older connection of ours.
    Stale,
    /// Lost half-way.
    Lost,
}

/// How far the connection is.
struct Progress {
    connection_state: ConnectionState,
    /// What to do next, until the connect worker asks.
    action: Option<Action>,
    connect_error: Option<ConnectError>,
    /// What [`Connection::sizing`] will be. Its thresholds are not known before the server answered.
    sizing: Sizing,
}

/// What decides how an RPC travels.
#[derive(Clone, Copy)]
pub(crate) struct Sizing {
    /// The longest Send either way.
    pub(crate) thresholds: Thresholds,
    /// Regions that cover the largest payload.
    pub(crate) payload_segments: usize,
    /// Regions that cover the largest message: head, payload and tail.
    pub(crate) segments: usize,
    /// The credits that each Call asks for.
    pub(crate) requested_credits: u32,
}

impl Sizing {
    const DEFAULT: Self = Self {
        thresholds: Thresholds::DEFAULT,
        payload_segments: 1,
        segments: 3,
        requested_credits: 1,
    };
}

/// What an invalidation is waited for with.
pub(crate) enum Fenced {
    /// The RPC's reply is here; it is completed next.
    Answered(reply::Answered),
    /// The RPC was given up; its slot waits.
    Released(Arc<slot::Inner>),
}

/// The context of one connection.
#[pin_data]
pub(crate) struct Connection {
    pub(crate) link: Link,
    config: Config,
    pub(crate) counters: Arc<Counters>,
    device_removed: AtomicBool,
    /// Whether the connection_state in `progress` says so. Each Call asks more than once.
    open: AtomicBool,
    #[pin]
    progress: SpinLock<Progress>,
    #[pin]
    progressed: CondVar,
    /// Set before the connection is open.
    sizing: SetOnce<Sizing>,
    #[pin]
    window: SpinLock<Window>,
    #[pin]
    pub(crate) receives: ReceiveRing<Self>,
    #[pin]
    pub(crate) regions: RegionPool<Self>,
}

impl Connection {
    pub(crate) fn new(link: Link, config: Config, counters: Arc<Counters>) -> Result<Arc<Self>> {
        let requested = u32::try_from(config.credits)?;
        let progress = Progress {
            connection_state: ConnectionState::new(),
            action: None,
            connect_error: None,
            sizing: Sizing::DEFAULT,
        };
        Arc::pin_init(
            pin_init!(Self {
                link,
                config,
                counters,
                device_removed: AtomicBool::new(false),
                open: AtomicBool::new(false),
                progress <- new_spinlock!(progress, "rpcrdma::progress"),
                progressed <- new_condvar!("rpcrdma::progressed"),
                sizing: SetOnce::new(),
                window <- new_spinlock!(Window::new(requested), "rpcrdma::window"),
                receives <- ReceiveRing::new(),
                regions <- RegionPool::new(),
            }),
            GFP_KERNEL,
        )
    }

    /// Tells the state connection_state what happened, and the connect worker what to do.
    fn step(&self, event: Event) -> Action {
        let mut progress = self.progress.lock();
        let action = progress.connection_state.on(event);
        let open = progress.connection_state.state() == State::Open;
        self.open.store(open, Ordering::Release);
        if action != Action::Nothing {
            progress.action = Some(action);
            self.progressed.notify_all();
        }
        action
    }

    /// Steps; what to do next is for whoever calls [`Self::next_action`].
    fn report(&self, event: Event) {
        let _ = self.step(event);
    }

    /// Steps; if that ends the connection, the log says why, and sunrpc will call `close`.
    fn end_by(&self, event: Event, why: &CStr) {
        if self.step(event) == Action::TearDown {
            self.link.with(|xprt| {
                if rdma::may_log() {
                    xprt.with_address_text(|server| {
                        pr_info!("connection to {server} lost: {why}\n")
                    });
                }
                xprt.force_disconnect();
            });
        }
    }

    /// Begins to connect.
    pub(crate) fn begin(&self) {
        self.report(Event::Connect);
    }

    /// As [`Self::step`] with [`Event::Failed`]; the first reason given stands.
    fn fail(&self, connect_error: ConnectError) {
        let mut progress = self.progress.lock();
        progress.connect_error.get_or_insert(connect_error);
        drop(progress);
        self.report(Event::Failed);
    }

    /// Waits for the next thing to do. [`None`] if nothing happens for `timeout_ms`. Sleeps.
    pub(crate) fn next_action(&self, timeout_ms: Msecs) -> Option<Action> {
        let mut left = msecs_to_jiffies(timeout_ms);
        let mut progress = self.progress.lock();
        loop {
            if let Some(action) = progress.action.take() {
                return Some(action);
            }
            use kernel::sync::CondVarTimeoutResult as Wait;
            left = match self
                .progressed
                .wait_interruptible_timeout(&mut progress, left)
            {
                Wait::Timeout => return progress.action.take(),
                Wait::Woken { jiffies } | Wait::Signal { jiffies } => jiffies,
            };
        }
    }

    /// Why it failed, if it did.
    pub(crate) fn connect_error(&self) -> Option<ConnectError> {
        self.progress.lock().connect_error
    }

    /// Whether Calls may be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// How its RPCs travel.
    pub(crate) fn sizing(&self) -> &Sizing {
        self.sizing.as_ref().unwrap_or(&Sizing::DEFAULT)
    }

    /// CallContext how many regions the device needs for one payload, and how many credits to ask for.
    pub(crate) fn set_sizes(&self, payload_segments: usize, credits: u32) {
        let mut window = self.window.lock();
        window.request(credits);
        let requested_credits = window.requested();
        drop(window);
        let sizing = &mut self.progress.lock().sizing;
        sizing.payload_segments = payload_segments;
        sizing.segments = payload_segments.saturating_add(2);
        sizing.requested_credits = requested_credits;
    }

    /// The window that a grant opens.
    pub(crate) fn on_grant(&self, grant: u32) -> u32 {
        if grant == 0 {
            kernel::pr_warn_once!("a server granted no credits at all, which is taken for one\n");
        }
        self.window.lock().on_reply(grant)
    }

    /// The end begins: from here on nothing is posted for long.
    pub(crate) fn closing(&self) {
        self.report(Event::Close);
    }

    /// The queue pair is drained. Frees what is left and lets go of whoever waits. Returns the regions,
    /// which another connection may use. Sleeps.
    pub(crate) fn closed(&self) -> mr::Idle<Self> {
        self.receives.clear();
        let regions = self.regions.close();
        self.report(Event::Drained);
        regions
    }

    /// Whether the device waits for all to be given up that was made for this connection.
    pub(crate) fn is_device_removed(&self) -> bool {
        self.device_removed.load(Ordering::Acquire)
    }

    /// The device goes. Something may be left of a connection that ended long ago.
    fn device_removed(&self) {
        self.device_removed.store(true, Ordering::Release);
        self.end_by(Event::DeviceRemoved, c"device removed");
        self.link.with(|xprt| {
            xprt.force_disconnect();
            // It will not find the device, and then gives up what it kept for the next connection,
            // which the removal waits for.
            xprt.expedite_connect();
        });
    }

    /// Returns when [`Self::closed`] was called. Sleeps.
    pub(crate) fn wait_until_closed(&self) {
        let mut progress = self.progress.lock();
        while progress.connection_state.state() != State::Closed {
            self.progressed.wait(&mut progress);
        }
    }

    /// The connection is lost.
    pub(crate) fn lost(&self, why: &CStr) {
        self.end_by(Event::Disconnected, why);
    }

    /// A work request failed.
    fn request_ended(&self, failure: WcStatus) {
        // While the server is asked, the Receives that stand end before the connection manager says that
        // it refused. It always does say something.
        if self.is_open() || !failure.is_flush() {
            self.lost(failure.reason());
        }
    }

    /// A message was no good. A peer that keeps sending such is left.
    pub(crate) fn malformed(&self) {
        self.counters.bad_replies.add(1);
        self.end_by(Event::Malformed, c"malformed messages");
    }

    /// Gives regions back, and tells sunrpc if a Call waits for them.
    pub(crate) fn recycle_regions(&self, regions: mr::Idle<Self>) {
        if !regions.is_empty() && self.regions.put(regions) {
            self.link.with(|xprt| xprt.write_space());
        }
    }

    /// No connection comes about; or the one that did is none any more.
    fn refused(&self, connect_error: ConnectError, why: &CStr) {
        if self.is_open() {
            self.lost(why);
        } else {
            self.fail(connect_error);
        }
    }

    fn established(&self, private_data: &[u8]) {
        let theirs = PrivateData::parse(private_data);
        let sizing = Sizing {
            thresholds: Thresholds::negotiate(Role::Client, self.config.inline, theirs),
            ..self.progress.lock().sizing
        };
        self.sizing.populate(sizing);
        self.report(Event::Established);
    }
}

/// The longest callback, and the longest reply to one: what fits behind a header without chunks.
pub(crate) fn callback_max_payload(active: Option<&Active>) -> usize {
    let thresholds = active.map_or(Thresholds::DEFAULT, |active| {
        active.connection.sizing().thresholds
    });
    thresholds
        .call
        .min(thresholds.reply)
        .min(kernel::page::PAGE_SIZE)
        .saturating_sub(reverse::Header::WIRE_LEN)
}

impl rdma::Handler for Connection {
    type InvalidateContext = Fenced;

    fn cm_event(&self, event: cm::Event<'_>) {
        match event {
            cm::Event::AddrResolved => self.report(Event::AddressResolved),
            cm::Event::RouteResolved => self.report(Event::RouteResolved),
            cm::Event::Established { private_data } => self.established(private_data),
            cm::Event::AddrError => self.fail(ConnectError::Address),
            cm::Event::RouteError => self.fail(ConnectError::Route),
            cm::Event::Unreachable => {
                self.refused(ConnectError::Unreachable, c"the way to the server changed")
            }
            cm::Event::ConnectError => self.refused(ConnectError::Lost, c"not set up"),
            cm::Event::Rejected { stale } => {
                let connect_error = match stale {
                    true => ConnectError::Stale,
                    false => ConnectError::Rejected,
                };
                self.refused(connect_error, c"rejected after all");
            }
            cm::Event::Disconnected => self.lost(c"closed by the server"),
            // The path that was resolved is not the path any more.
            cm::Event::AddrChange => self.lost(c"local address moved"),
            cm::Event::DeviceRemoval => self.device_removed(),
            cm::Event::Other => (),
        }
    }

    fn received(
        &self,
        queue: &QueuePair<Self>,
        message: receive::Message<Self>,
        invalidated: Option<receive::Invalidated<'_, Self>>,
    ) {
        reply::received(self, queue, message, invalidated);
    }

    fn receive_failed(&self, buffer: receive::Buffer<Self>, failure: WcStatus) {
        drop(buffer);
        self.request_ended(failure);
    }

    fn request_failed(&self, failure: WcStatus) {
        self.request_ended(failure);
    }

    fn send_resumed(&self) {
        self.link.with(|xprt| xprt.write_space());
    }

    fn invalidated(&self, queue: &QueuePair<Self>, regions: mr::Idle<Self>, fenced: Fenced) {
        self.recycle_regions(regions);
        match fenced {
            Fenced::Answered(answered) => answered.complete(self, queue),
            Fenced::Released(slot) => slot.fence_done(),
        }
    }

    fn invalidate_failed(&self, regions: mr::Registered<Self>, fenced: Fenced) {
        match fenced {
            // It is sent again on the next connection.
            Fenced::Answered(answered) => answered.give_back(regions),
            Fenced::Released(slot) => {
                // They go with the queue pair.
                self.counters.broken_regions.add(regions.len() as u64);
                drop(regions);
                slot.fence_broken();
            }
        }
    }
}
