// SPDX-License-Identifier: GPL-2.0

//! The settings of the client: fixed limits, the sizes of queues and pools for a number of credits,
//! and the sysctls that the in-tree module has under the same names, `/proc/sys/sunrpc/rdma_*`.
//!
//! The queues are made for all credits that the client requests, because they cannot be made longer
//! later.

use super::chunk::Chunk;
use crate::prelude::*;
use kernel::page::PAGE_SIZE;
use proto::{
    cm_private_data::PrivateData,
    pages, //
};
use rdma::{
    device,
    mr::Coverage, //
};
use sunrpc::sysctl::{
    SysctlEntry,
    SysctlRegistration, //
};

/// Credits that the client grants for callbacks: the server may have this many outstanding.
pub(super) const CALLBACK_CREDITS: u32 = 32;

/// Credits that a connection has resources for when it is made, if it does not carry swap.
pub(super) const FIRST_CREDITS: usize = 16;

/// Pages of the largest payload: 1 MiB, the most that NFS asks for, at any offset in its first
/// page. These are 257 pages of 4 KiB.
pub(super) const MAX_PAYLOAD_PAGES: usize = pages::touched(1 << 20, PAGE_SIZE);

/// Pages of the head and of the tail of a message. Each is less than a page, at any offset.
const END_PAGES: usize = 4;

/// Request slots, and so the credits to request. Read when a transport is created.
static SLOTS: SysctlEntry = SysctlEntry::new(c"rdma_slot_table_entries", 128, 4, 16384);

/// The longest Receive. Read at each connect. The default holds the reply to a GETATTR of NFSv4.2
/// with security labels, and 4 KiB of data. 4,096 bytes, the default of the in-tree module, do not.
static INLINE_READ: SysctlEntry = SysctlEntry::new(c"rdma_max_inline_read", 8192, 1024, 65536);

/// The longest Send. Read at each connect.
static INLINE_WRITE: SysctlEntry = SysctlEntry::new(c"rdma_max_inline_write", 8192, 1024, 65536);

// These three have no effect, here as in the in-tree module. They exist because scripts set them.
static PADDING: SysctlEntry = SysctlEntry::new(c"rdma_inline_write_padding", 0, 0, 4096);
static STRATEGY: SysctlEntry = SysctlEntry::new(c"rdma_memreg_strategy", 5, 0, 6);
static PAD_OPTIMIZE: SysctlEntry = SysctlEntry::new(c"rdma_pad_optimize", 0, i32::MIN, i32::MAX);

/// Registers the sysctls.
pub fn register() -> Result<SysctlRegistration> {
    SysctlRegistration::new(
        c"sunrpc",
        &[
            &SLOTS,
            &INLINE_READ,
            &INLINE_WRITE,
            &PADDING,
            &STRATEGY,
            &PAD_OPTIMIZE,
        ],
    )
}

/// Returns the number of request slots of a new transport.
pub(super) fn slots() -> usize {
    SLOTS.get()
}

/// The settings of one connection.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    /// Credits to request.
    pub(super) credits: usize,
    /// The longest Send and the longest Receive, as the private data announces them.
    pub(super) inline: PrivateData,
}

impl Config {
    /// Returns the settings of a new connection that requests `credits`: the inline thresholds are
    /// those of now.
    pub(super) fn current(credits: usize) -> Result<Self> {
        let inline =
            PrivateData::new(INLINE_WRITE.get(), INLINE_READ.get(), true).map_err(|_| EINVAL)?;
        Ok(Self { credits, inline })
    }
}

/// Callbacks that may be outstanding, and so Receives and Send buffers for them.
const CALLBACKS: usize = CALLBACK_CREDITS as usize;

/// Sends that may wait for the completion of a later one, as not all are signalled.
const UNSIGNALLED_SENDS: usize = 16;

/// Send buffers in addition to one for each credit: for replies to callbacks, and for Sends that
/// wait for the completion of a later one.
const EXTRA_SENDS: usize = CALLBACKS + UNSIGNALLED_SENDS;

/// The most memory regions of a connection. Large RPCs that run in parallel gain nothing from more.
const MAX_REGIONS: usize = 256;

/// Returns the number of Receives for `credits` credits. They may be used up at the same time by
/// the replies, by calls to the client, and by the message that is being handled: what follows from
/// it may be sent, and answered, before its Receive is posted again.
pub(super) fn receives_for(credits: usize) -> usize {
    credits.saturating_add(CALLBACKS).saturating_add(1)
}

/// Returns the number of Send buffers for `credits` credits.
pub(super) fn sends_for(credits: usize) -> usize {
    credits.saturating_add(EXTRA_SENDS)
}

/// Returns the number of memory regions for `credits` credits, if one RPC needs up to `reserve`.
/// There are never fewer than that.
pub(super) fn regions_for(credits: usize, reserve: usize) -> usize {
    credits.min(MAX_REGIONS).max(reserve)
}

/// Returns the number of credits beyond which no more regions are allocated for a connection that
/// requests `requested`.
pub(super) fn credits_with_all_regions(requested: u32) -> u32 {
    u32::try_from(MAX_REGIONS).map_or(requested, |most| requested.min(most))
}

/// Returns the number of credits that these resources are enough for. The Send buffers of Sends
/// that no completion has covered yet may be missing.
pub(super) fn credits_for(regions: usize, receives: usize, send_buffers: usize) -> usize {
    let of_regions = match regions {
        MAX_REGIONS.. => usize::MAX,
        regions => regions,
    };
    of_regions
        .min(receives.saturating_sub(receives_for(0)))
        .min(send_buffers.saturating_sub(CALLBACKS))
}

/// Returns the fewest work requests of a Send queue for `credits` credits, if one RPC needs up to
/// `reserve` regions.
///
/// A region is registered with one request and perhaps invalidated with another one before it is
/// registered again. The request of a Send is for a reply to a callback, or after the registrations
/// of a Call, and the last one is for the drain.
fn least_depth(credits: usize, reserve: usize) -> usize {
    let regions = regions_for(credits, reserve);
    sends_for(credits)
        .saturating_add(regions.saturating_mul(2))
        .saturating_add(1)
}

/// The sizes of a connection's queues and of its memory regions.
pub(super) struct QueueLimits {
    pub(super) parameters: endpoint::Parameters,
    /// Credits to request.
    pub(super) credits: usize,
    /// Credits that there are resources for from the start.
    pub(super) first_credits: usize,
    /// The most memory regions that one RPC needs.
    pub(super) reserve: usize,
    /// Pages that one region covers.
    pub(super) pages: u32,
    /// Regions that cover the largest payload.
    pub(super) payload_segments: usize,
}

impl QueueLimits {
    /// Returns the sizes for a connection that has resources for `first` credits from the start.
    /// `coverage` is what one region of the device can cover.
    pub(super) fn new(
        limits: &device::Limits,
        coverage: Coverage,
        config: Config,
        first: usize,
    ) -> Result<Self> {
        let (most, apart) = match coverage {
            // The head and the tail of a message are in the region of its payload.
            Coverage::AnyPieces => (MAX_PAYLOAD_PAGES + END_PAGES, 0),
            Coverage::WithoutGaps => (MAX_PAYLOAD_PAGES, 0),
            // What of a payload is in its first and its last page may need regions of its own.
            Coverage::WholePages => (MAX_PAYLOAD_PAGES, 2),
        };
        let pages = limits.registration_pages.min(u32::try_from(most)?);
        let payload_segments =
            pages::regions(MAX_PAYLOAD_PAGES, usize::try_from(pages)?).saturating_add(apart);
        let segments = payload_segments.saturating_add(2);
        if segments > Chunk::MAX {
            endpoint::log(|| {
                pr_err!("the device registers {pages} pages at once, which is too few\n");
            });
            return Err(errno::eopnotsupp());
        }
        let queue_depth = usize::try_from(limits.queue_depth)?;
        // A Position-Zero Read chunk and a Reply chunk.
        let regions_per_send = segments.saturating_mul(2);
        let fits = |credits: &usize| least_depth(*credits, regions_per_send) <= queue_depth;
        let Some(credits) = (1..=config.credits).rev().find(fits) else {
            endpoint::log(|| {
                pr_err!("the device queues {queue_depth} work requests, which is too few\n");
            });
            return Err(errno::eopnotsupp());
        };
        let regions = regions_for(credits, regions_per_send);
        // A region that the server invalidated may be registered again before a completion shows
        // that the first registration has left the queue. Without room for that, a Call waits for a
        // completion.
        let again = queue_depth
            .saturating_sub(least_depth(credits, regions_per_send))
            .min(regions_per_send.saturating_mul(UNSIGNALLED_SENDS));
        let first_credits = first.min(credits);
        let receives = endpoint::ReceiveRing::<ClientConn>::depth(receives_for(credits));
        Ok(Self {
            parameters: endpoint::Parameters {
                receives: u32::try_from(receives)?,
                send_buffers: sends_for(credits),
                // The others are not allocated on the send path, which could wait for the very
                // write-back that the Send is part of.
                first_send_buffers: sends_for(first_credits),
                reserved_send_buffers: UNSIGNALLED_SENDS,
                send_bytes: config.inline.send_size(),
                // The Send buffer before and after the gathered data, which may begin and end
                // within a page.
                send_elements: config.inline.send_size().div_ceil(PAGE_SIZE) + 3,
                regions_per_send: u32::try_from(regions_per_send)?,
                registrations: u32::try_from(regions.saturating_add(again))?,
                invalidations: u32::try_from(regions)?,
                transfers: 0,
            },
            credits,
            first_credits,
            reserve: regions_per_send,
            pages,
            payload_segments,
        })
    }
}
