// SPDX-License-Identifier: GPL-2.0

//! How many Receives, Send buffers and memory regions go with so many credits.

use super::config::CALLBACK_CREDITS;

/// Callbacks that may be outstanding, and so Receives and Send buffers for them.
pub(super) const CALLBACKS: usize = CALLBACK_CREDITS as usize;

/// Send buffers in addition to one for each credit: for replies to callbacks, and for Sends that wait for
/// the completion of a later one, as not all are signalled.
pub(super) const EXTRA_SENDS: usize = CALLBACKS + 16;

/// The most memory regions of a connection. Large RPCs that run in parallel gain nothing from more.
const MAX_REGIONS: usize = 256;

/// How many Receives may be used up at the same time with so many credits: by the replies, by calls to the client, and by the message
/// that is being handled, because what follows from it may be sent, and answered, before its Receive is posted again.
pub(super) fn messages(credits: usize) -> usize {
    credits.saturating_add(CALLBACKS).saturating_add(1)
}

/// How many Send buffers.
pub(super) fn sends(credits: usize) -> usize {
    credits.saturating_add(EXTRA_SENDS)
}

/// How many memory regions, if one RPC needs up to `reserve`: never more than there are.
pub(super) fn regions(credits: usize, reserve: usize) -> usize {
    credits.min(MAX_REGIONS).max(reserve)
}

/// For how many credits there is enough. Of the Send buffers as many may be missing as Sends that no completion has told of.
pub(super) fn credits(regions: usize, receives: usize, send_buffers: usize) -> usize {
    let of_regions = match regions {
        MAX_REGIONS.. => usize::MAX,
        regions => regions,
    };
    of_regions
        .min(receives.saturating_sub(messages(0)))
        .min(send_buffers.saturating_sub(CALLBACKS))
}
