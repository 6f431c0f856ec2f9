// SPDX-License-Identifier: GPL-2.0

//! Replies: results go to the chunks of the call, the rest goes behind the header.
//!
//! RFC 8166, sections 3.4.6, 3.5.3, 4.3 and 4.5.3; RFC 8267 pairs results with chunks.

use super::{
    connection::Connection,
    endpoint::Endpoint,
    receive::{
        policy,
        CallContext,
        MAX_WRITE_CHUNKS, //
    },
};
use crate::endpoint::WORTH_INSERTING;
use core::ops::Range;
use kernel::prelude::*;
use proto::{
    call::{
        self,
        Call,
        Incoming, //
    },
    chunk::Segment,
    header::Body,
    reduction::{
        self,
        ReducedReply, //
    },
    reply_builder::{
        self,
        ReplyBuilder,
        Unreturnable, //
    },
    xdr, //
};
use rdma::{
    error::not_connected,
    mr,
    receive::Message,
    send::Verb,
    transfer::{
        Attached,
        Inserted,
        Prepared,
        Transfer, //
    }, //
};
use sunrpc::SvcResult;

/// Why there is no reply.
enum Failure {
    /// The client is told that there is none.
    Unreturnable,
    /// Something is used up; the client has to ask again.
    Local,
}

impl From<Unreturnable> for Failure {
    fn from(_: Unreturnable) -> Self {
        Self::Unreturnable
    }
}

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Self::Local
    }
}

/// What to post.
struct Posting {
    attached: Attached<Endpoint>,
    len: usize,
    verb: Verb,
}

impl Connection {
    /// Answers the call in `message`.
    pub(super) fn send_reply(
        &self,
        message: Message<Endpoint>,
        context: &CallContext,
        result: &SvcResult<'_>,
    ) -> Result {
        if !self.send_path.endpoint.is_open() {
            self.repost(message);
            return Err(not_connected());
        }
        let Some(mut buffer) = self.send_path.buffer() else {
            self.repost(message);
            return Err(not_connected());
        };
        let call = match context.bare {
            Some(xid) => Ok(Incoming::Call(Call::bare(xid))),
            None => call::parse(message.bytes(), &policy(usize::MAX)),
        };
        let posting = match call {
            Ok(Incoming::Call(call)) => self.answer(&call, context, result, buffer.bytes_mut()),
            _ => Err(EINVAL),
        };
        match posting {
            Ok(Posting {
                attached,
                len,
                verb,
            }) => {
                let serving = self.send_path.endpoint.serving();
                // Before the Send, after which the client may use the credit again.
                self.repost(message);
                let posted = self.send_path.post(attached, buffer, len, verb);
                self.send_path.raise_grant(serving);
                posted
            }
            Err(error) => {
                self.send_path.queue.put_back_send_buffer(buffer);
                self.fail(message);
                Err(error)
            }
        }
    }

    /// Writes the reply to `out`, or that there is none, and makes what goes with it.
    fn answer(
        &self,
        call: &Call<'_>,
        noted: &CallContext,
        result: &SvcResult<'_>,
        out: &mut [u8],
    ) -> Result<Posting> {
        let posting = match call.lists.write.is_empty() {
            true => self.put_together::<0>(call, noted, result, out),
            false => self.put_together::<MAX_WRITE_CHUNKS>(call, noted, result, out),
        };
        match posting {
            Ok(posting) => Ok(posting),
            Err(Failure::Local) => Err(ENOMEM),
            Err(Failure::Unreturnable) => {
                let credits = self.send_path.credits();
                let len = call.refuse().emit(credits, out).map_err(|_| EINVAL)?;
                Ok(Posting {
                    attached: Attached::Nothing,
                    len,
                    verb: Verb::Send,
                })
            }
        }
    }

    /// Writes header and inline message of the reply to `out`, and makes its RDMA Writes. The call
    /// has no more than `CHUNKS` Write chunks.
    fn put_together<const CHUNKS: usize>(
        &self,
        call: &Call<'_>,
        noted: &CallContext,
        result: &SvcResult<'_>,
        out: &mut [u8],
    ) -> Result<Posting, Failure> {
        let mut layout = ReducedReply::<CHUNKS>::new(call, noted.reduction, result.len());
        lay_out(&mut layout, noted, result)?;
        let rest = u64::try_from(layout.rest()).map_err(|_| EINVAL)?;
        let threshold = self.send_path.max.min(out.len());
        let answer = ReplyBuilder::new(call, layout.written(), rest, threshold)?;

        let writes = self.writes(call, &layout, &answer, result)?;
        let mut len = answer
            .emit(self.send_path.credits(), out)
            .map_err(|_| Failure::Unreturnable)?;
        let mut attached = writes.map_or(Attached::Nothing, Attached::Writes);
        if answer.body() == Body::Msg {
            // Data that stays in the message is sent from where it is, if that is worth it.
            let data = result.data();
            let inserted = match &attached {
                Attached::Nothing if data.len() >= WORTH_INSERTING => {
                    let at = len.checked_add(data.start).ok_or(EINVAL)?;
                    self.insert(result, data.clone(), at).ok()
                }
                _ => None,
            };
            let skipped = inserted.as_ref().map_or(0..0, |_| data);
            for range in layout.remaining() {
                for part in reduction::around(range, &skipped) {
                    len = copy(result, part, out, len)?;
                }
            }
            if let Some(inserted) = inserted {
                attached = Attached::Inserted(inserted);
            }
        }
        let key = match self.send_path.invalidate {
            true => reply_builder::invalidated_handle(call),
            false => None,
        };
        Ok(Posting {
            attached,
            len,
            verb: key.map_or(Verb::Send, Verb::Invalidate),
        })
    }

    /// The bytes `data` of a result, for the message that has `at` bytes before them.
    fn insert(
        &self,
        result: &SvcResult<'_>,
        data: Range<usize>,
        at: usize,
    ) -> Result<Inserted<Endpoint>> {
        let mut memory = Transfer::writes(&self.send_path.queue, GFP_KERNEL)?;
        memory.add_pieces(result.pieces(data))?;
        memory.insert(at)
    }

    /// The RDMA Writes of a reply, if it has any.
    fn writes<const CHUNKS: usize>(
        &self,
        call: &Call<'_>,
        layout: &ReducedReply<'_, CHUNKS>,
        answer: &ReplyBuilder<'_>,
        result: &SvcResult<'_>,
    ) -> Result<Option<Prepared<Endpoint>>, Failure> {
        if layout.reduced().next().is_none() && answer.body() == Body::Msg {
            return Ok(None);
        }
        let mut writes = Transfer::writes(&self.send_path.queue, GFP_KERNEL)?;
        for (index, range) in layout.reduced() {
            let segments = call.lists.write.iter().nth(index).ok_or(EINVAL)?;
            let length = u64::try_from(range.len()).map_err(|_| EINVAL)?;
            write(
                &mut writes,
                reply_builder::written_segments(segments, length),
                result,
                range,
            )?;
        }
        if answer.body() == Body::NoMsg {
            add_remote(&mut writes, answer.reply_segments())?;
            for range in layout.remaining() {
                writes.add_pieces(result.pieces(range))?;
            }
        }
        Ok(Some(writes.prepare()?).filter(|writes| !writes.is_empty()))
    }
}

/// Finds the place of each result that may leave the message.
fn lay_out<const CHUNKS: usize>(
    layout: &mut ReducedReply<'_, CHUNKS>,
    noted: &CallContext,
    result: &SvcResult<'_>,
) -> Result<(), Unreturnable> {
    for (offset, len) in noted.results.iter() {
        match payload(result, offset, len) {
            Some(range) => layout.place(range)?,
            // Not what its count word says, so better not touched.
            None => layout.pass(),
        }
    }
    Ok(())
}

/// Where in `result` the `len` bytes are that the upper layer says are at `offset`.
///
/// The word before them says how many they are. NFSv4 READLINK points to that word instead.
fn payload(result: &SvcResult<'_>, offset: usize, len: usize) -> Option<Range<usize>> {
    let counts = |at: usize| {
        let mut word = [0; 4];
        let read = result.copy_out(at, &mut word);
        matches!(read, Ok(4)) && usize::try_from(u32::from_be_bytes(word)) == Ok(len)
    };
    let start = match offset.checked_sub(4) {
        Some(at) if counts(at) => offset,
        _ if counts(offset) => offset.checked_add(4)?,
        _ => return None,
    };
    let end = start.checked_add(xdr::roundup(len))?;
    (end <= result.len()).then_some(start..start.checked_add(len)?)
}

/// Copies the bytes `part` of `result` to `out` from `at` on. Returns where they end.
fn copy(
    result: &SvcResult<'_>,
    part: Range<usize>,
    out: &mut [u8],
    at: usize,
) -> Result<usize, Failure> {
    let end = at.checked_add(part.len()).ok_or(EINVAL)?;
    let place = out.get_mut(at..end).ok_or(EINVAL)?;
    if result.copy_out(part.start, place)? != part.len() {
        return Err(Failure::Local);
    }
    Ok(end)
}

fn write(
    writes: &mut Transfer<Endpoint>,
    segments: impl Iterator<Item = Segment>,
    result: &SvcResult<'_>,
    range: Range<usize>,
) -> Result {
    add_remote(writes, segments)?;
    writes.add_pieces(result.pieces(range))
}

fn add_remote(writes: &mut Transfer<Endpoint>, segments: impl Iterator<Item = Segment>) -> Result {
    for segment in segments {
        writes.add_remote(mr::Segment {
            rkey: segment.handle,
            len: segment.length,
            iova: segment.offset,
        })?;
    }
    Ok(())
}
