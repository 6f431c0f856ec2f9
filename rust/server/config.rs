// SPDX-License-Identifier: GPL-2.0

//! The sysctls and counters in `/proc/sys/sunrpc/svc_rdma/`.
//!
//! Their names and ranges are those of the in-tree module.

use kernel::{
    prelude::*,
    time::Msecs, //
};
use sunrpc::sysctl::{
    Counter,
    SysctlEntry,
    SysctlRegistration, //
};

/// The largest credit grant of a connection. Read when a connection is accepted.
static MAX_REQUESTS: SysctlEntry = SysctlEntry::new(c"max_requests", 128, 4, 16384);

/// The limit of all credit grants together, beyond the eight credits that each connection owns. The
/// in-tree module has no such limit.
static MAX_TOTAL_REQUESTS: SysctlEntry = SysctlEntry::new(c"max_total_requests", 16384, 0, 1 << 24);

/// The limit of pages that RDMA Reads of all connections use, beyond one call of each connection:
/// 128 MiB. The in-tree module has no such limit.
static MAX_TOTAL_READ_PAGES: SysctlEntry =
    SysctlEntry::new(c"max_total_read_pages", 32768, 0, 1 << 24);

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
pub(super) static READS: Counter = Counter::new(c"rdma_stat_read");
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
pub(super) static RECEIVED: Counter = Counter::new(c"rdma_stat_recv");
/// RDMA Writes posted.
pub(super) static WRITES: Counter = Counter::new(c"rdma_stat_write");
/// Sends and RDMA Reads that had to wait for Send buffers, SQ credits or pages.
pub(super) static SQ_STARVE: Counter = Counter::new(c"rdma_stat_sq_starve");

/// Always zero, as in the in-tree module; scripts read them.
static RQ_STARVE: Counter = Counter::new(c"rdma_stat_rq_starve");
static RQ_POLL: Counter = Counter::new(c"rdma_stat_rq_poll");
static RQ_PROD: Counter = Counter::new(c"rdma_stat_rq_prod");
static SQ_POLL: Counter = Counter::new(c"rdma_stat_sq_poll");
static SQ_PROD: Counter = Counter::new(c"rdma_stat_sq_prod");

/// Creates the sysctls.
pub(crate) fn register() -> Result<SysctlRegistration> {
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
            &READS, &RECEIVED, &WRITES, &SQ_STARVE, &RQ_STARVE, &RQ_POLL, &RQ_PROD, &SQ_POLL,
            &SQ_PROD, &LOST, &BAD_CALLS, &REJECTED, &STALLED,
        ],
    )
}

/// Returns the largest credit grant of a new connection.
pub(super) fn max_credits() -> usize {
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
pub(super) fn inline_size_bytes() -> usize {
    MAX_REQ_SIZE.get()
}
