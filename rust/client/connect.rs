// SPDX-License-Identifier: GPL-2.0

//! Making a connection: the connect worker carries out what the state connection_state
//! says, step by step, while the connection manager reports.

use super::{
    connection::{
        ConnectError, //
        Connection,
    },
    slot::Chunk,
    stats::Counters,
    Active,
    Client,
    Config,
    CALLBACKS,
    MAX_PAYLOAD_PAGES, //
};
use crate::endpoint::ReceiveRing;
use kernel::{
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    time::Msecs, //
};
use proto::conn::client::Action;
use rdma::{
    cm::{
        ConnectParameters,
        Id, //
    },
    device::Limits,
    error,
    mr::Idle,
    qp::Parameters,
    ProtectionDomain,
    QueuePair, //
};
use sunrpc::Xprt;

/// A device that refuses a queue pair of its own limits' size is asked for smaller ones, but not for
/// fewer credits than this.
const FEW_CREDITS: usize = 16;

/// For each of address and route.
const RESOLVE_MS: u32 = 5_000;

/// For the whole of each step. On Ethernet the connection manager asks a server that is silent for a
/// little longer.
const STEP_MS: Msecs = 60_000;

/// Device level retries: enough for a lost packet, few enough to notice a moved server.
const RETRIES: u8 = 6;

/// Regions of a connection. With so many large RPCs under way, one more would not be faster.
const MAX_REGIONS: usize = 256;

/// Send buffers beyond the slots: callbacks, and the Sends that wait for a covering completion.
const EXTRA_SENDS: usize = CALLBACKS + 16;

/// Connects `xprt`, with what `reusable` has if that is of the same device; what is left stays there. Runs
/// in the connect worker; sleeps.
pub(crate) fn connect(
    xprt: &Xprt<Client>,
    config: Config,
    counters: &Arc<Counters>,
    reusable: &mut Option<ReusableResources>,
) -> Result<Active> {
    let connection = Connection::new(xprt.link(), config, counters.clone())?;
    let id = Id::new(&xprt.net()?, connection.clone())?;
    let mut queue = None;
    connection.begin();
    let result = loop {
        let Some(action) = connection.next_action(STEP_MS) else {
            break Err(error::timed_out());
        };
        let done = match action {
            Action::ResolveAddress => xprt
                .address()
                .and_then(|address| id.resolve_address(&address, RESOLVE_MS)),
            Action::ResolveRoute => id.resolve_route(RESOLVE_MS),
            Action::Request => {
                request(&id, &connection, config, reusable).map(|made| queue = Some(made))
            }
            Action::Announce => break Ok(()),
            _ => {
                break Err(connection
                    .connect_error()
                    .map_or_else(error::timed_out, errno))
            }
        };
        if let Err(error) = done {
            break Err(error);
        }
    };
    match (result, queue) {
        (Ok(()), Some(queue)) => Ok(Active { queue, connection }),
        (result, queue) => {
            connection.closing();
            if let Some(queue) = &queue {
                queue.drain();
            }
            let regions = connection.closed();
            // The id must go, for the connection manager to end what there is of the connection; so a domain
            // that keeps it does, too.
            if let Some(queue) = queue.filter(|queue| !queue.pd().is_of(&id)) {
                *reusable = Some(ReusableResources::new(&queue, regions));
            }
            result.and(Err(error::timed_out()))
        }
    }
}

/// Makes all that a connection needs, then asks the server.
fn request(
    id: &Arc<Id<Connection>>,
    connection: &Connection,
    config: Config,
    reusable: &mut Option<ReusableResources>,
) -> Result<Arc<QueuePair<Connection>>> {
    let limits = id.limits()?;
    let (pd, regions) = match reusable.take().filter(|reusable| reusable.pd.serves(id)) {
        Some(ReusableResources { pd, regions }) => (pd, regions),
        None => (ProtectionDomain::new(id.clone())?, Idle::new()),
    };
    let mut credits = config.credits;
    let (shape, queue) = loop {
        let shape = QueueLimits::new(&limits, Config { credits, ..config })?;
        match QueuePair::new(id.clone(), pd.clone(), &shape.parameters) {
            Ok(queue) => break (shape, queue),
            Err(EINVAL | ENOMEM) if shape.credits > FEW_CREDITS => {
                credits = (shape.credits / 2).max(FEW_CREDITS);
            }
            Err(error) => return Err(error),
        }
    };
    connection.set_sizes(shape.payload_segments, u32::try_from(shape.credits)?);
    let new = connection
        .regions
        .fill(&pd, regions, shape.regions, shape.pages, shape.reserve)?;
    connection.counters.regions.add(new as u64);
    // RFC 8166, section 3.3.1: Receives for all replies stand before the first Call.
    let credits = shape.credits.saturating_add(CALLBACKS);
    connection
        .receives
        .fill(&queue, credits, config.inline.receive_size(), GFP_KERNEL)?;
    let inline = match limits.remote_invalidation {
        true => config.inline,
        false => config.inline.without_remote_invalidation(),
    };
    id.connect(&ConnectParameters {
        private_data: &inline.emit(),
        responder_resources: limits.responder_resources,
        initiator_depth: 0,
        retry_count: RETRIES,
        // Flow control is ours: a Receive that is not there must be seen, not waited for.
        rnr_retry_count: 0,
    })?;
    Ok(queue)
}

/// What a connection leaves to the next one on the same device.
///
/// It keeps the device from being removed, so it is given up when that is wanted.
pub(crate) struct ReusableResources {
    pd: Arc<ProtectionDomain<Connection>>,
    regions: Idle<Connection>,
}

impl ReusableResources {
    pub(crate) fn new(queue: &QueuePair<Connection>, regions: Idle<Connection>) -> Self {
        Self {
            pd: queue.pd().clone(),
            regions,
        }
    }

    /// Whether the device waits for it.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.pd.context().is_device_removed()
    }
}

/// What a connection asks of its device.
struct QueueLimits {
    parameters: Parameters,
    /// Calls in parallel.
    credits: usize,
    /// Memory regions.
    regions: usize,
    /// How many of them one RPC takes at most.
    reserve: usize,
    /// Pages that one region covers.
    pages: u32,
    /// Regions that cover the largest payload.
    payload_segments: usize,
}

impl QueueLimits {
    fn new(limits: &Limits, config: Config) -> Result<Self> {
        let pages = limits
            .registration_pages
            .min(u32::try_from(MAX_PAYLOAD_PAGES)?);
        let payload_segments = MAX_PAYLOAD_PAGES.div_ceil(usize::try_from(pages.max(1))?);
        let segments = payload_segments.saturating_add(2);
        if segments > Chunk::MAX {
            pr_err!("the device registers {pages} pages at once, which is too few\n");
            return Err(error::not_supported());
        }
        let queue_depth = usize::try_from(limits.queue_depth)?;
        // A long Call and a long reply. Each region takes a request to register and perhaps one
        // to invalidate it.
        let regions_per_send = segments.saturating_mul(2);
        let requests_per_send = regions_per_send.saturating_mul(2).saturating_add(1);
        let credits = config
            .credits
            .min((queue_depth / requests_per_send).saturating_sub(EXTRA_SENDS + 1));
        if credits == 0 {
            pr_err!("the device queues {queue_depth} work requests, which is too few\n");
            return Err(error::not_supported());
        }
        let receives = ReceiveRing::<Connection>::depth(credits.saturating_add(CALLBACKS));
        Ok(Self {
            parameters: Parameters {
                receives: u32::try_from(receives)?,
                send_buffers: credits.saturating_add(EXTRA_SENDS),
                // The send path must not allocate: memory may be freed by what it sends.
                first_send_buffers: usize::MAX,
                send_bytes: config.inline.send_size(),
                // Its buffer before and behind data that starts and ends within a page.
                send_elements: config.inline.send_size().div_ceil(PAGE_SIZE) + 3,
                regions_per_send: u32::try_from(regions_per_send)?,
                transfers: 0,
            },
            credits,
            // One RPC must never need more than there are.
            regions: credits.min(MAX_REGIONS).max(regions_per_send),
            reserve: regions_per_send,
            pages,
            payload_segments,
        })
    }
}

fn errno(connect_error: ConnectError) -> Error {
    match connect_error {
        // Not `ENETUNREACH`: in a container that is the end of a hard mount's RPCs, and all that is known
        // is that nobody answered.
        ConnectError::Address | ConnectError::Route | ConnectError::Unreachable => {
            error::host_unreachable()
        }
        ConnectError::Rejected => error::connection_refused(),
        ConnectError::Stale | ConnectError::Lost => error::not_connected(),
    }
}
