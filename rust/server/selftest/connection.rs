// SPDX-License-Identifier: GPL-2.0

//! Tests of parts of a connection: its end, its limits, credits, denied calls and pages.

use super::super::{
    config::{
        QueueLimits,
        LOST,
        MAX_PAYLOAD, //
    },
    credits::Credits,
    denied_calls::DeniedCalls,
    malformed::MalformedRun,
    rdma_read::PagePool,
    waiting::Waiting, //
};
use crate::prelude::*;
use core::ops::RangeInclusive;
use endpoint::selftest::connection::wait;
use proto::{
    admission::Host,
    conn::server::Event, //
};
use rdma::{
    cm::Id,
    device::Limits,
    selftest::{
        address,
        net,
        report_fatal_events, //
    },
    send::Buffers,
    ProtectionDomain, //
};
use sunrpc::selftest::empty_weak;

pub(super) fn ended_connection_has_no_queues() -> Result<bool> {
    let waiting = KBox::pin_init(Waiting::new(), GFP_KERNEL)?;
    let open = !waiting.is_closed();
    waiting.close();
    Ok(open && waiting.is_closed())
}

pub(super) fn late_malformed_message_is_before_the_call() -> Result<bool> {
    let run = MalformedRun::new();
    let too_many = |mut positions: RangeInclusive<u32>| positions.any(|at| run.note_malformed(at));
    let early = too_many(1..=15);
    run.note_call(17);
    let late = too_many(16..=16) || too_many(18..=33);
    let one_more = too_many(34..=34);
    // A call that is noted late does not undo what a later one did.
    run.note_call(40);
    run.note_call(35);
    Ok(
        !early
            && !late
            && one_more
            && !too_many(36..=39)
            && !too_many(41..=56)
            && too_many(57..=57),
    )
}

pub(super) fn credits_go_back_when_the_connection_ends() -> Result<bool> {
    let before = Credits::all_borrowed();
    let credits = KBox::pin_init(Credits::new(), GFP_KERNEL)?;
    credits.set_first(2);
    let update = credits.begin_update().ok_or(EBUSY)?;
    update.raise(64, |_| Ok(()))?;
    let taken = Credits::all_borrowed() == before + 56;
    credits.end();
    let given_back = Credits::all_borrowed() == before;
    // A thread may be raising the grant at the same time.
    let refused = update.raise(128, |_| Ok(())).is_err();
    Ok(taken && given_back && refused && Credits::all_borrowed() == before)
}

pub(super) const PORT: u16 = 20_052;
const TIMEOUT_MS: u32 = 10_000;

pub(super) fn failed_queue_pair_is_one_lost_connection() -> Result<bool> {
    let connection = ServerConn::new(empty_weak()?, &[], 1)?;
    let id = Id::new(&net(), connection.clone())?;
    id.resolve_address(&address(PORT)?, TIMEOUT_MS)?;
    // There is no event: the server resolves no addresses.
    let limits = wait(|| id.limits().ok())?;
    let parameters = QueueLimits::new(&limits)?.parameters()?;
    let pd = ProtectionDomain::new(id.clone())?;
    let queue = parameters.make(id, pd, &mut Buffers::new())?;
    let lost = LOST.get();
    report_fatal_events(&queue)?;
    let never_open = LOST.get() == lost;
    for event in [Event::Prepared, Event::Established] {
        let _ = connection.state.on(event);
    }
    let open = connection.state.is_open();
    // There are several fatal events.
    report_fatal_events(&queue)?;
    let permit = LOST.get() == lost + 1;
    connection.end(Cause::WorkRequestFailed(c"what was posted failed, too"));
    let once = LOST.get() == lost + 1;
    Ok(never_open && open && permit && once && !connection.state.is_open())
}

/// Returns the limits of an iWARP device.
fn device(queue_depth: u32, read_mr_pages: u32) -> Limits {
    Limits {
        queue_depth,
        registration_pages: read_mr_pages,
        responder_resources: 16,
        initiator_depth: 16,
        write_elements: 4,
        read_elements: 1,
        read_mr_pages: Some(read_mr_pages),
        remote_invalidation: false,
        waits_for_receives: false,
    }
}

/// Returns the fewest regions of `read_mr_pages` pages that the longest WRITE needs.
fn regions(read_mr_pages: u32) -> Result<u32> {
    Ok(MAX_PAYLOAD
        .div_ceil(u32::try_from(PAGE_SIZE)?)
        .div_ceil(read_mr_pages))
}

pub(super) fn longest_call_can_be_registered() -> Result<bool> {
    for read_mr_pages in [8, 64, 256] {
        let mut limits = QueueLimits::new(&device(4096, read_mr_pages))?;
        // The device refuses one queue pair after another.
        while let Some(halved) = limits.halved() {
            limits = halved;
        }
        if limits.parameters()?.transfers < regions(read_mr_pages)? {
            return Ok(false);
        }
    }
    // These queues have room for 16 Reads, each with its registration.
    Ok(QueueLimits::new(&device(64, 8)).is_err() && QueueLimits::new(&device(64, 256)).is_ok())
}

/// Returns the number of times that the round trip is looked up during `replies` replies, one at a
/// time, to a client that has eight credits and requests `requested`.
fn looks(replies: usize, requested: u32) -> Result<usize> {
    let credits = KBox::pin_init(Credits::new(), GFP_KERNEL)?;
    credits.set_first(8);
    credits.request(requested);
    let mut looks = 0;
    for _ in 0..replies {
        let raised = credits.next_grant(1, 0, 128, || {
            looks += 1;
            // All calls that arrived took longer.
            Some(0)
        });
        if raised.is_some() {
            return Err(EINVAL);
        }
    }
    Ok(looks)
}

pub(super) fn round_trip_is_looked_up_seldom() -> Result<bool> {
    let (has_all, has_few) = (looks(80, 8)?, looks(90, 128)?);
    Ok((1..=10).contains(&has_all) && (1..=30).contains(&has_few))
}

const CLIENT: Host = [1; 16];
const OTHER: Host = [2; 16];

pub(super) fn call_is_answered_once() -> Result<bool> {
    let calls = DeniedCalls::new()?;
    calls.add(CLIENT, 7);
    let of_other = calls.take(&OTHER, 7) == (false, false);
    let another = calls.take(&CLIENT, 8) == (false, true);
    let once = calls.take(&CLIENT, 7) == (true, false);
    Ok(of_other && another && once && calls.take(&CLIENT, 7) == (false, false))
}

pub(super) fn calls_of_another_client_stay() -> Result<bool> {
    let calls = DeniedCalls::new()?;
    calls.add(OTHER, 7);
    for xid in 0..100 {
        calls.add(CLIENT, xid);
    }
    let oldest_went = calls.take(&CLIENT, 0) == (false, true);
    let newest_stayed = calls.take(&CLIENT, 99) == (true, true);
    Ok(oldest_went && newest_stayed && calls.take(&OTHER, 7) == (true, false))
}

pub(super) fn each_call_is_counted() -> Result<bool> {
    let calls = DeniedCalls::new()?;
    let before = calls.added();
    for xid in 0..100 {
        calls.add(CLIENT, xid);
    }
    Ok(calls.added() == before + 100)
}

pub(super) fn idle_pages_go_back() -> Result<bool> {
    let pool = PagePool::new()?;
    let pages = pool.take(10)?;
    // The shrinker does not count pages that a call uses.
    let in_use = pool.reclaim(1)? == (0, 0);
    pool.keep(pages);
    let some = pool.reclaim(4)? == (10, 4);
    let taken = pool.take(1)?.len() == 1;
    let rest = pool.reclaim(128)? == (5, 5);
    let none = pool.reclaim(128)? == (0, 0);
    Ok(in_use && some && taken && rest && none && pool.take(10)?.len() == 10)
}

pub(super) fn pool_keeps_so_many_pages() -> Result<bool> {
    let pool = PagePool::new()?;
    for _ in 0..3 {
        pool.keep(pool.take(PagePool::MAX - 1)?);
        // Pages of another pool, so that these are more than there were.
        let more = PagePool::new()?.take(2)?;
        pool.keep(more);
    }
    let (idle, freed) = pool.reclaim(usize::MAX)?;
    Ok(idle == PagePool::MAX && freed == idle)
}

pub(super) fn page_of_somebody_else_is_not_kept() -> Result<bool> {
    let pool = PagePool::new()?;
    let pages = pool.take(2)?;
    let piece = pages.first().ok_or(EINVAL)?.piece(0, 1)?;
    pool.keep(pages);
    drop(piece);
    Ok(pool.reclaim(128)? == (1, 1))
}
