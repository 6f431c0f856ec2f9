// SPDX-License-Identifier: GPL-2.0

//! Singly linked chains of boxes, for buffers and regions that are pooled and posted, and queues of
//! them.
//!
//! Buffers and regions are allocated when a connection is created and only change owners
//! afterwards: from a pool into a work request, to the device, back to the pool. A chain moves any
//! number of them without allocating.

use crate::prelude::*;

/// A type whose boxes can be in a [`Chain`].
pub(crate) trait ChainNode: Sized {
    /// Returns the link to the rest of the chain. [`None`] unless `self` is in one.
    fn next(&mut self) -> &mut Option<KBox<Self>>;

    /// Returns the rest of the chain.
    fn peek_next(&self) -> Option<&Self>;
}

/// A stack of boxes.
pub(crate) struct Chain<T: ChainNode> {
    head: Option<KBox<T>>,
    len: usize,
}

impl<T: ChainNode> Chain<T> {
    pub(crate) const fn new() -> Self {
        Self { head: None, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    pub(crate) fn push(&mut self, mut item: KBox<T>) {
        *item.next() = self.head.take();
        self.head = Some(item);
        self.len = self.len.wrapping_add(1);
    }

    pub(crate) fn pop(&mut self) -> Option<KBox<T>> {
        let mut item = self.head.take()?;
        self.head = item.next().take();
        self.len = self.len.wrapping_sub(1);
        Some(item)
    }

    /// Moves all items of `other` here.
    pub(crate) fn append(&mut self, other: &mut Self) {
        while let Some(item) = other.pop() {
            self.push(item);
        }
    }

    /// Takes the first item that `matches`.
    pub(crate) fn remove_first(&mut self, matches: impl Fn(&T) -> bool) -> Option<KBox<T>> {
        let mut passed = Self::new();
        let mut found = None;
        while let Some(item) = self.pop() {
            if matches(&item) {
                found = Some(item);
                break;
            }
            passed.push(item);
        }
        self.append(&mut passed);
        found
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        core::iter::successors(self.head.as_deref(), |item| item.peek_next())
    }

    pub(crate) fn first_mut(&mut self) -> Option<&mut T> {
        self.head.as_deref_mut()
    }
}

impl<T: ChainNode> Drop for Chain<T> {
    /// Drops one box at a time: the boxes' own drops would recurse along the chain.
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

/// A FIFO of boxes: two stacks, of which the second is turned over when the first is empty. So each
/// box moves twice, and the queue needs no pointer to its end. Turning over takes as long as there
/// are boxes in the second: with no more Receives than `max_requests`, 128 by default, that is
/// short.
pub(crate) struct Queue<T: ChainNode> {
    front: Chain<T>,
    back: Chain<T>,
}

impl<T: ChainNode> Queue<T> {
    pub(crate) const fn new() -> Self {
        Self {
            front: Chain::new(),
            back: Chain::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.front.is_empty() && self.back.is_empty()
    }

    pub(crate) fn push_back(&mut self, item: KBox<T>) {
        self.back.push(item);
    }

    pub(crate) fn push_front(&mut self, item: KBox<T>) {
        self.front.push(item);
    }

    pub(crate) fn pop_front(&mut self) -> Option<KBox<T>> {
        if self.front.is_empty() {
            // This turns them over.
            self.front.append(&mut self.back);
        }
        self.front.pop()
    }
}
