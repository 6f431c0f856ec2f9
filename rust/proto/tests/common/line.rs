// SPDX-License-Identifier: GPL-2.0

//! A FIFO for the queues of a Responder.

use std::collections::VecDeque;

use proto::work_queue::Fifo;

/// A FIFO of elements.
pub struct Line<T>(VecDeque<T>);

impl<T> Fifo for Line<T> {
    type Element = T;

    const EMPTY: Self = Self(VecDeque::new());

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push_back(&mut self, element: T) {
        self.0.push_back(element);
    }

    fn push_front(&mut self, element: T) {
        self.0.push_front(element);
    }

    fn pop_front(&mut self) -> Option<T> {
        self.0.pop_front()
    }
}
