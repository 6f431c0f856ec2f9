// SPDX-License-Identifier: GPL-2.0

//! Tests that memory is kept until neither the device nor the peer can access it.

use super::{
    fixture::{
        cover_with,
        each,
        Fixture,
        Pair,
        PORT,
        REGIONS, //
    },
    handler::{
        kept,
        TIMEOUT_MS, //
    }, //
};
use crate::prelude::*;
use ext::memory::{
    Page,
    Stable, //
};
use kernel::time::{
    delay::fsleep,
    Delta, //
};

pub(super) fn data_stays_when_the_send_has_arrived() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    pair.near.send(Some(pair.near.gather(&page)?))?;
    pair.arrived(1)?;
    let stayed = kept(&page);
    pair.near.queue.drain();
    Ok(stayed && !kept(&page))
}

pub(super) fn data_goes_with_a_later_completion() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Page::new(GFP_KERNEL)?;
    pair.near.send(Some(pair.near.gather(&page)?))?;
    for _ in 0..16 {
        pair.near.send(None)?;
    }
    pair.arrived(17)?;
    // The completion comes when the device gets the acknowledgement.
    for _ in 0..TIMEOUT_MS / 10 {
        if !kept(&page) {
            return Ok(true);
        }
        fsleep(Delta::from_millis(10));
    }
    Ok(false)
}

pub(super) fn message_can_be_read_without_its_device() -> Result<bool> {
    let pair = Pair::new()?;
    pair.far.end.seen.lock().keeps = true;
    pair.near.send(None)?;
    let message = pair.far.end.wait(|seen| seen.message.take())?;
    let mut bytes = KVec::new();
    bytes.extend_from_slice(message.bytes(), GFP_KERNEL)?;
    let (memory, receive) = message.split();
    let Pair { near, far } = pair;
    drop(near);
    let Fixture { queue, end } = far;
    queue.drain();
    drop(queue);
    // The Receive keeps the domain, the domain the id, and the id its context. Without the Receive
    // no reference to the device is left.
    let is_kept = Arc::into_unique_or_drop(end.clone()).is_none();
    drop(receive);
    let is_gone = Arc::into_unique_or_drop(end).is_some();
    // SAFETY: The bytes are valid as long as `memory` is, and nobody writes to them: the Receive
    // was dropped.
    let same = unsafe { memory.memory().as_ref() } == bytes.as_slice();
    Ok(is_kept && is_gone && same && !bytes.is_empty())
}

pub(super) fn message_is_joined_with_its_own_memory() -> Result<bool> {
    let pair = Pair::new()?;
    let mut messages = KVec::with_capacity(2, GFP_KERNEL)?;
    for _ in 0..2 {
        pair.far.end.seen.lock().keeps = true;
        pair.near.send(None)?;
        let message = pair.far.end.wait(|seen| seen.message.take())?;
        messages.push(message, GFP_KERNEL)?;
    }
    let (Some(first), Some(second)) = (messages.pop(), messages.pop()) else {
        return Ok(false);
    };
    let len = first.bytes().len();
    let (memory, receive) = first.split();
    let first = receive.join(memory).ok_or(EINVAL)?;
    let whole = first.bytes().len() == len;
    let (memory, _) = first.split();
    let (_, receive) = second.split();
    Ok(whole && receive.join(memory).is_none())
}

pub(super) fn unposted_send_leaves_no_region_valid() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, result) = fixture.register(&page)?;
    // Some of the chain may have been posted, so the region counts as valid.
    let counted = result.is_err() && registered.len() == 1;
    drop(registered);
    let stayed = kept(&page);
    fixture.queue.drain();
    Ok(counted && stayed && !kept(&page))
}

pub(super) fn unposted_invalidation_gives_back() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, _) = fixture.register(&page)?;
    let Err((registered, _)) = fixture.queue.post_invalidate(registered, None) else {
        return Ok(false);
    };
    let stayed = registered.len() == 1 && kept(&page);
    fixture.queue.drain();
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
    pair.near.enter_error_state();
    if pair.near.queue.post_invalidate(registered, None).is_err() {
        return Ok(false);
    }
    let broken = pair.near.end.wait(|seen| seen.broken.take())?;
    // The connection has ended, which is reported first.
    let reported = pair.near.end.seen.lock().failed;
    let given_back = reported && broken.len() == 1 && kept(&page);
    drop(broken);
    let stayed = kept(&page);
    pair.near.queue.drain();
    Ok(given_back && stayed && !kept(&page))
}

pub(super) fn memory_is_released_before_it_is_reported() -> Result<bool> {
    let pair = Pair::new()?;
    let page = Arc::new(Page::new(GFP_KERNEL)?, GFP_KERNEL)?;
    let (registered, result) = pair.near.register(&page)?;
    result?;
    pair.arrived(1)?;
    let was_kept = kept(&page);
    let with = Some(page.clone());
    if pair.near.queue.post_invalidate(registered, with).is_err() {
        return Ok(false);
    }
    let end = &pair.near.end;
    let early = end.wait(|seen| (seen.invalidations_done == 1).then_some(seen.early))?;
    Ok(was_kept && !early)
}

pub(super) fn one_failed_invalidation_fails_all() -> Result<bool> {
    each(0..REGIONS, fails_all)
}

/// Tests a chain whose invalidation number `wrong` has an invalid key.
fn fails_all(wrong: usize) -> Result<bool> {
    let pair = Pair::new()?;
    let queue = &pair.near.queue;
    let pages = [
        Page::new(GFP_KERNEL)?,
        Page::new(GFP_KERNEL)?,
        Page::new(GFP_KERNEL)?,
    ];
    let (registered, result) = pair.near.advertise(pair.near.cover_all(&pages)?)?;
    result?;
    pair.arrived(1)?;
    let Ok((entry, first)) = queue.link_invalidation(registered, None) else {
        return Ok(false);
    };
    let mut request = first;
    for _ in 0..wrong {
        // SAFETY: There is a request for each page, in a region that the lent entry keeps.
        request = unsafe { (*request).next };
    }
    // SAFETY: The request is in a region that the lent entry keeps, and a LOCAL_INV uses this arm
    // of the union.
    unsafe { (*request).ex.invalidate_rkey ^= 1 };
    let mut sends = queue.sends().lock();
    // SAFETY: The entry was just lent and is in no list, and its requests live until their
    // completion. The side is locked and open.
    unsafe {
        sends.invalidations_in_flight.add(entry);
        queue.post(&mut sends, first)?;
    }
    drop(sends);
    let broken = pair.near.end.wait(|seen| seen.broken.take())?;
    let done = pair.near.end.seen.lock().invalidations_done;
    Ok(broken.len() == REGIONS && done == 0 && pages.iter().all(kept))
}

pub(super) fn registrations_precede_their_send() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let pages = [Page::new(GFP_KERNEL)?, Page::new(GFP_KERNEL)?];
    let regions = fixture.cover_all(&pages)?;
    let mut regions = regions.into_registered(fixture.queue.deferred_dereg());
    let mut send = cbindings::ib_send_wr::default();
    let send = &raw mut send;
    let mut next = regions.link_registrations(null_mut(), send);
    for _ in &pages {
        // SAFETY: The list was just linked, of requests in `regions`, which live, and one on the
        // stack.
        match unsafe { next.as_ref() } {
            Some(request) if request.opcode == cbindings::ib_wr_opcode_IB_WR_REG_MR => {
                next = request.next
            }
            _ => return Ok(false),
        }
    }
    Ok(next == send)
}

pub(super) fn a_region_has_another_key_each_time() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let mut idle = mr::Idle::new();
    idle.allocate(fixture.queue.pd(), 1, GFP_KERNEL)?;
    let mut last = None;
    // More often than there are keys.
    for _ in 0..300 {
        let (planned, regions) = cover_with(&mut idle, &page)?;
        idle = regions.cancel();
        let (key, regions) = cover_with(&mut idle, &page)?;
        let other = last.is_none_or(|last: u32| last != key && last >> 8 == key >> 8);
        if !other || planned != key {
            return Ok(false);
        }
        last = Some(key);
        let registered = regions.into_registered(fixture.queue.deferred_dereg());
        // SAFETY: The regions were never registered, so their keys are as good as invalidated.
        idle = unsafe { registered.into_idle() };
    }
    Ok(true)
}

/// Refuses to deregister a region.
///
/// # Safety
///
/// Only the core calls this, in place of the driver's function.
unsafe extern "C" fn refuse_dereg(
    _mr: *mut cbindings::ib_mr,
    _udata: *mut cbindings::ib_udata,
) -> c_int {
    EIO.to_errno()
}

pub(super) fn region_that_is_not_deregistered_keeps_its_memory() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let (_, regions) = fixture.cover(&page, mr::Access::Read)?;
    let region = regions.first().ok_or(EINVAL)?;
    // SAFETY: The fixture keeps the device, whose regions are all of this test, so nobody else uses
    // `ops` now.
    let ops = unsafe { &mut (*fixture.queue.pd().device()).ops };
    let dereg = ops.dereg_mr.replace(refuse_dereg);
    drop(regions);
    ops.dereg_mr = dereg;
    let stayed = kept(&page);
    if stayed {
        // SAFETY: The region was leaked instead of deregistered, so it is live. A reference to the
        // page was leaked with it; a soft device has no other mapping.
        unsafe {
            cbindings::ib_dereg_mr(region.as_ptr());
            cbindings::folio_put(page.as_ptr());
        }
    }
    Ok(stayed && !kept(&page))
}
