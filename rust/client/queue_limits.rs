// SPDX-License-Identifier: GPL-2.0

//! The queues that a connection needs, and what goes with them, as far as its device has that.
//!
//! The queues are made for all credits that the client asks for, because they cannot be made longer
//! later.

use super::{
    chunk::Chunk,
    config::{
        Config,
        MAX_PAYLOAD_PAGES, //
    },
    connection::ClientConnection,
    resources::{
        self,
        EXTRA_SENDS, //
    }, //
};
use crate::endpoint::{
    self,
    Parameters,
    ReceiveRing, //
};
use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};
use rdma::{
    device::Limits,
    error, //
};

/// The sizes of a connection's queues and of its memory regions.
pub(super) struct QueueLimits {
    pub(super) parameters: Parameters,
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
    /// The sizes for a connection that has resources for `first` credits from the start.
    pub(super) fn new(limits: &Limits, config: Config, first: usize) -> Result<Self> {
        let pages = limits
            .registration_pages
            .min(u32::try_from(MAX_PAYLOAD_PAGES)?);
        let payload_segments = MAX_PAYLOAD_PAGES.div_ceil(usize::try_from(pages.max(1))?);
        let segments = payload_segments.saturating_add(2);
        if segments > Chunk::MAX {
            endpoint::log(|| {
                pr_err!("the device registers {pages} pages at once, which is too few\n");
            });
            return Err(error::not_supported());
        }
        let queue_depth = usize::try_from(limits.queue_depth)?;
        // A Position-Zero Read chunk and a Reply chunk. Each region takes a work request to
        // register and perhaps one to invalidate it.
        let regions_per_send = segments.saturating_mul(2);
        let requests_per_send = regions_per_send.saturating_mul(2).saturating_add(1);
        let credits = config
            .credits
            .min((queue_depth / requests_per_send).saturating_sub(EXTRA_SENDS + 1));
        if credits == 0 {
            endpoint::log(|| {
                pr_err!("the device queues {queue_depth} work requests, which is too few\n");
            });
            return Err(error::not_supported());
        }
        let first_credits = first.min(credits);
        let receives = ReceiveRing::<ClientConnection>::depth(resources::receives_for(credits));
        Ok(Self {
            parameters: Parameters {
                receives: u32::try_from(receives)?,
                send_buffers: resources::sends_for(credits),
                // The others are not allocated on the send path, which could wait for the very
                // write-back that the Send is part of.
                first_send_buffers: resources::sends_for(first_credits),
                send_bytes: config.inline.send_size(),
                // The Send buffer before and after the gathered data, which may begin and end
                // within a page.
                send_elements: config.inline.send_size().div_ceil(PAGE_SIZE) + 3,
                regions_per_send: u32::try_from(regions_per_send)?,
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
