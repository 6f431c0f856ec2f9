// SPDX-License-Identifier: GPL-2.0

//! The sysctls and counters in `/proc/sys/sunrpc/svc_rdma/`.
//!
//! Their names and ranges are those of the in-tree module.

use kernel::prelude::*;
use sunrpc::sysctl::{
    Counter,
    SysctlEntry,
    SysctlRegistration, //
};

/// The largest credit grant. Read when a connection is accepted.
static MAX_REQUESTS: SysctlEntry = SysctlEntry::new(c"max_requests", 128, 4, 16384);

/// The longest Receive and the longest Send. Read when a connection is accepted. The default has
/// room for the reply to a GETATTR of NFSv4.2 with security labels, and for 4 KiB of data; 4,096
/// bytes do not.
static MAX_REQ_SIZE: SysctlEntry = SysctlEntry::new(c"max_req_size", 8192, 4096, 65536);

/// Without effect, here as in the in-tree module; scripts set it.
static MAX_OUTBOUND_READS: SysctlEntry =
    SysctlEntry::new(c"max_outbound_read_requests", 16, 1, 255);

/// RDMA Reads posted.
pub(super) static READS: Counter = Counter::new(c"rdma_stat_read");
/// Connections lost for another reason than that the client closed them.
pub(super) static LOST: Counter = Counter::new(c"rdma_stat_lost");
/// Messages dropped and calls refused as they break the protocol, or as their reply does not fit.
pub(super) static BAD_CALLS: Counter = Counter::new(c"rdma_stat_bad_calls");
/// Connection requests that were not accepted.
pub(super) static REJECTED: Counter = Counter::new(c"rdma_stat_rejected");
/// Messages received.
pub(super) static RECEIVED: Counter = Counter::new(c"rdma_stat_recv");
/// RDMA Writes posted.
pub(super) static WRITES: Counter = Counter::new(c"rdma_stat_write");
/// Times that a thread had to wait because a Send queue was full.
pub(super) static SQ_STARVE: Counter = Counter::new(c"rdma_stat_sq_starve");

/// Always zero, here as in the in-tree module; scripts read them.
static RQ_STARVE: Counter = Counter::new(c"rdma_stat_rq_starve");
static RQ_POLL: Counter = Counter::new(c"rdma_stat_rq_poll");
static RQ_PROD: Counter = Counter::new(c"rdma_stat_rq_prod");
static SQ_POLL: Counter = Counter::new(c"rdma_stat_sq_poll");
static SQ_PROD: Counter = Counter::new(c"rdma_stat_sq_prod");

/// Creates the files.
pub(crate) fn register() -> Result<SysctlRegistration> {
    SysctlRegistration::with_counters(
        c"sunrpc/svc_rdma",
        &[&MAX_REQUESTS, &MAX_REQ_SIZE, &MAX_OUTBOUND_READS],
        &[
            &READS, &RECEIVED, &WRITES, &SQ_STARVE, &RQ_STARVE, &RQ_POLL, &RQ_PROD, &SQ_POLL,
            &SQ_PROD, &LOST, &BAD_CALLS, &REJECTED,
        ],
    )
}

/// The largest credit grant of a new connection.
pub(super) fn max_credits() -> usize {
    MAX_REQUESTS.get()
}

/// The longest Receive, and the longest Send, of a new connection.
pub(super) fn inline_size_bytes() -> usize {
    MAX_REQ_SIZE.get()
}
