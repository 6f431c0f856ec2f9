// SPDX-License-Identifier: GPL-2.0

//! Messages that the Responder receives (RFC 8166, sections 3.4.5 and 4.5).
//!
//! [`parse`] decides from the bytes alone what is served, what is refused with an RDMA_ERROR and
//! what is dropped in silence, before any RDMA Read is posted. A Call that it accepts has one
//! Payload stream, and its chunks fit together: [`Call::parts`] tells how to rebuild that stream.
//!
//! Two checks need what only the caller has. [`Call::check_message`] looks at a message that RDMA
//! Reads brought; [`Call::check_arguments`] compares the Read chunks with the DDP-eligible
//! arguments, by the [Upper-Layer Binding](crate::upper_layer_binding). Both run before the Call is
//! dispatched.

use core::{iter, mem};

use crate::chunk::{self, Limits, ListLengths, Lists, Segment};
use crate::error::DecodeError;
use crate::header::{self, procedure, Body, Prefix};
use crate::rdma_error::{ErrorMessage, RdmaError};
use crate::reverse;
use crate::rpc::{self, direction, CallHeader};
use crate::xdr::{self, Reader};

/// The most Positions in the Read list of a Call, that of a Position-Zero chunk included.
///
/// A Read chunk holds a reduced argument, and an Upper-Layer Binding makes only few arguments
/// DDP-eligible. The binding of NFS has one in a procedure of NFSv2 or NFSv3, and one in some
/// operations of a COMPOUND; it asks a client for one Read chunk beside the Position-Zero chunk
/// (RFC 8267). The list is searched once for each chunk, before the caller is authenticated, and 64
/// KiB would hold more than 2,700 chunks.
const MAX_POSITIONS: usize = 16;

/// The limits of this Responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Chunks and segments. The NFS binding (RFC 8267) asks for 16 segments in a chunk, and for
    /// one Read chunk beside the Position-Zero chunk.
    pub limits: Limits,
    /// The most bytes to read for one Call: the longest argument and the rest of its message.
    pub max_read_bytes: u64,
    /// Set if this end has Calls of its own in flight, in the reverse direction.
    pub reverse: bool,
}

/// A message from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// A Call. Its credit word is a request.
    Call(Call<'a>),
    /// A Reply in the reverse direction. Its credit word is a grant.
    ReverseReply(reverse::Message<'a>),
    /// An RDMA_ERROR for a Call of ours in the reverse direction.
    ReverseError {
        /// Our Call.
        xid: u32,
        /// Credits granted.
        credits: u32,
        /// The error that the client reports.
        kind: RdmaError,
    },
}

/// The treatment of a message that is not dispatched. The Receive is posted again in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Drop it in silence.
    Drop(Dropped),
    /// Answer with an RDMA_ERROR.
    Refuse(ErrorMessage, Reason),
}

/// The reason to drop a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Too short to be anything.
    Runt(usize),
    /// RDMA_ERROR that answers nothing of ours, or does not decode.
    Error,
    /// RDMA_DONE, which is retired.
    Done,
    /// A Reply that answers nothing of ours, or is malformed.
    Reply,
}

/// The reason to refuse a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Another version.
    Version(u32),
    /// A procedure that is retired or does not exist.
    Procedure(u32),
    /// The chunk fields do not decode.
    Lists(DecodeError),
    /// The RPC message is missing or too short.
    Payload(u64),
    /// An inline message and a Position-Zero chunk.
    TwoPayloads,
    /// Bytes behind a header that has its payload elsewhere.
    Trailing(usize),
    /// A message in the Position-Zero chunk without the padding after its last item.
    Unpadded(u64),
    /// The transaction numbers of header and RPC message differ.
    Xid {
        /// The one in the header.
        header: u32,
        /// The one in the RPC message.
        payload: u32,
    },
    /// A direction word of neither a Call nor a Reply.
    Direction(u32),
    /// The chunk at this Position overlaps another one, lies beyond the end of the message, or
    /// covers data that is not DDP-eligible.
    Position(u32),
    /// More Positions than a Call has DDP-eligible arguments.
    TooManyPositions,
    /// The Read chunks are longer than any argument.
    TooLong(u64),
    /// A segment that wraps around the end of the address space.
    Wrap(Segment),
    /// The chunk at this Position is neither as long as its argument nor as that with its padding.
    Length {
        /// The Position.
        position: u32,
        /// Length of the chunk.
        length: u64,
    },
}

impl From<DecodeError> for Reason {
    fn from(error: DecodeError) -> Self {
        Reason::Lists(error)
    }
}

/// A Call whose chunks fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// Transaction.
    pub xid: u32,
    /// Credits requested.
    pub credits: u32,
    /// The place of the RPC message.
    pub body: Body,
    /// The RPC message without its reduced arguments if it is inline, else empty.
    pub payload: &'a [u8],
    /// The chunks.
    pub lists: Lists<'a>,
}

/// The findings of [`parse`] in the message of a [`Call`], without a borrow of it: from both,
/// the `Call` can be had again without parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    xid: u32,
    credits: u32,
    body: Body,
    lists: ListLengths,
}

impl Outline {
    /// Returns the Call in `message`, which this is the outline of. [`None`] if that is shorter
    /// than it was.
    pub fn call<'a>(&self, message: &'a [u8]) -> Option<Call<'a>> {
        let mut reader = Reader::new(message);
        reader.bytes(Prefix::WIRE_LEN)?;
        Some(Call {
            xid: self.xid,
            credits: self.credits,
            body: self.body,
            lists: self.lists.lists(&mut reader)?,
            payload: reader.rest(),
        })
    }
}

/// A part of the rebuilt message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes of the payload: behind the header, or of the Position-Zero chunk.
    Payload {
        /// Their offset in the payload.
        from: u64,
        /// Their number.
        length: u64,
    },
    /// The Read chunk at this Position.
    Chunk {
        /// The Position.
        position: u32,
        /// Length of the chunk. Never zero.
        length: u64,
    },
    /// XDR padding of this length in bytes, which was not transferred.
    Padding(u64),
}

/// Returns the reason why [`parse`] drops a message, if the first words of its header say so
/// whatever follows.
pub fn dropped(message: &[u8]) -> Option<Dropped> {
    let runt = Dropped::Runt(message.len());
    let Ok(prefix) = Prefix::parse(&mut Reader::new(message)) else {
        return Some(runt);
    };
    match prefix.procedure {
        procedure::ERROR => None,
        _ if message.len() < header::MIN_LEN => Some(runt),
        procedure::DONE if prefix.version == header::VERSION => Some(Dropped::Done),
        _ => None,
    }
}

/// Parses the message in one Receive buffer.
pub fn parse<'a>(message: &'a [u8], policy: &Policy) -> Result<Incoming<'a>, Rejection> {
    let runt = Rejection::Drop(Dropped::Runt(message.len()));
    let mut reader = Reader::new(message);
    let prefix = Prefix::parse(&mut reader).map_err(|_| runt)?;
    // Before the version: two Responders must never answer each other's errors.
    if prefix.procedure == procedure::ERROR {
        return parse_error(&prefix, reader, policy);
    }
    if message.len() < header::MIN_LEN {
        return Err(runt);
    }
    if prefix.version != header::VERSION {
        return Err(Rejection::Refuse(
            ErrorMessage {
                xid: prefix.xid,
                version: prefix.version,
                error: RdmaError::UNKNOWN_VERSION,
            },
            Reason::Version(prefix.version),
        ));
    }
    let body = match prefix.procedure {
        procedure::MSG => Body::Msg,
        procedure::NOMSG => Body::NoMsg,
        procedure::DONE => return Err(Rejection::Drop(Dropped::Done)),
        other => return Err(refuse(prefix.xid, Reason::Procedure(other))),
    };
    let lists = Lists::parse(&mut reader, &policy.limits)
        .map_err(|error| refuse(prefix.xid, Reason::Lists(error)))?;
    let call = Call {
        xid: prefix.xid,
        credits: prefix.credits,
        body,
        payload: reader.rest(),
        lists,
    };
    if let Some((xid, direction::REPLY)) = rpc::xid_and_direction(call.payload) {
        if body == Body::Msg {
            return call.reverse_reply(xid, policy);
        }
    }
    match call.check(policy) {
        Ok(()) => Ok(Incoming::Call(call)),
        Err(reason) => Err(refuse(prefix.xid, reason)),
    }
}

/// Parses an RDMA_ERROR. RFC 8166, section 4.2.4, makes a Responder drop every one. In the reverse
/// direction this end is no Responder.
fn parse_error<'a>(
    prefix: &Prefix,
    mut reader: Reader<'_>,
    policy: &Policy,
) -> Result<Incoming<'a>, Rejection> {
    match RdmaError::parse(&mut reader) {
        Ok(kind) if policy.reverse && prefix.version == header::VERSION => {
            Ok(Incoming::ReverseError {
                xid: prefix.xid,
                credits: prefix.credits,
                kind,
            })
        }
        _ => Err(Rejection::Drop(Dropped::Error)),
    }
}

fn refuse(xid: u32, reason: Reason) -> Rejection {
    let refusal = ErrorMessage {
        xid,
        version: header::VERSION,
        error: RdmaError::Chunk,
    };
    Rejection::Refuse(refusal, reason)
}

impl<'a> Call<'a> {
    /// Returns a Call that came without chunks, with only what its reply depends on. All else is
    /// empty.
    pub fn without_chunks(xid: u32) -> Self {
        Self {
            xid,
            credits: 0,
            body: Body::Msg,
            payload: &[],
            lists: Lists::default(),
        }
    }

    /// Returns the outline of the Call, which [`parse`] returned.
    pub fn outline(&self) -> Outline {
        Outline {
            xid: self.xid,
            credits: self.credits,
            body: self.body,
            lists: self.lists.lengths(),
        }
    }

    fn reverse_reply(&self, xid: u32, policy: &Policy) -> Result<Incoming<'a>, Rejection> {
        let sound = xid == self.xid
            && self.lists.is_empty()
            && xdr::byte_count(self.payload) >= rpc::MIN_REPLY;
        if !sound || !policy.reverse {
            return Err(Rejection::Drop(Dropped::Reply));
        }
        Ok(Incoming::ReverseReply(reverse::Message {
            xid,
            credits: self.credits,
            payload: self.payload,
        }))
    }

    fn check(&self, policy: &Policy) -> Result<(), Reason> {
        let length = match self.body {
            Body::Msg => self.check_inline()?,
            Body::NoMsg => self.check_position_zero()?,
        };
        if self.lists.is_empty() {
            return Ok(());
        }
        self.check_segments(policy)?;
        // Before anything looks at one chunk after the other.
        if self.lists.read.has_more_positions_than::<MAX_POSITIONS>() {
            return Err(Reason::TooManyPositions);
        }
        self.check_positions(length)
    }

    fn check_inline(&self) -> Result<u64, Reason> {
        let length = xdr::byte_count(self.payload);
        if length < rpc::MIN_CALL {
            return Err(Reason::Payload(length));
        }
        if self.lists.read.chunk(0).next().is_some() {
            return Err(Reason::TwoPayloads);
        }
        self.check_message(self.payload)?;
        Ok(length)
    }

    fn check_position_zero(&self) -> Result<u64, Reason> {
        let length = chunk::total(self.lists.read.chunk(0));
        if length < rpc::MIN_CALL {
            return Err(Reason::Payload(length));
        }
        // RFC 8166, section 3.5.3: such a message has all its padding.
        if xdr::padding_u64(length) != 0 {
            return Err(Reason::Unpadded(length));
        }
        if !self.payload.is_empty() {
            return Err(Reason::Trailing(self.payload.len()));
        }
        Ok(length)
    }

    fn check_segments(&self, policy: &Policy) -> Result<(), Reason> {
        let read = self.lists.read.iter().map(|read| read.segment);
        let write = self.lists.write.iter().flatten();
        let reply = self.lists.reply.into_iter().flatten();
        for segment in read.clone().chain(write).chain(reply) {
            let last = u64::from(segment.length).saturating_sub(1);
            if segment.offset.checked_add(last).is_none() {
                return Err(Reason::Wrap(segment));
            }
        }
        match chunk::total(read) {
            length if length > policy.max_read_bytes => Err(Reason::TooLong(length)),
            _ => Ok(()),
        }
    }

    /// Checks that each chunk starts within the bytes that are there when it is inserted.
    fn check_positions(&self, payload: u64) -> Result<(), Reason> {
        let mut inserted: u64 = 0;
        let mut taken: u64 = 0;
        for (position, length) in self.chunks() {
            let before = u64::from(position).checked_sub(inserted);
            match before {
                Some(before) if taken <= before && before <= payload => taken = before,
                _ => return Err(Reason::Position(position)),
            }
            inserted = inserted.saturating_add(xdr::roundup_u64(length));
        }
        Ok(())
    }

    /// Checks a message as it is without its reduced arguments. One that came inline was checked
    /// already.
    ///
    /// The header of the RPC message is never reduced: it holds all that RPCSEC_GSS needs (RFC
    /// 8166, section 8.2.2).
    pub fn check_message(&self, message: &[u8]) -> Result<(), Reason> {
        let length = xdr::byte_count(message);
        let short = Reason::Payload(length);
        let (xid, direction) = rpc::xid_and_direction(message).ok_or(short)?;
        if xid != self.xid {
            return Err(Reason::Xid {
                header: self.xid,
                payload: xid,
            });
        }
        if direction != direction::CALL {
            return Err(Reason::Direction(direction));
        }
        let Some(position) = self.lists.read.position_after(0) else {
            return Ok(());
        };
        match (CallHeader::parse(message), usize::try_from(position)) {
            (Some(header), Ok(at)) if header.reduction && header.length <= at => Ok(()),
            _ => Err(Reason::Position(position)),
        }
    }

    /// Compares the Read chunks with the eligible arguments of the rebuilt message. For the
    /// Position of one, and how much of the message follows its chunk, `argument` gives its length.
    ///
    /// Each chunk must hold one of them, without its padding or with it.
    pub fn check_arguments(
        &self,
        mut argument: impl FnMut(u32, u64) -> Option<usize>,
    ) -> Result<(), Reason> {
        let whole = self.message_len();
        for (position, length) in self.chunks().filter(|(_, length)| *length > 0) {
            let end = u64::from(position).saturating_add(xdr::roundup_u64(length));
            let after = whole.saturating_sub(end);
            let exact = argument(position, after).ok_or(Reason::Position(position))?;
            let exact = u64::try_from(exact).unwrap_or(u64::MAX);
            if length != exact && length != xdr::roundup_u64(exact) {
                return Err(Reason::Length { position, length });
            }
        }
        Ok(())
    }

    /// Returns the RDMA_ERROR for a Call that a later check refused, or whose reply cannot be
    /// returned.
    pub fn refuse(&self) -> ErrorMessage {
        ErrorMessage {
            xid: self.xid,
            version: header::VERSION,
            error: RdmaError::Chunk,
        }
    }

    /// Returns Positions and lengths of the Read chunks, without Position Zero, in the order of the
    /// message. They are few, as [`parse`] made sure: the list is gone through for each of them.
    pub fn chunks(&self) -> impl Iterator<Item = (u32, u64)> + Clone + 'a {
        let read = self.lists.read;
        iter::successors(read.position_after(0), move |position| {
            read.position_after(*position)
        })
        .map(move |position| (position, chunk::total(read.chunk(position))))
    }

    /// Returns the length of the payload: behind the header, or in the Position-Zero chunk.
    pub fn payload_len(&self) -> u64 {
        match self.body {
            Body::Msg => xdr::byte_count(self.payload),
            Body::NoMsg => chunk::total(self.lists.read.chunk(0)),
        }
    }

    /// Returns the length of the rebuilt message.
    pub fn message_len(&self) -> u64 {
        self.chunks().fold(self.payload_len(), |sum, (_, length)| {
            sum.saturating_add(xdr::roundup_u64(length))
        })
    }

    /// Returns the parts of the rebuilt message, from its first byte to its last.
    pub fn parts(&self) -> impl Iterator<Item = Part> + 'a {
        Parts {
            chunks: self.chunks().filter(|(_, length)| *length > 0).peekable(),
            payload: self.payload_len(),
            taken: 0,
            at: 0,
            padding: 0,
        }
    }
}

/// Iterator over the parts of a rebuilt message.
struct Parts<I: Iterator<Item = (u32, u64)>> {
    /// Chunks to come.
    chunks: iter::Peekable<I>,
    /// Payload to come.
    payload: u64,
    /// Payload that was returned.
    taken: u64,
    /// The offset in the message.
    at: u64,
    /// Padding to come.
    padding: u64,
}

impl<I: Iterator<Item = (u32, u64)>> Iterator for Parts<I> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        if self.padding > 0 {
            let padding = mem::take(&mut self.padding);
            self.at = self.at.saturating_add(padding);
            return Some(Part::Padding(padding));
        }
        let length = match self.chunks.peek() {
            Some((position, _)) => u64::from(*position).saturating_sub(self.at),
            None => self.payload,
        };
        if length > 0 {
            let from = self.taken;
            self.taken = self.taken.saturating_add(length);
            self.payload = self.payload.saturating_sub(length);
            self.at = self.at.saturating_add(length);
            return Some(Part::Payload { from, length });
        }
        let (position, length) = self.chunks.next()?;
        self.at = self.at.saturating_add(length);
        self.padding = xdr::padding_u64(length);
        Some(Part::Chunk { position, length })
    }
}
