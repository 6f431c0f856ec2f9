// SPDX-License-Identifier: GPL-2.0

//! Tests of the queue that links the boxes of its elements.

use crate::chain::{
    ChainNode,
    Queue, //
};
use kernel::prelude::*;

/// A numbered element.
struct Numbered {
    next: Option<KBox<Self>>,
    number: u32,
}

impl ChainNode for Numbered {
    fn next(&mut self) -> &mut Option<KBox<Self>> {
        &mut self.next
    }

    fn peek_next(&self) -> Option<&Self> {
        self.next.as_deref()
    }
}

fn element(number: u32) -> Result<KBox<Numbered>> {
    Ok(KBox::new(Numbered { next: None, number }, GFP_KERNEL)?)
}

/// Returns the number of the element that is taken.
fn pop(queue: &mut Queue<Numbered>) -> Option<u32> {
    queue.pop_front().map(|element| element.number)
}

pub(super) fn messages_come_in_order() -> Result<bool> {
    let mut queue = Queue::new();
    for number in 0..3 {
        queue.push_back(element(number)?);
    }
    let first = pop(&mut queue) == Some(0);
    queue.push_back(element(3)?);
    queue.push_back(element(4)?);
    queue.push_front(element(0)?);
    let all = (0..5).all(|number| pop(&mut queue) == Some(number));
    let empty = queue.is_empty() && pop(&mut queue).is_none();
    queue.push_front(element(5)?);
    queue.push_back(element(6)?);
    let last = pop(&mut queue) == Some(5) && !queue.is_empty() && pop(&mut queue) == Some(6);
    Ok(first && all && empty && last && queue.is_empty())
}
