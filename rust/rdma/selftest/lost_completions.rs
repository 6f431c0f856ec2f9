// SPDX-License-Identifier: GPL-2.0

//! Tests of a device that loses completions: the boxes of the requests come back when the queue
//! pair is drained, or are freed with it.

use super::{
    fixture::{
        Fixture,
        Pair,
        PORT, //
    },
    handler::kept, //
};
use crate::prelude::*;
use crate::{
    in_flight::Entry,
    qp::read_write::{
        BatchMemory,
        Continuation,
        RwContext, //
    },
    receive::Buffers,
    transfer::Transfer, //
};
use ext::memory::Page;

/// Completes a request late: it was lost when its queue pair was drained, and is flushed now.
fn come_up_with(fixture: &Fixture, lost: NonNull<Entry>) {
    let mut completion = cbindings::ib_wc {
        status: cbindings::ib_wc_status_IB_WC_WR_FLUSH_ERR,
        ..Default::default()
    };
    // SAFETY: The entry of a lost request lives as long as the queue pair, which `fixture` keeps.
    completion.__bindgen_anon_1.wr_cqe = unsafe { &raw mut (*lost.as_ptr()).cqe };
    // SAFETY: The entry of a lost request lives as long as the queue pair, which `fixture` keeps.
    let done = unsafe { (*lost.as_ptr()).cqe.done };
    if let Some(done) = done {
        // SAFETY: The callback gets the arguments that the core would pass: the completion queue of
        // the queue pair, and a completion of a request of it.
        unsafe { done(fixture.queue.cq(), &mut completion) };
    }
}

pub(super) fn lost_read_goes_with_its_queue_pair() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    fixture.need_roce()?;
    let page = Page::new(GFP_KERNEL)?;
    let reads = Transfer::reads(&fixture.queue, None, GFP_KERNEL)?;
    let reads = fixture.prepare(reads, &page)?;
    let memory = BatchMemory::new(GFP_KERNEL)?;
    let lost = RwContext::new(memory, reads.0, Continuation::ReadDone(0), &fixture.queue)?;
    let lost = lost.lend();
    // SAFETY: The entry was just lent and is in no list. The request was never posted, like one
    // that the device lost, so nothing takes it out until the queue pair frees it.
    unsafe { fixture.queue.sends().lock().rw_contexts.add(lost) };
    let stayed = kept(&page);
    fixture.queue.drain();
    come_up_with(&fixture, lost);
    let still = kept(&page);
    drop(fixture);
    Ok(stayed && still && !kept(&page))
}

pub(super) fn lost_read_keeps_its_own_pages() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    fixture.need_roce()?;
    let (reads, page) = fixture.prepare_own()?;
    let memory = BatchMemory::new(GFP_KERNEL)?;
    let lost = RwContext::new(memory, reads.0, Continuation::ReadDone(0), &fixture.queue)?;
    let lost = lost.lend();
    // SAFETY: The entry was just lent and is in no list. The request was never posted, like one
    // that the device lost, so nothing takes it out until the queue pair frees it.
    unsafe { fixture.queue.sends().lock().rw_contexts.add(lost) };
    fixture.queue.drain();
    come_up_with(&fixture, lost);
    let stayed = kept(&page);
    drop(fixture);
    Ok(stayed && !kept(&page))
}

/// Lends a Receive of `fixture`, but does not post it, like one that the device lost.
fn lose_receive(fixture: &Fixture) -> Result<NonNull<Entry>> {
    let mut buffers = Buffers::new();
    buffers.allocate(fixture.queue.pd(), 100, GFP_KERNEL)?;
    let mut receives = fixture.queue.receives().lock();
    fixture
        .queue
        .take_work_requests(&mut buffers, &mut receives.posted);
    let lost = receives.posted.iter().next();
    lost.ok_or(EINVAL)
}

pub(super) fn lost_receive_goes_with_its_queue_pair() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let pd = fixture.queue.pd().clone();
    let lost = lose_receive(&fixture)?;
    // The handler of those that are flushed takes it over.
    fixture.queue.drain();
    come_up_with(&fixture, lost);
    // It stays where a still later completion finds it.
    let claimed = fixture.queue.receives().lock().posted.is_empty();
    // SAFETY: The queue pair is drained, so no handler runs.
    let stays = unsafe { fixture.queue.handled().list() }.iter().eq([lost]);
    drop(fixture);
    Ok(claimed && stays && Arc::into_unique_or_drop(pd).is_some())
}

pub(super) fn unseen_receive_goes_with_its_queue_pair() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let pd = fixture.queue.pd().clone();
    fixture.queue.drain();
    let lost = lose_receive(&fixture)?;
    come_up_with(&fixture, lost);
    // It stays where a still later completion finds it.
    let stays = fixture.queue.receives().lock().posted.iter().eq([lost]);
    drop(fixture);
    Ok(stays && Arc::into_unique_or_drop(pd).is_some())
}

pub(super) fn completed_receive_makes_room() -> Result<bool> {
    let pair = Pair::new()?;
    let queue = &pair.far.queue;
    let mut buffers = Buffers::new();
    buffers.allocate(queue.pd(), 4_096, GFP_KERNEL)?;
    // As many are posted as there is room for.
    let full = queue.post_receives(&mut buffers) == Err(EINVAL) && buffers.len() == 1;
    pair.near.send(None)?;
    pair.arrived(1)?;
    let one = queue.post_receives(&mut buffers).is_ok() && buffers.is_empty();
    buffers.allocate(queue.pd(), 4_096, GFP_KERNEL)?;
    Ok(full && one && queue.post_receives(&mut buffers) == Err(EINVAL))
}

pub(super) fn lost_invalidation_is_given_back() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let (registered, _) = fixture.register(&page)?;
    let Ok((lost, _)) = fixture.queue.link_invalidation(registered, None) else {
        return Ok(false);
    };
    // SAFETY: The entry was just lent and is in no list. The request was never posted, like one
    // that the device lost, so nothing takes it out until the queue pair frees it.
    unsafe {
        fixture
            .queue
            .sends()
            .lock()
            .invalidations_in_flight
            .add(lost)
    };
    fixture.queue.drain();
    let Some(registered) = fixture.end.seen.lock().broken.take() else {
        return Ok(false);
    };
    let given_back = registered.len() == 1 && kept(&page);
    drop(registered);
    come_up_with(&fixture, lost);
    // It stays where a still later completion finds it, and returned nothing.
    let stays = fixture
        .queue
        .sends()
        .lock()
        .invalidations_in_flight
        .iter()
        .eq([lost]);
    let given_back = given_back && stays && fixture.end.seen.lock().broken.is_none();
    Ok(given_back && !kept(&page))
}
