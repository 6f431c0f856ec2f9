// SPDX-License-Identifier: GPL-2.0

//! Time-outs, in jiffies, and the time that a call waits for its reply.
//!
//! C headers: [`include/linux/jiffies.h`](srctree/include/linux/jiffies.h),
//! [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct rpc_timeout`,
//! `wait_for_reply_request` and `timer` of `struct rpc_xprt_ops`, `rq_majortimeo` of `struct
//! rpc_rqst`.
//!
//! sunrpc counts the time for a reply from the beginning of the call, however long there was no
//! connection meanwhile. After an outage the time of many calls is over as soon as they are sent.
//! If each of them ended the connection, none would ever have its reply. So the task waits at least
//! as long as the first time-out of its call, counted from when the call was sent.
//!
//! On a reliable connection a call is retransmitted only over a new connection, so in the end the
//! present one is disconnected. sunrpc may then encode the call anew. RPCSEC_GSS frees the pages
//! that it encrypted the arguments to when it does that, and the peer must not be able to read them
//! any more.

use crate::clnt::transport::DisconnectReason;
use crate::prelude::*;

/// The number of jiffies in a second.
pub(crate) const HZ: c_ulong = kernel::bindings::CONFIG_HZ as c_ulong;

/// The first time-out of a call, in seconds, unless a mount says another. NFS has the same.
const FIRST_TIMEOUT: u32 = 60;

/// The default time-outs: one minute to send a call and to receive its reply, without a
/// retransmission.
pub(crate) static DEFAULT_TIMEOUT: cbindings::rpc_timeout =
    rpc_timeout(FIRST_TIMEOUT as c_ulong * HZ);

/// The time that sunrpc waits for rpcbind.
pub(crate) const BIND_TIMEOUT: c_ulong = 60 * HZ;

/// The time that a connection without a call stays.
pub(crate) const IDLE_TIMEOUT: c_ulong = 5 * 60 * HZ;

/// The time that a transport keeps resources for its next connection, counted from the first close
/// after it last freed them.
pub(crate) const EXPIRY: c_ulong = 60 * HZ;

/// The shortest time between the beginnings of two attempts to connect, in seconds.
const ATTEMPT_SECONDS: u32 = 3;

/// The shortest time between the beginnings of two attempts to connect, in jiffies.
pub(crate) const ATTEMPT_INTERVAL: c_ulong = ATTEMPT_SECONDS as c_ulong * HZ;

/// The longest attempt to connect, in milliseconds, whose end the calls that wait for it see, if
/// they have the usual time-out.
///
/// A call waits from before the delay of the attempt until its first time-out. After that it does
/// not wait for the attempt, but for `XPRT_LOCKED`, and then for the next attempt.
pub const ATTEMPT_MS: u32 = (FIRST_TIMEOUT - ATTEMPT_SECONDS) * 1_000;

/// The shortest time-out that an upper layer may set for a connection that is being made.
pub(crate) const MIN_CONNECT_TIMEOUT: c_ulong = 10 * HZ;

/// Returns a time-out of `value` jiffies, after which nothing is retransmitted.
pub(crate) const fn rpc_timeout(value: c_ulong) -> cbindings::rpc_timeout {
    cbindings::rpc_timeout {
        to_initval: value,
        to_maxval: value,
        to_increment: 0,
        to_retries: 0,
        to_exponential: 0,
    }
}

/// Returns the present time.
pub(crate) fn jiffies() -> c_ulong {
    // SAFETY: The kernel never frees the word, and changes it as a whole.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}

/// Returns the time since `then`, in jiffies.
pub(crate) fn jiffies_since(then: cbindings::ktime_t) -> c_ulong {
    const NSEC_PER_JIFFY: i64 = 1_000_000_000 / HZ as i64;
    // SAFETY: Any context but an NMI may call this.
    let since = unsafe { cbindings::ktime_get() }.saturating_sub(then);
    c_ulong::try_from(since / NSEC_PER_JIFFY).unwrap_or(0)
}

impl<T: Transport> Xprt<T> {
    /// Lets the task sleep until there is a reply, or its time is over. Does not sleep itself.
    ///
    /// # Safety
    ///
    /// `task` is the current one, has sent `rqst`, waits for no queue, and holds `queue_lock`.
    pub(crate) unsafe fn wait_for_reply(&self, task: *mut cbindings::rpc_task, rqst: &Rqst<T>) {
        // SAFETY: Only its own task uses the word, which is the current one.
        let end = unsafe { &raw mut (*rqst.as_raw()).rq_majortimeo };
        // SAFETY: Only its own task uses the word, which is the current one.
        let usual = unsafe { end.read() };
        // SAFETY: The request is the task's.
        if let Some(later) = unsafe { self.later_end(task, rqst, usual) } {
            // sunrpc uses it once, for this wait.
            // SAFETY: Only its own task uses the word, which is the current one.
            unsafe { end.write(later) };
        }
        // SAFETY: The caller promises what sunrpc does.
        unsafe { cbindings::xprt_wait_for_reply_request_def(task) };
        // When the time is over, it is over for a soft mount, too.
        // SAFETY: Only its own task uses the word, which is the current one: until the current
        // function returns to sunrpc, the task does not go on elsewhere.
        unsafe { end.write(usual) };
    }

    /// Returns the end of the time for the reply, in jiffies, if that is after `usual`.
    ///
    /// # Safety
    ///
    /// `task` is the current one, and `rqst` its request.
    #[inline]
    unsafe fn later_end(
        &self,
        task: *mut cbindings::rpc_task,
        rqst: &Rqst<T>,
        usual: c_ulong,
    ) -> Option<c_ulong> {
        // SAFETY: The task has a client, whose time-outs live as long as the client.
        let first = unsafe { (*(*(*task).tk_client).cl_timeout).to_initval };
        let now = jiffies();
        // `time_before()`, open-coded: jiffies wrap.
        let is_before = |other: c_ulong| usual.wrapping_sub(other) > c_ulong::MAX / 2;
        // Most calls are sent when they begin. One jiffy of error does not matter for the others.
        if !is_before(now.wrapping_add(first)) {
            return None;
        }
        // If the call was sent over another connection, sunrpc wakes the task at once.
        let later = now
            .wrapping_add(first)
            .wrapping_sub(jiffies_since(rqst.time_sent()));
        is_before(later).then_some(later)
    }

    /// Ends the connection over which the call was sent, because no reply came in time. If sunrpc
    /// may free memory of the call next, the peer has no access to it when this returns. May sleep.
    ///
    /// # Safety
    ///
    /// The caller is the task of `rqst`.
    pub(crate) unsafe fn reply_timed_out(&self, rqst: &Rqst<T>) {
        // If it was not sent over this connection, there has been a new one since, or this one is
        // being closed. The same may happen from here on, so the connection is given up by its
        // cookie.
        let was_sent = self.was_sent(rqst);
        if was_sent {
            let cookie = rqst.connect_cookie();
            T::conditional_disconnect(self, self, cookie, DisconnectReason::ReplyTimedOut);
        }
        // SAFETY: The task of the request is the caller.
        if unsafe { is_encrypted_anew(rqst, was_sent) } {
            T::release(self, self, rqst);
        }
    }

    /// Returns whether the call was sent over this connection.
    #[inline]
    pub(crate) fn was_sent(&self, rqst: &Rqst<T>) -> bool {
        rqst.connect_cookie() == self.connect_cookie()
    }
}

/// Returns whether sunrpc, now that the time of the call is over, may free memory that it was sent
/// from.
///
/// sunrpc encodes a call anew, unless it `was_sent` over this connection and has
/// `RPC_TASK_NO_RETRANS_TIMEOUT`, which NFSv4 sets. That changes nothing, unless RPCSEC_GSS takes
/// another sequence number and encrypts the arguments once more.
///
/// # Safety
///
/// The caller is the task of `rqst`, which has sent it.
unsafe fn is_encrypted_anew<T: Transport>(rqst: &Rqst<T>, was_sent: bool) -> bool {
    // SAFETY: The caller vouches for the task. sunrpc writes the word as a whole.
    let flags = unsafe { (&raw const (*rqst.task()).tk_flags).read_volatile() };
    let waits = u32::from(flags) & cbindings::RPC_TASK_NO_RETRANS_TIMEOUT != 0;
    // SAFETY: A request that was sent has a credential, which has a reference to its flavor.
    let flavor = unsafe { (*(*(*rqst.as_raw()).rq_cred).cr_auth).au_flavor };
    let is_changed = !matches!(
        flavor,
        cbindings::rpc_auth_flavors_RPC_AUTH_NULL | cbindings::rpc_auth_flavors_RPC_AUTH_UNIX
    );
    is_changed && !(waits && was_sent)
}
