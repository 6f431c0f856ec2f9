// SPDX-License-Identifier: GPL-2.0

//! The transmission of a request, and its failures.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h),
//! `prepare_request`, `send_request` and `release_xprt` of `struct rpc_xprt_ops`.

use crate::prelude::*;
use crate::{
    bc::clnt::CallbackRqst,
    clnt::{
        transport::{
            DisconnectReason,
            SendError, //
        },
        xprt::LockedXprt, //
    },
    task, //
};

/// A request that sunrpc wants to be sent.
pub(crate) enum Outgoing<'a, T: Transport> {
    /// A call, from a slot of the transport.
    Call(&'a Rqst<T>),
    /// The reply to a reverse-direction call.
    CallbackReply(&'a CallbackRqst),
}

/// The reason why a request was not sent.
enum NotSent {
    /// The peer has granted no credit for it yet.
    NoCredit,
    /// The connection lacks something that completions give back.
    Again,
    /// Memory is short.
    NoBuffers,
    /// The connection has ended.
    Disconnected,
    /// The request can never be sent. Its task fails with this error number.
    Never(c_int),
}

impl From<SendError> for NotSent {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Again => Self::Again,
            SendError::NoBuffers => Self::NoBuffers,
            SendError::Disconnected => Self::Disconnected,
            SendError::TooBig => Self::Never(EMSGSIZE.to_errno()),
            SendError::Io => Self::Never(EIO.to_errno()),
        }
    }
}

impl<T: Transport> Xprt<T> {
    /// Prepares a call before it is its turn to be sent. Returns zero, or the error number that its
    /// task now has.
    ///
    /// # Safety
    ///
    /// The caller is the task of `rqst`, which is not queued to be sent.
    pub(crate) unsafe fn prepare_call(&self, rqst: &Rqst<T>) -> c_int {
        let flags = task::gfp_flags();
        // SAFETY: The caller promises it.
        if unsafe { rqst.alloc_sparse_pages(flags) }.is_err() {
            // There are other attempts, before each transmission.
            return 0;
        }
        let prepared = T::prepare(self, self, rqst, flags).map_err(NotSent::from);
        let Err(NotSent::Never(errno)) = prepared else {
            return 0;
        };
        // sunrpc does not queue the call after an error, but does not end its task either.
        // SAFETY: The task is the caller.
        unsafe { task::set_rpc_status(rqst.task(), errno) };
        errno
    }

    /// Returns the number of requests that are queued to be sent.
    fn xmit_queuelen(&self) -> i64 {
        // SAFETY: The transport is live.
        let queued = unsafe { &raw const (*self.as_raw()).xmit_queuelen.counter };
        // SAFETY: The counter changes by atomic operations only.
        unsafe { queued.read_volatile() }
    }
}

impl<T: Transport> LockedXprt<'_, T> {
    /// Sends a request. Returns zero, or the error number that sunrpc is to act on.
    pub(crate) fn transmit(&self, request: Outgoing<'_, T>) -> c_int {
        if !self.is_connected() {
            return task::ENOTCONN;
        }
        // The request itself is one of those that are queued.
        let more = self.xmit_queuelen() > 1;
        let (sent, rqst) = match request {
            Outgoing::Call(rqst) => (self.send_call(rqst, more), rqst.as_raw()),
            Outgoing::CallbackReply(reply) => {
                if reply.connect_cookie() != self.connect_cookie() {
                    // The peer has no Receive for the reply and will call again (RFC 8167, section
                    // 4), so it is dropped. An error would end the task that is sending, which may
                    // be another.
                    return 0;
                }
                (self.send_callback_reply(reply, more), reply.as_raw())
            }
        };
        match sent {
            Ok(()) => {
                // SAFETY: The request is pinned, and its call does not change.
                let len = unsafe { (*rqst).rq_snd_buf.len } as usize;
                // SAFETY: The request is pinned.
                let total = unsafe { &raw mut (*rqst).rq_xmit_bytes_sent };
                // SAFETY: `XPRT_LOCKED` excludes other senders, and only senders write the word.
                // The task of the call may read it, as the reply may be here already.
                unsafe { total.write_volatile(total.read_volatile().wrapping_add(len)) };
                self.set_need_flush(more);
                0
            }
            // SAFETY: The request is pinned.
            Err(error) => unsafe { self.errno_of(error, rqst) },
        }
    }

    /// Returns the error number that makes sunrpc do the right thing after `error`, the reason why
    /// `rqst` was not sent. Disconnects if the connection has ended.
    ///
    /// # Safety
    ///
    /// The request is pinned.
    unsafe fn errno_of(&self, error: NotSent, rqst: *mut cbindings::rpc_rqst) -> c_int {
        let errno = match error {
            NotSent::Disconnected => None,
            NotSent::Never(errno) => {
                // An error would end the task that is sending, which may be another, and would
                // leave the request at the head of the queue. So sunrpc is told that it was sent,
                // and wakes its task.
                // SAFETY: The caller vouches for the request, whose task therefore lives, and has
                // started.
                unsafe { task::set_rpc_status((*rqst).rq_task, errno) };
                Some(0)
            }
            // After the errors that follow, sunrpc sends nothing more.
            _ if self.flush().is_err() => None,
            NotSent::NoCredit => Some(task::EBADSLT),
            NotSent::Again => Some(EAGAIN.to_errno()),
            NotSent::NoBuffers => Some(task::ENOBUFS),
        };
        errno.unwrap_or_else(|| {
            self.disconnect();
            task::ENOTCONN
        })
    }

    fn send_callback_reply(&self, reply: &CallbackRqst, more: bool) -> Result<(), NotSent> {
        let sent = self.send_or_wait(|| T::send_callback_reply(self, self, reply, more));
        // The peer would wait for a reply that can never be sent. The end of the connection tells
        // it.
        sent.map_err(|error| match error.into() {
            NotSent::Never(_) => NotSent::Disconnected,
            error => error,
        })
    }

    fn send_call(&self, rqst: &Rqst<T>, more: bool) -> Result<(), NotSent> {
        if !self.request_get_cong(rqst) {
            T::on_credit_shortage(self, self);
            return Err(NotSent::NoCredit);
        }
        if self.was_sent(rqst) && rqst.awaits_reply() {
            // RFC 8166, section 3.3.1: a call that is sent twice on one connection would use a
            // credit that was not granted. If there was a reply, which sunrpc did not like, the
            // credit is free again.
            let cookie = self.connect_cookie();
            T::conditional_disconnect(self, self, cookie, DisconnectReason::Retransmission);
            return Err(NotSent::Disconnected);
        }
        // SAFETY: `self` says that `XPRT_LOCKED` is owned.
        if unsafe { rqst.alloc_sparse_pages(GFP_NOWAIT | __GFP_NOWARN) }.is_err() {
            return Err(NotSent::NoBuffers);
        }
        let reply_expected = rqst.reply_expected();
        // SAFETY: Any context but an NMI may call this.
        let now = unsafe { cbindings::ktime_get() };
        // SAFETY: The request is pinned; sunrpc reads the time when the reply has come.
        unsafe { (&raw mut (*rqst.as_raw()).rq_xtime).write_volatile(now) };
        // This precedes the transmission, because the reply may come before `send` has returned.
        rqst.set_awaits_reply(true);
        let sent = self.send_or_wait(|| T::send(self, self, rqst, more));
        sent.inspect_err(|_| rqst.set_awaits_reply(false))?;
        if !reply_expected {
            // Without a reply the peer never says that it has a Receive for the next call. A new
            // connection does.
            let cookie = self.connect_cookie();
            T::conditional_disconnect(self, self, cookie, DisconnectReason::NoReplyExpected);
        }
        Ok(())
    }

    /// Calls `send`, and once more if that has to wait for the peer or the device.
    ///
    /// The event that it waits for may come after the first call, but before sunrpc knows that a
    /// task waits, and then nothing would wake the task. So sunrpc is told first, and the second
    /// call decides.
    fn send_or_wait(&self, send: impl Fn() -> Result<(), SendError>) -> Result<(), SendError> {
        let first = send();
        if first != Err(SendError::Again) {
            return first;
        }
        // SAFETY: The transport is live.
        unsafe { cbindings::xprt_wait_for_buffer_space(self.as_raw()) };
        let second = send();
        if second != Err(SendError::Again) {
            self.write_space();
        }
        second
    }

    /// Sets whether something was sent that the device need not know of yet.
    fn set_need_flush(&self, need_flush: bool) {
        self.parts.need_flush.store(need_flush, Ordering::Relaxed);
    }

    /// Makes the transport ring the doorbell for all that was sent.
    fn flush(&self) -> Result {
        if !self.parts.need_flush.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.set_need_flush(false);
        T::flush(self)
    }

    /// Flushes before `XPRT_LOCKED` is released, with `transport_lock` held. If that fails, sunrpc
    /// closes the connection.
    pub(crate) fn flush_before_unlock(&self) {
        // The last request of a burst is sent without `more`, unless sunrpc dropped the one that
        // should have followed.
        if self.flush().is_err() {
            // `xprt_force_disconnect` would take the lock that is held.
            // SAFETY: The transport is live. The flags change by atomic operations only.
            unsafe {
                cbindings::set_bit(cbindings::XPRT_CLOSE_WAIT, &raw mut (*self.as_raw()).state)
            };
        }
    }
}
