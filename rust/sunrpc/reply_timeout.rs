// SPDX-License-Identifier: GPL-2.0

//! Calls whose reply does not come in time.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `timer` of `struct
//! rpc_xprt_ops`, `rq_majortimeo` of `struct rpc_rqst`.
//!
//! On a reliable connection a call is retransmitted only over a new connection, so the present one is given up.
//!
//! sunrpc counts the time for a reply from the beginning of the call, however long there was no connection
//! meanwhile. After an outage the time of many calls is over as soon as they are sent. If each of them ended the
//! connection, none would ever have its reply. So a call that was sent a short while ago goes on; when sunrpc
//! finds its time over, it begins to count anew.

use crate::{
    timeouts::nanoseconds,
    transport::Transport,
    xprt::Xprt, //
};

impl<T: Transport> Xprt<T> {
    /// Gives up the connection over which the call was sent, because no reply came in time, unless the call goes
    /// on. May sleep.
    ///
    /// # Safety
    ///
    /// As for [`Self::goes_on`].
    pub(crate) unsafe fn reply_timed_out(&self, rqst: *const raw::rpc_rqst) {
        // If it was not sent over this connection, there has been a new one since.
        // SAFETY: The caller vouches for the request.
        if unsafe { self.was_sent(rqst) && !self.goes_on(rqst) } {
            T::give_up(self, self, c"no reply in time");
        }
    }

    /// Whether the call was sent over this connection.
    ///
    /// # Safety
    ///
    /// The request is in use.
    #[inline]
    pub(crate) unsafe fn was_sent(&self, rqst: *const raw::rpc_rqst) -> bool {
        // SAFETY: The caller vouches for the request. sunrpc writes the word as a whole.
        let cookie = unsafe { (&raw const (*rqst).rq_connect_cookie).read_volatile() };
        cookie == self.connect_cookie()
    }

    /// Whether the call, which was sent over this connection, waits on for its reply though sunrpc finds its time
    /// over: it was sent less than half of that time ago.
    ///
    /// # Safety
    ///
    /// The request is that of a call, and in use, and so is its task.
    pub(crate) unsafe fn goes_on(&self, rqst: *const raw::rpc_rqst) -> bool {
        // SAFETY: The caller vouches for request and task. The task of a call has a client, whose time-outs live
        // as long as the client.
        let (sent, time) = unsafe {
            let client = (*(*rqst).rq_task).tk_client;
            (
                (&raw const (*rqst).rq_xtime).read_volatile(),
                (*(*client).cl_timeout).to_initval,
            )
        };
        // SAFETY: Any context but an NMI may call this.
        let since = unsafe { raw::ktime_get() }.saturating_sub(sent);
        // SAFETY: The caller vouches for request and task.
        since < nanoseconds(time) / 2 && unsafe { stays_encoded(rqst) }
    }
}

/// Whether the memory of the call, which the peer may still read, stays as it is now that the time is over.
///
/// sunrpc encodes the call anew before it sends it again, if there is no `RPC_TASK_NO_RETRANS_TIMEOUT`, which NFSv4 sets.
/// That changes nothing, unless RPCSEC_GSS takes another sequence number and encrypts the arguments once more.
///
/// # Safety
///
/// The request is in use, and so is its task.
unsafe fn stays_encoded(rqst: *const raw::rpc_rqst) -> bool {
    // SAFETY: The caller vouches for the task. sunrpc writes the word as a whole.
    let flags = unsafe { (&raw const (*(*rqst).rq_task).tk_flags).read_volatile() };
    if u32::from(flags) & raw::RPC_TASK_NO_RETRANS_TIMEOUT != 0 {
        return true;
    }
    // SAFETY: A request that was sent has a credential, which has a reference to its flavor.
    let flavor = unsafe { (*(*(*rqst).rq_cred).cr_auth).au_flavor };
    matches!(
        flavor,
        raw::rpc_auth_flavors_RPC_AUTH_NULL | raw::rpc_auth_flavors_RPC_AUTH_UNIX
    )
}
