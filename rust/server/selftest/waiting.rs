// SPDX-License-Identifier: GPL-2.0

//! Tests of the queues of waiting work, and of the budget for pages.

use super::super::{
    connection::ServerConn,
    rdma_read::ReadPermit,
    waiting::{
        Attempt,
        Fifo,
        SqCreditQueue,
        SqWaiter,
        WaitQueue, //
    }, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use sunrpc::selftest::empty_weak;

/// More pages than the sysctl can allow.
const TOO_MANY: usize = 1 << 25;

pub(super) fn elements_come_in_order() -> Result<bool> {
    let mut fifo = Fifo::with_capacity(3, GFP_KERNEL)?;
    let pushed = (0..3).all(|element| fifo.push(element).is_ok());
    let popped = fifo.pop() == Some(0) && fifo.push(3).is_ok();
    let mut longer = Fifo::with_capacity(5, GFP_KERNEL)?;
    fifo.grow_into(&mut longer);
    let moved = longer.len() == 0 && fifo.len() == 3 && fifo.first() == Some(&1);
    let more = fifo.push(4).is_ok() && fifo.push_first(0).is_ok();
    let all = (0..5).all(|element| fifo.pop() == Some(element)) && fifo.pop().is_none();
    Ok(pushed && popped && moved && more && all)
}

pub(super) fn queue_shrinks_to_what_it_holds() -> Result<bool> {
    let mut fifo = Fifo::with_capacity(5, GFP_KERNEL)?;
    let pushed = (0..5).all(|element| fifo.push(element).is_ok());
    let popped = (0..3).all(|element| fifo.pop() == Some(element)) && fifo.push(5).is_ok();
    let mut shorter = Fifo::with_capacity(2, GFP_KERNEL)?;
    fifo.shrink_into(&mut shorter);
    let stays = fifo.capacity() == 5 && fifo.len() == 3;
    let mut shorter = Fifo::with_capacity(3, GFP_KERNEL)?;
    fifo.shrink_into(&mut shorter);
    let shrinks = fifo.capacity() == 3 && fifo.push(6) == Err(6) && shorter.len() == 0;
    let mut longer = Fifo::with_capacity(4, GFP_KERNEL)?;
    fifo.shrink_into(&mut longer);
    let not_longer = fifo.capacity() == 3;
    let all = (3..6).all(|element| fifo.pop() == Some(element)) && fifo.pop().is_none();
    Ok(pushed && popped && stays && shrinks && not_longer && all)
}

pub(super) fn full_queue_returns_elements() -> Result<bool> {
    let mut fifo = Fifo::with_capacity(1, GFP_KERNEL)?;
    let full = fifo.push(1).is_ok() && fifo.push(2) == Err(2) && fifo.push_first(3) == Err(3);
    let mut none = Fifo::EMPTY;
    Ok(full && fifo.pop() == Some(1) && none.push(1) == Err(1) && none.push_first(1) == Err(1))
}

/// An attempt that found no space.
const FULL: Attempt<bool> = Attempt::New(false);

/// Creates a queue for a few elements.
fn queue() -> Result<WaitQueue<u32>> {
    WaitQueue::with_capacity(4, GFP_KERNEL)
}

pub(super) fn tried_waits_for_room() -> Result<bool> {
    let mut queue = queue()?;
    let pushed = queue.push(1, FULL).is_ok();
    let waits = queue.next().is_none() && queue.pop().is_none();
    queue.space_freed();
    Ok(pushed && waits && queue.pop() == Some(1))
}

pub(super) fn untried_does_not_wait_alone() -> Result<bool> {
    let mut queue = queue()?;
    let pushed = queue.push(1, Attempt::NotTried).is_ok();
    Ok(pushed && queue.pop() == Some(1))
}

pub(super) fn untried_waits_behind_others() -> Result<bool> {
    let mut queue = queue()?;
    let pushed = queue.push(1, FULL).is_ok() && queue.push(2, Attempt::NotTried).is_ok();
    let waits = queue.next().is_none();
    queue.space_freed();
    let first = queue.pop() == Some(1);
    Ok(pushed && waits && first && queue.pop() == Some(2))
}

pub(super) fn failure_of_another_leaves_room_for_the_first() -> Result<bool> {
    let mut queue = queue()?;
    let pushed = queue.push(1, Attempt::NotTried).is_ok() && queue.push(2, FULL).is_ok();
    Ok(pushed && queue.pop() == Some(1))
}

pub(super) fn room_since_another_attempt_counts() -> Result<bool> {
    let mut queue = queue()?;
    let pushed = queue.push(1, Attempt::NotTried).is_ok() && queue.pop() == Some(1);
    let again = queue.push(1, Attempt::Requeued(true)).is_ok();
    Ok(pushed && again && queue.pop() == Some(1))
}

pub(super) fn late_room_is_for_all() -> Result<bool> {
    let mut queue = queue()?;
    let pushed = queue.push(1, FULL).is_ok() && queue.push(2, Attempt::New(true)).is_ok();
    Ok(pushed && queue.pop() == Some(1) && queue.pop() == Some(2))
}

pub(super) fn tried_again_stays_first() -> Result<bool> {
    let mut queue = queue()?;
    let pushed =
        queue.push(1, Attempt::NotTried).is_ok() && queue.push(2, Attempt::NotTried).is_ok();
    let first = queue.pop() == Some(1) && queue.push(1, Attempt::Requeued(false)).is_ok();
    let waits = queue.next().is_none() && queue.len() == 2;
    queue.space_freed();
    let all = queue.pop() == Some(1) && queue.pop() == Some(2);
    Ok(pushed && first && waits && all)
}

type Line = SqCreditQueue<u32, u32>;

/// Creates a queue of the Sends 1 and 2 and the RDMA Reads 11 and 12, none of which was tried.
fn line() -> Result<Line> {
    let mut line = Line::with_capacity(4, GFP_KERNEL)?;
    let all = [
        SqWaiter::Send(1),
        SqWaiter::Send(2),
        SqWaiter::Reads(11),
        SqWaiter::Reads(12),
    ];
    for waiting in all {
        line.push(waiting, Attempt::NotTried).map_err(|_| ENOMEM)?;
    }
    Ok(line)
}

/// Returns whether the Send `number` is the next.
fn sends(line: &mut Line, number: u32) -> bool {
    matches!(line.pop(), Some(SqWaiter::Send(next)) if next == number)
}

/// Returns whether the RDMA Reads `number` are the next.
fn reads(line: &mut Line, number: u32) -> bool {
    matches!(line.pop(), Some(SqWaiter::Reads(next)) if next == number)
}

/// Gives the RDMA Reads that were taken their credits, and posts them.
fn post_reads(line: &mut Line) {
    line.note_ready_reads();
    line.end_reads();
}

pub(super) fn sends_and_reads_take_turns() -> Result<bool> {
    let mut line = line()?;
    let first = reads(&mut line, 11);
    post_reads(&mut line);
    let second = sends(&mut line, 1) && reads(&mut line, 12);
    post_reads(&mut line);
    Ok(first && second && sends(&mut line, 2) && line.len() == 0)
}

pub(super) fn ready_reads_let_sends_pass() -> Result<bool> {
    let mut line = line()?;
    // Two contexts serve the queue. The other one comes before the Reads have their credits, which
    // it must not take, and again after that.
    let first = reads(&mut line, 11) && line.pop().is_none();
    line.note_ready_reads();
    let second = sends(&mut line, 1) && sends(&mut line, 2) && line.pop().is_none();
    line.end_reads();
    Ok(first && second && reads(&mut line, 12))
}

pub(super) fn reads_keep_their_turn() -> Result<bool> {
    let mut line = line()?;
    let first = reads(&mut line, 11);
    let again = line
        .push(SqWaiter::Reads(11), Attempt::Requeued(false))
        .is_ok();
    line.end_reads();
    let waits = line.pop().is_none();
    line.space_freed();
    Ok(first && again && waits && reads(&mut line, 11))
}

pub(super) fn send_keeps_its_turn() -> Result<bool> {
    let mut line = line()?;
    let first = reads(&mut line, 11);
    post_reads(&mut line);
    let second = sends(&mut line, 1);
    let again = line
        .push(SqWaiter::Send(1), Attempt::Requeued(false))
        .is_ok();
    let waits = line.pop().is_none();
    line.space_freed();
    Ok(first && second && again && waits && sends(&mut line, 1) && reads(&mut line, 12))
}

/// Returns a connection that reads no call.
fn connection() -> Result<Arc<ServerConn>> {
    ServerConn::new(empty_weak()?, &[], 1)
}

pub(super) fn one_call_is_always_read() -> Result<bool> {
    let (one, other) = (connection()?, connection()?);
    let first = ReadPermit::new(&one, TOO_MANY);
    let second = ReadPermit::new(&one, 1);
    let theirs = ReadPermit::new(&other, 1);
    Ok(first.is_some() && second.is_none() && theirs.is_some())
}

pub(super) fn call_that_is_not_read_lets_another() -> Result<bool> {
    let calls = connection()?;
    let first = ReadPermit::new(&calls, 1).ok_or(EBUSY)?;
    let waits = ReadPermit::new(&calls, TOO_MANY).is_none();
    first.cancel();
    let not_woken = calls.pages_seq() == 0;
    Ok(waits && not_woken && ReadPermit::new(&calls, TOO_MANY).is_some())
}

pub(super) fn end_of_a_call_wakes_once() -> Result<bool> {
    let calls = connection()?;
    let first = ReadPermit::new(&calls, 1).ok_or(EBUSY)?;
    let second = ReadPermit::new(&calls, 1).ok_or(EBUSY)?;
    let waits = ReadPermit::new(&calls, TOO_MANY).is_none() && calls.pages_seq() == 0;
    drop(first);
    let woken = calls.pages_seq() == 1;
    drop(second);
    let once = calls.pages_seq() == 1;
    drop(ReadPermit::new(&calls, TOO_MANY).ok_or(EBUSY)?);
    Ok(waits && woken && once && calls.pages_seq() == 1)
}
