// SPDX-License-Identifier: GPL-2.0

//! The limits of a connection: credits, Receives, Sends, RDMA Reads and RDMA Writes.
//!
//! The sysctls set the number of credits that an administrator wants; the device limits the number
//! of work requests in a queue.

use super::config;
use crate::endpoint::{
    self,
    Parameters,
    ReceiveRing, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};
use proto::cm_private_data::PrivateData;
use rdma::{
    device::Limits,
    error::not_supported,
    Handler, //
};

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
    let pages = usize::try_from(MAX_PAYLOAD)?.div_ceil(PAGE_SIZE) + 2;
    let regions = u32::try_from(pages)?.div_ceil(read_mr_pages.max(1)) + 2;
    Ok(regions)
}

/// The scatter elements of a work request, if the device supports as many. The longest Send, of 64
/// KiB, needs two for its buffer, before and after the pages, and 17 for pages. All work requests
/// of a Send queue have room for as many: with 30, soft RoCE would need 1024 bytes for each instead
/// of 512. In turn, a megabyte in pages without neighbours takes 14 RDMA Writes instead of 9.
const SCATTER_ELEMENTS: usize = 19;

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
        let wanted = u32::try_from(config::max_credits())?;
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
            return Err(not_supported());
        }
        let size = config::inline_size_bytes();
        Ok(Self {
            credits,
            sends,
            transfers,
            least_transfers,
            pages_per_read: match limits.read_mr_pages {
                Some(pages) => usize::try_from(pages)?.max(1),
                None => limits.read_elements.min(SCATTER_ELEMENTS),
            },
            beyond_credits: match limits.waits_for_receives {
                true => 0,
                false => BEYOND_CREDITS,
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
    pub(super) fn receives<H: Handler>(self, credits: u32) -> Result<usize> {
        Ok(self.all_receives(ReceiveRing::<H>::depth(usize::try_from(credits)?)))
    }

    /// Returns the most Receives if `for_credits` of them are for credits.
    pub(super) fn all_receives(self, for_credits: usize) -> usize {
        for_credits
            .saturating_add(self.beyond_credits)
            .saturating_add(Self::REPLIES)
    }

    /// Returns the parameters of the queue pair.
    pub(super) fn parameters<H: Handler>(self) -> Result<Parameters> {
        Ok(Parameters {
            receives: u32::try_from(self.receives::<H>(self.credits)?)?,
            send_buffers: usize::try_from(self.sends)?,
            first_send_buffers: FIRST_SENDS,
            send_bytes: self.inline.send_size(),
            send_elements: SCATTER_ELEMENTS,
            regions_per_send: 0,
            transfers: self.transfers,
        })
    }
}
