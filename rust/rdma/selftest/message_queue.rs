// SPDX-License-Identifier: GPL-2.0

//! Tests of the queue of messages, which links their buffers.

use super::{
    fixture::{
        Fixture,
        PORT, //
    },
    handler::TestHandler, //
};
use crate::prelude::*;
use crate::receive::{
    Message,
    MessageQueue, //
};

/// Returns the length of the message that is taken.
fn pop(queue: &mut MessageQueue<TestHandler>) -> Option<usize> {
    queue.pop_front().map(|message| message.bytes().len())
}

pub(super) fn messages_come_in_order() -> Result<bool> {
    let fixture = Fixture::alone(PORT)?;
    let message = |len| Message::of_len(fixture.queue.pd(), len);
    let mut queue = MessageQueue::new();
    for len in 1..4 {
        queue.push_back(message(len)?);
    }
    let first = pop(&mut queue) == Some(1);
    queue.push_back(message(4)?);
    queue.push_back(message(5)?);
    queue.push_front(message(1)?);
    let all = (1..6).all(|len| pop(&mut queue) == Some(len));
    let empty = queue.is_empty() && pop(&mut queue).is_none();
    queue.push_front(message(6)?);
    queue.push_back(message(7)?);
    let last = pop(&mut queue) == Some(6) && !queue.is_empty() && pop(&mut queue) == Some(7);
    Ok(first && all && empty && last && queue.is_empty())
}
