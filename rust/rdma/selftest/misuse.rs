// SPDX-License-Identifier: GPL-2.0

//! Tests that invalid requests are refused.

use super::{
    fixture::{
        net,
        Fixture,
        Pair,
        GATHER_AT,
        PARAMETERS,
        PORT, //
    },
    handler::{
        kept,
        TestHandler, //
    }, //
};
use crate::prelude::*;
use crate::{
    send::Doorbell,
    transfer::{
        Attached,
        Transfer, //
    }, //
};
use ext::memory::Page;

pub(super) fn reads_and_writes_are_not_mixed_up() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let queue = &fixture.queue;
    let page = Page::new(GFP_KERNEL)?;
    let reads = fixture.prepare(Transfer::reads(queue, None, GFP_KERNEL)?, &page)?;
    let sent = fixture.post_reply(Attached::Writes(reads), fixture.buffer()?, 1);
    let writes = fixture.prepare(Transfer::writes(queue, None, GFP_KERNEL)?, &page)?;
    let read = fixture.post_reads(writes);
    let nothing = fixture.post_reads(Transfer::reads(queue, None, GFP_KERNEL)?.prepare()?);
    let refused = matches!(sent, Err(EINVAL))
        && matches!(read, Err(EINVAL))
        && matches!(nothing, Err(EINVAL));
    Ok(refused && !kept(&page))
}

pub(super) fn reads_that_are_not_posted_give_their_context_back() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let queue = &fixture.queue;
    let page = Page::new(GFP_KERNEL)?;
    let writes = fixture.prepare(Transfer::writes(queue, None, GFP_KERNEL)?, &page)?;
    let refused = fixture.post_reads_for(writes, 7).err().ok_or(EINVAL)?;
    let reads = fixture.prepare(Transfer::reads(queue, None, GFP_KERNEL)?, &page)?;
    queue.drain();
    let late = fixture.post_reads_for(reads, 8).err().ok_or(EINVAL)?;
    Ok(refused.context == Some(7) && late.context == Some(8) && late.error == enotconn())
}

pub(super) fn id_without_request_is_not_answered() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let id = fixture.queue.id();
    let _ = id.disconnect();
    id.reject();
    Ok(id.accept(&PARAMETERS) == Err(EINVAL))
}

pub(super) fn planned_memory_is_denied() -> Result<bool> {
    let pair = Pair::new()?;
    pair.near.need_roce()?;
    let (theirs, ours) = (Page::new(GFP_KERNEL)?, Page::new(GFP_KERNEL)?);
    let (segment, regions) = pair.near.cover(&theirs, mr::Access::Read)?;
    let reads = Transfer::reads(&pair.far.queue, None, GFP_KERNEL)?;
    let reads = pair.far.prepare_many(reads, &ours, segment, None)?;
    if pair.far.post_reads(reads).is_err() {
        return Ok(false);
    }
    pair.far.end.wait(|seen| seen.denied.then_some(()))?;
    drop(regions.cancel());
    let reads_done = pair.far.end.seen.lock().reads_done;
    Ok(reads_done == 0 && !kept(&theirs))
}

pub(super) fn gathering_behind_the_end_is_refused() -> Result<bool> {
    let pair = Pair::new()?;
    let fixture = &pair.near;
    let page = Page::new(GFP_KERNEL)?;
    let send = |len| -> Result<Result> {
        let (gathered, buffer) = (fixture.gather(&page)?, fixture.buffer()?);
        let regions = mr::Prepared::new();
        let queue = &fixture.queue;
        let (_, result) =
            queue.post_send(regions, buffer, len, Some(gathered), Doorbell::Ring, |_| ());
        Ok(result)
    };
    let reply = |len| -> Result<Result> {
        let attached = Attached::Gathered(fixture.gather(&page)?);
        Ok(fixture.post_reply_of(attached, fixture.buffer()?, len, 1))
    };
    let refused = send(GATHER_AT - 1)? == Err(EINVAL) && reply(GATHER_AT - 1)? == Err(EINVAL);
    let released = !kept(&page);
    // Memory may be gathered at the very end.
    send(GATHER_AT)??;
    pair.arrived(1)?;
    Ok(refused && released)
}

pub(super) fn unresolved_id_has_no_device() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let id = Id::new(&net(), TestHandler::new()?)?;
    // SAFETY: The id is live, and the test owns it alone. The connection manager sets the field
    // before it reports so. It is reset below, so the id does not release the device.
    unsafe { (*id.as_raw()).device = fixture.queue.id().device()?.as_ptr() };
    let early = id.device().is_ok() || id.local_address().is_ok() || id.remote_address().is_ok();
    // SAFETY: The id is live, and the test owns it alone.
    unsafe { (*id.as_raw()).device = null_mut() };
    Ok(!early && fixture.queue.id().local_address().is_ok())
}

pub(super) fn queue_pair_bounds_elements() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    // SAFETY: The fixture keeps its id, whose queue pair was not drained, so it is live.
    let (write, read) = unsafe {
        let queue = (*fixture.queue.id().as_raw()).qp;
        ((*queue).max_write_sge, (*queue).max_read_sge)
    };
    let (max_write, max_read) = fixture.queue.max_elements();
    Ok(max_write <= usize::try_from(write)? && max_read <= usize::try_from(read)?)
}
