// SPDX-License-Identifier: GPL-2.0

//! Tests of transfers that are posted in batches. As with RPCs, the end that connected offers its
//! memory, and so is the first to send, as MPA demands.

use super::{
    fixture::{
        each,
        own_pages,
        Fixture,
        Pair,
        LEN,
        PORT,
        TRANSFERS, //
    },
    handler::{
        kept,
        TestHandler, //
    }, //
};
use crate::prelude::*;
use crate::transfer::{
    Attached,
    PreparedTransfer,
    Transfer, //
};
use core::ops::Range;
use ext::memory::Page;
use kernel::page::PAGE_SIZE;

/// The number of segments: more than a [`Fixture`] posts at once, and no multiple of that.
const SEGMENTS: u32 = 5;

impl Fixture {
    /// Prepares `transfer` between the first bytes of `page` and the peer's memory `whole`, in more
    /// requests than are posted at once. The request `denied` has a wrong key.
    pub(super) fn prepare_many(
        &self,
        mut transfer: Transfer<TestHandler>,
        page: &Page,
        whole: mr::Segment,
        denied: Option<u32>,
    ) -> Result<PreparedTransfer<TestHandler>> {
        add_many(&mut transfer, whole, denied)?;
        transfer.add_local(page.piece(0, LEN)?)?;
        transfer.prepare()
    }

    /// Returns whether exactly all SQ credits are free.
    fn has_room(&self) -> bool {
        self.queue.sends().lock().policy.credits.free() == TRANSFERS
    }
}

/// Adds the peer's memory `whole` to `transfer`, in more segments than are posted at once, of which
/// `denied` has a wrong key.
fn add_many(
    transfer: &mut Transfer<TestHandler>,
    whole: mr::Segment,
    denied: Option<u32>,
) -> Result {
    for place in 0..SEGMENTS {
        transfer.add_remote(mr::Segment {
            rkey: whole.rkey ^ u32::from(denied == Some(place)),
            len: whole.len / SEGMENTS,
            iova: whole.iova + u64::from(place * (whole.len / SEGMENTS)),
        })?;
    }
    Ok(())
}

/// Allocates a page with bytes that differ from those of other `seed`s.
fn patterned(seed: u8) -> Result<Page> {
    let page = Page::new(GFP_KERNEL)?;
    let bytes: [u8; LEN] = core::array::from_fn(|at| (at as u8).wrapping_mul(7) ^ seed);
    page.copy_in(0, &bytes)?;
    Ok(page)
}

fn same(one: &Page, other: &Page) -> Result<bool> {
    let (mut these, mut those) = ([0; LEN], [0; LEN]);
    one.copy_out(0, &mut these)?;
    other.copy_out(0, &mut those)?;
    Ok(these == those)
}

pub(super) fn reads_go_in_batches() -> Result<bool> {
    let pair = Pair::new()?;
    let (server, client) = (&pair.far, &pair.near);
    // More often than there are credits, if they did not come back.
    for round in 1..=4 {
        let (theirs, ours) = (patterned(0x10 + round)?, Page::new(GFP_KERNEL)?);
        let (segment, registered, result) = client.offer(&theirs, mr::Access::Read)?;
        result?;
        let round = usize::from(round);
        server
            .end
            .wait(|seen| (seen.received >= round).then_some(()))?;
        let reads = Transfer::reads(&server.queue, None, GFP_KERNEL)?;
        let reads = server.prepare_many(reads, &ours, segment, None)?;
        if server.post_reads(reads).is_err() {
            return Ok(false);
        }
        server
            .end
            .wait(|seen| (seen.reads_done >= round).then_some(()))?;
        if !same(&ours, &theirs)? || kept(&ours) {
            return Ok(false);
        }
        drop(registered);
    }
    Ok(server.has_room())
}

/// The bytes of its own pages that a transfer reads into: none of them in the first page, and the
/// end of one page and the beginning of the next one.
const OWN: Range<usize> = 2 * PAGE_SIZE - LEN / 2..2 * PAGE_SIZE + LEN / 2;

/// Prepares RDMA Reads of `whole` into three pages that are moved into the transfer, whose other
/// bytes are `0xee`. Returns a reference to the last one as well.
fn prepare_own(
    server: &Fixture,
    whole: mr::Segment,
    denied: Option<u32>,
) -> Result<(PreparedTransfer<TestHandler>, Page)> {
    let (pages, watched) = own_pages(3)?;
    let mut reads = Transfer::reads(&server.queue, None, GFP_KERNEL)?;
    reads.set_pages(pages)?;
    for page in reads.pages()? {
        page.copy_in(0, &[0xee; LEN])?;
        page.copy_in(PAGE_SIZE - LEN, &[0xee; LEN])?;
    }
    // No transfer has pages twice, and a range is within them.
    let (more, _) = own_pages(1)?;
    let refused = reads.set_pages(more) == Err(EINVAL)
        && reads.add_own(3 * PAGE_SIZE..3 * PAGE_SIZE + 1) == Err(EINVAL);
    if !refused {
        return Err(EIO);
    }
    add_many(&mut reads, whole, denied)?;
    reads.add_own(OWN)?;
    Ok((reads.prepare()?, watched))
}

pub(super) fn own_pages_come_back() -> Result<bool> {
    let pair = Pair::new()?;
    let (server, client) = (&pair.far, &pair.near);
    let theirs = patterned(0x18)?;
    let (segment, _registered, result) = client.offer(&theirs, mr::Access::Read)?;
    result?;
    server.end.wait(|seen| (seen.received >= 1).then_some(()))?;
    let (reads, watched) = prepare_own(server, segment, None)?;
    let address = watched.as_ptr();
    drop(watched);
    server.post_reads(reads)?;
    let pages = server.end.wait(|seen| seen.pages.take())?;
    let (mut read, mut sent) = ([0; LEN], [0; LEN]);
    theirs.copy_out(0, &mut sent)?;
    let [first, second, third] = pages.as_slice() else {
        return Ok(false);
    };
    let (front, back) = read.split_at_mut(LEN / 2);
    second.copy_out(PAGE_SIZE - LEN / 2, front)?;
    third.copy_out(0, back)?;
    let mut beside = [0; 3];
    first.copy_out(0, beside.get_mut(..1).ok_or(EINVAL)?)?;
    second.copy_out(
        OWN.start - PAGE_SIZE - 1,
        beside.get_mut(1..2).ok_or(EINVAL)?,
    )?;
    third.copy_out(OWN.end - 2 * PAGE_SIZE, beside.get_mut(2..).ok_or(EINVAL)?)?;
    let same = read == sent && beside == [0xee; 3] && third.as_ptr() == address;
    Ok(same && pages.iter().all(Page::is_unique))
}

pub(super) fn own_pages_go_with_a_denied_read() -> Result<bool> {
    each(0..SEGMENTS, |denied| {
        let pair = Pair::new()?;
        let (server, client) = (&pair.far, &pair.near);
        server.need_roce()?;
        let theirs = patterned(0x38)?;
        let (segment, _registered, result) = client.offer(&theirs, mr::Access::Read)?;
        result?;
        server.end.wait(|seen| (seen.received >= 1).then_some(()))?;
        let (reads, watched) = prepare_own(server, segment, Some(denied))?;
        let mapped = kept(&watched);
        server.post_reads(reads)?;
        server.end.wait(|seen| seen.denied.then_some(()))?;
        server.queue.drain();
        let none_back = server.end.seen.lock().pages.is_none();
        Ok(mapped && none_back && !kept(&watched))
    })
}

pub(super) fn own_pages_of_unposted_reads_come_back() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let (reads, watched) = fixture.prepare_own()?;
    let pages = reads.into_pages();
    let back = matches!(pages.as_slice(), [page] if page.as_ptr() == watched.as_ptr());
    // The transfer has none any more, nor a region of it.
    let two = watched.references() == 2;
    drop(pages);
    let (reads, dropped) = fixture.prepare_own()?;
    drop(reads);
    Ok(back && two && !kept(&watched) && !kept(&dropped))
}

pub(super) fn unposted_batch_is_reported() -> Result<bool> {
    // Repeated, as the Reads may complete before the queue is closed.
    for _ in 0..20 {
        let pair = Pair::new()?;
        let (server, client) = (&pair.far, &pair.near);
        let (theirs, ours) = (patterned(0x60)?, Page::new(GFP_KERNEL)?);
        let (segment, _registered, result) = client.offer(&theirs, mr::Access::Read)?;
        result?;
        server.end.wait(|seen| (seen.received >= 1).then_some(()))?;
        let reads = Transfer::reads(&server.queue, None, GFP_KERNEL)?;
        let reads = server.prepare_many(reads, &ours, segment, None)?;
        server.post_reads(reads)?;
        server.queue.sends().lock().open = false;
        let (reported, done) = server.end.wait(|seen| {
            let ends = (seen.unposted_batches, seen.reads_done);
            (ends != (0, 0)).then_some(ends)
        })?;
        server.queue.drain();
        if reported != 0 {
            return Ok(reported == 1 && done == 0 && !server.end.seen.lock().failed);
        }
    }
    Ok(false)
}

pub(super) fn reads_cover_sends_before_them() -> Result<bool> {
    let pair = Pair::new()?;
    let (server, client) = (&pair.far, &pair.near);
    let (theirs, ours) = (patterned(0x70)?, Page::new(GFP_KERNEL)?);
    let (segment, _registered, result) = client.offer(&theirs, mr::Access::Read)?;
    result?;
    server.end.wait(|seen| (seen.received >= 1).then_some(()))?;
    server.send(None)?;
    let reads = Transfer::reads(&server.queue, None, GFP_KERNEL)?;
    let reads = server.prepare_many(reads, &ours, segment, None)?;
    server.post_reads(reads)?;
    // Whether the Reads have completed or not.
    server.queue.post_barrier()?;
    let has_barrier = server.queue.sends().lock().barrier.last.is_some();
    server
        .end
        .wait(|seen| (seen.reads_done >= 1).then_some(()))?;
    Ok(!has_barrier && server.queue.oldest_posted().is_none())
}

pub(super) fn writes_go_in_batches() -> Result<bool> {
    let pair = Pair::new()?;
    let (server, client) = (&pair.far, &pair.near);
    for round in 1..=4 {
        let (theirs, ours) = (Page::new(GFP_KERNEL)?, patterned(0x20 + round)?);
        let (segment, registered, result) = client.offer(&theirs, mr::Access::Write)?;
        result?;
        let round = usize::from(round);
        server
            .end
            .wait(|seen| (seen.received >= round).then_some(()))?;
        let writes = Transfer::writes(&server.queue, None, GFP_KERNEL)?;
        let writes = Attached::Writes(server.prepare_many(writes, &ours, segment, None)?);
        if server.post_reply(writes, server.buffer()?, 1).is_err() {
            return Ok(false);
        }
        client
            .end
            .wait(|seen| (seen.received >= round).then_some(()))?;
        if !same(&ours, &theirs)? {
            return Ok(false);
        }
        drop(registered);
    }
    server.queue.drain();
    Ok(server.has_room())
}

pub(super) fn denied_read_fails_all() -> Result<bool> {
    each(0..SEGMENTS, fails_all)
}

fn fails_all(denied: u32) -> Result<bool> {
    let pair = Pair::new()?;
    let (server, client) = (&pair.far, &pair.near);
    server.need_roce()?;
    let (theirs, ours) = (patterned(0x30)?, Page::new(GFP_KERNEL)?);
    let (segment, _registered, result) = client.offer(&theirs, mr::Access::Read)?;
    result?;
    server.end.wait(|seen| (seen.received >= 1).then_some(()))?;
    let reads = Transfer::reads(&server.queue, None, GFP_KERNEL)?;
    let reads = server.prepare_many(reads, &ours, segment, Some(denied))?;
    if server.post_reads(reads).is_err() {
        return Ok(false);
    }
    server.end.wait(|seen| seen.denied.then_some(()))?;
    server.queue.drain();
    Ok(server.end.seen.lock().reads_done == 0 && !kept(&ours))
}

pub(super) fn denied_write_fails_its_message() -> Result<bool> {
    each(0..SEGMENTS, fails_its_message)
}

fn fails_its_message(denied: u32) -> Result<bool> {
    const TAG: u32 = 0x1234_5678;
    let pair = Pair::new()?;
    let (server, client) = (&pair.far, &pair.near);
    server.need_roce()?;
    let (theirs, ours) = (Page::new(GFP_KERNEL)?, patterned(0x40)?);
    let (segment, _registered, result) = client.offer(&theirs, mr::Access::Write)?;
    result?;
    server.end.wait(|seen| (seen.received >= 1).then_some(()))?;
    let writes = Transfer::writes(&server.queue, None, GFP_KERNEL)?;
    let writes = Attached::Writes(server.prepare_many(writes, &ours, segment, Some(denied))?);
    if server.post_reply(writes, server.buffer()?, TAG).is_err() {
        return Ok(false);
    }
    let unwritten = server.end.wait(|seen| seen.unwritten.take())?;
    server.queue.drain();
    let denied = server.end.seen.lock().denied;
    let arrived = client.end.seen.lock().received;
    Ok(denied && unwritten == TAG && arrived == 0 && !kept(&ours))
}

/// The segments of five requests and the pieces of memory for them have no boundary in common.
pub(super) fn batch_has_its_own() -> Result<bool> {
    const REMOTE: [u32; 5] = [100, 300, 50, 250, 100];
    const LOCAL: [(usize, usize); 4] = [(0, 150), (200, 200), (600, 300), (1000, 150)];
    let fixture = Fixture::alone(PORT)?;
    let page = Page::new(GFP_KERNEL)?;
    let mut transfer = Transfer::writes(&fixture.queue, None, GFP_KERNEL)?;
    for len in REMOTE {
        transfer.add_remote(mr::Segment {
            rkey: len,
            len,
            iova: 0,
        })?;
    }
    for (offset, len) in LOCAL {
        transfer.add_local(page.piece(offset, len)?)?;
    }
    let mut inner = transfer.prepare()?.0;
    let mut lengths = [0; 5];
    let mut elements = [0; 5];
    for batch in [0..2, 2..4, 4..5] {
        let places = batch.clone();
        let mut next = inner.link(batch, null_mut(), null_mut());
        for place in places {
            // SAFETY: The list was just linked, of requests in `inner`, which lives.
            let Some(wr) = (unsafe { next.as_ref() }) else {
                return Ok(false);
            };
            for element in 0..usize::try_from(wr.num_sge)? {
                // SAFETY: The request has `num_sge` elements, in a list of `inner`.
                lengths[place] += unsafe { (*wr.sg_list.add(element)).length };
                elements[place] += 1;
            }
            next = wr.next;
        }
        if !next.is_null() {
            return Ok(false);
        }
    }
    Ok(lengths == REMOTE && elements == [1, 3, 1, 2, 1])
}
