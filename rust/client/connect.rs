// SPDX-License-Identifier: GPL-2.0

//! Connecting and closing, in process context.
//!
//! The connect worker carries out the actions of the [`ConnectionState`](super::connection_state)
//! one by one, while the RDMA CM reports the events that lead to the next one.

use super::{
    config::{
        Config,
        FIRST_CREDITS, //
    },
    connection::{
        ActiveConnection,
        ClientConnection,
        ClientTransport,
        ReusableResources, //
    },
    connection_state::ConnectError,
    queue_limits::QueueLimits,
    resources,
    stats::Counters, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    time::Msecs, //
};
use proto::conn::client::{
    Action,
    Event, //
};
use rdma::{
    cm::{
        ConnectParameters,
        Id, //
    },
    device::Limits,
    error,
    QueuePair, //
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
) -> Result<ActiveConnection> {
    let connection = ClientConnection::new(xprt.downgrade(), config, counters.clone())?;
    let state = connection.state();
    let id = Id::new(&xprt.net()?, connection.clone())?;
    let mut queue = None;
    state.report(Event::Connect);
    let result = loop {
        let Some(action) = state.next_action(ACTION_MS) else {
            // Not `ETIMEDOUT`, after which sunrpc tries again even for a call that must not wait.
            break Err(errno(ConnectError::Unreachable));
        };
        let done = match action {
            Action::ResolveAddress => xprt
                .address()
                .and_then(|address| id.resolve_address(&address, RESOLVE_MS)),
            Action::ResolveRoute => id.resolve_route(RESOLVE_MS),
            Action::Request => {
                // There may be no memory for more before something is swapped out.
                let first = if xprt.carries_swap() {
                    config.credits
                } else {
                    FIRST_CREDITS
                };
                request(&id, &connection, config, first, reusable, &mut queue)
            }
            Action::Announce => break Ok(()),
            _ => break Err(state.connect_error().map_or_else(error::timed_out, errno)),
        };
        if let Err(error) = done {
            break Err(error);
        }
    };
    match (result, queue) {
        (Ok(()), Some(queue)) => Ok(ActiveConnection { queue, connection }),
        (result, queue) => {
            connection.begin_close();
            match queue {
                Some(queue) => {
                    queue.drain();
                    let resources = connection.finish_close(&queue);
                    // The RDMA CM gives up a half-made connection when its id is destroyed.
                    *reusable = Some(resources).filter(|resources| resources.usable_after(&id));
                }
                None => state.report(Event::Drained),
            }
            result.and(Err(error::timed_out()))
        }
    }
}

/// Creates the resources of the connection, for `first` credits or for as many as there are
/// reusable ones for, then sends the connection request. `made` is set to the queue pair when it
/// exists; from then on it owns the resources.
fn request(
    id: &Arc<Id<ClientConnection>>,
    connection: &ClientConnection,
    config: Config,
    first: usize,
    reusable: &mut Option<ReusableResources>,
    made: &mut Option<Arc<QueuePair<ClientConnection>>>,
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
    *made = Some(queue.clone());
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
    connection: &ClientConnection,
    config: &Config,
    limits: &QueueLimits,
    queue: &QueuePair<ClientConnection>,
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
        let posted = connection.receives.grow(
            queue,
            resources::receives_for(credits),
            config.inline.receive_size(),
            GFP_KERNEL,
            &mut receives,
        );
        let Some(error) = filled.err().or(posted.err()) else {
            let new = resources::regions_for(credits, limits.reserve).saturating_sub(kept);
            connection.counters.regions.add(new as u64);
            connection.with_peer(|peer| trace::event!(xprtrdma_createmrs(peer, new)));
            if let Some(error) = shortage {
                connection.log_few_resources(u32::try_from(limits.first_credits)?, error);
            }
            return Ok(credits);
        };
        // Drivers do not agree on the error for running out of regions.
        let is_shortage = filled.is_err() || error == ENOMEM;
        if !is_shortage || credits <= 1 {
            // Keep the surplus for the next attempt.
            connection.receives.keep(receives);
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
    id: &Arc<Id<ClientConnection>>,
    device: &Limits,
    config: Config,
    first: usize,
    resources: &mut ReusableResources,
) -> Result<(QueueLimits, Arc<QueuePair<ClientConnection>>)> {
    let mut credits = config.credits;
    let first = first.max(resources.credits);
    loop {
        let limits = QueueLimits::new(device, Config { credits, ..config }, first)?;
        let pd = resources.pd.clone();
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
        Err(error::not_connected())
    };
    connection.begin_close();
    let disconnected = queue.disconnect();
    xprt.with_peer(|peer| {
        trace::event!(xprtrdma_disconnect(peer, disconnected, was_connected));
    });
    queue.drain();
    xprt.for_each_slot(|slot| connection.counters.broken_regions.add(slot.reset()));
    connection.finish_close(queue)
}

/// Returns the error to report to sunrpc.
fn errno(connect_error: ConnectError) -> Error {
    match connect_error {
        // Not `ENETUNREACH`: in a container that is the end of a hard mount's RPCs, and all that is
        // known is that there was no answer.
        ConnectError::Address | ConnectError::Route | ConnectError::Unreachable => {
            error::host_unreachable()
        }
        ConnectError::Rejected => error::connection_refused(),
        ConnectError::Stale | ConnectError::Lost => error::not_connected(),
    }
}

/// Returns the reason to log for `error`, with which an attempt to connect failed.
pub(super) fn reason(error: Error) -> &'static CStr {
    let reasons = [
        (
            error::host_unreachable(),
            c"no RDMA device has a path to it, or it does not answer",
        ),
        (
            error::connection_refused(),
            c"it rejected the connection request",
        ),
        (
            error::not_connected(),
            c"it has an older connection yet, or the attempt was broken off",
        ),
        (error::timed_out(), c"it took too long"),
        (
            error::not_supported(),
            c"the RDMA device lacks what is needed",
        ),
    ];
    let known = reasons.iter().find(|(number, _)| *number == error);
    known.map_or(c"the resources cannot be had", |(_, reason)| *reason)
}
