// SPDX-License-Identifier: GPL-2.0

//! The queues of a Responder's connection: which element comes out of which, and when.

use proto::waiting::Attempt;
use proto::work_queue::{Queues, Waiter, Work, WorkQueue};

use crate::common::line::Line;

/// Elements that have the type of their queue, and a number.
struct Message(u32);
struct Read(u32);
struct ToRead(u32);
struct Reply(u32);

struct Numbered;

impl Queues for Numbered {
    type Received = Line<Message>;
    type ReadDone = Line<Read>;
    type Reads = Line<ToRead>;
    type Sends = Line<Reply>;
}

type Queue = WorkQueue<Numbered>;

/// Returns what a thread takes: where from, and its number.
fn take(queue: &mut Queue) -> Option<(&'static str, u32)> {
    let was_empty = queue.is_empty();
    let work = queue.pop();
    assert_eq!(was_empty, work.is_none());
    work.map(|work| match work {
        Work::Received(Message(number)) => ("received", number),
        Work::ReadDone(Read(number)) => ("read", number),
        Work::Reads(ToRead(number)) => ("reads", number),
    })
}

/// Returns what is served when the Send queue has space.
fn serve(queue: &mut Queue) -> Option<(&'static str, u32)> {
    queue.pop_waiter().map(|waiter| match waiter {
        Waiter::Reads(ToRead(number)) => ("reads", number),
        Waiter::Send(Reply(number)) => ("send", number),
    })
}

const FULL: Attempt<bool> = Attempt::New(false);
const AGAIN: Attempt<bool> = Attempt::Requeued(false);

#[test]
fn each_queue_gives_its_own_elements_in_order() {
    let mut queue = Queue::EMPTY;
    for number in 0..3 {
        queue.push_received(Message(number));
        queue.push_read_done(Read(10 + number));
        queue.push_ready(ToRead(20 + number));
        queue.wait_for_pages(ToRead(30 + number), FULL);
    }
    queue.pages_freed();
    let taken: Vec<_> = std::iter::from_fn(|| take(&mut queue)).collect();
    let expected = [("read", 10), ("reads", 20), ("reads", 30), ("received", 0)]
        .map(|(from, first)| (0..3).map(move |number| (from, first + number)));
    assert_eq!(taken, Vec::from_iter(expected.into_iter().flatten()));
}

#[test]
fn one_that_is_tried_again_keeps_its_place() {
    let mut queue = Queue::EMPTY;
    for number in 0..3 {
        queue.wait_for_credits(Waiter::Send(Reply(number)), FULL);
        queue.wait_for_pages(ToRead(number), FULL);
    }
    for _ in 0..2 {
        queue.space_freed();
        assert_eq!(serve(&mut queue), Some(("send", 0)));
        queue.wait_for_credits(Waiter::Send(Reply(0)), AGAIN);
        assert_eq!(serve(&mut queue), None);
        queue.pages_freed();
        assert_eq!(take(&mut queue), Some(("reads", 0)));
        queue.wait_for_pages(ToRead(0), AGAIN);
        assert_eq!(take(&mut queue), None);
    }
    queue.space_freed();
    queue.pages_freed();
    for number in 0..3 {
        assert_eq!(serve(&mut queue), Some(("send", number)));
        assert_eq!(take(&mut queue), Some(("reads", number)));
    }
    assert_eq!(queue.waiter_counts(), [0; 3]);
}

#[test]
fn waiters_for_credits_go_before_those_for_buffers() {
    let mut queue = Queue::EMPTY;
    queue.wait_for_buffer(Reply(1), FULL);
    queue.wait_for_buffer(Reply(2), FULL);
    queue.wait_for_credits(Waiter::Send(Reply(3)), FULL);
    queue.wait_for_credits(Waiter::Reads(ToRead(4)), FULL);
    assert_eq!(queue.waiter_counts(), [2, 2, 0]);
    assert_eq!(serve(&mut queue), None);
    queue.space_freed();
    assert_eq!(serve(&mut queue), Some(("reads", 4)));
    queue.end_reads();
    assert_eq!(serve(&mut queue), Some(("send", 3)));
    assert_eq!(serve(&mut queue), Some(("send", 1)));
    assert_eq!(serve(&mut queue), Some(("send", 2)));
    assert_eq!(serve(&mut queue), None);
}

#[test]
fn no_call_is_taken_while_many_sends_wait() {
    let mut queue = Queue::EMPTY;
    queue.push_received(Message(1));
    queue.push_read_done(Read(2));
    queue.wait_for_pages(ToRead(3), Attempt::NotTried);
    for number in 0..2 {
        queue.wait_for_buffer(Reply(number), FULL);
        queue.wait_for_credits(Waiter::Send(Reply(2 + number)), FULL);
    }
    // Reads need no reply yet.
    assert_eq!(take(&mut queue), Some(("reads", 3)));
    assert_eq!(take(&mut queue), None);
    queue.space_freed();
    assert_eq!(serve(&mut queue), Some(("send", 2)));
    assert_eq!(take(&mut queue), Some(("read", 2)));
    assert_eq!(take(&mut queue), Some(("received", 1)));
}
