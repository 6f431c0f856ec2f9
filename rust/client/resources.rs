// SPDX-License-Identifier: GPL-2.0

//! The numbers of Receives, Send buffers and memory regions for a number of credits.

use super::config::CALLBACK_CREDITS;

/// Callbacks that may be outstanding, and so Receives and Send buffers for them.
pub(super) const CALLBACKS: usize = CALLBACK_CREDITS as usize;

/// Send buffers in addition to one for each credit: for replies to callbacks, and for Sends that
/// wait for the completion of a later one, as not all are signalled.
pub(super) const EXTRA_SENDS: usize = CALLBACKS + 16;

/// The most memory regions of a connection. Large RPCs that run in parallel gain nothing from more.
const MAX_REGIONS: usize = 256;

/// Returns the number of Receives for so many credits. They may be used up at the same time by the
/// replies, by calls to the client, and by the message that is being handled: what follows from it
/// may be sent, and answered, before its Receive is posted again.
pub(super) fn receives_for(credits: usize) -> usize {
    credits.saturating_add(CALLBACKS).saturating_add(1)
}

/// Returns the number of Send buffers for so many credits.
pub(super) fn sends_for(credits: usize) -> usize {
    credits.saturating_add(EXTRA_SENDS)
}

/// Returns the number of memory regions for so many credits, if one RPC needs up to `reserve`.
/// There are never fewer than that.
pub(super) fn regions_for(credits: usize, reserve: usize) -> usize {
    credits.min(MAX_REGIONS).max(reserve)
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
