// SPDX-License-Identifier: GPL-2.0

//! Sending: replies, RDMA_ERROR messages, and backchannel calls; and the credit grant that replies
//! carry.
//!
//! RFC 8166, section 3.3.1; RFC 8167 for calls to the client.

use super::{
    config::WRITES,
    connection::Connection,
    credits::Credits,
    queue_limits::{
        QueueLimits,
        BACKCHANNEL_CREDITS, //
    },
    waiting::{
        Outgoing,
        OutgoingBytes,
        Waiting, //
    },
};
use crate::endpoint::{
    Responding,
    SendBuffering, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};
use proto::{
    conn::server::Event,
    reverse, //
};
use rdma::{
    receive::Buffers,
    send::Verb,
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
        self.connection.credits.granted()
    }

    /// Posts the Receives for a grant of `credits`, then grants them. Returns false if another thread has granted as much or more
    /// meanwhile. Sleeps if `flags` allow it.
    pub(super) fn grant(&self, credits: u32, flags: Flags) -> Result<bool> {
        let receives = QueueLimits::receives::<Connection<T>>(credits)?;
        self.connection.reserve_work(receives, flags)?;
        let missing = self.connection.receives.fill(
            &self.queue,
            QueueLimits::messages(credits)?,
            self.limits.inline.receive_size(),
            flags,
            &mut Buffers::new(),
        )?;
        if missing > 0 {
            self.connection.credits.set(credits);
        }
        Ok(missing > 0)
    }

    /// Raises the grant, if the client asks for more, uses enough of it, and there is memory. `in_progress` messages are in progress.
    /// Does not sleep.
    pub(super) fn raise_grant(&self, in_progress: u32) {
        let credits = &self.connection.credits;
        let raised = credits.raised(in_progress, self.limits.credits, || {
            self.queue.least_round_trip()
        });
        let Some(raised) = raised else {
            return;
        };
        let more = raised.saturating_sub(credits.granted());
        if !Credits::take_from_total(more) {
            return;
        }
        // If there is no memory now, a later reply tries again.
        if !matches!(self.grant(raised, GFP_NOWAIT), Ok(true)) {
            Credits::return_to_total(more);
        }
    }

    /// Memory for a message: a Send buffer, if one is free. Sleeps.
    pub(super) fn message_memory(&self) -> Result<OutgoingBytes<Connection<T>>> {
        let (_, sends) = self.connection.waiting();
        // The Sends that wait get the buffers first.
        let buffer = match sends {
            0 => self.queue.make_send_buffer(),
            _ => None,
        };
        match buffer {
            Some(buffer) => Ok(OutgoingBytes::Buffer(buffer)),
            None => {
                self.trace_full(0);
                OutgoingBytes::memory(self.limits.inline.send_size())
            }
        }
    }

    /// Gives back memory of a message that is not sent.
    pub(super) fn put_back(&self, bytes: OutgoingBytes<Connection<T>>) {
        if let OutgoingBytes::Buffer(buffer) = bytes {
            self.queue.put_back_send_buffer(buffer);
        }
    }

    /// Traces that there is no room in the Send queue for `completion`.
    pub(super) fn trace_full(&self, completion: i32) {
        if trace::svcrdma_sq_full::is_on() {
            let id = CompletionId {
                queue: self.queue.queue_number(),
                completion,
            };
            let (free, all) = self.queue.sq_credits();
            trace::svcrdma_sq_full::emit(id, free, all);
        }
    }

    /// Posts `message`, or has it wait for room in the Send queue. An error has the connection closed. Sleeps.
    pub(super) fn send(&self, message: Outgoing<Connection<T>>) -> Result {
        let sequence = self.connection.resumed();
        let (all, sends) = self.connection.waiting();
        // A message in a Send buffer does not wait for others to get one; but what waits for SQ credits comes first.
        let waits = match message.bytes {
            OutgoingBytes::Buffer(_) => all > sends && message.attached.requests() != 0,
            OutgoingBytes::Memory(_) => sends != 0,
        };
        match waits {
            true => {
                let waiting = Waiting::Send(message);
                self.connection.wait_for_room(waiting, sequence, false);
                Ok(())
            }
            false => self.try_send(message, sequence, false),
        }
    }

    /// Posts `message`, if there is room in the Send queue, and else has it wait, `first` or last. [`Connection::resumed`] was
    /// `sequence`. An error has the connection closed. Sleeps.
    pub(super) fn try_send(
        &self,
        mut message: Outgoing<Connection<T>>,
        sequence: u64,
        first: bool,
    ) -> Result {
        let buffer = message
            .bytes
            .into_buffer(message.len, || self.queue.make_send_buffer());
        let buffer = match buffer {
            Ok(buffer) => buffer,
            Err(bytes) => {
                message.bytes = bytes;
                self.trace_full(0);
                let waiting = Waiting::Send(message);
                self.connection.wait_for_room(waiting, sequence, first);
                return Ok(());
            }
        };
        let requests = message.attached.requests();
        let Some(credits) = self.queue.reserve(requests) else {
            self.trace_full(buffer.id(&self.queue).completion);
            message.bytes = OutgoingBytes::Buffer(buffer);
            let waiting = Waiting::Send(message);
            self.connection.wait_for_room(waiting, sequence, first);
            return Ok(());
        };
        WRITES.add(requests);
        let Outgoing {
            len,
            attached,
            verb,
            xid,
            answers,
            ..
        } = message;
        // Before the Send, after which the client may use the credit again.
        self.connection.repost(&self.queue, answers);
        let posted = self
            .queue
            .post_reply(attached, credits, buffer, len, verb, xid);
        self.is_posted(posted)
    }

    /// Has what was posted watched, or the connection closed.
    fn is_posted(&self, posted: Result) -> Result {
        match posted {
            Ok(()) => self.connection.watch(),
            Err(_) => self
                .connection
                .lost(Event::Unanswered, c"a message could not be posted"),
        }
        posted
    }

    /// Sends a backchannel call: a header without chunks, and `call` behind it. [`EAGAIN`] if there is no room in the Send queue.
    /// Sleeps. Any other error has the connection closed.
    pub(super) fn send_backchannel_call(&self, xid: u32, call: &SvcCallback<'_>) -> Result {
        let mut buffer = self.queue.make_send_buffer().ok_or(EAGAIN)?;
        match self.encode_backchannel_call(xid, call, buffer.bytes_mut()) {
            Ok(len) => {
                let posted =
                    self.queue
                        .post_reply(Attached::Nothing, 0, buffer, len, Verb::Send, xid);
                self.is_posted(posted)
            }
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
