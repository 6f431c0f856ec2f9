// SPDX-License-Identifier: GPL-2.0

//! The sysctls and counters in `/proc/sys/sunrpc/svc_rdma/`, and the limits of a connection:
//! credits, Receives, Sends, RDMA Reads and RDMA Writes.
//!
//! Names and ranges of the sysctls are those of the in-tree module. The sysctls set the number of
//! credits that an administrator wants; the device limits the number of work requests in a queue.

use crate::prelude::*;
use proto::{
    cm_private_data::PrivateData,
    pages, //
};
use rdma::{
    device::Limits,
    errno::eopnotsupp, //
};
use sunrpc::sysctl::{
    Counter,
    PerCpuCounter,
    SysctlEntry,
    SysctlRegistration, //
};

/// The largest credit grant of a connection. Read when a connection is accepted.
static MAX_REQUESTS: SysctlEntry = SysctlEntry::new(c"max_requests", 128, 4, 16384);

/// The limit of all credit grants together, beyond the eight credits that each connection owns. The
/// in-tree module has no such limit.
static MAX_TOTAL_REQUESTS: SysctlEntry = SysctlEntry::new(c"max_total_requests", 16384, 0, 1 << 24);

/// The limit of pages that RDMA Reads of all connections use, beyond one call of each connection:
/// 128 MiB, which is 32768 pages of 4 KiB. The in-tree module has no such limit.
static MAX_TOTAL_READ_PAGES: SysctlEntry = SysctlEntry::new(
    c"max_total_read_pages",
    // CAST: Pages have at least 4 KiB, so it is 32768 at most.
    ((128 << 20) / PAGE_SIZE) as i32,
    0,
    1 << 24,
);

/// The size of a Receive and of a Send. Read when a connection is accepted. The default has room
/// for the reply to an NFSv4.2 GETATTR with security labels, and for 4 KiB of data; 4,096 bytes do
/// not.
static MAX_REQ_SIZE: SysctlEntry = SysctlEntry::new(c"max_req_size", 8192, 4096, 65536);

/// The limit in seconds for a posted Send, RDMA Write or RDMA Read, and for a client's first
/// message. Read once a second. A Send's completion is seen at most two seconds late. The in-tree
/// module has no such limit.
static PROGRESS_TIMEOUT: SysctlEntry = SysctlEntry::new(c"progress_timeout", 30, 3, 3600);

/// Has no effect, as in the in-tree module; scripts set it.
static MAX_OUTBOUND_READS: SysctlEntry =
    SysctlEntry::new(c"max_outbound_read_requests", 16, 1, 255);

/// RDMA Reads posted.
pub(super) static READS: PerCpuCounter = PerCpuCounter::new(c"rdma_stat_read");
/// Connections lost, except those that the client closed.
pub(super) static LOST: Counter = Counter::new(c"rdma_stat_lost");
/// Connections that ended because a posted work request, the client's confirmation or its first
/// message took longer than [`PROGRESS_TIMEOUT`].
pub(super) static STALLED: Counter = Counter::new(c"rdma_stat_stalled");
/// Messages dropped and calls refused because they violate the protocol or their reply does not
/// fit.
pub(super) static BAD_CALLS: Counter = Counter::new(c"rdma_stat_bad_calls");
/// Connection requests that were not accepted.
pub(super) static REJECTED: Counter = Counter::new(c"rdma_stat_rejected");
/// Messages received.
pub(super) static RECEIVED: PerCpuCounter = PerCpuCounter::new(c"rdma_stat_recv");
/// RDMA Writes posted.
pub(super) static WRITES: PerCpuCounter = PerCpuCounter::new(c"rdma_stat_write");
/// Sends and RDMA Reads that had to wait for Send buffers, SQ credits or pages.
pub(super) static SQ_STARVE: PerCpuCounter = PerCpuCounter::new(c"rdma_stat_sq_starve");

/// Always zero, as in the in-tree module; scripts read them.
static RQ_STARVE: Counter = Counter::new(c"rdma_stat_rq_starve");
static RQ_POLL: Counter = Counter::new(c"rdma_stat_rq_poll");
static RQ_PROD: Counter = Counter::new(c"rdma_stat_rq_prod");
static SQ_POLL: Counter = Counter::new(c"rdma_stat_sq_poll");
static SQ_PROD: Counter = Counter::new(c"rdma_stat_sq_prod");

/// Creates the sysctls.
pub fn register() -> Result<SysctlRegistration> {
    SysctlRegistration::with_counters(
        c"sunrpc/svc_rdma",
        &[
            &MAX_REQUESTS,
            &MAX_TOTAL_REQUESTS,
            &MAX_TOTAL_READ_PAGES,
            &MAX_REQ_SIZE,
            &MAX_OUTBOUND_READS,
            &PROGRESS_TIMEOUT,
        ],
        &[
            &RQ_STARVE, &RQ_POLL, &RQ_PROD, &SQ_POLL, &SQ_PROD, &LOST, &BAD_CALLS, &REJECTED,
            &STALLED,
        ],
        &[&READS, &RECEIVED, &WRITES, &SQ_STARVE],
    )
}

/// Returns the largest credit grant of a new connection.
fn max_credits() -> usize {
    MAX_REQUESTS.get()
}

/// Returns the limit of all credit grants together, beyond the eight credits of each connection.
pub(super) fn max_total_credits() -> u32 {
    u32::try_from(MAX_TOTAL_REQUESTS.get()).unwrap_or(u32::MAX)
}

/// Returns the limit of pages that RDMA Reads of all connections use, beyond one call of each.
pub(super) fn max_total_read_pages() -> usize {
    MAX_TOTAL_READ_PAGES.get()
}

/// Returns the limit for a posted work request to complete.
pub(super) fn progress_timeout_ms() -> Msecs {
    Msecs::try_from(PROGRESS_TIMEOUT.get())
        .unwrap_or(0)
        .saturating_mul(1_000)
}

/// Returns the size of a Receive and of a Send of a new connection.
fn inline_size_bytes() -> usize {
    MAX_REQ_SIZE.get()
}

/// The first credit grant of a connection. It is raised when a client has sent a call, so that
/// thousands of idle connections have few Receives.
pub(super) const FIRST_CREDITS: u32 = 2;

/// Credits in the reverse direction: calls to the client in parallel.
pub(super) const BACKCHANNEL_CREDITS: u32 = 2;

/// The Sends that may be posted at the same time. One completion covers up to sixteen. Each
/// connection has a Send queue of this length in the device, even while it is idle, so there are
/// fewer Sends than credits; a reply occupies the queue only for one round trip to the client.
const SENDS: u32 = 27;

/// The Send buffers of a new connection, and of one that is idle for a while. More are allocated on
/// demand.
pub(super) const FIRST_SENDS: usize = 1;

/// The work requests for RDMA Reads and Writes that may be posted at the same time, if [no more are
/// needed](least_transfers). A longer transfer is posted in batches.
const TRANSFERS: u32 = 34;

/// The longest payload of a call.
pub(super) const MAX_PAYLOAD: u32 = 4 << 20;

/// Returns the fewest RDMA Reads that a Send queue must have room for. Where memory must be
/// registered for them, all memory of a call is registered with the first Read: without room for
/// that, a client would send the call again over one connection after another.
fn least_transfers(limits: &Limits) -> Result<u32> {
    let Some(read_mr_pages) = limits.read_mr_pages else {
        return Ok(1);
    };
    // sunrpc allows a page for the rest of the call, and the data may begin within a page. A
    // Position-Zero chunk around an argument is in three parts, which share no region.
    let pages = pages::touched(usize::try_from(MAX_PAYLOAD)?, PAGE_SIZE) + 1;
    let regions = pages::regions(pages, usize::try_from(read_mr_pages)?) + 2;
    Ok(u32::try_from(regions)?)
}

/// The scatter elements of a work request, if the device supports as many. The longest Send, of 64
/// KiB, needs two for its buffer, before and after the pages, and 17 for pages of 4 KiB. All work
/// requests of a Send queue have room for as many: with 30, soft RoCE would need 1024 bytes for
/// each instead of 512. In turn, a megabyte in pages of 4 KiB without neighbours takes 14 RDMA
/// Writes instead of 9. Of larger pages a Send needs fewer, and a megabyte takes 4 or 1.
const SCATTER_ELEMENTS: usize = 19;

const _: () = assert!(pages::touched(65_536, PAGE_SIZE) + 2 <= SCATTER_ELEMENTS);

/// The most Receives in addition to one for each credit: for replies to backchannel calls, calls
/// beyond the credits, a batch that waits to be reposted, and the drain.
const SPARE_RECEIVES: u32 = 32;

/// The Receives for calls that a client sends beyond its credits, on iWARP: a client that abandons
/// a call may send another one at once, while the server still has the first. Where a device has
/// RNR, such a call waits for a Receive.
const BEYOND_CREDITS: usize = 4;

/// The limits of one connection.
#[derive(Clone, Copy)]
pub(super) struct QueueLimits {
    /// The largest credit grant.
    pub(super) credits: u32,
    /// The number of Sends in parallel.
    sends: u32,
    /// The number of RDMA Reads and Writes in parallel, and its lower bound.
    transfers: u32,
    least_transfers: u32,
    /// The number of pages that one RDMA Read can scatter to.
    pages_per_read: usize,
    /// The number of Receives for calls beyond the client's credits.
    pub(super) beyond_credits: usize,
    /// The sizes of a Send and of a Receive, as the private data announces them to the client.
    pub(super) inline: PrivateData,
}

impl QueueLimits {
    /// Returns the limits of a new connection over a device with `limits`.
    pub(super) fn new(limits: &Limits) -> Result<Self> {
        let wanted = u32::try_from(max_credits())?;
        let each = limits.requests_per_read();
        let least_transfers = least_transfers(limits)?;
        let most = limits.queue_depth / 2 / each;
        let transfers = TRANSFERS.max(least_transfers).min(most);
        // The drain takes one work request of each queue, and a barrier one more.
        let sends = SENDS.min(limits.queue_depth.saturating_sub(transfers * each + 2));
        let credits = wanted.min(limits.queue_depth.saturating_sub(SPARE_RECEIVES));
        if credits == 0 || transfers < least_transfers {
            let depth = limits.queue_depth;
            // Every connection request over the device comes here.
            endpoint::log(|| {
                pr_err!("the device queues {depth} work requests, which is too few\n");
            });
            return Err(eopnotsupp());
        }
        let size = inline_size_bytes();
        Ok(Self {
            credits,
            sends,
            transfers,
            least_transfers,
            pages_per_read: match limits.read_mr_pages {
                Some(pages) => usize::try_from(pages)?.max(1),
                None => limits.read_elements.min(SCATTER_ELEMENTS),
            },
            beyond_credits: if limits.waits_for_receives {
                0
            } else {
                BEYOND_CREDITS
            },
            inline: PrivateData::new(size, size, true).map_err(|_| EINVAL)?,
        })
    }

    /// Returns half the limits, for a device that refused a queue pair of the size that its
    /// attributes promise. [`None`] if they are the lowest already.
    pub(super) fn halved(self) -> Option<Self> {
        (self.credits > FIRST_CREDITS).then(|| Self {
            credits: (self.credits / 2).max(FIRST_CREDITS),
            sends: self.sends.div_ceil(2),
            transfers: self.transfers.div_ceil(2).max(self.least_transfers),
            ..self
        })
    }

    /// Returns the most RDMA Reads that are needed for `pages` pages.
    pub(super) fn reads_of(&self, pages: usize) -> usize {
        pages.div_ceil(self.pages_per_read)
    }

    /// The number of Receives for replies of the client, beyond those for its calls. The reply to
    /// an abandoned backchannel call may arrive together with the replies to others.
    // CAST: A small number.
    pub(super) const REPLIES: usize = 2 * BACKCHANNEL_CREDITS as usize;

    /// Returns the most Receives for a grant of `credits`: those posted, those whose message is in
    /// progress, and those that wait to be reposted.
    fn receives(self, credits: u32) -> Result<usize> {
        let for_credits = endpoint::ReceiveRing::<ServerConn>::depth(usize::try_from(credits)?);
        Ok(for_credits
            .saturating_add(self.beyond_credits)
            .saturating_add(Self::REPLIES))
    }

    /// Returns the parameters of the queue pair.
    pub(super) fn parameters(self) -> Result<endpoint::Parameters> {
        Ok(endpoint::Parameters {
            receives: u32::try_from(self.receives(self.credits)?)?,
            send_buffers: usize::try_from(self.sends)?,
            first_send_buffers: FIRST_SENDS,
            // No Send waits for one that is prepared later.
            reserved_send_buffers: 1,
            send_bytes: self.inline.send_size(),
            send_elements: SCATTER_ELEMENTS,
            regions_per_send: 0,
            registrations: 0,
            invalidations: 0,
            transfers: self.transfers,
        })
    }
}
