// SPDX-License-Identifier: GPL-2.0

//! Replies: DDP-eligible results go into the Write chunks of the call, the rest follows the
//! transport header or goes into the Reply chunk.
//!
//! RFC 8166, sections 3.4.6, 3.5.3, 4.3 and 4.5.3; RFC 8267 pairs results with Write chunks.

use super::call::{
    CallContext,
    MAX_WRITE_CHUNKS, //
};
use crate::prelude::*;
use core::ops::Range;
use endpoint::GATHER_MIN_BYTES;
use proto::{
    chunk::Segment,
    header::Body,
    reduction::{
        self,
        ReducedReply, //
    },
    reply_builder::{
        self,
        ReplyBuilder, //
    },
    xdr, //
};
use rdma::{
    mr,
    transfer::{
        Gathered,
        PreparedTransfer,
        Transfer, //
    },
    BatchMemory, //
};
use sunrpc::SvcResult;

/// The reason why a result is not sent.
enum ReplyError {
    /// The result fits into none of the chunks that the client offers. The reply is an RDMA_ERROR
    /// message.
    Unreturnable,
    /// The server lacks memory; the client must send the call again.
    NoMemory,
}

impl From<reply_builder::Unreturnable> for ReplyError {
    fn from(_: reply_builder::Unreturnable) -> Self {
        Self::Unreturnable
    }
}

impl From<Error> for ReplyError {
    fn from(_: Error) -> Self {
        Self::NoMemory
    }
}

/// A reply that is ready to be posted: the Send of the first `len` bytes of its buffer, and the
/// RDMA Writes or the memory that go with it.
struct PreparedReply {
    /// The place of the RPC message.
    body: Body,
    attached: Attached<ServerConn>,
    /// Memory for posting in batches, if there are many Writes.
    memory: Option<BatchMemory<ServerConn>>,
    len: usize,
    kind: SendKind,
}

impl Responder {
    /// Replies with `result` to the call in the message whose `memory` was lent to sunrpc. Sleeps.
    pub(super) fn send_reply(
        &self,
        memory: MessageMemory,
        context: &CallContext,
        result: &SvcResult<'_>,
    ) -> Result {
        let message = context.take_back(memory).ok_or(EINVAL)?;
        if !self.send_path.connection.state.is_open() {
            self.repost(message);
            return Err(enotconn());
        }
        let mut bytes = match self.send_path.message_memory() {
            Ok(bytes) => bytes,
            Err(error) => {
                self.close_unanswered(message);
                return Err(error);
            }
        };
        self.send_path.connection.credits.begin_reply();
        let call = context.parsed.call(message.bytes()).ok_or(EINVAL);
        let prepared =
            call.and_then(|call| self.prepare_reply(&call, context, result, bytes.bytes_mut()));
        match prepared {
            Ok(PreparedReply {
                body,
                attached,
                memory,
                len,
                kind,
            }) => {
                let in_progress = self.send_path.connection.in_progress();
                self.trace_writes(&message, body, &attached);
                let xid = result.xid();
                let SendPath {
                    queue, connection, ..
                } = &self.send_path;
                let reply = WithMessage {
                    message,
                    state: Outgoing {
                        bytes,
                        len,
                        attached,
                        memory,
                        kind,
                        xid,
                    },
                };
                let sent = connection.send(queue, reply);
                self.send_path.raise_grant(in_progress);
                sent
            }
            Err(error) => {
                self.send_path.put_back(bytes);
                self.close_unanswered(message);
                Err(error)
            }
        }
    }

    /// Traces the RDMA Writes of a reply to `message`.
    fn trace_writes(
        &self,
        message: &Message<ServerConn>,
        body: Body,
        attached: &Attached<ServerConn>,
    ) {
        let Attached::Writes(writes) = attached else {
            return;
        };
        let id = || message.id(&self.send_path.queue);
        match body {
            Body::Msg => trace::event!(svcrdma_post_write_chunk(id(), writes.len())),
            Body::NoMsg => trace::event!(svcrdma_post_reply_chunk(id(), writes.len())),
        }
    }

    /// Writes the reply to `out`, or an RDMA_ERROR message if the result cannot be returned.
    fn prepare_reply(
        &self,
        call: &call::Call<'_>,
        context: &CallContext,
        result: &SvcResult<'_>,
        out: &mut [u8],
    ) -> Result<PreparedReply> {
        let prepared = if call.lists.write.is_empty() {
            self.prepare_result::<0>(call, context, result, out)
        } else {
            self.prepare_result::<MAX_WRITE_CHUNKS>(call, context, result, out)
        };
        match prepared {
            Ok(prepared) => Ok(prepared),
            Err(ReplyError::NoMemory) => Err(ENOMEM),
            Err(ReplyError::Unreturnable) => {
                config::BAD_CALLS.add(1);
                trace::event!(svcrdma_err_chunk(call.xid));
                let (xid, len) = (call.xid, result.len());
                self.send_path.connection.log_message(|client| {
                    pr_info!("refused the call {xid:#010x} of {client}: no chunk has room for its reply of {len} bytes\n");
                });
                let credits = self.send_path.credits();
                let len = call.refuse().emit(credits, out).map_err(|_| EINVAL)?;
                Ok(PreparedReply {
                    body: Body::NoMsg,
                    attached: Attached::Nothing,
                    memory: None,
                    len,
                    kind: SendKind::Plain,
                })
            }
        }
    }

    /// Writes the transport header and the inline part of the Payload stream to `out`, and prepares
    /// the RDMA Writes. The call has at most `CHUNKS` Write chunks.
    fn prepare_result<const CHUNKS: usize>(
        &self,
        call: &call::Call<'_>,
        context: &CallContext,
        result: &SvcResult<'_>,
        out: &mut [u8],
    ) -> Result<PreparedReply, ReplyError> {
        let mut reduced = ReducedReply::<CHUNKS>::new(call, context.reduction, result.len());
        reduce(&mut reduced, context, result)?;
        let rest = u64::try_from(reduced.rest()).map_err(|_| EINVAL)?;
        let threshold = self.send_path.inline_threshold.min(out.len());
        let header = ReplyBuilder::new(call, reduced.written(), rest, threshold)?;
        let header = if self.send_path.unused_reply_chunk {
            header
        } else {
            header.prefer_reply_chunk()
        };

        let writes = self.prepare_writes(call, &reduced, &header, result)?;
        let mut len = header
            .emit(self.send_path.credits(), out)
            .map_err(|_| ReplyError::Unreturnable)?;
        let mut attached = writes.map_or(Attached::Nothing, Attached::Writes);
        if header.body() == Body::Msg {
            // The Send gathers long data from its pages, which is cheaper than a copy.
            let data = result.data();
            let gathered = match &attached {
                Attached::Nothing if data.len() >= GATHER_MIN_BYTES => {
                    let at = len.checked_add(data.start).ok_or(EINVAL)?;
                    self.gather_data(result, data.clone(), at).ok()
                }
                _ => None,
            };
            let skipped = gathered.as_ref().map_or(0..0, |_| data);
            for range in reduced.remaining() {
                for part in reduction::split_around(range, &skipped) {
                    len = copy(result, part, out, len)?;
                }
            }
            if let Some(gathered) = gathered {
                attached = Attached::Gathered(gathered);
            }
        }
        let rkey = if self.send_path.remote_invalidation {
            reply_builder::invalidated_handle(call)
        } else {
            None
        };
        Ok(PreparedReply {
            body: header.body(),
            memory: self.send_path.queue.batch_memory(attached.requests())?,
            attached,
            len,
            kind: rkey.map_or(SendKind::Plain, SendKind::Invalidate),
        })
    }

    /// Maps the bytes `data` of a result as scatter elements of a Send, to follow the first `at`
    /// bytes of the message.
    fn gather_data(
        &self,
        result: &SvcResult<'_>,
        data: Range<usize>,
        at: usize,
    ) -> Result<Gathered<ServerConn>> {
        let mut memory = self.send_path.queue.gathers(GFP_KERNEL)?;
        memory.add_pieces(result.pieces(data))?;
        memory.gather(at)
    }

    /// Prepares the RDMA Writes to the Write chunks and to the Reply chunk. [`None`] if there are
    /// none.
    fn prepare_writes<const CHUNKS: usize>(
        &self,
        call: &call::Call<'_>,
        reduced: &ReducedReply<'_, CHUNKS>,
        header: &ReplyBuilder<'_>,
        result: &SvcResult<'_>,
    ) -> Result<Option<PreparedTransfer<ServerConn>>, ReplyError> {
        if reduced.reduced().next().is_none() && header.body() == Body::Msg {
            return Ok(None);
        }
        let mut writes = self.send_path.queue.writes(GFP_KERNEL)?;
        // Two more, as the data may begin within a page.
        writes.reserve_local(result.len().div_ceil(PAGE_SIZE).saturating_add(2))?;
        for (index, range) in reduced.reduced() {
            let segments = call.lists.write.iter().nth(index).ok_or(EINVAL)?;
            let length = u64::try_from(range.len()).map_err(|_| EINVAL)?;
            add_remote(
                &mut writes,
                reply_builder::written_segments(segments, length),
            )?;
            writes.add_pieces(result.pieces(range))?;
        }
        if header.body() == Body::NoMsg {
            add_remote(&mut writes, header.reply_segments())?;
            for range in reduced.remaining() {
                writes.add_pieces(result.pieces(range))?;
            }
        }
        Ok(Some(writes.prepare()?).filter(|writes| !writes.is_empty()))
    }
}

/// Pairs the DDP-eligible results with the Write chunks.
fn reduce<const CHUNKS: usize>(
    reduced: &mut ReducedReply<'_, CHUNKS>,
    context: &CallContext,
    result: &SvcResult<'_>,
) -> Result<(), reply_builder::Unreturnable> {
    for (offset, len) in context.results.iter() {
        match locate_result(result, offset, len) {
            Some(range) => reduced.place(range)?,
            // The count word does not match, so the bytes stay in the Payload stream.
            None => reduced.skip(),
        }
    }
    Ok(())
}

/// Returns the range in `result` of the `len` bytes that nfsd reports at `offset`.
///
/// They follow the XDR count word `len`. For READLINK of NFSv4, `offset` is that of the count word
/// instead.
fn locate_result(result: &SvcResult<'_>, offset: usize, len: usize) -> Option<Range<usize>> {
    let is_count = |at: usize| {
        let mut word = [0; 4];
        let read = result.copy_out(at, &mut word);
        matches!(read, Ok(4)) && usize::try_from(u32::from_be_bytes(word)) == Ok(len)
    };
    let start = match offset.checked_sub(4) {
        Some(at) if is_count(at) => offset,
        _ if is_count(offset) => offset.checked_add(4)?,
        _ => return None,
    };
    let end = start.checked_add(xdr::roundup(len))?;
    (end <= result.len()).then_some(start..start.checked_add(len)?)
}

/// Copies the bytes `part` of `result` to `out` at `at`. Returns the end of the copy.
fn copy(
    result: &SvcResult<'_>,
    part: Range<usize>,
    out: &mut [u8],
    at: usize,
) -> Result<usize, ReplyError> {
    let end = at.checked_add(part.len()).ok_or(EINVAL)?;
    let place = out.get_mut(at..end).ok_or(EINVAL)?;
    if result.copy_out(part.start, place)? != part.len() {
        return Err(ReplyError::NoMemory);
    }
    Ok(end)
}

/// Adds `segments` of the client as destinations.
fn add_remote(
    writes: &mut Transfer<ServerConn>,
    segments: impl Iterator<Item = Segment>,
) -> Result {
    for segment in segments {
        writes.add_remote(mr::Segment {
            rkey: segment.handle,
            len: segment.length,
            iova: segment.offset,
        })?;
    }
    Ok(())
}
