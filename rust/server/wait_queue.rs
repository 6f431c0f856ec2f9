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
    NotTried,
    /// It was tried for the first time, and goes to the end.
    New(T),
    /// It was the first waiter, was tried, and goes to the front again.
    Requeued(T),
}

impl<T> Attempt<T> {
    /// Applies `f` to the counter.
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Self::NotTried => Attempt::NotTried,
            Self::New(number) => Attempt::New(f(number)),
            Self::Requeued(number) => Attempt::Requeued(f(number)),
        }
    }
}

/// A queue of elements that wait for the same resource, with one wakeup bit.
///
/// A failed attempt to post an element arranges for a wakeup ([`rdma::Handler::send_space_freed`],
/// [`ReadBudget::end`](super::read_budget::ReadBudget::end)). An element that was queued untried
/// gets no wakeup of its own: if it is first, there may be space for it.
pub(super) struct WaitQueue<W> {
    waiting: Fifo<W>,
    /// Whether there may be space for the first element.
    may_fit: bool,
}

impl<W> WaitQueue<W> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        waiting: Fifo::EMPTY,
        may_fit: false,
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
    pub(super) fn grow_into(&mut self, other: &mut Self) {
        self.waiting.grow_into(&mut other.waiting);
    }

    /// Moves all elements to `other` and swaps the two, if `other` has fewer entries, but enough.
    pub(super) fn shrink_into(&mut self, other: &mut Self) {
        self.waiting.shrink_into(&mut other.waiting);
    }

    /// Adds `waiting`, which found no space or was not tried. Returns it if no entry is free.
    pub(super) fn push(&mut self, waiting: W, attempt: Attempt<bool>) -> Result<(), W> {
        match attempt {
            Attempt::Requeued(_) => self.waiting.push_first(waiting)?,
            Attempt::NotTried | Attempt::New(_) => self.waiting.push(waiting)?,
        }
        let is_only = self.len() == 1;
        self.may_fit = match attempt {
            Attempt::NotTried => self.may_fit || is_only,
            // The space may suffice for the others, too.
            Attempt::New(true) => true,
            Attempt::New(false) => self.may_fit && !is_only,
            Attempt::Requeued(may_fit) => may_fit,
        };
        Ok(())
    }

    /// Notes that space was freed.
    pub(super) fn space_freed(&mut self) {
        self.may_fit = true;
    }

    /// Returns the first element, if there may be space for it.
    pub(super) fn next(&self) -> Option<&W> {
        self.waiting.first().filter(|_| self.may_fit)
    }

    /// Takes the first element, if there may be space for it.
    pub(super) fn pop(&mut self) -> Option<W> {
        match self.may_fit {
            true => self.waiting.pop(),
            false => None,
        }
    }
}
