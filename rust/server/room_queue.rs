// SPDX-License-Identifier: GPL-2.0

//! A line of what waits for room.

use super::fifo::Fifo;
use kernel::{
    alloc::Flags,
    prelude::*, //
};

/// How an element came to wait. If it was tried, `T` says whether there may be room since, or from which number that can be told.
#[derive(Clone, Copy)]
pub(super) enum Attempt<T> {
    /// It was not tried, as others wait.
    None,
    /// It was tried for the first time, and goes behind the others.
    First(T),
    /// It was the first that waited here, and goes before the others again.
    Again(T),
}

impl<T> Attempt<T> {
    /// With what `f` makes of the number.
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::None => Attempt::None,
            Self::First(number) => Attempt::First(f(number)),
            Self::Again(number) => Attempt::Again(f(number)),
        }
    }
}

/// Elements that wait for the same kind of room, and whether there may be some.
///
/// Whoever tries to post an element and finds no room is told when there may be some ([`rdma::Handler::send_resumed`],
/// [`CallsRead::end`](super::read_budget::CallsRead::end)). Nobody is told on behalf of an element that was not tried: if none is
/// before it, there may be room for it.
pub(super) struct RoomQueue<W> {
    waiting: Fifo<W>,
    /// Whether there may be room for the first.
    room: bool,
}

impl<W> RoomQueue<W> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        waiting: Fifo::EMPTY,
        room: false,
    };

    /// An empty queue for `count` elements. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            waiting: Fifo::with_capacity(count, flags)?,
            ..Self::EMPTY
        })
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// If `other` has more entries, moves all elements there, and exchanges the two.
    pub(super) fn move_to(&mut self, other: &mut Self) {
        self.waiting.move_to(&mut other.waiting);
    }

    /// If `other` has fewer entries, but enough, moves all elements there, and exchanges the two.
    pub(super) fn shrink_to(&mut self, other: &mut Self) {
        self.waiting.shrink_to(&mut other.waiting);
    }

    /// Adds `waiting`, which found no room or was not tried. It comes back if no entry is free.
    pub(super) fn push(&mut self, waiting: W, attempt: Attempt<bool>) -> Result<(), W> {
        match attempt {
            Attempt::Again(_) => self.waiting.push_first(waiting)?,
            Attempt::None | Attempt::First(_) => self.waiting.push(waiting)?,
        }
        let is_only = self.len() == 1;
        self.room = match attempt {
            Attempt::None => self.room || is_only,
            // What the others wait for may have come with it.
            Attempt::First(true) => true,
            Attempt::First(false) => self.room && !is_only,
            Attempt::Again(room) => room,
        };
        Ok(())
    }

    /// Something was given back.
    pub(super) fn set_room(&mut self) {
        self.room = true;
    }

    /// The first element, if there may be room for it.
    pub(super) fn next(&self) -> Option<&W> {
        self.waiting.first().filter(|_| self.room)
    }

    /// Takes the first element, if there may be room for it.
    pub(super) fn pop(&mut self) -> Option<W> {
        match self.room {
            true => self.waiting.pop(),
            false => None,
        }
    }
}
