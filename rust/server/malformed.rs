// SPDX-License-Identifier: GPL-2.0

//! The run of malformed messages at the end of what a client has sent: one that is too long ends
//! the connection. A well-behaved client sends calls in between.
//!
//! Threads take the messages in order, but look at several at a time. So each message has the
//! position in which it arrived: a thread that is late with a malformed one does not count it after
//! the call that followed it. A call counts when a thread has taken it. Messages that are too short
//! for a header count when they arrive, so those behind a call that still waits may count with
//! those before it.

use crate::prelude::*;

/// The number of malformed messages in a row that a connection survives.
const MOST: u32 = 16;

/// How many malformed messages arrived after the last call.
pub(super) struct MalformedRun {
    /// The position of the last call in the upper half, the length of the run in the lower: they
    /// change together.
    word: Atomic<u64>,
}

impl MalformedRun {
    /// Creates the empty run before the message at position one.
    pub(super) fn new() -> Self {
        Self {
            word: Atomic::new(0),
        }
    }

    /// Notes that the message at `position` is a call, which ends the run.
    pub(super) fn note_call(&self, position: u32) {
        let (call, _) = unpack(self.word.load(Relaxed));
        // Of two threads that do so at a time, the one with the older call may be the last. That
        // saves each call an atomic operation, and is wrong about malformed messages between
        // these two only, until the next call.
        if is_after(position, call) {
            self.word.store(pack(position, 0), Relaxed);
        }
    }

    /// Counts the malformed message at `position`, unless a later message was a call. Returns
    /// whether there are too many in a row.
    pub(super) fn note_malformed(&self, position: u32) -> bool {
        let mut word = self.word.load(Relaxed);
        loop {
            let (call, length) = unpack(word);
            if !is_after(position, call) {
                return false;
            }
            let longer = length.saturating_add(1);
            match self.word.cmpxchg(word, pack(call, longer), Relaxed) {
                Ok(_) => return longer > MOST,
                Err(present) => word = present,
            }
        }
    }
}

fn pack(call: u32, length: u32) -> u64 {
    u64::from(call) << 32 | u64::from(length)
}

/// Returns the position of the call, and the length of the run.
fn unpack(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_be_bytes();
    (
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    )
}

/// Returns whether `position` is after `other`. Positions wrap.
fn is_after(position: u32, other: u32) -> bool {
    matches!(position.wrapping_sub(other), 1..=0x7fff_ffff)
}
