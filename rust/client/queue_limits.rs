// SPDX-License-Identifier: GPL-2.0

//! The queues and memory regions that a connection needs, as far as its device has them.

use super::{
    chunk::Chunk,
    config::{
        Config,
        CALLBACK_CREDITS,
        MAX_PAYLOAD_PAGES,
        MAX_REGION_PAGES, //
    },
    connection::Connection, //
};
use crate::endpoint::{
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

/// Callbacks that may be outstanding, and so Receives and Send buffers for them.
pub(super) const CALLBACKS: usize = CALLBACK_CREDITS as usize;

/// The most memory regions of a connection. Large RPCs that run in parallel gain nothing from more.
const MAX_REGIONS: usize = 256;

/// Send buffers in addition to one for each slot: for replies to callbacks, and for Sends that wait for
/// the completion of a later one, as not all are signalled.
const EXTRA_SENDS: usize = CALLBACKS + 16;

/// The sizes of a connection's queues and of its pool of memory regions.
pub(super) struct QueueLimits {
    pub(super) parameters: Parameters,
    /// Credits to request.
    pub(super) credits: usize,
    /// Memory regions.
    pub(super) regions: usize,
    /// The most of them that one RPC needs.
    pub(super) reserve: usize,
    /// Pages that one region covers.
    pub(super) pages: u32,
    /// Regions that cover the largest payload.
    pub(super) payload_segments: usize,
}

impl QueueLimits {
    /// How many Receives may be used up at the same time with so many credits: by the replies, by calls to the client, and by the message
    /// that is being handled, because what follows from it may be sent, and answered, before its Receive is posted again.
    pub(super) fn messages(credits: usize) -> usize {
        credits.saturating_add(CALLBACKS).saturating_add(1)
    }

    pub(super) fn new(limits: &Limits, config: Config) -> Result<Self> {
        let pages = limits.registration_pages.min(MAX_REGION_PAGES);
        let payload_segments = MAX_PAYLOAD_PAGES.div_ceil(usize::try_from(pages.max(1))?);
        let segments = payload_segments.saturating_add(2);
        if segments > Chunk::MAX {
            pr_err!("the device registers {pages} pages at once, which is too few\n");
            return Err(error::not_supported());
        }
        let queue_depth = usize::try_from(limits.queue_depth)?;
        // A Position-Zero Read chunk and a Reply chunk. Each region takes a work request to register
        // and perhaps one to invalidate it.
        let regions_per_send = segments.saturating_mul(2);
        let requests_per_send = regions_per_send.saturating_mul(2).saturating_add(1);
        let credits = config
            .credits
            .min((queue_depth / requests_per_send).saturating_sub(EXTRA_SENDS + 1));
        if credits == 0 {
            pr_err!("the device queues {queue_depth} work requests, which is too few\n");
            return Err(error::not_supported());
        }
        let receives = ReceiveRing::<Connection>::depth(Self::messages(credits));
        Ok(Self {
            parameters: Parameters {
                receives: u32::try_from(receives)?,
                send_buffers: credits.saturating_add(EXTRA_SENDS),
                // All are allocated now: on the send path, an allocation could wait for the very
                // write-back that the Send is part of.
                first_send_buffers: usize::MAX,
                send_bytes: config.inline.send_size(),
                // The Send buffer before and after the gathered data, which may begin and end within
                // a page.
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
