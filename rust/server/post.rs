// SPDX-License-Identifier: GPL-2.0

//! Posting messages to the client, or having them wait for room in the Send queue.
//!
//! A thread tries once. What it has to leave behind is posted by a completion, so that a reply needs no other thread; RDMA Reads get
//! their SQ credits from a completion, and are then posted by a thread.

use super::{
    config::WRITES,
    connection::Connection,
    credit_line::Waiting,
    room_queue::Attempt,
    waiting::{
        Outgoing,
        OutgoingBytes, //
    }, //
};
use crate::endpoint::{
    Responding,
    SendBuffering, //
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

impl<T: SvcConnection> Connection<T> {
    /// Posts `message` on `queue`, or has it wait for room there. An error has the connection closed. Sleeps.
    pub(super) fn send(&self, queue: &QueuePair<Self>, message: Outgoing<Self>) -> Result {
        let sequence = self.resumed();
        let has_buffer = matches!(message.bytes, OutgoingBytes::Buffer(_));
        let result = if !has_buffer && self.waits_for_buffers() {
            self.wait_for_buffer(message, Attempt::None);
            // Completions use the buffers that there are. There may be more.
            if let Some(buffer) = queue.make_send_buffer() {
                queue.put_back_send_buffer(buffer);
                self.note_room();
            }
            Ok(())
        } else {
            let make = || queue.make_send_buffer();
            self.try_send(queue, message, make, sequence, false)
        };
        self.go_on(queue);
        self.flush_for_buffers(queue);
        result
    }

    /// Asks for a completion, if Sends wait for buffers and no other may be made. Does not sleep.
    fn flush_for_buffers(&self, queue: &QueuePair<Self>) {
        if self.waits_for_buffers() && queue.lacks_send_buffers() && queue.flush_sends().is_err() {
            self.lost(Event::Unanswered, c"a work request could not be posted");
        }
    }

    /// Something was given back to `queue`: serves what waits for that, as far as there is room. Does not sleep.
    pub(super) fn resume(&self, queue: &QueuePair<Self>) {
        self.note_room();
        self.serve_waiting(queue);
    }

    /// To be called by whoever tried to post something: if it waits, but there may be room since, or nothing before it, no completion
    /// will tell. Does not sleep.
    pub(super) fn go_on(&self, queue: &QueuePair<Self>) {
        if self.waits_for_buffers() || self.waits_for_credits() {
            self.serve_waiting(queue);
        }
    }

    /// As [`Self::resume`], if anything waits.
    pub(super) fn resume_waiting(&self, queue: &QueuePair<Self>) {
        if self.waits_for_buffers() || self.waits_for_credits() {
            self.resume(queue);
        }
    }

    /// Posts the Sends that wait and for which there is room; has a thread post RDMA Reads for which there is. If the connection has
    /// ended, drops them. Does not sleep.
    fn serve_waiting(&self, queue: &QueuePair<Self>) {
        while let Some(waiting) = self.next_waiting() {
            let sequence = self.resumed();
            match waiting {
                Waiting::Reads(reads) if !self.state.is_open() => {
                    drop(reads);
                    self.end_reads();
                }
                Waiting::Reads(mut reads) => {
                    match queue.reserve_reads(reads.requests, reads.registrations) {
                        Some(credits) => {
                            reads.credits = Some(credits);
                            self.queue_ready(reads);
                        }
                        None => {
                            self.wait_for_credits(Waiting::Reads(reads), Attempt::Again(sequence));
                            self.end_reads();
                        }
                    }
                }
                Waiting::Send(message) => {
                    let take = || queue.take_send_buffer();
                    let xid = message.xid;
                    // An error has the connection closed.
                    if let Err(error) = self.try_send(queue, message, take, sequence, true) {
                        self.trace_send_error(xid, error);
                    }
                }
            }
        }
    }

    /// Posts `message`, with a buffer that `take` returns if it is in none, or has it wait for what it lacks: behind others, or before
    /// them if it is tried `again`. [`Self::resumed`] was `sequence`. An error has the connection closed; if it has ended already, `message`
    /// is dropped. Sleeps if `take` does.
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
                    true => Attempt::Again(sequence),
                    false => Attempt::First(sequence),
                };
                self.wait_for_buffer(message, attempt);
                return Ok(());
            }
        };
        let requests = message.attached.requests();
        // What waits for SQ credits already comes first.
        let (credits, attempt) = match again && has_buffer {
            true => (queue.reserve(requests), Attempt::Again(sequence)),
            false if requests != 0 && self.waits_for_credits() => (None, Attempt::None),
            false => (queue.reserve(requests), Attempt::First(sequence)),
        };
        let Some(credits) = credits else {
            Self::trace_full(queue, buffer.id(queue).completion);
            message.bytes = OutgoingBytes::Buffer(buffer);
            self.wait_for_credits(Waiting::Send(message), attempt);
            return Ok(());
        };
        WRITES.add(requests);
        let Outgoing {
            len,
            attached,
            memory,
            verb,
            xid,
            answers,
            ..
        } = message;
        // Before the Send, after which the client may use the credit again.
        self.repost(queue, answers);
        let send = UnpostedSend {
            buffer,
            len,
            verb,
            tag: xid,
        };
        let posted = queue.post_reply(attached, credits, send, memory);
        self.is_posted(posted)
    }

    /// Has what was posted watched, or the connection closed.
    pub(super) fn is_posted(&self, posted: Result) -> Result {
        match posted {
            Ok(()) => self.watch(),
            Err(_) => self.lost(Event::Unanswered, c"a message could not be posted"),
        }
        posted
    }

    /// Traces that the reply `xid` is not sent because of `error`.
    pub(super) fn trace_send_error(&self, xid: u32, error: Error) {
        trace::event!(svcrdma_send_err(self.client_text().as_c_str(), xid, error));
    }

    /// Traces that there is no room in `queue` for `completion`.
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
