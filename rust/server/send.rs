// SPDX-License-Identifier: GPL-2.0

//! Sending: replies, RDMA_ERROR messages, and backchannel calls; and the credit grant that replies
//! carry.
//!
//! RFC 8166, section 3.3.1; RFC 8167 for calls to the client.

use super::{
    config::WRITES,
    connection::Connection,
    queue_limits::{
        QueueLimits,
        BACKCHANNEL_CREDITS, //
    },
};
use crate::endpoint::{
    Responding,
    SendBuffering,
    Unposted, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Release, //
        },
        Arc, //
    },
};
use proto::{
    conn::server::Event,
    credit,
    reverse, //
};
use rdma::{
    error::not_connected,
    receive::Buffers,
    send::{
        Buffer,
        Verb, //
    },
    transfer::Attached,
    QueuePair, //
};
use sunrpc::{
    SvcCallback,
    SvcConnection, //
};
use trace::CompletionId;

/// All that sending on a connection takes.
///
/// The reverse transport has a clone: a backchannel call may be under way when the `svc_xprt` is
/// freed.
pub(crate) struct SendPath<T: SvcConnection> {
    pub(super) queue: Arc<QueuePair<Connection<T>>>,
    pub(super) connection: Arc<Connection<T>>,
    pub(super) limits: QueueLimits,
    /// Whether a reply may invalidate an rkey of the client (RFC 8797).
    pub(super) remote_invalidation: bool,
    /// The inline threshold: the longest message, transport header included, that the client
    /// receives.
    pub(super) inline_threshold: usize,
}

impl<T: SvcConnection> Clone for SendPath<T> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            connection: self.connection.clone(),
            ..*self
        }
    }
}

impl<T: SvcConnection> SendPath<T> {
    /// The credit grant.
    pub(super) fn credits(&self) -> u32 {
        self.connection.granted.load(Acquire)
    }

    /// Posts the Receives for a grant of `credits`, then grants them. Sleeps if `flags` allow it.
    pub(super) fn grant(&self, credits: u32, flags: Flags) -> Result {
        let receives = QueueLimits::receives::<Connection<T>>(credits)?;
        self.connection.reserve_work(receives, flags)?;
        let missing = self.connection.receives.fill(
            &self.queue,
            QueueLimits::messages(credits)?,
            self.limits.inline.receive_size(),
            flags,
            &mut Buffers::new(),
        )?;
        // If none was missing, another thread has granted as much or more meanwhile.
        if missing > 0 {
            self.connection.granted.store(credits, Release);
        }
        Ok(())
    }

    /// Raises the grant, if `in_progress` messages use enough of it and there is memory. Does not
    /// sleep.
    pub(super) fn raise_grant(&self, in_progress: u32) {
        let raised = credit::raised(self.credits(), in_progress, self.limits.credits);
        if let Some(credits) = raised {
            // If there is no memory now, a later reply tries again.
            let _ = self.grant(credits, GFP_NOWAIT);
        }
    }

    /// A Send buffer. [`None`] if the connection is being closed. Sleeps until a buffer is free.
    pub(super) fn buffer(&self) -> Option<Buffer<Connection<T>>> {
        self.connection.wait_for_sq((), |()| {
            self.queue.make_send_buffer().ok_or_else(|| {
                self.trace_full(CompletionId {
                    queue: self.queue.queue_number(),
                    completion: 0,
                });
            })
        })
    }

    /// Traces that a thread has to wait for the Send queue.
    pub(super) fn trace_full(&self, id: CompletionId) {
        if trace::svcrdma_sq_full::is_on() {
            let (free, all) = self.queue.sq_credits();
            trace::svcrdma_sq_full::emit(id, free, all);
        }
    }

    /// Posts a Send of the first `len` bytes of `buffer`, with `attached`. Sleeps until
    /// both fit into the Send queue. An error has the connection closed.
    pub(super) fn post(
        &self,
        attached: Attached<Connection<T>>,
        mut buffer: Buffer<Connection<T>>,
        len: usize,
        verb: Verb,
    ) -> Result {
        // RFC 8166, section 4.2.1: each header begins with the XID.
        let xid = buffer.bytes_mut().first_chunk().copied();
        let xid = xid.map_or(0, u32::from_be_bytes);
        WRITES.add(attached.requests());
        let posted =
            self.connection
                .wait_for_sq((attached, buffer), |(attached, buffer)| {
                    match self.queue.post_reply(attached, buffer, len, verb, xid) {
                        Ok(()) => Ok(Ok(())),
                        Err(Unposted::Full(attached, buffer)) => {
                            self.trace_full(buffer.id(&self.queue));
                            Err((attached, buffer))
                        }
                        Err(Unposted::Lost(error)) => Ok(Err(error)),
                    }
                });
        let result = posted.unwrap_or_else(|| Err(not_connected()));
        if result.is_err() {
            self.connection
                .lost(Event::Unanswered, c"a message could not be posted");
        }
        result
    }

    /// Sends a backchannel call: a header without chunks, and `call` behind it. Sleeps. An error
    /// has the connection closed.
    pub(super) fn send_backchannel_call(&self, xid: u32, call: &SvcCallback<'_>) -> Result {
        let mut buffer = self.buffer().ok_or_else(not_connected)?;
        match self.encode_backchannel_call(xid, call, buffer.bytes_mut()) {
            Ok(len) => self.post(Attached::Nothing, buffer, len, Verb::Send),
            Err(error) => {
                self.queue.put_back_send_buffer(buffer);
                // The connection works, so nothing else would close it.
                self.connection
                    .lost(Event::Unanswered, c"a callback could not be encoded");
                Err(error)
            }
        }
    }

    /// Writes the message to `out`, and returns its length.
    fn encode_backchannel_call(
        &self,
        xid: u32,
        call: &SvcCallback<'_>,
        out: &mut [u8],
    ) -> Result<usize> {
        let header = reverse::Header {
            xid,
            credits: BACKCHANNEL_CREDITS,
        };
        let at = header.emit(out).map_err(|_| EINVAL)?;
        let end = at.checked_add(call.len()).ok_or(EINVAL)?;
        if end > self.inline_threshold {
            return Err(EMSGSIZE);
        }
        let place = out.get_mut(at..end).ok_or(EMSGSIZE)?;
        if call.copy_out(place)? != place.len() {
            return Err(EINVAL);
        }
        Ok(end)
    }
}
