// SPDX-License-Identifier: GPL-2.0

//! Messages that the Requester receives (RFC 8166, sections 4.3 and 4.5).
//!
//! [`parse`] looks at the bytes alone. The caller then looks up the transaction and has the reply
//! [checked](Reply::check) against what the Call offered. An error from either means the same: drop
//! the message, tell the peer nothing, change nothing (not even the credits), count it, and post
//! the Receive again. The RPC stays pending. If that happens again to the same RPC over another
//! connection, it will for ever: the caller ends the RPC. An [`Incoming::Error`] ends the RPC for
//! good; it may have been executed.

use crate::chunk::{Limits, Lists, Segment, Segments, WriteList};
use crate::error::{DecodeError, Violation};
use crate::header::{self, procedure, Body, Prefix};
pub use crate::rdma_error::RdmaError;
use crate::reverse;
use crate::rpc::{self, direction};
use crate::xdr::{self, Reader};

/// A message from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// A Call in the reverse direction. Its credit word is a request.
    ReverseCall(reverse::Message<'a>),
    /// A Reply. Its credit word is a grant.
    Reply(Reply<'a>),
    /// An RDMA_ERROR: the Responder could not serve our Call, or cannot return the reply.
    Error {
        /// The Call.
        xid: u32,
        /// Credits granted.
        credits: u32,
        /// The error that the Responder reports.
        kind: RdmaError,
    },
}

/// The reason to drop a message from the server before its transaction is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Too short to be what it says it is.
    Runt(usize),
    /// Another version.
    Version(u32),
    /// A procedure that is retired or does not exist.
    Procedure(u32),
    /// An RDMA_ERROR with an unknown code.
    ErrorCode(u32),
    /// The chunk fields do not decode.
    Lists(DecodeError),
    /// A reply with a Read list. Only a Requester has arguments.
    ReadList,
    /// The RPC message is too short.
    Payload(u64),
    /// The transaction numbers of header and RPC message differ.
    Xid {
        /// The one in the header.
        header: u32,
        /// The one in the RPC message.
        payload: u32,
    },
    /// A direction word of neither a Call nor a Reply.
    Direction(u32),
    /// A Call in the reverse direction with chunks.
    ReverseChunks,
    /// Bytes behind a header that has its payload elsewhere.
    Trailing(usize),
}

impl Discard {
    /// Returns what is wrong with the message, for people.
    pub const fn reason(&self) -> &'static str {
        match self {
            Discard::Runt(_) => "a message that is too short",
            Discard::Version(_) => "a message of another version",
            Discard::Procedure(_) => "a message of an unknown procedure",
            Discard::ErrorCode(_) => "an RDMA_ERROR with an unknown code",
            Discard::Lists(_) => "chunk lists that do not decode",
            Discard::ReadList => "a reply with a Read list",
            Discard::Payload(_) => "an RPC message that is too short",
            Discard::Xid { .. } => "two XIDs in one message",
            Discard::Direction(_) => "neither a Call nor a reply",
            Discard::ReverseChunks => "a callback with chunks",
            Discard::Trailing(_) => "bytes behind a header without an inline message",
        }
    }
}

impl From<DecodeError> for Discard {
    fn from(error: DecodeError) -> Self {
        Discard::Lists(error)
    }
}

/// A Reply whose chunks are still to be compared with the Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The Call it answers.
    pub xid: u32,
    /// Credits granted.
    pub credits: u32,
    /// The place of the RPC message.
    pub body: Body,
    /// The RPC message if it is inline, else empty.
    pub payload: &'a [u8],
    /// The Write chunks as they were used.
    pub write: WriteList<'a>,
    /// The Reply chunk as it was used.
    pub reply: Option<Segments<'a>>,
}

/// Returns the XID that a message in a Receive buffer claims to have, whether [`parse`] accepts the
/// message or not.
pub fn claimed_xid(message: &[u8]) -> Option<u32> {
    let (xid, _) = message.split_first_chunk()?;
    Some(u32::from_be_bytes(*xid))
}

/// Parses the message in one Receive buffer.
pub fn parse(message: &[u8]) -> Result<Incoming<'_>, Discard> {
    let runt = Discard::Runt(message.len());
    let mut reader = Reader::new(message);
    let prefix = Prefix::parse(&mut reader).map_err(|_| runt)?;
    if prefix.version != header::VERSION {
        return Err(Discard::Version(prefix.version));
    }
    let body = match prefix.procedure {
        procedure::MSG => Body::Msg,
        procedure::NOMSG => Body::NoMsg,
        procedure::ERROR => return parse_error(&prefix, reader, runt),
        other => return Err(Discard::Procedure(other)),
    };
    if message.len() < header::MIN_LEN {
        return Err(runt);
    }
    let lists = Lists::parse(&mut reader, &Limits::UNLIMITED)?;
    let payload = reader.rest();
    match body {
        Body::Msg => parse_msg(&prefix, &lists, payload),
        Body::NoMsg => parse_nomsg(&prefix, &lists, payload),
    }
}

/// Parses an RDMA_ERROR. ERR_CHUNK has 20 bytes, fewer than RFC 8166, section 4.5, requires of a
/// message that is parsed. Taken literally, that section would make a Requester wait for ever.
fn parse_error<'a>(
    prefix: &Prefix,
    mut reader: Reader<'_>,
    runt: Discard,
) -> Result<Incoming<'a>, Discard> {
    let kind =
        RdmaError::parse(&mut reader).map_err(|code| code.map_or(runt, Discard::ErrorCode))?;
    Ok(Incoming::Error {
        xid: prefix.xid,
        credits: prefix.credits,
        kind,
    })
}

fn parse_msg<'a>(
    prefix: &Prefix,
    lists: &Lists<'a>,
    payload: &'a [u8],
) -> Result<Incoming<'a>, Discard> {
    let length = xdr::byte_count(payload);
    let short = Discard::Payload(length);
    let (xid, direction) = rpc::xid_and_direction(payload).ok_or(short)?;
    if xid != prefix.xid {
        return Err(Discard::Xid {
            header: prefix.xid,
            payload: xid,
        });
    }
    match direction {
        direction::CALL if !lists.is_empty() => Err(Discard::ReverseChunks),
        direction::CALL if length < rpc::MIN_CALL => Err(short),
        direction::CALL => Ok(Incoming::ReverseCall(reverse::Message {
            xid,
            credits: prefix.credits,
            payload,
        })),
        direction::REPLY if length < rpc::MIN_REPLY => Err(short),
        direction::REPLY => Reply::received(prefix, Body::Msg, lists, payload),
        other => Err(Discard::Direction(other)),
    }
}

/// Parses a reply whose payload is in the Reply chunk (RFC 8166, section 4.2.4).
///
/// The padding of the last item may be missing, as that leaves nothing in doubt. Bytes behind the
/// header do: they may be the reply, and then nothing was written to the chunk.
fn parse_nomsg<'a>(
    prefix: &Prefix,
    lists: &Lists<'a>,
    rest: &'a [u8],
) -> Result<Incoming<'a>, Discard> {
    let length = lists.reply.map_or(0, |chunk| chunk.total());
    if length < rpc::MIN_REPLY {
        return Err(Discard::Payload(length));
    }
    if !rest.is_empty() {
        return Err(Discard::Trailing(rest.len()));
    }
    Reply::received(prefix, Body::NoMsg, lists, rest)
}

/// The chunks that a Call offered for its reply, as they were encoded in its header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer<'a> {
    /// The Write list.
    pub write: &'a [&'a [Segment]],
    /// The Reply chunk.
    pub reply: Option<&'a [Segment]>,
}

/// A reply that keeps to what was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome<'a> {
    /// The RPC message if it is inline, else empty.
    pub inline: &'a [u8],
    /// Bytes in the Write chunks together. Zero: the chunks were not used, and the content of
    /// their memory is undefined.
    pub written_len: usize,
    /// Bytes of the RPC message in the Reply chunk, perhaps without the padding of its last item.
    /// Zero: the message is inline.
    pub reply_chunk_len: usize,
}

impl<'a> Reply<'a> {
    fn received(
        prefix: &Prefix,
        body: Body,
        lists: &Lists<'a>,
        payload: &'a [u8],
    ) -> Result<Incoming<'a>, Discard> {
        if !lists.read.is_empty() {
            return Err(Discard::ReadList);
        }
        Ok(Incoming::Reply(Reply {
            xid: prefix.xid,
            credits: prefix.credits,
            body,
            payload,
            write: lists.write,
            reply: lists.reply,
        }))
    }

    /// Compares the chunks that came back with those of the Call.
    ///
    /// The header repeats every chunk, segment by segment; only the lengths change, to what was
    /// written (RFC 8166, sections 3.4.6 and 4.3.3). Any other difference is a [`Violation`].
    ///
    /// Missing chunks, and missing segments at the end of a chunk, are taken for unused: the server
    /// of illumos leaves them out, and so did that of Linux before 4.12.
    pub fn check(&self, offer: &Offer<'_>) -> Result<Outcome<'a>, Violation> {
        if self.write.len() > offer.write.len() {
            return Err(Violation::ChunkCount {
                offered: offer.write.len(),
                returned: self.write.len(),
            });
        }
        let mut written: u64 = 0;
        for (offered, returned) in offer.write.iter().zip(self.write) {
            written = written.saturating_add(returned_len(offered, returned)?);
        }
        let in_reply_chunk = match (offer.reply, self.reply) {
            (Some(offered), Some(returned)) => returned_len(offered, returned)?,
            (None, Some(_)) => return Err(Violation::UnofferedReplyChunk),
            (_, None) => 0,
        };
        if self.body == Body::Msg && in_reply_chunk > 0 {
            return Err(Violation::TwoPayloads {
                length: in_reply_chunk,
            });
        }
        Ok(Outcome {
            inline: self.payload,
            // Both fit: they are no more than the memory we offered.
            written_len: usize::try_from(written).unwrap_or(usize::MAX),
            reply_chunk_len: usize::try_from(in_reply_chunk).unwrap_or(usize::MAX),
        })
    }
}

/// Returns the number of bytes written to a chunk, if it is the chunk that was offered or the
/// beginning of it.
fn returned_len(offered: &[Segment], returned: Segments<'_>) -> Result<u64, Violation> {
    if returned.len() > offered.len() {
        return Err(Violation::SegmentCount {
            offered: offered.len(),
            returned: returned.len(),
        });
    }
    let mut full = true;
    for (offered, returned) in offered.iter().zip(returned) {
        let handle = returned.handle;
        if handle != offered.handle || returned.offset != offered.offset {
            return Err(Violation::ForeignSegment { handle });
        }
        if returned.length > offered.length {
            return Err(Violation::LongSegment {
                offered: offered.length,
                returned: returned.length,
            });
        }
        // RFC 8166, section 3.4.6: each segment is filled before the next is begun.
        if !full && returned.length > 0 {
            return Err(Violation::Gap { handle });
        }
        full &= returned.length == offered.length;
    }
    Ok(returned.total())
}

impl Outcome<'_> {
    /// Looks for the count word in a message that comes inline, [checks](check_result) the result
    /// in the Write chunk, and returns its length there.
    ///
    /// This is for an upper layer whose replies end with that result, as all do that the kernel's
    /// NFS client offers such a chunk for: the count word is the last.
    pub fn check_last_result(&self) -> Result<usize, Violation> {
        let eligible = xdr::last_word(self.inline).and_then(|count| usize::try_from(count).ok());
        check_result(self.written_len, eligible)
    }
}

/// The most bytes behind a result in its Write chunk that are taken for padding.
const MAX_PADDING: usize = 3;

/// Compares the bytes in the chunk with the reply as the upper layer decoded it. Returns how many
/// bytes of the chunk are the result.
///
/// `written` says how many bytes are in the chunk, and `eligible` how long the result is by its
/// count word; there may be none, for instance in an error reply. A violation ends the RPC for good
/// (RFC 8166, section 6.1).
///
/// RFC 8166, section 3.4.6.2, keeps padding out of the chunk. The server of illumos writes it, and
/// so did that of Linux before 4.6; nfs-ganesha writes another number of bytes than would be
/// padding. It does no harm: the count word tells where the data end, and all is inside what was
/// offered.
///
/// A chunk of which nothing is used is no violation, whatever the count word says: then the data
/// are inline. Section 6.1 wants that RPC to fail, but nothing is lost or in doubt, and some
/// servers do so.
pub fn check_result(written: usize, eligible: Option<usize>) -> Result<usize, Violation> {
    if written == 0 {
        return Ok(0);
    }
    let expected = eligible.ok_or(Violation::ResultNotEligible { written })?;
    match written.checked_sub(expected) {
        Some(..=MAX_PADDING) => Ok(expected),
        // Without some of the data, or with data that the reply does not count.
        _ => Err(Violation::ResultLength { expected, written }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERED: Segment = Segment {
        handle: 0x1202,
        length: 100,
        offset: 0x2_0000_0010,
    };

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn reply(message: &[u8]) -> Reply<'_> {
        match parse(message) {
            Ok(Incoming::Reply(reply)) => reply,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn long_reply_tells_how_much_was_written() {
        let message = words(&[7, 1, 16, 1, 0, 0, 1, 1, 0x1202, 64, 2, 0x10]);
        let offer = Offer {
            write: &[],
            reply: Some(&[OFFERED]),
        };
        let outcome = reply(&message).check(&offer).unwrap();
        assert_eq!(outcome.reply_chunk_len, 64);
        assert!(outcome.inline.is_empty());
    }

    #[test]
    fn gap_is_no_reply_even_behind_an_empty_segment() {
        let segment = |handle, length| Segment {
            handle,
            length,
            offset: 0,
        };
        let offered = [segment(1, 9), segment(2, 0), segment(3, 9)];
        let offer = Offer {
            write: &[&offered],
            reply: None,
        };
        let mut message = vec![
            7, 1, 16, 0, 0, 1, 3, 1, 5, 0, 0, 2, 0, 0, 0, 3, 9, 0, 0, 0, 0,
        ];
        message.extend([7, 1, 0, 0, 0]);
        let message = words(&message);
        let error = reply(&message).check(&offer);
        assert_eq!(error, Err(Violation::Gap { handle: 3 }));
    }

    #[test]
    fn error_without_a_word_more_is_understood() {
        let message = words(&[7, 1, 16, 4, 2]);
        assert_eq!(
            parse(&message),
            Ok(Incoming::Error {
                xid: 7,
                credits: 16,
                kind: RdmaError::Chunk
            })
        );
        assert_eq!(parse(&message[..19]), Err(Discard::Runt(19)));
    }
}
