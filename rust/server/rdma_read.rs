// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads of a call's Read chunks (RFC 8166, sections 3.4.5 and 3.5.3).

use super::{
    call_layout::{
        policy,
        CallLayout, //
    },
    call_pages::{
        copy_in,
        for_each_run,
        zero_padding, //
    },
    config::READS,
    responder::Responder,
    send::SendPath,
    sq_credit_queue::SqWaiter,
    transport::{
        ServerConn,
        ServerTransport, //
    },
    wait_queue::Attempt,
    waiting::WaitingReads,
    work_queue::ChunkedCall, //
};
use crate::endpoint::{
    ResponderExt,
    SendBufferExt,
    UnpostedReads, //
};
use kernel::{
    prelude::*,
    time::Instant, //
};
use proto::{
    call::{
        self,
        Incoming,
        Part, //
    },
    chunk::{
        self,
        Segment, //
    },
    conn::server::Event,
    header::Body, //
};
use rdma::{
    mr,
    receive::Message,
    transfer::{
        PreparedTransfer,
        Transfer, //
    }, //
};
use sunrpc::memory::Page;

impl Responder<ServerTransport> {
    /// Posts the RDMA Reads of the call in `message`, or queues them for SQ credits or pages. The
    /// call is queued for a thread when they have completed. If there is nothing to read, returns
    /// the call. Sleeps.
    pub(super) fn read_chunks(
        &self,
        message: Message<ServerConn>,
        layout: CallLayout,
    ) -> Option<ChunkedCall<ServerConn>> {
        let connection = &self.send_path.connection;
        let reads = WaitingReads {
            message,
            layout,
            // Fewer if pages are contiguous.
            requests: self.send_path.limits.reads_of(layout.pages()),
            registrations: 0,
            credits: None,
            // Waits behind other calls that wait for pages.
            waited_for_pages: connection.waits_for_pages(),
        };
        if reads.waited_for_pages {
            connection.wait_for_pages(reads, Attempt::NotTried);
            return None;
        }
        self.try_read(reads)
    }

    /// Does what [`Self::read_chunks`] does, for Reads that may have waited.
    pub(super) fn try_read(
        &self,
        waiting: WaitingReads<ServerConn>,
    ) -> Option<ChunkedCall<ServerConn>> {
        let SendPath {
            queue, connection, ..
        } = &self.send_path;
        let were_ready = waiting.credits.is_some();
        let complete = self.post_reads(waiting);
        if were_ready {
            connection.end_reads();
        }
        // Credits may be left for the next waiter.
        connection.recheck_waiters(queue);
        complete
    }

    fn post_reads(&self, mut waiting: WaitingReads<ServerConn>) -> Option<ChunkedCall<ServerConn>> {
        let SendPath {
            queue, connection, ..
        } = &self.send_path;
        let (space_seq, pages_seq) = (connection.space_seq(), connection.pages_seq());
        let ready = waiting.credits.take();
        if !connection.state.is_open() {
            // Nobody is left to answer them.
            if let Some(credits) = ready {
                self.release_credits(credits);
            }
            return None;
        }
        // SQ credits come before pages, so that no page is held while waiting for credits.
        let (credits, attempt) = match ready {
            Some(credits) => (Some(credits), Attempt::Requeued(space_seq)),
            // Earlier waiters for credits come first.
            None if connection.waits_for_credits() => (None, Attempt::NotTried),
            None => (
                queue.reserve_reads(waiting.requests, waiting.registrations),
                Attempt::New(space_seq),
            ),
        };
        let Some(credits) = credits else {
            ServerConn::trace_full(queue, waiting.message.id(queue).completion);
            connection.wait_for_credits(SqWaiter::Reads(waiting), attempt);
            return None;
        };
        let Some(permit) = connection.read_budget.begin(waiting.layout.pages()) else {
            self.release_credits(credits);
            // If it has waited for credits since, others may be before it.
            let was_first = ready.is_none() && waiting.waited_for_pages;
            let attempt = match was_first {
                true => Attempt::Requeued(pages_seq),
                false => Attempt::New(pages_seq),
            };
            waiting.waited_for_pages = true;
            connection.wait_for_pages(waiting, attempt);
            return None;
        };
        let WaitingReads {
            message,
            layout,
            waited_for_pages,
            ..
        } = waiting;
        let reads = self.page_pool.take(layout.pages()).and_then(|pages| {
            let reads = self.prepare_reads(message.bytes(), layout, &pages)?;
            Ok((reads, pages))
        });
        let Ok((reads, pages)) = reads else {
            queue.release(credits);
            self.close_unanswered(message);
            return None;
        };
        let mut call = ChunkedCall {
            message,
            layout,
            pages,
            permit,
            reads_posted: None,
        };
        if reads.is_empty() {
            self.release_credits(credits);
            return Some(call);
        }
        let requests = reads.len();
        trace::event!(svcrdma_post_read_chunk(call.message.id(queue), requests));
        if trace::svcrdma_wc_read::is_on() {
            call.reads_posted = Some(Instant::now());
        }
        match queue.post_reads(reads, credits, call) {
            Ok(()) => {
                READS.add(requests);
                connection.start_watchdog();
                if requests < credits {
                    connection.note_space_freed();
                }
            }
            Err(UnpostedReads::Full(reads, call)) => {
                ServerConn::trace_full(queue, call.message.id(queue).completion);
                let registrations = reads.registrations();
                drop(reads);
                self.page_pool.keep(call.pages);
                connection.read_budget.cancel(call.permit);
                let waiting = WaitingReads {
                    message: call.message,
                    layout,
                    requests,
                    registrations,
                    credits: None,
                    waited_for_pages,
                };
                // Their credits are free now. They are tried once more, too, with the number that
                // they need.
                connection.note_space_freed();
                connection.wait_for_credits(SqWaiter::Reads(waiting), attempt);
            }
            Err(UnpostedReads::Lost) => {
                connection.lost(Event::Failed, c"RDMA Reads could not be posted");
            }
        }
        None
    }

    /// Releases the SQ credits of Reads that are not posted now, and serves other waiters, as no
    /// completion will.
    fn release_credits(&self, credits: usize) {
        let SendPath {
            queue, connection, ..
        } = &self.send_path;
        queue.release(credits);
        connection.on_space_freed(queue);
    }

    /// Prepares the RDMA Reads of the chunks of the call in `bytes` into `pages`. Copies the inline
    /// parts of a Payload stream there.
    fn prepare_reads(
        &self,
        bytes: &[u8],
        layout: CallLayout,
        pages: &KVec<Page>,
    ) -> Result<PreparedTransfer<ServerConn>> {
        let Ok(Incoming::Call(call)) = call::parse(bytes, &policy(usize::MAX)) else {
            return Err(EINVAL);
        };
        let mut reads = self.send_path.queue.reads(GFP_KERNEL)?;
        reads.reserve_local(pages.len())?;
        if let CallLayout::ReadChunk { position, len } = layout {
            let position = u32::try_from(position)?;
            let segments = call.lists.read.chunk(position);
            let length = usize::try_from(chunk::total(segments.clone()))?;
            add_read(&mut reads, segments, pages, 0, length)?;
            zero_padding(pages, length, len)?;
            return reads.prepare();
        }
        let mut at = 0_usize;
        for part in call.parts() {
            let end = match part {
                Part::Payload { from, length } => {
                    let end = at.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
                    match call.body {
                        Body::Msg => {
                            let inline = usize::try_from(from)?
                                ..usize::try_from(from.saturating_add(length))?;
                            copy_in(pages, at, call.payload.get(inline).ok_or(EINVAL)?)?;
                        }
                        Body::NoMsg => {
                            // The Position Zero Read chunk.
                            let part = chunk::slice(call.lists.read.chunk(0), from, length);
                            add_read(&mut reads, part, pages, at, end)?;
                        }
                    }
                    end
                }
                Part::Chunk { position, length } => {
                    let end = at.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
                    add_read(&mut reads, call.lists.read.chunk(position), pages, at, end)?;
                    end
                }
                Part::Padding(length) => {
                    let end = at.checked_add(usize::try_from(length)?).ok_or(EINVAL)?;
                    zero_padding(pages, at, end)?;
                    end
                }
            };
            at = end;
        }
        reads.prepare()
    }
}

/// Adds RDMA Reads of `segments` into the bytes from `at` to `end` of `pages`.
fn add_read(
    reads: &mut Transfer<ServerConn>,
    segments: impl Iterator<Item = Segment>,
    pages: &KVec<Page>,
    at: usize,
    end: usize,
) -> Result {
    for segment in segments {
        reads.add_remote(mr::Segment {
            rkey: segment.handle,
            len: segment.length,
            iova: segment.offset,
        })?;
    }
    for_each_run(pages, at, end, |page, offset, len| {
        reads.add_local(page.piece(offset, len)?)
    })
}
