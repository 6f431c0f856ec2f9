// SPDX-License-Identifier: GPL-2.0

//! What an administrator may choose and see, under the names that the in-tree module gave it:
//! `/proc/sys/sunrpc/svc_rdma/*`; and what a device makes of it.

use super::endpoint::Endpoint;
use crate::endpoint::ReceiveRing;
use kernel::prelude::*;
use proto::cm_private_data::PrivateData;
use rdma::{
    device::Limits,
    error::not_supported,
    qp::Parameters, //
};
use sunrpc::sysctl::{
    Counter,
    SysctlEntry,
    SysctlRegistration, //
};

/// Credits to grant. Read when a connection is accepted.
static CREDITS: SysctlEntry = SysctlEntry::new(c"max_requests", 128, 4, 16384);

/// The longest Receive and the longest Send. Read when a connection is accepted. The default holds
/// the reply to a GETATTR of NFSv4.2 with security labels, and 4 KiB of data, which 4,096 does not.
static INLINE: SysctlEntry = SysctlEntry::new(c"max_req_size", 8192, 4096, 65536);

/// Without effect, here as in the in-tree module; scripts set it.
static READ_REQUESTS: SysctlEntry = SysctlEntry::new(c"max_outbound_read_requests", 16, 1, 255);

/// RDMA Reads posted.
pub(super) static READS: Counter = Counter::new(c"rdma_stat_read");
/// Messages received.
pub(super) static RECEIVED: Counter = Counter::new(c"rdma_stat_recv");
/// RDMA Writes posted.
pub(super) static WRITES: Counter = Counter::new(c"rdma_stat_write");
/// Times that a thread had to wait for room in a Send queue.
pub(super) static STARVED: Counter = Counter::new(c"rdma_stat_sq_starve");

/// Always zero, here as in the in-tree module; scripts read them.
static RQ_STARVE: Counter = Counter::new(c"rdma_stat_rq_starve");
static RQ_POLL: Counter = Counter::new(c"rdma_stat_rq_poll");
static RQ_PROD: Counter = Counter::new(c"rdma_stat_rq_prod");
static SQ_POLL: Counter = Counter::new(c"rdma_stat_sq_poll");
static SQ_PROD: Counter = Counter::new(c"rdma_stat_sq_prod");

/// Makes the files.
pub(crate) fn register() -> Result<SysctlRegistration> {
    SysctlRegistration::with_counters(
        c"sunrpc/svc_rdma",
        &[&CREDITS, &INLINE, &READ_REQUESTS],
        &[
            &READS, &RECEIVED, &WRITES, &STARVED, &RQ_STARVE, &RQ_POLL, &RQ_PROD, &SQ_POLL,
            &SQ_PROD,
        ],
    )
}

/// Credits of a connection that has not used half of them yet. Thousands of those can be idle.
pub(super) const FIRST_CREDITS: u32 = 4;

/// Calls to the client in parallel.
pub(super) const BACKCHANNEL_CREDITS: u32 = 2;

/// Sends that may be posted at the same time. One completion covers up to sixteen. As many as there are
/// credits would make the queue long that each connection has in the device, be it idle or not; a
/// reply is a Send only for as long as it takes to the client and back.
const SENDS: u32 = 28;

/// Send buffers of a connection that never needed more.
const FIRST_SENDS: usize = 4;

/// RDMA Reads and Writes that may be posted at the same time; longer ones go in portions.
const TRANSFERS: u32 = 34;

/// Receives beyond one for each credit, at most: for answers to our calls, a batch that waits to be
/// posted again, and a drain.
const SPARE_RECEIVES: u32 = 32;

/// The shape of a connection.
#[derive(Clone, Copy)]
pub(super) struct Config {
    /// Calls in parallel at most.
    pub(super) credits: u32,
    /// Sends in parallel.
    sends: u32,
    /// RDMA Reads and Writes in parallel.
    transfers: u32,
    /// The longest Send, and the longest Receive.
    pub(super) inline: PrivateData,
}

impl Config {
    /// For a new connection over a device with these limits.
    pub(super) fn new(limits: &Limits) -> Result<Self> {
        let wanted = u32::try_from(CREDITS.get())?;
        let each = limits.requests_per_read();
        // One request on either side is for a drain.
        let transfers = TRANSFERS.min(limits.queue_depth / 2 / each);
        let sends = SENDS.min(limits.queue_depth.saturating_sub(transfers * each + 1));
        let credits = wanted.min(limits.queue_depth.saturating_sub(SPARE_RECEIVES));
        if credits == 0 {
            let depth = limits.queue_depth;
            pr_err!("the device queues {depth} work requests, which is too few\n");
            return Err(not_supported());
        }
        let size = INLINE.get();
        Ok(Self {
            credits,
            sends,
            transfers,
            inline: PrivateData::new(size, size, true).map_err(|_| EINVAL)?,
        })
    }

    /// Asks for less.
    pub(super) fn halve(&mut self) {
        self.credits = (self.credits / 2).max(FIRST_CREDITS);
        self.sends = self.sends.div_ceil(2);
        self.transfers = self.transfers.div_ceil(2);
    }

    /// Messages that may be on their way to us at the same time when `credits` are granted.
    pub(super) fn messages(credits: u32) -> Result<usize> {
        // A late answer to a call that was given up comes beside those to others.
        let answers = BACKCHANNEL_CREDITS.saturating_mul(2);
        Ok(usize::try_from(credits.saturating_add(answers))?)
    }

    /// Receives that are posted or in work then, at most.
    pub(super) fn receives(credits: u32) -> Result<usize> {
        Self::messages(credits).map(ReceiveRing::<Endpoint>::depth)
    }

    /// What to ask of the device.
    pub(super) fn parameters(self) -> Result<Parameters> {
        Ok(Parameters {
            receives: u32::try_from(Self::receives(self.credits)?)?,
            send_buffers: usize::try_from(self.sends)?,
            first_send_buffers: FIRST_SENDS,
            send_bytes: self.inline.send_size(),
            send_elements: usize::MAX,
            regions_per_send: 0,
            transfers: self.transfers,
        })
    }
}
