// SPDX-License-Identifier: GPL-2.0

//! The form in which a Responder returns a reply (RFC 8166, sections 3.4.6, 3.5.3 and 4.3).
//!
//! First each eligible result is [placed](Placement) in its Write chunk. What remains of the RPC
//! message is measured, and [`ReplyBuilder::new`] decides how it travels. Every chunk that the Call
//! offered is repeated in the header of the reply, with the same segments in the same order; only
//! the lengths change, to the bytes written. [`written_segments`] gives those segments, for the
//! header and for the RDMA Writes alike: they never cover XDR padding.

use crate::call::Call;
use crate::chunk::{self, Lists, Segment, Segments, WriteIter};
use crate::error::Misuse;
use crate::header::{self, Body, Prefix};
use crate::{rpc, xdr};

/// The reason why a reply cannot be returned. The answer is an RDMA_ERROR, see [`Call::refuse`]; it
/// is better than closing the connection, on which the client would only try the same again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreturnable {
    /// A result is longer than the chunk it must go to.
    Result {
        /// Length of the result.
        length: u64,
        /// Length of the chunk.
        room: u64,
    },
    /// The message is longer than a Send, and the Reply chunk does not hold it or is not there.
    Message {
        /// Length of the message.
        length: u64,
        /// Length of the Reply chunk.
        room: u64,
    },
    /// The chunks alone make a header that is longer than a Send.
    Header {
        /// Length of the header.
        length: usize,
    },
    /// The caller's numbers make no sense.
    Misuse(Misuse),
}

impl From<Misuse> for Unreturnable {
    fn from(misuse: Misuse) -> Self {
        Unreturnable::Misuse(misuse)
    }
}

/// The place of an eligible result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// The message.
    Inline,
    /// A Write chunk.
    Chunk {
        /// The index of the chunk in the Write list.
        index: usize,
        /// The memory of the chunk.
        segments: Segments<'a>,
    },
}

/// Pairs eligible results with the chunks of the Write list, in order.
#[derive(Clone, Debug)]
pub struct Placement<'a> {
    chunks: WriteIter<'a>,
    index: usize,
    reduction: bool,
}

impl<'a> Placement<'a> {
    /// Begins with the results of `call`. With `reduction` false everything stays in the message,
    /// and all chunks go back unused.
    pub fn new(call: &Call<'a>, reduction: bool) -> Self {
        Self {
            chunks: call.lists.write.iter(),
            index: 0,
            reduction,
        }
    }

    /// Returns the place of the next eligible result, of `length` bytes.
    ///
    /// A chunk that is there must be used, even if the result would fit into the message. An empty
    /// chunk says that the result must stay in it. A result of no length takes its chunk as well.
    pub fn place(&mut self, length: u64) -> Result<Destination<'a>, Unreturnable> {
        let index = self.index;
        match self.skip() {
            Some(segments) if self.reduction && !segments.is_empty() => {
                let room = segments.total();
                if length > room {
                    return Err(Unreturnable::Result { length, room });
                }
                Ok(Destination::Chunk { index, segments })
            }
            _ => Ok(Destination::Inline),
        }
    }

    /// Passes over the chunk of an operation that has no eligible result.
    ///
    /// NFS pairs chunks with operations (RFC 8267). An upper layer whose next result shall take
    /// the chunk instead does not call this (RFC 8166, section 4.3.2.2).
    // Argues for S4.3.2.2-02.
    pub fn skip(&mut self) -> Option<Segments<'a>> {
        let chunk = self.chunks.next()?;
        self.index = self.index.saturating_add(1);
        Some(chunk)
    }
}

/// Returns the segments of a chunk, with the lengths that `length` bytes leave in them: each is
/// filled before the next is begun.
pub fn written_segments(
    segments: Segments<'_>,
    length: u64,
) -> impl Iterator<Item = Segment> + Clone + '_ {
    segments.iter().scan(length, |rest, segment| {
        let length = u32::try_from(*rest).map_or(segment.length, |rest| rest.min(segment.length));
        *rest = rest.saturating_sub(u64::from(length));
        Some(Segment { length, ..segment })
    })
}

/// A reply that can be returned.
#[derive(Clone, Copy, Debug)]
pub struct ReplyBuilder<'a> {
    xid: u32,
    lists: Lists<'a>,
    written: &'a [u64],
    payload: u64,
    body: Body,
}

impl<'a> ReplyBuilder<'a> {
    /// Decides how a reply to `call` travels.
    ///
    /// `written` are the bytes put into each Write chunk; chunks beyond its end are unused.
    /// `payload` is the length of the message without those bytes and their padding. `threshold` is
    /// the longest Send that the client receives.
    pub fn new(
        call: &Call<'a>,
        written: &'a [u64],
        payload: u64,
        threshold: usize,
    ) -> Result<Self, Unreturnable> {
        if xdr::padding_u64(payload) != 0 || written.len() > call.lists.write.len() {
            return Err(Misuse::Sizes.into());
        }
        for (length, chunk) in written.iter().zip(call.lists.write) {
            let (length, room) = (*length, chunk.total());
            if length > room {
                return Err(Unreturnable::Result { length, room });
            }
        }
        let mut reply = Self {
            xid: call.xid,
            lists: call.lists,
            written,
            payload,
            body: Body::Msg,
        };
        let header = reply.wire_len();
        let Some(inline) = threshold.checked_sub(header) else {
            return Err(Unreturnable::Header { length: header });
        };
        if usize::try_from(payload).map_or(true, |payload| payload > inline) {
            let room = reply.lists.reply.map_or(0, |chunk| chunk.total());
            if payload > room {
                let length = payload;
                return Err(Unreturnable::Message { length, room });
            }
            reply.body = Body::NoMsg;
        }
        Ok(reply)
    }

    /// Returns the RPC message in the Reply chunk, if one was offered that is large enough for it,
    /// even if the message fits into the Send. Both are right (RFC 8166, section 4.3.3); for which
    /// of the two a Requester understands, see
    /// [`takes_unused_reply_chunk`](crate::cm_private_data::takes_unused_reply_chunk).
    #[must_use]
    pub fn prefer_reply_chunk(mut self) -> Self {
        if self
            .lists
            .reply
            .is_some_and(|chunk| self.payload <= chunk.total())
        {
            self.body = Body::NoMsg;
        }
        self
    }

    /// Returns the place of the RPC message: behind the header, or in the Reply chunk.
    pub fn body(&self) -> Body {
        self.body
    }

    /// Returns the segments of the Reply chunk to write the RPC message to, if that is its place.
    pub fn reply_segments(&self) -> impl Iterator<Item = Segment> + Clone + 'a {
        let used = match self.body {
            Body::Msg => None,
            Body::NoMsg => self.lists.reply,
        };
        let payload = self.payload;
        used.into_iter()
            .flat_map(move |segments| written_segments(segments, payload))
    }

    /// Returns the number of bytes that [`emit`](Self::emit) writes.
    pub fn wire_len(&self) -> usize {
        let write = self.lists.write.wire_len();
        let reply = self
            .lists
            .reply
            .map_or(0, |chunk| chunk::chunk_len(chunk.len()));
        header::MIN_LEN.saturating_add(write).saturating_add(reply)
    }

    /// Writes the header, with the current grant, to the front of `out` and returns its length.
    pub fn emit(&self, credits: u32, out: &mut [u8]) -> Result<usize, Misuse> {
        header::check_credits(credits)?;
        let room = out.len();
        let length = xdr::write(out, |writer| {
            Prefix {
                xid: self.xid,
                version: header::VERSION,
                credits,
                procedure: self.body.procedure(),
            }
            .emit(writer)?;
            writer.u32(0)?;
            let mut written = self.written.iter().copied();
            for segments in self.lists.write {
                let used = written_segments(segments, written.next().unwrap_or(0));
                chunk::emit_chunk(writer, segments.len(), used)?;
            }
            writer.u32(0)?;
            let payload = match self.body {
                Body::Msg => 0,
                Body::NoMsg => self.payload,
            };
            match self.lists.reply {
                Some(segments) => {
                    chunk::emit_chunk(writer, segments.len(), written_segments(segments, payload))
                }
                None => writer.u32(0),
            }
        });
        length.ok_or_else(|| Misuse::Buffer {
            needed: self.wire_len(),
            room,
        })
    }
}

/// Returns whether any reply to `call` can be returned. A Call without one must not be executed.
/// `threshold` is as for [`ReplyBuilder::new`].
pub fn can_reply(call: &Call<'_>, threshold: usize) -> bool {
    ReplyBuilder::new(call, &[], rpc::MIN_REPLY, threshold).is_ok()
}

/// Returns the handle of `call` that a reply may invalidate at the Requester, if there is one.
///
/// Only if both ends said that they know remote invalidation, and only one handle, of this very
/// Call (RFC 8797). It is the handle of a chunk for results if there is one: the Requester waits
/// for that memory. A segment of no length need not have a handle that is anything.
pub fn invalidated_handle(call: &Call<'_>) -> Option<u32> {
    let write = call.lists.write.iter().flatten();
    let reply = call.lists.reply.into_iter().flatten();
    let read = call.lists.read.iter().map(|read| read.segment);
    write
        .chain(reply)
        .chain(read)
        .find(|segment| segment.length > 0)
        .map(|segment| segment.handle)
}
