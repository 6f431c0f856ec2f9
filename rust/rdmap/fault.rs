// SPDX-License-Identifier: GPL-2.0

//! Faults of a stream: their cause, and the segment that caused them.
//!
//! [`Cause::Peer`]: the peer broke a rule, which [`Violation`] names. [`Cause::Local`]: this end
//! failed. [`Cause::Llp`]: the lower layer protocol (LLP) failed or found its own rules broken,
//! with the codes of RFC 5044, section 8, and RFC 6581, section 8. [`Misuse`]: a call of this crate
//! that is never correct.
//!
//! The codes of Terminates are those of RFC 5040, section 4.8 (layer 0), and RFC 5041, section 7.2
//! (layer 1). Where RFC 5040 leaves a choice:
//!
//! - "STag cannot be invalidated" exists twice. It is a protection error if the STag belongs to
//!   another stream or is shared, and an operation error if nothing valid has the STag.
//! - DDP has no code for missing rights. A tagged segment without them gets the code of an invalid
//!   STag.
//! - RDMAP has no code for more Read Requests than agreed. To DDP that is a message without a
//!   buffer.
//! - RFC 7306 has no code for an operation code of an Atomic Request that stands for nothing, nor
//!   for a response to another request. The first is like an unknown opcode, the second a failure
//!   of the stream. Memory of an atomic operation has the codes of a Read Request's.

use crate::header::{Header, ReadRequest};
use crate::stag::Denied;
use crate::wire::Octets;

/// An error that the lower layer protocol reports (RFC 5044, section 8; RFC 6581, section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlpError {
    /// The connection is lost.
    Lost,
    /// The CRC of an FPDU is wrong.
    Crc,
    /// A marker and the length of its FPDU disagree.
    Marker,
    /// A start-up frame is invalid.
    Startup,
    /// The LLP of this end failed.
    Local,
    /// The peer's IRD is insufficient.
    InsufficientIrd,
    /// The peer offers no ready-to-receive message that this end knows.
    NoMatchingRtr,
}

/// The cause of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The peer broke a rule.
    Peer(Violation),
    /// This end failed.
    Local,
    /// The LLP failed.
    Llp(LlpError),
}

impl LlpError {
    /// Returns the error code in layer 2.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::Lost => 1,
            Self::Crc => 2,
            Self::Marker => 3,
            Self::Startup => 4,
            Self::Local => 5,
            Self::InsufficientIrd => 6,
            Self::NoMatchingRtr => 7,
        }
    }
}

impl Cause {
    /// Returns the code for the Terminate. The code of a local error has no meaning.
    #[inline]
    pub const fn code(self) -> Code {
        match self {
            Self::Peer(violation) => violation.code(),
            Self::Local => Code::new(0, 0, 0xff),
            Self::Llp(error) => Code::new(2, 0, error.code()),
        }
    }
}

/// The segment that caused a fault, as far as a Terminate repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffendingSegment {
    /// The length of the whole DDP Segment in octets, header included.
    pub segment_length: u16,
    /// The DDP header as it arrived.
    pub header: Octets<{ Header::UNTAGGED_LEN }>,
}

impl OffendingSegment {
    /// Takes the header of a segment of `length` octets from its `head`. Returns `None` if the
    /// header is incomplete.
    pub fn of(head: &[u8], length: usize) -> Option<Self> {
        let header = head.get(..Header::len_of(*head.first()?))?;
        let mut octets = Octets::new();
        octets.put_slice(header);
        Some(Self {
            segment_length: u16::try_from(length).unwrap_or(u16::MAX),
            header: octets,
        })
    }
}

/// A fault of a stream, with its cause and the segment that caused it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The cause.
    pub cause: Cause,
    /// The segment that caused it, if one did.
    pub offending: Option<OffendingSegment>,
    /// The Read Request if that segment is one, advanced by the part of the response that was sent.
    pub read: Option<ReadRequest>,
}

impl Fault {
    /// Creates a fault of the peer in this segment.
    #[inline]
    pub const fn peer(violation: Violation, offending: Option<OffendingSegment>) -> Self {
        Self {
            cause: Cause::Peer(violation),
            offending,
            read: None,
        }
    }

    /// Adds the Read Request that the segment is.
    #[inline]
    pub const fn with_read(self, read: ReadRequest) -> Self {
        Self {
            read: Some(read),
            ..self
        }
    }

    /// A failure of this end.
    pub const LOCAL: Self = Self {
        cause: Cause::Local,
        offending: None,
        read: None,
    };

    /// Creates a fault of the LLP.
    #[inline]
    pub const fn llp(error: LlpError) -> Self {
        Self {
            cause: Cause::Llp(error),
            offending: None,
            read: None,
        }
    }
}

/// A call of this crate that is never correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// The queue is full.
    Full,
    /// A Read or an atomic operation was posted on a stream whose ORD is zero.
    NoReads,
    /// There is more private data than the format allows.
    PrivateData,
    /// The buffer is too short.
    Buffer,
    /// The reply or completion belongs to nothing that is outstanding.
    Unknown,
    /// The call is not allowed in this state.
    State,
}

/// A rule that the peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The segment is shorter than its headers.
    Truncated,
    /// DV is not 1.
    DdpVersion {
        /// The segment is tagged.
        tagged: bool,
    },
    /// RV is not 1.
    RdmapVersion,
    /// The opcode is unknown, or not allowed in this buffer model or queue; or the operation code
    /// of an Atomic Request is.
    Opcode,
    /// The queue number is above 3.
    Queue,
    /// There is no buffer for the message number: a Send or Immediate Data without a Receive, a
    /// request beyond IRD, an Atomic Response to nothing.
    NoBuffer,
    /// The message number is used up, or comes too early.
    MessageNumber,
    /// The message offset is outside the buffer, or the segments do not make up a message.
    MessageOffset,
    /// The message is longer than its buffer.
    TooLong,
    /// A tagged segment may not be placed.
    Tagged(Denied),
    /// A Read Request names memory that may not be read, or an Atomic Request memory on which there
    /// may be no atomic operation.
    Source(Denied),
    /// An atomic operation at an address that is no multiple of eight.
    Alignment,
    /// An Atomic Response has the identifier of another request.
    Identifier,
    /// A Send may not invalidate its STag.
    Invalidate(Denied),
    /// A Read Response arrived although no Read is outstanding.
    NoRead,
    /// A Read Response ended before all its octets were there.
    ShortResponse,
}

/// The error of a Terminate: layer, error type, error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// 0 RDMAP, 1 DDP, 2 LLP. Four bits.
    pub layer: u8,
    /// Error type. Four bits.
    pub etype: u8,
    /// Error code.
    pub code: u8,
}

impl Code {
    /// Creates the error of these numbers.
    #[inline]
    pub const fn new(layer: u8, etype: u8, code: u8) -> Self {
        Self { layer, etype, code }
    }

    /// Returns whether the Terminate includes DDP header and segment length (RFC 5040, figure 10).
    #[inline]
    pub const fn with_header(self) -> bool {
        matches!((self.layer, self.etype), (0, 1 | 2) | (1, _))
    }

    /// Returns whether the Terminate includes the header of a Read Request that caused the error.
    #[inline]
    pub const fn with_read_request(self) -> bool {
        matches!((self.layer, self.etype), (0, 1))
    }
}

/// The peer's reason to refuse a request, as verbs tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemoteError {
    /// The memory that the request names, or the access to it.
    Access,
    /// The request itself.
    InvalidRequest,
    /// It failed there.
    Operation,
}

impl Code {
    /// Returns what a Terminate with this error has against the request whose segment it repeats.
    pub const fn remote_error(self) -> RemoteError {
        match (self.layer, self.etype, self.code) {
            (0, 1, _) | (0, 2, 0x09) => RemoteError::Access,
            // The versions of RDMAP and of DDP, and the opcode.
            (0, 2, 0x05 | 0x06) | (1, 1, 0x04) => RemoteError::InvalidRequest,
            (1, 1, _) => RemoteError::Access,
            // There is no buffer for the message, or it does not fit.
            (1, 2, _) => RemoteError::InvalidRequest,
            _ => RemoteError::Operation,
        }
    }
}

impl Violation {
    /// Returns the Terminate code.
    pub const fn code(self) -> Code {
        match self {
            Self::Source(denied) => match denied {
                Denied::Invalid | Denied::Shared => Code::new(0, 1, 0x00),
                Denied::Bounds => Code::new(0, 1, 0x01),
                Denied::Rights => Code::new(0, 1, 0x02),
                Denied::Stream => Code::new(0, 1, 0x03),
                Denied::Wrap => Code::new(0, 1, 0x04),
            },
            Self::Invalidate(Denied::Invalid) => Code::new(0, 2, 0x09),
            Self::Invalidate(_) => Code::new(0, 1, 0x09),
            Self::RdmapVersion => Code::new(0, 2, 0x05),
            Self::Opcode | Self::NoRead => Code::new(0, 2, 0x06),
            Self::Alignment | Self::Identifier => Code::new(0, 2, 0x07),
            Self::Truncated => Code::new(0, 2, 0xff),
            Self::Tagged(denied) => match denied {
                Denied::Invalid | Denied::Rights | Denied::Shared => Code::new(1, 1, 0x00),
                Denied::Bounds => Code::new(1, 1, 0x01),
                Denied::Stream => Code::new(1, 1, 0x02),
                Denied::Wrap => Code::new(1, 1, 0x03),
            },
            Self::ShortResponse => Code::new(1, 1, 0x01),
            Self::DdpVersion { tagged: true } => Code::new(1, 1, 0x04),
            Self::Queue => Code::new(1, 2, 0x01),
            Self::NoBuffer => Code::new(1, 2, 0x02),
            Self::MessageNumber => Code::new(1, 2, 0x03),
            Self::MessageOffset => Code::new(1, 2, 0x04),
            Self::TooLong => Code::new(1, 2, 0x05),
            Self::DdpVersion { tagged: false } => Code::new(1, 2, 0x06),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows P4.8-3.
    #[test]
    fn local_and_llp_errors_carry_no_header() {
        assert!(!Cause::Local.code().with_header());
        assert!(!Cause::Llp(LlpError::Crc).code().with_header());
        assert_eq!(Cause::Llp(LlpError::Crc).code(), Code::new(2, 0, 2));
    }

    // Shows M-12.
    #[test]
    fn llp_has_seven_codes() {
        let all = [
            LlpError::Lost,
            LlpError::Crc,
            LlpError::Marker,
            LlpError::Startup,
            LlpError::Local,
            LlpError::InsufficientIrd,
            LlpError::NoMatchingRtr,
        ];
        assert_eq!(all.map(LlpError::code), [1, 2, 3, 4, 5, 6, 7]);
    }

    // Shows P4.8-6.
    #[test]
    fn offending_segment_keeps_the_header_of_its_model() {
        let tagged = OffendingSegment::of(&[0xc1; 40], 40).unwrap();
        assert_eq!(tagged.header.len(), Header::TAGGED_LEN);
        let untagged = OffendingSegment::of(&[0x41; 18], 70_000).unwrap();
        assert_eq!(untagged.header.len(), Header::UNTAGGED_LEN);
        assert_eq!(untagged.segment_length, u16::MAX);
        assert_eq!(OffendingSegment::of(&[0x41; 17], 17), None);
        assert_eq!(OffendingSegment::of(&[], 0), None);
    }

    // Shows P4.8-3.
    #[test]
    fn only_protection_errors_carry_a_read_request() {
        let source = Violation::Source(Denied::Bounds).code();
        assert!(source.with_header() && source.with_read_request());
        for violation in [Violation::Opcode, Violation::NoBuffer, Violation::TooLong] {
            assert!(violation.code().with_header());
            assert!(!violation.code().with_read_request());
        }
    }
}
