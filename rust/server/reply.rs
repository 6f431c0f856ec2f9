// SPDX-License-Identifier: GPL-2.0

//! Replies: results go to the chunks of the call, the rest goes behind the header.
//!
//! RFC 8166, sections 3.4.6, 3.5.3, 4.3 and 4.5.3; RFC 8267 pairs results with chunks.

use super::{
    connection::Connection,
    endpoint::Endpoint,
    receive::{
        policy,
        Notes,
        MAX_WRITE_CHUNKS, //
    },
};
use core::ops::Range;
use kernel::prelude::*;
use proto::{
    answer::{
        self,
        Answer,
        Unreturnable, //
    },
    call::{
        self,
        Incoming, //
    },
    chunk::Segment,
    header::Body,
    layout,
    xdr, //
};
use rdma::{
    error::not_connected,
    mr::Handle,
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

/// Fewer bytes of data are copied: that costs less than to map them.
const WORTH_INSERTING: usize = 1024;

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

/// Where the parts of a result go.
type Layout<'a> = layout::Layout<'a, MAX_WRITE_CHUNKS>;

impl Connection {
    /// Answers the call in `message`.
    pub(super) fn send_reply(
        &self,
        message: Message<Endpoint>,
        notes: &mut Notes,
        result: &mut SvcResult<'_>,
    ) -> Result {
        if !self.outlet.endpoint.is_open() {
            self.recycle(message);
            return Err(not_connected());
        }
        let Some(mut buffer) = self.outlet.buffer() else {
            self.recycle(message);
            return Err(not_connected());
        };
        let posting = match call::parse(message.bytes(), &policy(usize::MAX)) {
            Ok(Incoming::Call(parsed)) => {
                match self.put_together(&parsed, notes, result, buffer.bytes_mut()) {
                    Err(Failure::Unreturnable) => parsed
                        .refuse()
                        .emit(self.outlet.credits(), buffer.bytes_mut())
                        .map(|len| Posting {
                            attached: Attached::Nothing,
                            len,
                            verb: Verb::Send,
                        })
                        .map_err(|_| EINVAL),
                    Err(Failure::Local) => Err(ENOMEM),
                    Ok(posting) => Ok(posting),
                }
            }
            _ => Err(EINVAL),
        };
        match posting {
            Ok(Posting {
                attached,
                len,
                verb,
            }) => {
                let serving = self.outlet.endpoint.serving();
                // Before the Send, after which the client may use the credit again.
                self.recycle(message);
                // What is left to read is read through pieces.
                result.restore(&mut notes.blanks);
                let posted = self.outlet.post(attached, buffer, len, verb);
                self.outlet.raise_grant(serving);
                posted
            }
            Err(error) => {
                self.outlet.queue.put_back_send_buffer(buffer);
                self.fail(message);
                Err(error)
            }
        }
    }

    /// Writes header and inline message of the reply to `out`, and makes its RDMA Writes.
    fn put_together(
        &self,
        call: &call::Call<'_>,
        noted: &Notes,
        result: &SvcResult<'_>,
        out: &mut [u8],
    ) -> Result<Posting, Failure> {
        let layout = lay_out(call, noted, result)?;
        let rest = u64::try_from(layout.rest()).map_err(|_| EINVAL)?;
        let threshold = self.outlet.max.min(out.len());
        let answer = Answer::new(call, layout.written(), rest, threshold)?;

        let writes = self.writes(call, &layout, &answer, result)?;
        if writes
            .as_ref()
            .is_some_and(|writes| !self.outlet.config.allows(writes.len()))
        {
            return Err(Failure::Unreturnable);
        }
        let mut len = answer
            .emit(self.outlet.credits(), out)
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
                for part in [
                    range.start..range.end.min(skipped.start.max(range.start)),
                    range.start.max(skipped.end)..range.end,
                ] {
                    len = copy(result, part, out, len)?;
                }
            }
            if let Some(inserted) = inserted {
                attached = Attached::Inserted(inserted);
            }
        }
        let key = match self.outlet.invalidate {
            true => answer::invalidated_handle(call),
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
        let mut memory = Transfer::writes(&self.outlet.queue)?;
        add_local(&mut memory, result, data)?;
        memory.insert(at)
    }

    /// The RDMA Writes of a reply, if it has any.
    fn writes(
        &self,
        call: &call::Call<'_>,
        layout: &Layout<'_>,
        answer: &Answer<'_>,
        result: &SvcResult<'_>,
    ) -> Result<Option<Prepared<Endpoint>>, Failure> {
        if layout.reduced().next().is_none() && answer.body() == Body::Msg {
            return Ok(None);
        }
        let mut writes = Transfer::writes(&self.outlet.queue)?;
        for (index, range) in layout.reduced() {
            let segments = call.lists.write.iter().nth(index).ok_or(EINVAL)?;
            let length = u64::try_from(range.len()).map_err(|_| EINVAL)?;
            write(&mut writes, answer::filled(segments, length), result, range)?;
        }
        if answer.body() == Body::NoMsg {
            add_remote(&mut writes, answer.reply_segments())?;
            for range in layout.remaining() {
                add_local(&mut writes, result, range)?;
            }
        }
        Ok(Some(writes.prepare()?).filter(|writes| !writes.is_empty()))
    }
}

fn lay_out<'a>(
    call: &call::Call<'a>,
    noted: &Notes,
    result: &SvcResult<'_>,
) -> Result<Layout<'a>, Unreturnable> {
    let mut layout = Layout::new(call, noted.reduction, result.len());
    for (offset, len) in &noted.results {
        match payload(result, *offset, *len) {
            Some(range) => layout.place(range)?,
            // Not what its count word says, so better not touched.
            None => layout.pass(),
        }
    }
    Ok(layout)
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
    let end = start.checked_add(xdr::filled(len))?;
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
    add_local(writes, result, range)
}

fn add_remote(writes: &mut Transfer<Endpoint>, segments: impl Iterator<Item = Segment>) -> Result {
    for segment in segments {
        writes.add_remote(Handle {
            rkey: segment.handle,
            len: segment.length,
            iova: segment.offset,
        })?;
    }
    Ok(())
}

fn add_local(
    writes: &mut Transfer<Endpoint>,
    result: &SvcResult<'_>,
    range: Range<usize>,
) -> Result {
    for piece in result.pieces(range) {
        writes.add_local(piece?)?;
    }
    Ok(())
}
