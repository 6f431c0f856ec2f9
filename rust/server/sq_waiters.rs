// SPDX-License-Identifier: GPL-2.0

//! The nfsd threads that wait until a work request fits into the Send queue of a connection.
//!
//! A thread that finds no Send buffer, or too few SQ credits, sleeps here until completions have
//! returned some, and then tries again. While one sleeps, sunrpc gets no more calls from the
//! connection (`xpo_has_wspace`): their replies would take the credits that the thread waits for.

use kernel::{
    new_condvar, new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed, //
        },
        CondVar,
        CondVarTimeoutResult,
        SpinLock, //
    },
    time::{
        msecs_to_jiffies,
        Msecs, //
    },
};

/// How long a thread waits for a client whose acknowledgements complete nothing. The client chooses
/// how often a Send is retried, which may be for ever, and there are few nfsd threads.
const STALLED_MS: Msecs = 30_000;

/// Why a thread shall not try again.
pub(super) enum WaitError {
    /// The connection is being closed.
    Closed,
    /// Nothing completed for [`STALLED_MS`].
    Stalled,
}

/// The threads that wait.
#[pin_data]
pub(super) struct SqWaiters {
    count: Atomic<u32>,
    /// Changes, under the lock of `closed`, when another attempt may succeed.
    sequence: Atomic<u64>,
    /// Whether no attempt can succeed any more.
    #[pin]
    closed: SpinLock<bool>,
    #[pin]
    changed: CondVar,
}

impl SqWaiters {
    /// No thread waits.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: Atomic::new(0),
            sequence: Atomic::new(0),
            closed <- new_spinlock!(false, "rpcrdma::sq_waiters_closed"),
            changed <- new_condvar!("rpcrdma::sq_waiters_changed"),
        })
    }

    /// Whether no thread waits.
    pub(super) fn is_empty(&self) -> bool {
        // Before it asks, the caller has set a flag that says that there is work. The last thread
        // that waits looks for work after it has left. One of them must see the write of the other.
        // That takes a full barrier before the load, which an addition of nothing has.
        self.count.fetch_add(0, Full) == 0
    }

    /// Counts the calling thread as one that waits. `on_last` is called if it is the last one that
    /// leaves.
    pub(super) fn enter<F: Fn()>(&self, on_last: F) -> SqWaiter<'_, F> {
        self.count.add(1, Relaxed);
        SqWaiter {
            waiters: self,
            on_last,
        }
    }

    /// A number that changes when another attempt may succeed. To be read before an attempt, so
    /// that a change after it is not missed.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence.load(Acquire)
    }

    /// Waits until [`Self::sequence`] is not `sequence` any more. Sleeps.
    pub(super) fn wait(&self, sequence: u64) -> Result<(), WaitError> {
        let mut left = msecs_to_jiffies(STALLED_MS);
        let mut closed = self.closed.lock();
        while self.sequence.load(Relaxed) == sequence && !*closed && left != 0 {
            left = match self.changed.wait_interruptible_timeout(&mut closed, left) {
                CondVarTimeoutResult::Woken { jiffies } => jiffies,
                // Kernel threads get no signals.
                CondVarTimeoutResult::Timeout | CondVarTimeoutResult::Signal { .. } => 0,
            };
        }
        if *closed {
            return Err(WaitError::Closed);
        }
        match self.sequence.load(Relaxed) == sequence {
            true => Err(WaitError::Stalled),
            false => Ok(()),
        }
    }

    /// Wakes all threads, for another attempt.
    pub(super) fn wake(&self) {
        let closed = self.closed.lock();
        self.sequence.add(1, Relaxed);
        drop(closed);
        self.changed.notify_all();
    }

    /// Wakes all threads, and has every later one not wait.
    pub(super) fn close(&self) {
        *self.closed.lock() = true;
        self.changed.notify_all();
    }
}

/// A thread that waits. Dropped when it waits no more.
pub(super) struct SqWaiter<'a, F: Fn()> {
    waiters: &'a SqWaiters,
    on_last: F,
}

impl<F: Fn()> Drop for SqWaiter<'_, F> {
    fn drop(&mut self) {
        if self.waiters.count.fetch_sub(1, Full) == 1 {
            (self.on_last)();
        }
    }
}
