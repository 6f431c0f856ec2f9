// SPDX-License-Identifier: GPL-2.0

//! The four fixed words and the header of a Call (RFC 8166, sections 4.1 and 4.2).

use crate::chunk::{self, ReadSegment, Segment};
use crate::error::{DecodeError, Misuse};
use crate::xdr::{self, Reader, Writer};

/// The version that this crate implements.
pub const VERSION: u32 = 1;

/// Length of the smallest header of a Call or Reply: the fixed words and three empty chunk fields.
pub const MIN_LEN: usize = 28;

/// Procedure numbers. DONE is retired, and named because it is dropped without an answer; MSGP (2)
/// is retired, too.
pub mod procedure {
    /// A header followed by the RPC message.
    pub const MSG: u32 = 0;
    /// A header alone; the RPC message is in a chunk.
    pub const NOMSG: u32 = 1;
    /// Retired: the Requester is done with the Responder's memory.
    pub const DONE: u32 = 3;
    /// The Responder could not serve a Call.
    pub const ERROR: u32 = 4;
}

/// The four words that every version of the protocol starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Transaction, the same number as in the RPC message.
    pub xid: u32,
    /// Protocol version.
    pub version: u32,
    /// Credits: a request with a Call, a grant with a Reply.
    pub credits: u32,
    /// The procedure, which says what follows.
    pub procedure: u32,
}

impl Prefix {
    /// Bytes on the wire.
    pub const WIRE_LEN: usize = 16;

    /// Reads the four words, whatever they say.
    #[inline]
    pub fn parse(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let [x0, x1, x2, x3, v0, v1, v2, v3, c0, c1, c2, c3, p0, p1, p2, p3] = *reader.array()?;
        Ok(Self {
            xid: u32::from_be_bytes([x0, x1, x2, x3]),
            version: u32::from_be_bytes([v0, v1, v2, v3]),
            credits: u32::from_be_bytes([c0, c1, c2, c3]),
            procedure: u32::from_be_bytes([p0, p1, p2, p3]),
        })
    }

    #[inline]
    pub(crate) fn emit(&self, writer: &mut Writer<'_>) -> Option<()> {
        let first = xdr::pair(self.xid, self.version);
        writer.array(xdr::quad(first, xdr::pair(self.credits, self.procedure)))
    }
}

/// Refuses a credit word of zero: it would tell the peer to stop for ever (RFC 8166, section
/// 3.3.1).
#[inline]
pub(crate) fn check_credits(credits: u32) -> Result<(), Misuse> {
    match credits {
        0 => Err(Misuse::ZeroCredits),
        _ => Ok(()),
    }
}

/// The place of the RPC message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The same Send, behind the header.
    Msg,
    /// A chunk: Position Zero for a Call, the Reply chunk for a Reply.
    NoMsg,
}

impl Body {
    #[inline]
    pub(crate) const fn procedure(self) -> u32 {
        match self {
            Body::Msg => procedure::MSG,
            Body::NoMsg => procedure::NOMSG,
        }
    }
}

/// The header of a Call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Transaction: the value of the wire word in host order.
    pub xid: u32,
    /// Credits requested, at least one.
    pub credits: u32,
    /// The place of the RPC message.
    pub body: Body,
    /// Arguments outside the message, and the message itself if it travels by chunk.
    pub read: &'a [ReadSegment],
    /// Chunks for results. `&[&[]]` is one empty chunk: "return this result inline".
    pub write: &'a [&'a [Segment]],
    /// The chunk for the whole reply.
    pub reply: Option<&'a [Segment]>,
}

impl Call<'_> {
    /// Returns the number of bytes that [`emit`](Self::emit) writes.
    #[inline]
    pub fn wire_len(&self) -> usize {
        let read = self.read.len().saturating_mul(ReadSegment::WIRE_LEN);
        let write = self.write.iter().fold(0, |sum: usize, chunk| {
            sum.saturating_add(chunk::chunk_len(chunk.len()))
                .saturating_add(4)
        });
        let reply = self.reply.map_or(0, |chunk| chunk::chunk_len(chunk.len()));
        MIN_LEN
            .saturating_add(read)
            .saturating_add(write)
            .saturating_add(reply)
    }

    /// Writes the header to the front of `out` and returns its length.
    ///
    /// After an error, `out` holds no header.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Misuse> {
        check_credits(self.credits)?;
        self.check_payload()?;
        let room = out.len();
        let length = xdr::write(out, |writer| {
            Prefix {
                xid: self.xid,
                version: VERSION,
                credits: self.credits,
                procedure: self.body.procedure(),
            }
            .emit(writer)?;
            for read in self.read {
                chunk::emit_read(writer, read)?;
            }
            writer.u32(0)?;
            for segments in self.write {
                chunk::emit_chunk(writer, segments.len(), segments.iter().copied())?;
            }
            writer.u32(0)?;
            match self.reply {
                Some(segments) => {
                    chunk::emit_chunk(writer, segments.len(), segments.iter().copied())
                }
                None => writer.u32(0),
            }
        });
        length.ok_or_else(|| Misuse::Buffer {
            needed: self.wire_len(),
            room,
        })
    }

    /// Checks that the message has exactly one payload (RFC 8166, section 4.2.4), and that
    /// Positions count units.
    #[inline]
    fn check_payload(&self) -> Result<(), Misuse> {
        let mut payload: u64 = 0;
        for read in self.read {
            if read.position & 3 != 0 {
                return Err(Misuse::Position(read.position));
            }
            if read.position == 0 {
                if self.body == Body::Msg {
                    return Err(Misuse::TwoPayloads);
                }
                payload = payload.saturating_add(u64::from(read.segment.length));
            }
        }
        match self.body {
            Body::NoMsg if payload == 0 => Err(Misuse::NoPayload),
            _ => Ok(()),
        }
    }
}
