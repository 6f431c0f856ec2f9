// SPDX-License-Identifier: GPL-2.0

//! Posting messages to the client, or queueing them until the Send queue has space.
//!
//! A thread tries once. A completion handler posts the Sends that had to wait, so that a reply
//! needs no other thread. RDMA Reads that had to wait get their SQ credits in a completion handler,
//! and a thread posts them then.

use super::{
    config::WRITES,
    connection::ServerConn,
    sq_credit_queue::SqWaiter,
    wait_queue::Attempt,
    waiting::{
        Outgoing,
        OutgoingBytes, //
    }, //
};
use crate::endpoint::{
    ResponderExt,
    SendBufferExt, //
};
use kernel::prelude::*;
use proto::conn::server::Event;
use rdma::{
    error::not_connected,
    send::{
        Buffer,
        UnpostedSend, //
    },
    QueuePair, //
};
use sunrpc::SvcConnection;
use trace::CompletionId;

impl<T: SvcConnection> ServerConn<T> {
    /// Posts `message` on `queue`, or queues it until there is space. An error closes the
    /// connection. Sleeps.
    pub(super) fn send(&self, queue: &QueuePair<Self>, message: Outgoing<Self>) -> Result {
        let sequence = self.space_seq();
        let has_buffer = matches!(message.bytes, OutgoingBytes::Buffer(_));
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
            self.lost(Event::Unanswered, c"a work request could not be posted");
        }
    }

    /// Notes that `queue` has space again, and serves the waiters. Does not sleep.
    pub(super) fn on_space_freed(&self, queue: &QueuePair<Self>) {
        self.note_space_freed();
        self.run_waiters(queue);
    }

    /// Rechecks the waiters. Call this after every attempt to post. Closes the race with a
    /// completion that freed space before the element was queued: no later completion may come.
    /// Does not sleep.
    pub(super) fn recheck_waiters(&self, queue: &QueuePair<Self>) {
        if self.waits_for_buffers() || self.waits_for_credits() {
            self.run_waiters(queue);
        }
    }

    /// Does what [`Self::on_space_freed`] does, if anything waits.
    pub(super) fn retry_waiters(&self, queue: &QueuePair<Self>) {
        if self.waits_for_buffers() || self.waits_for_credits() {
            self.on_space_freed(queue);
        }
    }

    /// Posts the waiting Sends for which there is space, and queues RDMA Reads for which there is
    /// for a thread to post. If the connection has ended, drops both. Does not sleep.
    fn run_waiters(&self, queue: &QueuePair<Self>) {
        while let Some(waiting) = self.next_waiter() {
            let sequence = self.space_seq();
            match waiting {
                SqWaiter::Reads(reads) if !self.state.is_open() => {
                    drop(reads);
                    self.end_reads();
                }
                SqWaiter::Reads(mut reads) => {
                    match queue.reserve_reads(reads.requests, reads.registrations) {
                        Some(credits) => {
                            reads.credits = Some(credits);
                            self.queue_ready_reads(reads);
                        }
                        None => {
                            self.wait_for_credits(
                                SqWaiter::Reads(reads),
                                Attempt::Requeued(sequence),
                            );
                            self.end_reads();
                        }
                    }
                }
                SqWaiter::Send(message) => {
                    let take = || queue.take_send_buffer();
                    let xid = message.xid;
                    // An error closes the connection.
                    if let Err(error) = self.try_send(queue, message, take, sequence, true) {
                        self.trace_send_error(xid, error);
                    }
                }
            }
        }
    }

    /// Posts `message`, in a buffer from `take` if it has none, or queues it for what it lacks: at
    /// the end, or at the front if it is tried `again`. `sequence` is an earlier value of
    /// [`Self::space_seq`]. An error closes the connection; if it has ended already, `message` is
    /// dropped. Sleeps if `take` does.
    fn try_send(
        &self,
        queue: &QueuePair<Self>,
        mut message: Outgoing<Self>,
        take: impl FnOnce() -> Option<Buffer<Self>>,
        sequence: u64,
        again: bool,
    ) -> Result {
        if !self.state.is_open() {
            return Err(not_connected());
        }
        let has_buffer = matches!(message.bytes, OutgoingBytes::Buffer(_));
        let buffer = match message.bytes.into_buffer(message.len, take) {
            Ok(buffer) => buffer,
            Err(bytes) => {
                message.bytes = bytes;
                Self::trace_full(queue, 0);
                let attempt = match again {
                    true => Attempt::Requeued(sequence),
                    false => Attempt::New(sequence),
                };
                self.wait_for_buffer(message, attempt);
                return Ok(());
            }
        };
        let requests = message.attached.requests();
        // Earlier waiters for SQ credits come first.
        let (credits, attempt) = match again && has_buffer {
            true => (queue.reserve(requests), Attempt::Requeued(sequence)),
            false if requests != 0 && self.waits_for_credits() => (None, Attempt::NotTried),
            false => (queue.reserve(requests), Attempt::New(sequence)),
        };
        let Some(credits) = credits else {
            Self::trace_full(queue, buffer.id(queue).completion);
            message.bytes = OutgoingBytes::Buffer(buffer);
            self.wait_for_credits(SqWaiter::Send(message), attempt);
            return Ok(());
        };
        WRITES.add(requests);
        let Outgoing {
            len,
            attached,
            memory,
            kind,
            xid,
            answers,
            ..
        } = message;
        // Before the Send: after it the client may use the credit again.
        self.repost(queue, answers);
        let send = UnpostedSend {
            buffer,
            len,
            kind,
            tag: xid,
        };
        let posted = queue.post_reply(attached, credits, send, memory);
        self.is_posted(posted)
    }

    /// Starts the watchdog for a posted message, or closes the connection if posting failed.
    pub(super) fn is_posted(&self, posted: Result) -> Result {
        match posted {
            Ok(()) => self.start_watchdog(),
            Err(_) => self.lost(Event::Unanswered, c"a message could not be posted"),
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
