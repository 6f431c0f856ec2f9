// SPDX-License-Identifier: GPL-2.0

//! The line of what waits for SQ credits: Sends with RDMA Writes, and RDMA Reads.
//!
//! They take turns. A Send is posted by whoever takes it. Whoever takes RDMA Reads gets them their credits only: they need memory,
//! too, so a thread posts them. Until it has, no others are taken, and Sends come first.

use super::room_queue::{
    Attempt,
    RoomQueue, //
};
use kernel::{
    alloc::Flags,
    prelude::*, //
};

/// What may find room now.
pub(super) enum Waiting<S, R> {
    /// RDMA Reads that need SQ credits.
    Reads(R),
    /// A Send that needs SQ credits, or first a Send buffer.
    Send(S),
}

/// Sends `S` and RDMA Reads `R` that wait for SQ credits.
pub(super) struct CreditLine<S, R> {
    sends: RoomQueue<S>,
    reads: RoomQueue<R>,
    /// Whether Reads were taken that are not posted yet, nor wait again.
    reads_are_taken: bool,
    /// Whether these have their credits.
    reads_are_ready: bool,
    /// Whether Reads come before Sends, if both wait.
    reads_turn: bool,
}

impl<S, R> CreditLine<S, R> {
    /// A line without entries.
    pub(super) const EMPTY: Self = Self {
        sends: RoomQueue::EMPTY,
        reads: RoomQueue::EMPTY,
        reads_are_taken: false,
        reads_are_ready: false,
        reads_turn: true,
    };

    /// An empty line for `count` elements of each kind. Sleeps if `flags` allow it.
    pub(super) fn with_capacity(count: usize, flags: Flags) -> Result<Self> {
        Ok(Self {
            sends: RoomQueue::with_capacity(count, flags)?,
            reads: RoomQueue::with_capacity(count, flags)?,
            ..Self::EMPTY
        })
    }

    /// If `other` has more entries, moves all elements there, and exchanges the two.
    pub(super) fn move_to(&mut self, other: &mut Self) {
        self.sends.move_to(&mut other.sends);
        self.reads.move_to(&mut other.reads);
    }

    /// If `other` has fewer entries, but enough, moves all elements there, and exchanges the two.
    pub(super) fn shrink_to(&mut self, other: &mut Self) {
        self.sends.shrink_to(&mut other.sends);
        self.reads.shrink_to(&mut other.reads);
    }

    /// How many Sends wait.
    pub(super) fn sends(&self) -> usize {
        self.sends.len()
    }

    /// How many Sends and Reads wait.
    pub(super) fn len(&self) -> usize {
        self.sends.len().saturating_add(self.reads.len())
    }

    /// Adds what found too few credits, or was not tried. It comes back if no entry is free.
    pub(super) fn push(
        &mut self,
        waiting: Waiting<S, R>,
        attempt: Attempt<bool>,
    ) -> Result<(), Waiting<S, R>> {
        match waiting {
            Waiting::Reads(reads) => self.reads.push(reads, attempt).map_err(Waiting::Reads),
            Waiting::Send(send) => {
                if matches!(attempt, Attempt::Again(_)) {
                    // It has not had its turn.
                    self.reads_turn = false;
                }
                self.sends.push(send, attempt).map_err(Waiting::Send)
            }
        }
    }

    /// The Reads that were taken have their credits.
    pub(super) fn note_ready_reads(&mut self) {
        self.reads_are_ready = true;
        self.reads_turn = false;
    }

    /// The Reads that were taken are posted, or wait again. Who says so takes what is next then.
    pub(super) fn end_reads(&mut self) {
        self.reads_are_taken = false;
        self.reads_are_ready = false;
    }

    /// Something was given back to the Send queue.
    pub(super) fn set_room(&mut self) {
        self.sends.set_room();
        self.reads.set_room();
    }

    /// Takes the next for which there may be credits. If it is RDMA Reads, [`Self::end_reads`] is to follow.
    pub(super) fn pop(&mut self) -> Option<Waiting<S, R>> {
        let sends_turn = !self.reads_turn && self.sends.len() != 0;
        if !self.reads_are_taken && !sends_turn {
            if let Some(reads) = self.reads.pop() {
                self.reads_are_taken = true;
                return Some(Waiting::Reads(reads));
            }
        }
        // If it is the turn of Reads that find too few credits, those that come back are saved for them.
        let no_reads = self.reads.len() == 0 && !self.reads_are_taken;
        let may_send = self.reads_are_ready || sends_turn || no_reads;
        let send = may_send.then(|| self.sends.pop()).flatten()?;
        self.reads_turn = true;
        Some(Waiting::Send(send))
    }
}
