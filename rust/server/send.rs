// SPDX-License-Identifier: GPL-2.0

//! The send path: memory for messages, the credit grant in replies, backchannel calls, and posting,
//! or queueing until the Send queue has space.
//!
//! RFC 8166, section 3.3.1; RFC 8167 for calls to the client.
//!
//! A thread tries once. A completion handler posts the Sends that had to wait, so that a reply
//! needs no other thread. RDMA Reads that had to wait get their SQ credits in a completion handler,
//! and a thread posts them then.

use super::work_queue::{
    OutgoingBytes,
    Waiter, //
};
use crate::prelude::*;
use kernel::alloc::Flags;
use proto::{
    reverse,
    waiting::Attempt, //
};
use rdma::{
    receive::Buffers,
    send,
    SqPermit, //
};
use sunrpc::SvcCallback;
use trace::CompletionId;

/// The send path of a connection.
///
/// The reverse transport has a clone: a backchannel call may be in progress when the `svc_xprt` is
/// freed.
#[derive(Clone)]
pub(crate) struct SendPath {
    pub(super) queue: Arc<QueuePair<ServerConn>>,
    pub(super) connection: Arc<ServerConn>,
    pub(super) limits: config::QueueLimits,
    /// Whether a reply may invalidate an rkey of the client (RFC 8797).
    pub(super) remote_invalidation: bool,
    /// Whether the client accepts an inline reply to a call that offered a Reply chunk.
    pub(super) unused_reply_chunk: bool,
    /// The inline threshold: the longest message that the client receives, transport header
    /// included.
    pub(super) inline_threshold: usize,
}

impl SendPath {
    /// Returns the credit grant.
    pub(super) fn credits(&self) -> u32 {
        self.connection.credits.granted()
    }

    /// Grants the first credits. Sleeps.
    pub(super) fn grant_first(&self) -> Result {
        let credits = config::FIRST_CREDITS.min(self.limits.credits);
        self.post_receives(credits, GFP_KERNEL)?;
        let (more, size) = (
            self.limits.beyond_credits,
            self.limits.inline.receive_size(),
        );
        if more > 0 {
            self.queue.add_receives(more, size, GFP_KERNEL)?;
        }
        self.connection.credits.set_first(credits);
        Ok(())
    }

    /// Posts the Receives for a grant of `credits`. Only one thread may call this at a time. Sleeps
    /// if `flags` allow it.
    fn post_receives(&self, credits: u32, flags: Flags) -> Result {
        self.queue.grow_receives(
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
        let expects_replies = &self.connection.expects_replies;
        if !expects_replies.load(Relaxed) {
            let size = self.limits.inline.receive_size();
            self.queue
                .add_receives(config::QueueLimits::REPLIES, size, GFP_NOWAIT)
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
        let replies = if expects_replies.load(Relaxed) {
            config::BACKCHANNEL_CREDITS
        } else {
            0
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

    /// Returns memory for a message: a Send buffer, if one is free. Sleeps.
    pub(super) fn message_memory(&self) -> Result<OutgoingBytes> {
        // Waiting Sends get the buffers first.
        let buffer = if self.connection.waits_for_buffers() {
            None
        } else {
            self.queue.make_send_buffer()
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
    pub(super) fn put_back(&self, bytes: OutgoingBytes) {
        if let OutgoingBytes::Buffer(buffer) = bytes {
            self.queue.put_back_send_buffer(buffer);
        }
    }

    /// Sends a backchannel call: a header without chunks, followed by `call`. [`EAGAIN`] if there
    /// is no Send buffer, or memory is short; [`EMSGSIZE`] if the client receives no message that
    /// long. Any other error closes the connection. Sleeps.
    pub(super) fn send_backchannel_call(&self, xid: u32, call: &SvcCallback<'_>) -> Result {
        if !self.connection.state.is_open() {
            return Err(enotconn());
        }
        self.expect_replies()?;
        let mut buffer = self.queue.make_send_buffer().ok_or(EAGAIN)?;
        match self.encode_backchannel_call(xid, call, buffer.bytes_mut()) {
            Ok(len) => {
                let send = send::UnpostedSend {
                    buffer,
                    len,
                    kind: SendKind::Plain,
                    tag: xid,
                };
                let (_, posted) =
                    self.queue
                        .post_reply(None, Attached::Nothing, SqPermit::EMPTY, send, None);
                self.connection.note_posted(posted)
            }
            Err(error) => {
                self.queue.put_back_send_buffer(buffer);
                self.connection.retry_waiters(&self.queue);
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
                self.connection.end(Cause::CallbackNotEncoded);
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
            credits: config::BACKCHANNEL_CREDITS,
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

impl ServerConn {
    /// Posts `message` on `queue`, or queues it until there is space. An error closes the
    /// connection. Sleeps.
    pub(super) fn send(&self, queue: &QueuePair<Self>, message: WithMessage<Outgoing>) -> Result {
        let sequence = self.space_seq();
        let has_buffer = matches!(message.state.bytes, OutgoingBytes::Buffer(_));
        let result = if !has_buffer && self.waits_for_buffers() {
            self.wait_for_buffer(message, Attempt::NotTried);
            // Completions use the buffers that exist. More may be allocated.
            if let Some(buffer) = queue.make_send_buffer() {
                queue.put_back_send_buffer(buffer);
                self.note_space_freed();
            }
            Ok(())
        } else {
            let make = || queue.make_send_buffer();
            self.try_send(queue, message, make, sequence, false)
        };
        self.recheck_waiters(queue);
        self.post_barrier_for_buffers(queue);
        result
    }

    /// Requests a completion if Sends wait for buffers and no more can be allocated. Does not
    /// sleep.
    fn post_barrier_for_buffers(&self, queue: &QueuePair<Self>) {
        if self.waits_for_buffers() && queue.lacks_send_buffers() && queue.post_barrier().is_err() {
            self.end(Cause::BarrierNotPosted);
        }
    }

    /// Posts `message`, in a buffer from `take` if it has none, or queues it for what it lacks: at
    /// the end, or at the front if it is tried `again`. `sequence` is an earlier value of
    /// [`Self::space_seq`]. An error closes the connection; if it has ended already, `message` is
    /// dropped. Sleeps if `take` does.
    pub(super) fn try_send(
        &self,
        queue: &QueuePair<Self>,
        message: WithMessage<Outgoing>,
        take: impl FnOnce() -> Option<send::Buffer<Self>>,
        sequence: u64,
        again: bool,
    ) -> Result {
        if !self.state.is_open() {
            return Err(enotconn());
        }
        let WithMessage {
            message: answers,
            state,
        } = message;
        let has_buffer = matches!(state.bytes, OutgoingBytes::Buffer(_));
        let buffer = match state.bytes.into_buffer(state.len, take) {
            Ok(buffer) => buffer,
            Err(bytes) => {
                let message = WithMessage {
                    message: answers,
                    state: Outgoing { bytes, ..state },
                };
                Self::trace_full(queue, 0);
                let attempt = if again {
                    Attempt::Requeued(sequence)
                } else {
                    Attempt::New(sequence)
                };
                self.wait_for_buffer(message, attempt);
                return Ok(());
            }
        };
        let requests = state.attached.requests();
        // Earlier waiters for SQ credits come first.
        let (permit, attempt) = if again && has_buffer {
            (queue.reserve(requests), Attempt::Requeued(sequence))
        } else if requests != 0 && self.waits_for_credits() {
            (None, Attempt::NotTried)
        } else {
            (queue.reserve(requests), Attempt::New(sequence))
        };
        let Some(permit) = permit else {
            Self::trace_full(queue, buffer.id(queue).completion);
            let bytes = OutgoingBytes::Buffer(buffer);
            let message = WithMessage {
                message: answers,
                state: Outgoing { bytes, ..state },
            };
            self.wait_for_credits(Waiter::Send(message), attempt);
            return Ok(());
        };
        config::WRITES.add(requests);
        let Outgoing {
            len,
            attached,
            memory,
            kind,
            xid,
            ..
        } = state;
        let send = send::UnpostedSend {
            buffer,
            len,
            kind,
            tag: xid,
        };
        // The Receive is posted before the Send: after that the client may use the credit again.
        self.give_back();
        let answered = Some(answers.into_buffer());
        let (freed, posted) = queue.post_reply(answered, attached, permit, send, memory);
        self.note_reposted(freed);
        self.note_posted(posted)
    }

    /// Starts the watchdog for a posted message, or closes the connection if posting failed.
    fn note_posted(&self, posted: Result) -> Result {
        match posted {
            Ok(()) => self.start_watchdog(),
            Err(_) => self.end(Cause::SendNotPosted),
        }
        posted
    }

    /// Traces that the reply `xid` is not sent because of `error`.
    pub(super) fn trace_send_error(&self, xid: u32, error: Error) {
        trace::event!(svcrdma_send_err(self.client_text().as_c_str(), xid, error));
    }

    /// Traces that `queue` has no space for `completion`.
    pub(super) fn trace_full(queue: &QueuePair<Self>, completion: i32) {
        if trace::svcrdma_sq_full::is_on() {
            let id = CompletionId {
                queue: queue.queue_number(),
                completion,
            };
            let (free, all) = queue.sq_credits();
            trace::svcrdma_sq_full::emit(id, free, all);
        }
    }
}
