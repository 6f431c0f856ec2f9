// SPDX-License-Identifier: GPL-2.0

//! Answering a request.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h); the module
//! [`crate::rqst`] says what a pin keeps alive.

use crate::{
    xdr_buf,
    xprt::lock,
    Rqst,
    Transport, //
};
use core::{
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};
use kernel::{
    ffi::c_int,
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// Has `task` end with `status` in its next step, whichever that is.
///
/// # Safety
///
/// The task is live, and has begun.
pub(crate) unsafe fn end_task(task: *mut raw::rpc_task, status: c_int) {
    // SAFETY: The caller vouches for the task. sunrpc changes the word by atomic operations once a task
    // has begun.
    let rpc_status = unsafe { Atomic::from_ptr(&raw mut (*task).tk_rpc_status) };
    // The first status stands.
    let _ = rpc_status.cmpxchg(0, status, Relaxed);
}

/// Has `task`, which waits for the reply to a request that was sent, or is about to, end with `status`
/// when it is woken.
///
/// # Safety
///
/// The task is live.
pub(crate) unsafe fn fail_task(task: *mut raw::rpc_task, status: c_int) {
    // If it waits it reads this.
    // SAFETY: A word that is changed as a whole.
    unsafe { (&raw mut (*task).tk_status).write_volatile(status) };
    // If it does not yet, its state machine overwrites that.
    // SAFETY: The caller vouches for the task, which has begun, as its request was sent.
    unsafe { end_task(task, status) };
}

/// A request that waits for its reply and is being answered.
///
/// There is at most one for a request: a second reply with the same transaction id finds nothing.
/// Dropping it leaves the request waiting; it will be sent again over the next connection.
///
/// # Invariants
///
/// The request is pinned, and this value owns the pin.
pub struct PendingReply<T: Transport>(NonNull<Rqst<T>>);

// SAFETY: A pin belongs to no task, and `Rqst<T>` is `Sync`.
unsafe impl<T: Transport> Send for PendingReply<T> {}
// SAFETY: `&PendingReply` gives `&Rqst`.
unsafe impl<T: Transport> Sync for PendingReply<T> {}

impl<T: Transport> PendingReply<T> {
    /// Pins a request, unless it is being answered already.
    ///
    /// # Safety
    ///
    /// The caller holds `queue_lock`, and `rqst` is of a `Rqst<T>` on the receive queue.
    pub(crate) unsafe fn pin(rqst: NonNull<raw::rpc_rqst>) -> Option<Self> {
        let this = rqst.cast::<Rqst<T>>();
        // SAFETY: What is on the receive queue is in use, and under the lock it stays there.
        if unsafe { this.as_ref() }.set_answering(true) {
            return None;
        }
        // SAFETY: The lock is held since the request was found.
        unsafe { raw::xprt_pin_rqst(rqst.as_ptr()) };
        // INVARIANT: Just pinned.
        Some(Self(this))
    }

    /// Puts an inline reply where the upper layer expects it.
    ///
    /// `reduced` is the length of a payload that the peer has already written to the pages, and
    /// that `message` therefore lacks. The reply must be completed afterwards, by
    /// [`Self::complete`] with the returned number of bytes: its place now has the form of this
    /// reply.
    ///
    /// What there is no room for is cut off, as in a reply from a socket; the upper layer finds
    /// the reply too short. [`EIO`] if the payload is larger than its place.
    pub fn scatter(&mut self, message: &[u8], reduced: Option<u32>) -> Result<usize> {
        let placed = self.reply_buf().place(message, reduced)?;
        if let Some(form) = placed.form {
            self.set_reply_form(form);
        }
        Ok(placed.len)
    }

    /// Wakes the request's task with a reply of `copied` bytes. The peer has no access to its
    /// place any more.
    pub fn complete(self, copied: usize) {
        self.finish(None, c_int::try_from(copied).unwrap_or(c_int::MAX));
    }

    /// Wakes the request's task with an error.
    pub fn fail(self, error: Error) {
        self.finish(Some(error.to_errno()), 0);
    }

    fn finish(self, status: Option<c_int>, copied: c_int) {
        let this = ManuallyDrop::new(self);
        let task = this.task();
        this.set_unanswered(false);
        let _guard = this.queue_lock();
        if let Some(status) = status {
            // SAFETY: The task is live, as its request is pinned, which was sent.
            unsafe { fail_task(task, status) };
        }
        // SAFETY: The request is pinned and `queue_lock` held.
        unsafe { raw::xprt_complete_rqst(task, copied) };
        // SAFETY: The lock is held, and `ManuallyDrop` keeps this from happening again.
        unsafe { this.unpin() };
    }

    /// Gives up the pin.
    ///
    /// # Safety
    ///
    /// The caller holds `queue_lock`, does this once, and does not touch the request afterwards.
    unsafe fn unpin(&self) {
        self.set_answering(false);
        // SAFETY: The pin is ours by the type invariant, and the lock held.
        unsafe { raw::xprt_unpin_rqst(self.as_raw()) };
    }

    fn set_reply_form(&self, form: xdr_buf::Form) {
        let rqst = self.as_raw();
        for buf in [
            // SAFETY: The request is in use.
            unsafe { &raw mut (*rqst).rq_rcv_buf },
            // SAFETY: As above. The decoder insists that the two are equal.
            unsafe { &raw mut (*rqst).rq_private_buf },
        ] {
            // SAFETY: The task uses them before the request is sent and after it is answered, and
            // we are the only one who answers it.
            unsafe { form.apply(buf) };
        }
    }

    fn queue_lock(&self) -> impl Drop {
        // SAFETY: The request is in use, so its `rq_xprt` is set and stays.
        let xprt = unsafe { (*self.as_raw()).rq_xprt };
        // SAFETY: The task has a reference to the transport. The lock is released before the pin
        // is of no effect any more, and that within an RCU read-side section, as preemption is
        // off; the memory of a transport is freed after a grace period.
        unsafe { lock(&raw mut (*xprt).queue_lock) }
    }
}

impl<T: Transport> Deref for PendingReply<T> {
    type Target = Rqst<T>;

    fn deref(&self) -> &Rqst<T> {
        // SAFETY: By the type invariant it is pinned.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Transport> Drop for PendingReply<T> {
    fn drop(&mut self) {
        let _guard = self.queue_lock();
        // SAFETY: The lock is held, and this is `drop`.
        unsafe { self.unpin() };
    }
}
