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
    qp::{
        Unposted,
        UnpostedReads, //
    },
    send::Verb,
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
    let reads = fixture.prepare(Transfer::reads(queue, GFP_KERNEL)?, &page)?;
    let sent = queue.post_reply(Attached::Writes(reads), fixture.buffer()?, 20, Verb::Send);
    let writes = fixture.prepare(Transfer::writes(queue, GFP_KERNEL)?, &page)?;
    let read = queue.post_reads(writes, ());
    let nothing = queue.post_reads(Transfer::reads(queue, GFP_KERNEL)?.prepare()?, ());
    let refused = matches!(sent, Err(Unposted::Lost(EINVAL)))
        && matches!(read, Err(UnpostedReads::Lost(EINVAL)))
        && matches!(nothing, Err(UnpostedReads::Lost(EINVAL)));
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
    let (handle, regions) = pair.near.cover(&theirs, mr::Access::Read)?;
    let reads = Transfer::reads(&pair.far.queue, GFP_KERNEL)?;
    let reads = pair.far.prepare_many(reads, &ours, handle, None)?;
    if pair.far.queue.post_reads(reads, ()).is_err() {
        return Ok(false);
    }
    pair.far.end.wait(|seen| seen.denied.then_some(()))?;
    drop(regions.cancel());
    let pulled = pair.far.end.seen.lock().pulled;
    Ok(pulled == 0 && !kept(&theirs))
}
