// SPDX-License-Identifier: GPL-2.0

//! A FIFO of work that waits for SQ credits: Sends with RDMA Writes, and RDMA Reads.
//!
//! Sends and Reads alternate. A Send is posted by the thread or completion handler that takes it.
//! Reads only reserve their credits then, and an nfsd thread posts them, as they need pages. Until
//! it has, no other Reads are taken, and Sends come first.

use super::wait_queue::{
    Attempt,
    WaitQueue, //
};
use kernel::{
    alloc::Flags,
    prelude::*, //
};

/// A waiter for SQ credits.
pub(super) enum SqWaiter<S, R> {
    /// RDMA Reads that need SQ credits.
    Reads(R),
    /// A Send that needs SQ credits, or a Send buffer first.
    Send(S),
}

/// A queue of Sends `S` and RDMA Reads `R` that wait for SQ credits.
pub(super) struct SqCreditQueue<S, R> {
    sends: WaitQueue<S>,
    reads: WaitQueue<R>,
    /// Whether Reads were taken that are neither posted nor waiting again.
    reads_are_taken: bool,
    /// Whether those Reads have their credits.
    reads_are_ready: bool,
    /// Whether it is the turn of Reads, if both wait.
    reads_turn: bool,
}

impl<S, R> SqCreditQueue<S, R> {
    /// A queue without entries.
    pub(super) const EMPTY: Self = Self {
        sends: WaitQueue::EMPTY,
        reads: WaitQueue::EMPTY,
        reads_are_taken: false,
        reads_are_ready: false,
        reads_turn: true,
    };

    /// Creates an empty queue for `count` elements of each kind. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            sends: WaitQueue::with_capacity(count, flags)?,
            reads: WaitQueue::with_capacity(count, flags)?,
            ..Self::EMPTY
        })
    }

    /// Moves all elements to `other` and swaps the two, if `other` has more entries.
    pub(super) fn grow_into(&mut self, other: &mut Self) {
        self.sends.grow_into(&mut other.sends);
        self.reads.grow_into(&mut other.reads);
    }

    /// Moves all elements to `other` and swaps the two, if `other` has fewer entries, but enough.
    pub(super) fn shrink_into(&mut self, other: &mut Self) {
        self.sends.shrink_into(&mut other.sends);
        self.reads.shrink_into(&mut other.reads);
    }

    /// Returns the number of Sends that wait.
    pub(super) fn sends(&self) -> usize {
        self.sends.len()
    }

    /// Returns the number of Sends and Reads that wait.
    pub(super) fn len(&self) -> usize {
        self.sends.len().saturating_add(self.reads.len())
    }

    /// Adds a waiter that found too few credits or was not tried. Returns it if no entry is free.
    pub(super) fn push(
        &mut self,
        waiting: SqWaiter<S, R>,
        attempt: Attempt<bool>,
    ) -> Result<(), SqWaiter<S, R>> {
        match waiting {
            SqWaiter::Reads(reads) => self.reads.push(reads, attempt).map_err(SqWaiter::Reads),
            SqWaiter::Send(send) => {
                if matches!(attempt, Attempt::Requeued(_)) {
                    // It keeps its turn.
                    self.reads_turn = false;
                }
                self.sends.push(send, attempt).map_err(SqWaiter::Send)
            }
        }
    }

    /// Notes that the Reads that were taken have their credits.
    pub(super) fn note_ready_reads(&mut self) {
        self.reads_are_ready = true;
        self.reads_turn = false;
    }

    /// Notes that the Reads that were taken are posted, or wait again. The caller takes the next
    /// waiter then.
    pub(super) fn end_reads(&mut self) {
        self.reads_are_taken = false;
        self.reads_are_ready = false;
    }

    /// Notes that the Send queue has space again.
    pub(super) fn space_freed(&mut self) {
        self.sends.space_freed();
        self.reads.space_freed();
    }

    /// Takes the next waiter for which there may be credits. RDMA Reads require a call of
    /// [`Self::end_reads`] later.
    pub(super) fn pop(&mut self) -> Option<SqWaiter<S, R>> {
        let sends_turn = !self.reads_turn && self.sends.len() != 0;
        if !self.reads_are_taken && !sends_turn {
            if let Some(reads) = self.reads.pop() {
                self.reads_are_taken = true;
                return Some(SqWaiter::Reads(reads));
            }
        }
        // If Reads have the turn but too few credits, credits that come back are saved for them.
        let no_reads = self.reads.len() == 0 && !self.reads_are_taken;
        let may_send = self.reads_are_ready || sends_turn || no_reads;
        let send = may_send.then(|| self.sends.pop()).flatten()?;
        self.reads_turn = true;
        Some(SqWaiter::Send(send))
    }
}
