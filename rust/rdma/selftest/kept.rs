// SPDX-License-Identifier: GPL-2.0

//! Memory is kept until neither the device nor the peer can reach it.

use super::station::{
    kept,
    Pair,
    Station,
    PORT,
    TIMEOUT_MS, //
};
use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};
use raw::memory::Page;

pub(super) fn data_stays_when_the_send_has_arrived() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    pair.near.send(Some(pair.near.insert(&page)?))?;
    pair.arrived(1)?;
    let stayed = kept(&page);
    pair.near.queue.shut_down();
    Ok(stayed && !kept(&page))
}

pub(super) fn data_goes_with_a_later_completion() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    pair.near.send(Some(pair.near.insert(&page)?))?;
    for _ in 0..16 {
        pair.near.send(None)?;
    }
    pair.arrived(17)?;
    // The completion comes when the device has heard that the Send arrived.
    for _ in 0..TIMEOUT_MS / 10 {
        if !kept(&page) {
            return Ok(true);
        }
        fsleep(Delta::from_millis(10));
    }
    Ok(false)
}

pub(super) fn unposted_send_leaves_no_region_valid() -> Result<bool> {
    let station = Station::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, result) = station.register(&page)?;
    // Some of the chain may have been posted, so the region counts as valid.
    let counted = result.is_err() && registered.len() == 1;
    drop(registered);
    let stayed = kept(&page);
    station.queue.shut_down();
    Ok(counted && stayed && !kept(&page))
}

pub(super) fn unposted_invalidation_gives_back() -> Result<bool> {
    let station = Station::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, _) = station.register(&page)?;
    let Err((registered, ())) = station.queue.post_invalidate(registered, ()) else {
        return Ok(false);
    };
    let stayed = registered.len() == 1 && kept(&page);
    station.queue.shut_down();
    let still = kept(&page);
    drop(registered);
    Ok(stayed && still && !kept(&page))
}

pub(super) fn failed_invalidation_does_not_free() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, result) = pair.near.register(&page)?;
    result?;
    pair.arrived(1)?;
    pair.near.queue.drain_sends();
    if pair.near.queue.post_invalidate(registered, ()).is_err() {
        return Ok(false);
    }
    let broken = pair.near.end.wait(|seen| seen.broken.take())?;
    let given_back = broken.len() == 1 && kept(&page);
    drop(broken);
    let stayed = kept(&page);
    pair.near.queue.shut_down();
    Ok(given_back && stayed && !kept(&page))
}
