// SPDX-License-Identifier: GPL-2.0

//! The completion of a request by its reply.
//!
//! C headers: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h); the module [`super::rqst`]
//! explains what a pin keeps alive.
//!
//! A [`PendingReply`] is a request that is pinned while its reply is processed. An inline reply is
//! copied to head, pages and tail of the `xdr_buf` that the upper layer has for it.

use crate::prelude::*;
use crate::{
    clnt::xprt::lock,
    task::fail_task, //
};
use core::mem::ManuallyDrop;

impl<T: HasSlot> Xprt<T> {
    /// Finds the request that waits for the reply `xid` (in host order) and pins it. Takes
    /// `queue_lock`, as does the end of the pin.
    pub fn lookup(&self, xid: u32) -> Option<PendingReply<T>> {
        let _guard = self.queue_lock();
        // SAFETY: The guard holds `queue_lock`.
        let rqst = unsafe { cbindings::xprt_lookup_rqst(self.as_raw(), xid.to_be()) };
        // SAFETY: The guard holds the lock. Requests on the receive queue of this transport are
        // from its slot table: those of reverse-direction calls expect no reply.
        unsafe { PendingReply::pin(NonNull::new(rqst)?) }
    }
}

/// A request that waits for its reply, while that is processed.
///
/// There is at most one for a request: for a second reply with the same transaction id
/// [`Xprt::lookup`] finds nothing. If it is dropped, the request goes on waiting, and is sent again
/// over the next connection.
///
/// # Invariants
///
/// The request is pinned, and this value owns the pin.
pub struct PendingReply<T: HasSlot>(NonNull<Rqst<T>>);

// SAFETY: A pin belongs to no task, and `Rqst<T>` is `Sync`.
unsafe impl<T: HasSlot> Send for PendingReply<T> {}
// SAFETY: `&PendingReply` gives `&Rqst`.
unsafe impl<T: HasSlot> Sync for PendingReply<T> {}

impl<T: HasSlot> PendingReply<T> {
    /// Pins a request, unless it is pinned for a reply already.
    ///
    /// # Safety
    ///
    /// The caller holds `queue_lock`, and `rqst` is of a `Rqst<T>` on the receive queue.
    unsafe fn pin(rqst: NonNull<cbindings::rpc_rqst>) -> Option<Self> {
        let this = rqst.cast::<Rqst<T>>();
        // SAFETY: A request on the receive queue is in use, and under the lock it stays there.
        let request = unsafe { this.as_ref() };
        // SAFETY: The caller holds the lock.
        if unsafe { request.set_has_pending_reply(true) } {
            return None;
        }
        // SAFETY: The caller has held the lock since it found the request.
        unsafe { cbindings::xprt_pin_rqst(rqst.as_ptr()) };
        // INVARIANT: Just pinned.
        Some(Self(this))
    }

    /// Copies an inline reply to where the upper layer expects it.
    ///
    /// `reduced` is the length of a payload that the peer has already written to the pages, and
    /// that `message` therefore lacks. The reply must be completed afterwards, by
    /// [`Self::complete`] with the returned number of bytes: the `xdr_buf` now has the lengths of
    /// this reply.
    ///
    /// Bytes beyond the end of the buffer are cut off, as in a reply from a socket; the upper layer
    /// then finds that the reply is too short. Fails with [`EIO`] if the payload is larger than the
    /// pages.
    pub fn copy_inline(&mut self, message: &[u8], reduced: Option<u32>) -> Result<usize> {
        let inline_reply = copy_inline(&self.reply_buf(), message, reduced)?;
        if let Some(lengths) = inline_reply.lengths {
            self.shrink_reply_buf(lengths);
        }
        Ok(inline_reply.len)
    }

    /// Completes the last XDR unit of a reply of `len` bytes that the peer has written to the
    /// memory for it, as sunrpc takes whole units only. Returns the number of bytes for
    /// [`Self::complete`]. The peer must not have access to the memory any more.
    pub fn pad_to_unit(&mut self, len: usize) -> usize {
        self.reply_buf().pad_to_unit(len)
    }

    /// Wakes the request's task with a reply of `copied` bytes. The peer must not have access to
    /// the memory of the reply any more.
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
        this.set_awaits_reply(false);
        let _guard = this.queue_lock();
        if let Some(status) = status {
            // SAFETY: The task is live, as its request, which was sent, is pinned.
            unsafe { fail_task(task, status) };
        }
        // SAFETY: The request is pinned, and the guard holds `queue_lock`.
        unsafe { cbindings::xprt_complete_rqst(task, copied) };
        // SAFETY: The guard holds the lock, and `ManuallyDrop` keeps this from happening again.
        unsafe { this.unpin() };
    }

    /// Releases the pin.
    ///
    /// # Safety
    ///
    /// The caller holds `queue_lock`, does this once, and does not touch the request afterwards.
    unsafe fn unpin(&self) {
        // SAFETY: The caller holds the lock.
        unsafe { self.set_has_pending_reply(false) };
        // SAFETY: By the type invariant `self` owns the pin, and the caller holds the lock.
        unsafe { cbindings::xprt_unpin_rqst(self.as_raw()) };
    }

    fn shrink_reply_buf(&self, lengths: ReplyLengths) {
        let rqst = self.as_raw();
        for buf in [
            // SAFETY: The request is in use.
            unsafe { &raw mut (*rqst).rq_rcv_buf },
            // SAFETY: The request is in use. The decoder insists that the two are equal.
            unsafe { &raw mut (*rqst).rq_private_buf },
        ] {
            // SAFETY: The task uses both before the request is sent and after it is completed, and
            // `self` is the only `PendingReply` of the request.
            unsafe { lengths.shrink(buf) };
        }
    }

    fn queue_lock(&self) -> impl Drop {
        // SAFETY: The request is in use, so its `rq_xprt` is set and stays.
        let xprt = unsafe { (*self.as_raw()).rq_xprt };
        // SAFETY: The task has a reference to the transport as long as the request is pinned. The
        // lock may be released after the end of the pin, and the task may then drop that reference;
        // but the memory of a transport is freed a grace period after its last reference
        // (`xprt_free`), and a spin lock is held in an RCU read-side section, which ends after it
        // was released: preemption is off, or with PREEMPT_RT the lock itself is such a section.
        unsafe { lock(&raw mut (*xprt).queue_lock) }
    }
}

impl<T: HasSlot> Deref for PendingReply<T> {
    type Target = Rqst<T>;

    fn deref(&self) -> &Rqst<T> {
        // SAFETY: By the type invariant it is pinned.
        unsafe { self.0.as_ref() }
    }
}

impl<T: HasSlot> Drop for PendingReply<T> {
    fn drop(&mut self) {
        let _guard = self.queue_lock();
        // SAFETY: The guard holds the lock, and this is `drop`.
        unsafe { self.unpin() };
    }
}

/// A reply whose bytes are where the upper layer expects them.
pub(crate) struct InlineReply {
    /// The length of the reply, XDR padding included.
    pub(crate) len: usize,
    /// The lengths to shorten head and pages of the `xdr_buf` to, so that the decoder finds the
    /// reply.
    pub(crate) lengths: Option<ReplyLengths>,
}

/// The number of bytes of head and pages that a reply takes.
#[derive(Clone, Copy)]
pub(crate) struct ReplyLengths {
    head: usize,
    pages: usize,
}

impl ReplyLengths {
    /// Shortens head and pages of `buf` to these lengths.
    ///
    /// # Safety
    ///
    /// `buf` is valid, at least as long, and nobody else accesses it.
    pub(crate) unsafe fn shrink(self, buf: *mut cbindings::xdr_buf) {
        // SAFETY: The caller vouches for it.
        let buf = unsafe { &mut *buf };
        let head = buf.head[0].iov_len.saturating_sub(self.head);
        let pages = (buf.page_len as usize).saturating_sub(self.pages);
        buf.head[0].iov_len -= head;
        // CAST: The difference is not larger than `page_len`.
        buf.page_len -= pages as c_uint;
        buf.buflen = buf.buflen.saturating_sub((head + pages) as c_uint);
    }
}

/// Copies the inline reply `message` to `buf`. `reduced` is the length of a payload that is in the
/// pages already, and that `message` lacks.
///
/// Bytes beyond the end of the buffer are cut off, as in a reply from a socket; the upper layer
/// then finds that the reply is too short. Fails with [`EIO`] if the payload is larger than the
/// pages.
///
/// sunrpc takes no reply that does not consist of whole XDR units. Some servers forget the padding
/// at the end, or send too much of it, and the count before it tells all the same where the data
/// end.
pub(crate) fn copy_inline(
    buf: &XdrBuf<'_>,
    message: &[u8],
    reduced: Option<u32>,
) -> Result<InlineReply> {
    let Some(payload) = reduced.filter(|len| *len != 0) else {
        return Ok(InlineReply {
            len: buf.pad_to_unit(buf.copy_in(0, message)),
            lengths: None,
        });
    };
    // Less than a unit at the end is padding of the payload, which stayed here when that was taken
    // out.
    let (message, _) = message.split_at(message.len() & !3);
    let payload = payload as usize;
    if payload > buf.page_len().next_multiple_of(4) {
        return Err(EIO);
    }
    // Some peers count the XDR padding, too.
    let payload = payload.min(buf.page_len());
    let pad = payload.next_multiple_of(4) - payload;

    // The upper layer made the head as long as it expects the results before the payload to be.
    let (before, after) = message.split_at(message.len().min(buf.head_len()));
    let before = buf.copy_in(0, before);
    let after = buf.copy_in(buf.page_range().end + pad, after);

    // The decoder looks for the payload where the head ends, and skips the padding at the start of
    // the tail. It would take bytes of head or pages that are not part of this reply for results,
    // and would read all that follows at the wrong offset.
    Ok(InlineReply {
        len: (before + payload + pad + after) & !3,
        lengths: Some(ReplyLengths {
            head: before,
            pages: payload,
        }),
    })
}
