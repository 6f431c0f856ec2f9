// SPDX-License-Identifier: GPL-2.0

//! The send path: memory for messages, the credit grant in replies, and backchannel calls.
//!
//! RFC 8166, section 3.3.1; RFC 8167 for calls to the client.

use super::{
    connection::ServerConn,
    queue_limits::{
        QueueLimits,
        BACKCHANNEL_CREDITS,
        FIRST_CREDITS, //
    },
    waiting::OutgoingBytes, //
};
use crate::endpoint::{
    ResponderExt,
    SendBufferExt, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};
use proto::{
    conn::server::Event,
    reverse, //
};
use rdma::{
    error::not_connected,
    receive::Buffers,
    send::{
        SendKind,
        UnpostedSend, //
    },
    transfer::Attached,
    QueuePair, //
};
use sunrpc::{
    SvcCallback,
    SvcConnection, //
};

/// The send path of a connection.
///
/// The reverse transport has a clone: a backchannel call may be in progress when the `svc_xprt` is
/// freed.
pub(crate) struct SendPath<T: SvcConnection> {
    pub(super) queue: Arc<QueuePair<ServerConn<T>>>,
    pub(super) connection: Arc<ServerConn<T>>,
    pub(super) limits: QueueLimits,
    /// Whether a reply may invalidate an rkey of the client (RFC 8797).
    pub(super) remote_invalidation: bool,
    /// Whether the client accepts an inline reply to a call that offered a Reply chunk.
    pub(super) unused_reply_chunk: bool,
    /// The inline threshold: the longest message that the client receives, transport header
    /// included.
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
    /// Returns the credit grant.
    pub(super) fn credits(&self) -> u32 {
        self.connection.credits.granted()
    }

    /// Grants the first credits. Sleeps.
    pub(super) fn grant_first(&self) -> Result {
        let credits = FIRST_CREDITS.min(self.limits.credits);
        self.post_receives(credits, GFP_KERNEL)?;
        let (more, size) = (
            self.limits.beyond_credits,
            self.limits.inline.receive_size(),
        );
        if more > 0 {
            let receives = &self.connection.receives;
            receives.add(&self.queue, more, size, GFP_KERNEL)?;
        }
        self.connection.credits.set_first(credits);
        Ok(())
    }

    /// Posts the Receives for a grant of `credits`. Only one thread may call this at a time. Sleeps
    /// if `flags` allow it.
    fn post_receives(&self, credits: u32, flags: Flags) -> Result {
        let receives = self.limits.receives::<ServerConn<T>>(credits)?;
        self.connection.reserve_work(receives, flags)?;
        self.connection.receives.grow(
            &self.queue,
            usize::try_from(credits)?,
            self.limits.inline.receive_size(),
            flags,
            &mut Buffers::new(),
        )
    }

    /// Posts Receives for the client's replies, before the first backchannel call: most clients
    /// never get one. [`EAGAIN`] if memory is short. Does not sleep. sunrpc sends one backchannel
    /// call at a time.
    fn expect_replies(&self) -> Result {
        let ServerConn {
            expects_replies,
            receives,
            ..
        } = &*self.connection;
        if !expects_replies.load(Relaxed) {
            let size = self.limits.inline.receive_size();
            receives
                .add(&self.queue, QueueLimits::REPLIES, size, GFP_NOWAIT)
                .map_err(|_| EAGAIN)?;
            expects_replies.store(true, Relaxed);
        }
        Ok(())
    }

    /// Raises the grant if the client asks for more, uses enough of it, and there is memory.
    /// `in_progress` messages are in progress. Does not sleep.
    pub(super) fn raise_grant(&self, in_progress: u32) {
        let ServerConn {
            credits,
            expects_replies,
            ..
        } = &*self.connection;
        // A message is known to be a reply to a callback only when a thread has taken it.
        let replies = match expects_replies.load(Relaxed) {
            true => BACKCHANNEL_CREDITS,
            false => 0,
        };
        let raised = credits.next_grant(in_progress, replies, self.limits.credits, || {
            self.queue.min_rtt()
        });
        let Some(raised) = raised else {
            return;
        };
        if let Some(update) = credits.begin_update() {
            // If memory is short now, a later reply tries again.
            let _ = update.raise(raised, |credits| self.post_receives(credits, GFP_NOWAIT));
        }
    }

    /// Shrinks the work queue if the number of Receives has decreased. Sleeps.
    pub(super) fn shrink_work(&self) {
        let ServerConn {
            credits, receives, ..
        } = &*self.connection;
        // No other thread posts more for a grant meanwhile.
        if let Some(_update) = credits.begin_update() {
            let count = self.limits.all_receives(receives.len());
            self.connection.shrink_work(count);
        }
    }

    /// Returns memory for a message: a Send buffer, if one is free. Sleeps.
    pub(super) fn message_memory(&self) -> Result<OutgoingBytes<ServerConn<T>>> {
        // Waiting Sends get the buffers first.
        let buffer = match self.connection.waits_for_buffers() {
            false => self.queue.make_send_buffer(),
            true => None,
        };
        match buffer {
            Some(buffer) => Ok(OutgoingBytes::Buffer(buffer)),
            None => {
                ServerConn::trace_full(&self.queue, 0);
                OutgoingBytes::memory(self.limits.inline.send_size())
            }
        }
    }

    /// Releases the memory of a message that is not sent.
    pub(super) fn put_back(&self, bytes: OutgoingBytes<ServerConn<T>>) {
        if let OutgoingBytes::Buffer(buffer) = bytes {
            self.queue.put_back_send_buffer(buffer);
        }
    }

    /// Sends a backchannel call: a header without chunks, followed by `call`. [`EAGAIN`] if there
    /// is no Send buffer, or memory is short; [`EMSGSIZE`] if the client receives no message that
    /// long. Any other error closes the connection. Sleeps.
    pub(super) fn send_backchannel_call(&self, xid: u32, call: &SvcCallback<'_>) -> Result {
        if !self.connection.state.is_open() {
            return Err(not_connected());
        }
        self.expect_replies()?;
        let mut buffer = self.queue.make_send_buffer().ok_or(EAGAIN)?;
        match self.encode_backchannel_call(xid, call, buffer.bytes_mut()) {
            Ok(len) => {
                let send = UnpostedSend {
                    buffer,
                    len,
                    kind: SendKind::Plain,
                    tag: xid,
                };
                let posted = self.queue.post_reply(Attached::Nothing, 0, send, None);
                self.connection.is_posted(posted)
            }
            Err(error) => {
                self.queue.put_back_send_buffer(buffer);
                if error == EMSGSIZE {
                    self.connection.log_message(|client| {
                        let len = call.len();
                        pr_info!(
                            "a callback of {len} bytes is longer than what {client} receives\n"
                        );
                    });
                    // Another connection of this client would not take a longer one.
                    return Err(error);
                }
                // The connection itself works, so nothing else would close it.
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
