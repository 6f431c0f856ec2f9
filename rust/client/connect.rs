// SPDX-License-Identifier: GPL-2.0

//! Connecting, growing and closing, in process context.
//!
//! The connect worker carries out the actions of the [`ConnectionState`](super::connection_state)
//! one by one, while the RDMA CM reports the events that lead to the next one.
//!
//! A connection is made with the resources that a few RPCs need: Receives, Send buffers and memory
//! regions. When the server grants more than that and the RPCs use it, as a reply or a call that
//! finds no credit shows ([`proto::backing`]), or when a call finds too few regions, a work item
//! allocates more, and then opens the credit window that far. It does not wait for a reply to do
//! so: those that are awaited may be slow to come. For the same reason it tries again by itself if
//! it fails. Only the end of the transport waits for the work item: when memory is short, the RPCs
//! go on with the resources that the connection has. A transport that carries swap has everything
//! from the start.

use super::{
    cause::ConnectError,
    config::Config,
    transport::ReusableResources, //
};
use crate::prelude::*;
use kernel::{
    sync::UniqueArc,
    time::{
        msecs_to_jiffies,
        Msecs, //
    }, //
};
use proto::conn::client as conn;
use rdma::{
    cm::{
        ConnectParameters,
        Id, //
    },
    device,
    receive, //
};
use sunrpc::Xprt;

/// The fewest credits for which the connect tries a smaller queue pair, if the device cannot create
/// one although it is within the limits of the device.
const MIN_CREDITS: usize = 16;

/// Timeout of the RDMA CM for the address, and again for the route.
const RESOLVE_MS: u32 = 5_000;

/// Timeout of each action, of which only the connection request needs one: over RoCE the RDMA CM
/// repeats it for 74 seconds before it reports that the server does not answer.
///
/// A server that has many clients to accept takes up to 13 seconds for one of this address.
const ACTION_MS: Msecs = 45_000;

// A call that must not wait for a server without an answer, such as the first one of a mount, fails
// when the first attempt does, but only if it still waits for that.
const _: () = assert!(2 * RESOLVE_MS + ACTION_MS < sunrpc::ATTEMPT_MS);

/// Retries of the device: enough for a lost packet, few enough to notice soon that the server
/// moved.
const RETRIES: u8 = 6;

/// Connects `xprt`. Uses the `reusable` resources if they are of the same device; otherwise they
/// stay there. Runs in the connect worker; sleeps.
pub(super) fn connect(
    xprt: &Xprt<ClientTransport>,
    config: Config,
    counters: &Arc<Counters>,
    reusable: &mut Option<ReusableResources>,
) -> Result<Arc<ActiveConnection>> {
    let connection = ClientConn::new(xprt.downgrade(), config, counters.clone())?;
    let active = UniqueArc::new_uninit(GFP_KERNEL)?;
    let state = connection.state();
    let id = Id::new(&xprt.net()?, connection.clone())?;
    let mut queue = None;
    state.report(conn::Event::Connect);
    let result = loop {
        let Some(action) = state.next_action(ACTION_MS) else {
            // Not `ETIMEDOUT`, after which sunrpc tries again even for a call that must not wait.
            break Err(error_of(ConnectError::Unreachable));
        };
        let done = match action {
            conn::Action::ResolveAddress => xprt
                .address()
                .and_then(|address| id.resolve_address(&address, RESOLVE_MS)),
            conn::Action::ResolveRoute => id.resolve_route(RESOLVE_MS),
            conn::Action::Request => {
                // There may be no memory for more before something is swapped out.
                let first = if xprt.carries_swap() {
                    config.credits
                } else {
                    config::FIRST_CREDITS
                };
                request(&id, &connection, config, first, reusable, &mut queue)
            }
            conn::Action::Announce => break Ok(()),
            _ => {
                break Err(state
                    .connect_error()
                    .map_or_else(errno::etimedout, error_of))
            }
        };
        if let Err(error) = done {
            break Err(error);
        }
    };
    match (result, queue) {
        (Ok(()), Some(queue)) => Ok(active.write(ActiveConnection { queue, connection }).into()),
        (result, queue) => {
            connection.begin_close();
            match queue {
                Some(queue) => {
                    queue.drain();
                    let resources = connection.finish_close(&queue);
                    // The RDMA CM gives up a half-made connection when its id is destroyed.
                    *reusable = Some(resources).filter(|resources| resources.usable_after(&id));
                }
                None => state.report(conn::Event::Drained),
            }
            result.and(Err(errno::etimedout()))
        }
    }
}

/// Creates the resources of the connection, for `first` credits or for as many as there are
/// reusable ones for, then sends the connection request. `created` is set to the queue pair when it
/// exists; from then on it owns the resources.
fn request(
    id: &Arc<Id<ClientConn>>,
    connection: &ClientConn,
    config: Config,
    first: usize,
    reusable: &mut Option<ReusableResources>,
    created: &mut Option<Arc<QueuePair<ClientConn>>>,
) -> Result {
    let device = id.limits()?;
    let kept = reusable.take();
    let mut resources = match kept.and_then(|kept| kept.compatible_with(id, &config)) {
        Some(resources) => resources,
        None => ReusableResources::new(id, &config)?,
    };
    let (limits, queue) = match make_queue(id, &device, config, first, &mut resources) {
        Ok(limits_and_queue) => limits_and_queue,
        Err(error) => {
            *reusable = Some(resources).filter(|resources| resources.usable_after(id));
            return Err(error);
        }
    };
    *created = Some(queue.clone());
    let first_credits = fill(connection, &config, &limits, &queue, resources)?;
    connection.set_queue_limits(
        limits.payload_segments,
        u32::try_from(limits.credits)?,
        u32::try_from(first_credits)?,
    );
    let private_data = if device.remote_invalidation {
        config.inline
    } else {
        config.inline.without_remote_invalidation()
    };
    queue.connect(&ConnectParameters {
        private_data: &private_data.emit(),
        responder_resources: device.responder_resources,
        initiator_depth: 0,
        retry_count: RETRIES,
        // Credits keep either side from sending without a Receive. If one is missing all the same,
        // that is an error and must be seen.
        rnr_retry_count: 0,
    })
}

/// Gives the connection regions and Receives: those of `resources`, and new ones. They are for the
/// first credits of `limits`, or for fewer if memory is short. Returns the number of credits.
fn fill(
    connection: &ClientConn,
    config: &Config,
    limits: &config::QueueLimits,
    queue: &QueuePair<ClientConn>,
    resources: ReusableResources,
) -> Result<usize> {
    let ReusableResources {
        pd,
        mut regions,
        mut receives,
        ..
    } = resources;
    let kept = regions.len();
    let mut credits = limits.first_credits;
    let mut shortage = None;
    loop {
        let filled = connection
            .regions
            .fill(&pd, regions, credits, limits.pages, limits.reserve);
        // RFC 8166, section 3.3.1: the Receives for all replies are posted before the first Call is
        // sent.
        let posted = queue.grow_receives(
            config::receives_for(credits),
            config.inline.receive_size(),
            GFP_KERNEL,
            &mut receives,
        );
        let Some(error) = filled.err().or(posted.err()) else {
            let new = config::regions_for(credits, limits.reserve).saturating_sub(kept);
            connection.counters.rare.regions.add(new as u64);
            connection.with_peer(|peer| trace::event!(xprtrdma_createmrs(peer, new)));
            if let Some(error) = shortage {
                connection.log_few_resources(u32::try_from(limits.first_credits)?, error);
            }
            return Ok(credits);
        };
        // Drivers do not agree on the error for running out of regions or of Receives, and want of
        // addresses for DMA has one of its own. If the cause is another, one credit fails as well.
        if credits <= 1 {
            // Keep the surplus for the next attempt.
            queue.keep_receives(receives);
            return Err(error);
        }
        shortage = Some(error);
        // Memory may come back only if something is swapped out over this connection.
        credits /= 2;
        regions = connection.regions.close();
    }
}

/// Creates the queue pair for as many credits of `config` as the device has entries for, with Send
/// buffers for `first` of them, or for as many credits as `resources` has buffers for.
fn make_queue(
    id: &Arc<Id<ClientConn>>,
    device: &device::Limits,
    config: Config,
    first: usize,
    resources: &mut ReusableResources,
) -> Result<(config::QueueLimits, Arc<QueuePair<ClientConn>>)> {
    let mut credits = config.credits;
    let first = first.max(resources.credits);
    loop {
        let pd = resources.pd.clone();
        let config = Config { credits, ..config };
        let limits = config::QueueLimits::new(device, pd.coverage(), config, first)?;
        match limits.parameters.make(id.clone(), pd, &mut resources.sends) {
            Ok(queue) => return Ok((limits, queue)),
            // Each driver has an error of its own for a queue pair that is too large.
            Err(_) if limits.credits > MIN_CREDITS => {
                credits = (limits.credits / 2).max(MIN_CREDITS);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Closes the connection. Returns the resources that the next one may reuse. Sleeps.
pub(super) fn close(xprt: &Xprt<ClientTransport>, active: &ActiveConnection) -> ReusableResources {
    let ActiveConnection { queue, connection } = active;
    let was_connected = if connection.is_open() {
        Ok(())
    } else {
        Err(errno::enotconn())
    };
    connection.begin_close();
    let disconnected = queue.disconnect();
    xprt.with_peer(|peer| {
        trace::event!(xprtrdma_disconnect(peer, disconnected, was_connected));
    });
    queue.drain();
    xprt.for_each_slot(|slot| connection.counters.rare.broken_regions.add(slot.reset()));
    connection.finish_close(queue)
}

/// Returns the error to report to sunrpc.
fn error_of(connect_error: ConnectError) -> Error {
    match connect_error {
        // Not `ENETUNREACH`: in a container that is the end of a hard mount's RPCs, and all that is
        // known is that there was no answer.
        ConnectError::Address | ConnectError::Route | ConnectError::Unreachable => {
            errno::ehostunreach()
        }
        ConnectError::Rejected => errno::econnrefused(),
        ConnectError::Stale | ConnectError::Lost => errno::enotconn(),
    }
}

/// Returns the reason to log for `error`, with which an attempt to connect failed.
pub(super) fn reason(error: Error) -> &'static CStr {
    let reasons = [
        (
            errno::ehostunreach(),
            c"no RDMA device has a path to it, or it does not answer",
        ),
        (errno::econnrefused(), c"it rejected the connection request"),
        (
            errno::enotconn(),
            c"it has an older connection yet, or the attempt was broken off",
        ),
        (errno::etimedout(), c"it took too long"),
        (errno::eopnotsupp(), c"the RDMA device lacks what is needed"),
    ];
    let known = reasons.iter().find(|(number, _)| *number == error);
    known.map_or(c"the resources cannot be had", |(_, reason)| *reason)
}

/// The pause, in milliseconds, after an attempt that failed.
const PAUSE_MS: u64 = 1_000;

/// The time after which growth that failed is tried again. Longer than the pause, by another clock.
const RETRY_MS: Msecs = 1_500;

/// Allocates what [`ClientConn::on_grant`], [`ClientConn::on_credit_shortage`] or
/// [`ClientConn::on_region_shortage`] found to be missing, and more if calls still find too few
/// regions. Returns whether there are resources for more calls than before. Sleeps if `flags` allow
/// it.
pub(super) fn grow(active: &ActiveConnection, xprt: &Xprt<ClientTransport>, flags: Flags) -> bool {
    let connection = &active.connection;
    let _growing = connection.growth.lock();
    let mut has_grown = false;
    let mut target = connection.first_target(xprt);
    while let Some(credits) = target {
        if let Err(error) = grow_to(active, credits, flags) {
            let not_before = connection.age_ms().saturating_add(PAUSE_MS);
            connection.credits.lock().backing.failed(not_before);
            connection.log_growth_failed(credits, error);
            if connection.is_open() {
                // The calls that wait may be the only ones that could begin growth again.
                xprt.schedule_growth_after(msecs_to_jiffies(RETRY_MS));
            }
            break;
        }
        has_grown = true;
        target = connection.next_target(credits);
    }
    has_grown
}

/// Allocates what the connection needs for all credits that it requests. Returns whether that is
/// there now. Sleeps if `flags` allow it.
pub(super) fn grow_fully(active: &ActiveConnection, flags: Flags) -> bool {
    let connection = &active.connection;
    let _growing = connection.growth.lock();
    let all = connection.credits.lock().window.requested();
    match grow_to(active, all, flags) {
        Ok(()) => {
            connection.credits.lock().backing.grown(all);
            true
        }
        Err(error) => {
            connection.log_growth_failed(all, error);
            false
        }
    }
}

/// Adds what is missing for `credits`. If it fails, what was allocated stays for the next attempt.
fn grow_to(active: &ActiveConnection, credits: u32, flags: Flags) -> Result {
    let ActiveConnection { queue, connection } = active;
    let credits = usize::try_from(credits)?;
    add_regions(active, credits, flags)?;
    queue.grow_send_buffers(config::sends_for(credits), flags)?;
    queue.grow_receives(
        config::receives_for(credits),
        connection.receive_size(),
        flags,
        &mut receive::Buffers::new(),
    )
}

fn add_regions(active: &ActiveConnection, credits: usize, flags: Flags) -> Result {
    let ActiveConnection { queue, connection } = active;
    let (missing, pages) = connection.regions.missing(credits);
    let mut regions = Idle::new();
    let result = (0..missing).try_for_each(|_| regions.allocate(queue.pd(), pages, flags));
    connection.add_regions(regions);
    result
}

impl ClientConn {
    /// Handles a call of `xprt` that finds no credit. If resources limit the window, schedules
    /// their growth.
    pub(super) fn on_credit_shortage(&self, xprt: &Xprt<ClientTransport>) {
        let mut credits = self.credits.lock();
        let granted = credits.window.window();
        let grows = credits.backing.is_short(granted)
            && credits
                .backing
                .begin(granted, xprt.credits_in_use(), || self.age_ms());
        drop(credits);
        if grows {
            xprt.schedule_growth();
        }
    }

    /// Handles a call of `xprt` that finds too few regions. Schedules growth, unless there are all
    /// regions already.
    pub(super) fn on_region_shortage(&self, xprt: &Xprt<ClientTransport>) {
        let grows = self.begin_for_regions(&mut self.credits.lock());
        if grows {
            xprt.schedule_growth();
        }
    }

    /// Returns the number of credits to have resources for. [`None`] if there is no shortage any
    /// more, now that growth which failed is tried again.
    fn first_target(&self, xprt: &Xprt<ClientTransport>) -> Option<u32> {
        let is_short = self.regions.is_short();
        let mut credits = self.credits.lock();
        if credits.backing.target().is_none() {
            if is_short {
                self.begin_for_regions(&mut credits);
            }
            let granted = credits.window.window();
            credits
                .backing
                .begin(granted, xprt.credits_in_use(), || self.age_ms());
        }
        credits.backing.target()
    }

    /// Records that there are resources for `grown` credits now. Returns the number to have
    /// resources for next, if any.
    fn next_target(&self, grown: u32) -> Option<u32> {
        let mut credits = self.credits.lock();
        credits.backing.grown(grown);
        // A call that was woken by the new regions may have found too few again, while this growth
        // was not at its end.
        if self.regions.is_short() {
            self.begin_for_regions(&mut credits);
        }
        credits.backing.target()
    }

    /// Returns the number of calls that the server granted credits for and there are resources for.
    pub(super) fn current_window(&self) -> u32 {
        let credits = self.credits.lock();
        credits.backing.limit(credits.window.window())
    }

    /// Opens the window of `xprt` to the calls that the server granted credits for and there are
    /// resources for, if this is still its connection: the one with this `connect_cookie`.
    pub(super) fn open_window(&self, xprt: &Xprt<ClientTransport>, connect_cookie: u32) {
        xprt.open_window(connect_cookie, |set| {
            // A reply may bring another grant at the same time. If it is taken after this, whoever
            // takes it finds the window that is set here, and looks once more; so the lock is
            // released when the window is set.
            let credits = self.credits.lock();
            set(credits.backing.limit(credits.window.window()));
        });
    }

    /// Logs the failure to allocate resources for `credits`, unless the connection ends.
    fn log_growth_failed(&self, credits: u32, error: Error) {
        if self.is_open() {
            self.log_few_resources(credits, error);
        }
    }

    /// Logs that there were no resources for `credits` credits.
    pub(super) fn log_few_resources(&self, credits: u32, error: Error) {
        self.log_message(|server| {
            pr_info!("no resources for {credits} calls to {server} at a time: {error:?}\n");
        });
    }

    /// Puts new regions into the pool.
    fn add_regions(&self, regions: Idle<Self>) {
        let new = regions.len();
        if new == 0 {
            return;
        }
        self.counters.rare.regions.add(new as u64);
        self.with_peer(|peer| trace::event!(xprtrdma_createmrs(peer, new)));
        if self.regions.add(regions) {
            self.xprt.with(|xprt| xprt.write_space());
        }
    }
}
