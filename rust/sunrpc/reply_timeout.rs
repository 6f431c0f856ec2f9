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
//!
//! Then sunrpc may encode the call anew. RPCSEC_GSS gives back the pages that it encrypted the arguments to when it
//! does that, and the peer must not be able to read them any more.

use crate::{
    rqst::Rqst,
    timeouts::nanoseconds,
    transport::Transport,
    xprt::Xprt, //
};
use kernel::prelude::*;

/// Why a connection is given up over which a call has no reply.
pub(crate) const LOST_WITHOUT_REPLY: &CStr = c"no reply in time";

impl<T: Transport> Xprt<T> {
    /// Gives up the connection over which the call was sent, because no reply came in time, unless the call goes
    /// on. If sunrpc encodes the call anew, the peer has no access to its memory when this returns. May sleep.
    ///
    /// # Safety
    ///
    /// The caller is the task of `rqst`.
    pub(crate) unsafe fn reply_timed_out(&self, rqst: &Rqst<T>) {
        let raw = rqst.as_raw();
        // If it was not sent over this connection, there has been a new one since, or this one is being closed.
        // SAFETY: A task is in use as long as it runs, and so is its request.
        if unsafe { self.was_sent(raw) } {
            // SAFETY: As above.
            if unsafe { self.goes_on(raw) } {
                return;
            }
            T::give_up(self, self, LOST_WITHOUT_REPLY);
        }
        // SAFETY: As above.
        if unsafe { !awaits_transmission(raw) && self.may_free_memory(raw) } {
            T::release(self, self, rqst);
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

    /// Whether sunrpc would retransmit the call over this connection, though the reply may still come.
    ///
    /// A call that has a reply is another matter: sunrpc did not like that one.
    ///
    /// # Safety
    ///
    /// As for [`Self::goes_on`].
    #[inline]
    pub(crate) unsafe fn is_retransmission(&self, rqst: &Rqst<T>) -> bool {
        let raw = rqst.as_raw();
        // SAFETY: The caller vouches for the request.
        unsafe { self.was_sent(raw) && rqst.awaits_reply() && self.goes_on(raw) }
    }

    /// Whether the call, which was sent over this connection, waits on for its reply though sunrpc finds its time
    /// over: it was sent less than half of that time ago.
    ///
    /// # Safety
    ///
    /// The request is that of a call, and in use, and so is its task.
    unsafe fn goes_on(&self, rqst: *const raw::rpc_rqst) -> bool {
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
        since < nanoseconds(time) / 2 && unsafe { !self.may_free_memory(rqst) }
    }

    /// Whether sunrpc, now that the time of the call is over, may give back memory that it was sent from.
    ///
    /// sunrpc encodes a call anew, unless it was sent over this connection and has `RPC_TASK_NO_RETRANS_TIMEOUT`,
    /// which NFSv4 sets. That changes nothing, unless RPCSEC_GSS takes another sequence number and encrypts the
    /// arguments once more.
    ///
    /// # Safety
    ///
    /// The request is that of a call that was sent, and in use, and so is its task.
    unsafe fn may_free_memory(&self, rqst: *const raw::rpc_rqst) -> bool {
        // SAFETY: The caller vouches for the task. sunrpc writes the word as a whole.
        let flags = unsafe { (&raw const (*(*rqst).rq_task).tk_flags).read_volatile() };
        let waits = u32::from(flags) & raw::RPC_TASK_NO_RETRANS_TIMEOUT != 0;
        // SAFETY: The caller vouches for the request.
        if waits && unsafe { self.was_sent(rqst) } {
            return false;
        }
        // SAFETY: A request that was sent has a credential, which has a reference to its flavor.
        let flavor = unsafe { (*(*(*rqst).rq_cred).cr_auth).au_flavor };
        !matches!(
            flavor,
            raw::rpc_auth_flavors_RPC_AUTH_NULL | raw::rpc_auth_flavors_RPC_AUTH_UNIX
        )
    }
}

/// Whether the call waits to be sent. Then sunrpc does not encode it anew, and another task may be sending it.
///
/// # Safety
///
/// The request is that of a call, and in use, and so is its task.
unsafe fn awaits_transmission(rqst: *const raw::rpc_rqst) -> bool {
    // SAFETY: The caller vouches for request and task. The word changes by atomic operations only.
    let state = unsafe { (&raw const (*(*rqst).rq_task).tk_runstate).read_volatile() };
    state & (1 << raw::RPC_TASK_NEED_XMIT) != 0
}
