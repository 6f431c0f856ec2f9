// SPDX-License-Identifier: GPL-2.0

//! Tests with a queue pair: Send buffers, wakeups, spare transfers, the doorbell.

use super::{
    super::{
        spares::SendBuffers,
        Parameters,
        ResponderExt,
        SendBufferExt, //
    },
    connection::{
        parameters,
        wait,
        Connection,
        End,
        Side,
        BUFFER_BYTES, //
    }, //
};
use core::iter;
use kernel::{
    prelude::*,
    time::{
        delay::fsleep,
        msecs_to_jiffies,
        Delta, //
    }, //
};
use rdma::{
    errno::eopnotsupp,
    memory::Page,
    mr,
    send::{
        Buffer,
        Buffers,
        Doorbell, //
    },
    transfer::{
        EmptyTransfer,
        EmptyTransfers,
        Gathered, //
    },
    SendPolicy as _,
    SqPermit, //
};

/// The bytes of a message that are in its buffer.
const LEN: usize = 20;

/// A time longer than a completion takes.
const A_WHILE: Delta = Delta::from_millis(200);

impl Side {
    /// Sends a message from the next free buffer, with `gathered` in it.
    fn send(&self, gathered: Option<Gathered<End>>, doorbell: Doorbell) -> Result {
        // An attempt to take a buffer would count as waiting.
        wait(|| self.has_buffer().then_some(()))?;
        let buffer = self.queue.take_send_buffer().ok_or(ENOMEM)?;
        self.send_from(buffer, gathered, doorbell)
    }

    fn send_from(
        &self,
        buffer: Buffer<End>,
        gathered: Option<Gathered<End>>,
        doorbell: Doorbell,
    ) -> Result {
        self.send_with(mr::Prepared::new(), buffer, gathered, doorbell)
    }

    fn send_with(
        &self,
        regions: mr::Prepared<End>,
        buffer: Buffer<End>,
        gathered: Option<Gathered<End>>,
        doorbell: Doorbell,
    ) -> Result {
        let (_, result) = self
            .queue
            .post_send(regions, buffer, LEN, gathered, doorbell, |_| ());
        result
    }

    /// Sends a message with the registration of a region, which covers the first bytes of `page`.
    fn send_registration(&self, page: &Page) -> Result {
        let mut idle = mr::Idle::new();
        idle.allocate(self.queue.pd(), 1, GFP_KERNEL)?;
        let mut pieces = iter::once(page.piece(0, LEN)).peekable();
        let mut regions = mr::Prepared::new();
        regions.map(&mut idle, &mut pieces, mr::Access::Read, 0)?;
        let buffer = self.queue.take_send_buffer().ok_or(ENOMEM)?;
        self.send_with(regions, buffer, None, Doorbell::Ring)
    }

    /// Maps the first bytes of `page`, to be part of a message.
    fn gather(&self, page: &Page) -> Result<Gathered<End>> {
        let mut memory = self.queue.gathers(GFP_KERNEL)?;
        memory.add_local(page.piece(0, LEN)?)?;
        memory.gather(LEN)
    }

    /// Posts RDMA Reads of memory that the peer does not have, into `pieces` pieces, and waits
    /// until they have failed.
    fn fail_reads(&self, pieces: usize) -> Result {
        let failed = || self.end.get(|seen| seen.reads_failed);
        let before = failed();
        let page = Page::new(GFP_KERNEL)?;
        let mut reads = self.queue.reads(GFP_KERNEL)?;
        reads.add_remote(mr::Segment {
            rkey: 1,
            len: u32::try_from(pieces)?,
            iova: 0,
        })?;
        for _ in 0..pieces {
            // No piece is contiguous with the one before it, so each has an element of its own.
            reads.add_local(page.piece(0, 1)?)?;
        }
        let permit = self.queue.reserve(pieces).ok_or(EBUSY)?;
        let posted = self.queue.post_reads(reads.prepare()?, permit, ());
        posted.map_err(|_| EIO)?;
        wait(|| (failed() > before).then_some(()))
    }

    fn has_buffer(&self) -> bool {
        self.free_buffers() != 0
    }

    fn free_buffers(&self) -> usize {
        self.queue.spares().free_buffers()
    }

    fn reserve(&self, credits: usize) -> Option<SqPermit> {
        self.queue.send_queue().policy().reserve(credits)
    }

    fn take_spare(&self) -> Option<EmptyTransfer<End>> {
        self.queue.spares().take_transfer()
    }

    /// Returns whether `transfer` is kept.
    fn keeps(&self, transfer: EmptyTransfer<End>) -> bool {
        let mut transfers = EmptyTransfers::new();
        transfers.push(transfer);
        self.queue.send_queue().policy().keep(&mut transfers);
        transfers.pop().is_none()
    }

    /// Waits for `times` wakeups. Returns whether no other one follows in a while.
    fn was_woken(&self, times: usize) -> Result<bool> {
        let resumed = || self.end.get(|seen| seen.resumed);
        wait(|| (resumed() >= times).then_some(()))?;
        fsleep(A_WHILE);
        Ok(resumed() == times)
    }
}

pub(super) fn caller_without_buffer_is_woken_once() -> Result<bool> {
    let connection = Connection::new(&parameters(2, 2))?;
    let near = &connection.near;
    let first = near.queue.take_send_buffer().ok_or(ENOMEM)?;
    let second = near.queue.take_send_buffer().ok_or(ENOMEM)?;
    let none = near.queue.take_send_buffer().is_none();
    // Both are signalled, as no other buffer is free.
    near.send_from(first, None, Doorbell::Ring)?;
    near.send_from(second, None, Doorbell::Ring)?;
    let woken = near.was_woken(1)?;
    near.send(None, Doorbell::Ring)?;
    near.send(None, Doorbell::Ring)?;
    connection.arrived(4)?;
    Ok(none && woken && near.was_woken(1)?)
}

pub(super) fn caller_without_credits_is_woken() -> Result<bool> {
    let connection = Connection::new(&parameters(1, 1))?;
    let near = &connection.near;
    let total = near.queue.spares().credits.total();
    let reserved = near.reserve(total).ok_or(ENOMEM)?;
    near.send(None, Doorbell::Ring)?;
    let nobody_waited = near.was_woken(0)?;
    let full = near.reserve(1).is_none();
    near.send(None, Doorbell::Ring)?;
    let woken = near.was_woken(1)?;
    drop(reserved);
    Ok(nobody_waited && full && woken)
}

pub(super) fn buffers_are_made_up_to_the_limit() -> Result<bool> {
    let near = Side::alone(&parameters(3, 1))?;
    let first = near.queue.make_send_buffer().ok_or(ENOMEM)?;
    let only_one = near.queue.take_send_buffer().is_none();
    let mut second = near.queue.make_send_buffer().ok_or(ENOMEM)?;
    let len = second.bytes_mut().len();
    // A free buffer is preferred to a new one.
    near.queue.put_back_send_buffer(first);
    let mut taken = Buffers::new();
    taken.push(second);
    while let Some(buffer) = near.queue.make_send_buffer() {
        taken.push(buffer);
        if taken.len() > 3 {
            return Ok(false);
        }
    }
    Ok(only_one && len == BUFFER_BYTES && taken.len() == 3)
}

pub(super) fn buffer_that_was_not_made_may_be_made_later() -> Result<bool> {
    let mut buffers = SendBuffers::<End>::new(1, 0, LEN, 1);
    let once = buffers.begin_allocation() == Some(LEN) && buffers.begin_allocation().is_none();
    buffers.allocation_failed();
    // Until then the next Send must ask for a completion.
    let short = buffers.needs_completion(1);
    Ok(once && short && buffers.begin_allocation() == Some(LEN))
}

pub(super) fn barrier_brings_the_buffer_that_cannot_be_made() -> Result<bool> {
    let connection = Connection::new(&parameters(2, 1))?;
    let near = &connection.near;
    // Another buffer may be allocated, so this one asks for no completion.
    near.send(None, Doorbell::Ring)?;
    connection.arrived(1)?;
    let may_be_made = !near.queue.lacks_send_buffers();
    let begun = near.queue.spares().with_buffers(|buffers| {
        let begun = buffers.begin_allocation().is_some();
        buffers.allocation_failed();
        begun
    });
    let lacks = near.queue.lacks_send_buffers();
    fsleep(A_WHILE);
    let stays = !near.has_buffer();
    near.queue.post_barrier()?;
    wait(|| near.has_buffer().then_some(()))?;
    Ok(may_be_made && begun && lacks && stays && !near.queue.lacks_send_buffers())
}

pub(super) fn completions_are_asked_for_if_there_are_enough_buffers() -> Result<bool> {
    let mut buffers = SendBuffers::<End>::new(3, 1, LEN, 1);
    let few = !buffers.needs_completion(1);
    let made = buffers.begin_allocation() == Some(LEN);
    let enough = buffers.needs_completion(1) && !buffers.needs_completion(2);
    let last = buffers.begin_allocation() == Some(LEN);
    Ok(few && made && enough && last && buffers.needs_completion(3))
}

pub(super) fn buffers_are_given_up() -> Result<bool> {
    let near = Side::alone(&parameters(3, 3))?;
    let free = || near.free_buffers();
    let used = near.queue.take_send_buffer().ok_or(ENOMEM)?;
    near.queue.free_spares(1);
    let one_left = free() == 1;
    near.queue.put_back_send_buffer(used);
    let two_left = free() == 2;
    near.queue.free_spares(2);
    let kept = free() == 2;
    let mut taken = Buffers::new();
    while let Some(buffer) = near.queue.make_send_buffer() {
        taken.push(buffer);
        if taken.len() > 3 {
            return Ok(false);
        }
    }
    Ok(one_left && two_left && kept && taken.len() == 3)
}

pub(super) fn registrations_wait_for_room() -> Result<bool> {
    // There is room for two registrations.
    let connection = Connection::new(&parameters(8, 8))?;
    let near = &connection.near;
    let page = Page::new(GFP_KERNEL)?;
    let room = near.queue.has_room_for(2);
    // There is room for another one, so nobody asks for a completion.
    near.send_registration(&page)?;
    connection.arrived(1)?;
    let full = !near.queue.has_room_for(2) && near.queue.has_room_for(1);
    let not_yet = near.was_woken(0)?;
    near.send_registration(&page)?;
    connection.arrived(2)?;
    let woken = near.was_woken(1)?;
    let room_again = near.queue.has_room_for(2);
    near.send_registration(&page)?;
    near.send_registration(&page)?;
    connection.arrived(4)?;
    Ok(room && full && not_yet && woken && room_again && near.was_woken(1)?)
}

pub(super) fn spare_buffers_leave_an_interval() -> Result<bool> {
    let near = Side::alone(&Parameters {
        reserved_send_buffers: 16,
        ..parameters(17, 17)
    })?;
    let spare = near.queue.take_spare_send_buffer();
    let no_more = near.queue.take_spare_send_buffer().is_none();
    let others = (0..16).all(|_| near.queue.take_send_buffer().is_some());
    Ok(spare.is_some() && no_more && others && !near.has_buffer())
}

pub(super) fn transfer_that_is_over_is_used_again() -> Result<bool> {
    let connection = Connection::new(&parameters(1, 1))?;
    let near = &connection.near;
    let page = Page::new(GFP_KERNEL)?;
    let none_yet = near.take_spare().is_none();
    near.send(Some(near.gather(&page)?), Doorbell::Ring)?;
    let spare = wait(|| near.take_spare())?;
    let released = page.is_unique();
    let kept = near.keeps(spare);
    let gathered = near.gather(&page)?;
    let used = near.take_spare().is_none();
    drop(gathered);
    Ok(none_yet && released && kept && used)
}

pub(super) fn gathered_data_leaves_long_transfers() -> Result<bool> {
    let connection = Connection::new(&parameters(1, 1))?;
    let near = &connection.near;
    // On iWARP the memory of a Read is registered, and this is more than regions cover.
    if near.queue.id().is_iwarp() {
        return Err(eopnotsupp());
    }
    let page = Page::new(GFP_KERNEL)?;
    near.fail_reads(100)?;
    let gathered = near.gather(&page)?;
    let long = near.take_spare().ok_or(ENOENT)?.footprint();
    drop(gathered);
    Ok(long > 1_024)
}

pub(super) fn transfers_are_kept_up_to_a_limit() -> Result<bool> {
    let connection = Connection::new(&parameters(1, 1))?;
    let near = &connection.near;
    // On iWARP the memory of a Read is registered, and this is more than regions cover.
    if near.queue.id().is_iwarp() {
        return Err(eopnotsupp());
    }
    near.fail_reads(1)?;
    let mut short = near.take_spare().ok_or(ENOENT)?;
    // A transfer counts only as long as it is kept.
    for _ in 0..1_000 {
        if !near.keeps(short) {
            return Ok(false);
        }
        short = near.take_spare().ok_or(ENOENT)?;
    }
    near.fail_reads(4_000)?;
    Ok(near.take_spare().is_none() && near.keeps(short))
}

pub(super) fn deferred_send_goes_with_the_next() -> Result<bool> {
    let connection = Connection::new(&parameters(4, 4))?;
    let near = &connection.near;
    near.send(None, Doorbell::Defer)?;
    fsleep(A_WHILE);
    let waited = connection.far.end.get(|seen| seen.received) == 0;
    near.send(None, Doorbell::Ring)?;
    connection.arrived(2)?;
    near.send(None, Doorbell::Defer)?;
    near.queue.ring()?;
    connection.arrived(3)?;
    Ok(waited)
}

pub(super) fn send_that_asks_for_a_completion_is_not_deferred() -> Result<bool> {
    let connection = Connection::new(&parameters(1, 1))?;
    connection.near.send(None, Doorbell::Defer)?;
    connection.arrived(1)?;
    Ok(true)
}

pub(super) fn barrier_covers_earlier_sends() -> Result<bool> {
    let connection = Connection::new(&parameters(4, 4))?;
    let near = &connection.near;
    let page = Page::new(GFP_KERNEL)?;
    let nothing = near.queue.oldest_posted().is_none();
    // There is no Send to wait for yet.
    near.queue.post_barrier()?;
    near.send(Some(near.gather(&page)?), Doorbell::Ring)?;
    near.send(None, Doorbell::Ring)?;
    connection.arrived(2)?;
    fsleep(A_WHILE);
    let age = near.queue.oldest_posted();
    let aged = age.is_some_and(|age| age >= msecs_to_jiffies(100));
    let kept = !page.is_unique();
    near.queue.post_barrier()?;
    wait(|| near.queue.oldest_posted().is_none().then_some(()))?;
    let released = page.is_unique();
    // Another one can follow, and neither arrives as a message.
    near.send(None, Doorbell::Ring)?;
    near.queue.post_barrier()?;
    wait(|| near.queue.oldest_posted().is_none().then_some(()))?;
    let received = connection.far.end.get(|seen| seen.received);
    Ok(nothing && aged && kept && released && received == 3)
}

pub(super) fn deferred_send_ends_with_a_drain() -> Result<bool> {
    let connection = Connection::new(&parameters(4, 4))?;
    let near = &connection.near;
    let page = Page::new(GFP_KERNEL)?;
    near.send(Some(near.gather(&page)?), Doorbell::Defer)?;
    // If it were sent now, it would arrive before the drain.
    fsleep(A_WHILE);
    let kept = !page.is_unique();
    near.queue.drain();
    let released = page.is_unique();
    // No doorbell is pending any more, and no other Send is possible.
    near.queue.ring()?;
    let ended = near.send(None, Doorbell::Ring).is_err();
    fsleep(A_WHILE);
    let never_sent = connection.far.end.get(|seen| seen.received) == 0;
    Ok(kept && released && ended && never_sent)
}
