// SPDX-License-Identifier: GPL-2.0

//! A queue of elements that wait for the same resource.

use super::fifo::Fifo;
use kernel::{
    alloc::Flags,
    prelude::*, //
};

/// The reason why an element is queued. `T` is the event counter read before the failed attempt, or
/// whether it has changed since.
#[derive(Clone, Copy)]
pub(super) enum Attempt<T> {
    /// It was not tried, because others wait.
    None,
    /// It was tried for the first time, and goes to the end.
    First(T),
    /// It was the first waiter, was tried, and goes to the front again.
    Again(T),
}

impl<T> Attempt<T> {
    /// Applies `f` to the counter.
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::None => Attempt::None,
            Self::First(number) => Attempt::First(f(number)),
            Self::Again(number) => Attempt::Again(f(number)),
        }
    }
}

/// A queue of elements that wait for the same resource, with one wakeup bit.
///
/// A failed attempt to post an element arranges for a wakeup ([`rdma::Handler::send_resumed`],
/// [`CallsRead::end`](super::read_budget::CallsRead::end)). An element that was queued untried gets
/// no wakeup of its own: if it is first, there may be space for it.
pub(super) struct RoomQueue<W> {
    waiting: Fifo<W>,
    /// Whether there may be space for the first element.
    room: bool,
}

impl<W> RoomQueue<W> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        waiting: Fifo::EMPTY,
        room: false,
    };

    /// Creates an empty queue for `count` elements. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            waiting: Fifo::with_capacity(count, flags)?,
            ..Self::EMPTY
        })
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Moves all elements to `other` and swaps the two, if `other` has more entries.
    pub(super) fn move_to(&mut self, other: &mut Self) {
        self.waiting.move_to(&mut other.waiting);
    }

    /// Moves all elements to `other` and swaps the two, if `other` has fewer entries, but enough.
    pub(super) fn shrink_to(&mut self, other: &mut Self) {
        self.waiting.shrink_to(&mut other.waiting);
    }

    /// Adds `waiting`, which found no space or was not tried. Returns it if no entry is free.
    pub(super) fn push(&mut self, waiting: W, attempt: Attempt<bool>) -> Result<(), W> {
        match attempt {
            Attempt::Again(_) => self.waiting.push_first(waiting)?,
            Attempt::None | Attempt::First(_) => self.waiting.push(waiting)?,
        }
        let is_only = self.len() == 1;
        self.room = match attempt {
            Attempt::None => self.room || is_only,
            // The space may suffice for the others, too.
            Attempt::First(true) => true,
            Attempt::First(false) => self.room && !is_only,
            Attempt::Again(room) => room,
        };
        Ok(())
    }

    /// Notes that space was freed.
    pub(super) fn set_room(&mut self) {
        self.room = true;
    }

    /// Returns the first element, if there may be space for it.
    pub(super) fn next(&self) -> Option<&W> {
        self.waiting.first().filter(|_| self.room)
    }

    /// Takes the first element, if there may be space for it.
    pub(super) fn pop(&mut self) -> Option<W> {
        match self.room {
            true => self.waiting.pop(),
            false => None,
        }
    }
}
