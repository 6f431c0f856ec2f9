// SPDX-License-Identifier: GPL-2.0

//! What cannot be is refused.

use super::fixture::{
    kept,
    Fixture,
    Pair,
    PARAMETERS,
    PORT, //
};
use crate::{
    mr,
    transfer::{
        Attached,
        Transfer, //
    }, //
};
use kernel::prelude::*;
use shared::memory::Page;

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

pub(super) fn nobody_is_answered_who_did_not_ask() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let id = fixture.queue.id();
    id.disconnect();
    id.reject();
    Ok(id.accept(&PARAMETERS) == Err(EINVAL))
}

pub(super) fn planned_memory_is_denied() -> Result<bool> {
    let pair = Pair::new()?;
    let (theirs, ours) = (Page::new(GFP_KERNEL)?, Page::new(GFP_KERNEL)?);
    let (segment, regions) = pair.near.cover(&theirs, mr::Access::Read)?;
    let reads = Transfer::reads(&pair.far.queue, None, GFP_KERNEL)?;
    let reads = pair.far.prepare_many(reads, &ours, segment, None)?;
    if pair.far.post_reads(reads).is_err() {
        return Ok(false);
    }
    pair.far.end.wait(|seen| seen.denied.then_some(()))?;
    drop(regions.cancel());
    let pulled = pair.far.end.seen.lock().pulled;
    Ok(pulled == 0 && !kept(&theirs))
}
