// SPDX-License-Identifier: GPL-2.0

//! What can go wrong on a stream, whose fault it is, and the one table from there to Terminate codes.
//!
//! [`Violation`]: the peer broke a rule. [`Cause::Local`]: this end failed. [`Cause::Lower`]: the lower layer
//! protocol (LLP) failed or found its own rules broken. [`Misuse`]: a request to this crate that no correct caller makes.
//!
//! The codes are those of RFC 5040, section 4.8 (layer 0), RFC 5041, section 7.2 (layer 1), RFC 5044, section 8, and
//! RFC 6581, section 8 (layer 2). Where RFC 5040 leaves a choice:
//!
//! - "STag cannot be invalidated" is there twice. It is a protection error if the STag is another stream's or is
//!   shared, and an operation error if nothing valid has the STag.
//! - DDP has no code for missing rights. A tagged segment without them gets the code of an invalid STag.
//! - RDMAP has no code for more Read Requests than agreed. To DDP that is a message without a buffer.

use crate::header::Header;
use crate::header::ReadRequest;
use crate::stag::Denied;
use crate::wire::Octets;

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
    /// An opcode that is not known, or not in this buffer model or queue.
    Opcode,
    /// A queue number above 2.
    Queue,
    /// A message number for which no buffer is there: a Send without a Receive, a Read Request beyond IRD.
    NoBuffer,
    /// A message number that is used up, or that comes too early.
    MessageNumber,
    /// A message offset outside the buffer, or segments that do not make up a message.
    MessageOffset,
    /// A message longer than its buffer.
    TooLong,
    /// A tagged segment that may not be placed.
    Tagged(Denied),
    /// A Read Request for memory that may not be read.
    Source(Denied),
    /// A Send that may not invalidate its STag.
    Invalidate(Denied),
    /// A Read Response although no Read is outstanding.
    NoRead,
    /// A Read Response that ends before every octet was there.
    ShortResponse,
}

/// What the lower layer reports (RFC 5044, section 8; RFC 6581, section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// The connection is lost.
    Lost,
    /// A CRC does not fit.
    Crc,
    /// A marker and the length of its FPDU disagree.
    Marker,
    /// A start-up frame that is not valid.
    Startup,
    /// The lower layer of this end failed.
    Local,
    /// The peer does not offer enough RDMA Reads.
    Reads,
    /// The peer offers no ready-to-receive message that is known.
    ReadyToReceive,
}

/// Why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The peer broke a rule.
    Peer(Violation),
    /// This end failed.
    Local,
    /// The lower layer failed.
    Lower(Lower),
}

/// What a Terminate says of its cause: layer, error type, error code.
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
    /// These numbers.
    #[inline]
    pub const fn new(layer: u8, etype: u8, code: u8) -> Self {
        Self { layer, etype, code }
    }

    /// Says whether DDP header and segment length belong into the Terminate (RFC 5040, figure 10).
    #[inline]
    pub const fn with_header(self) -> bool {
        matches!((self.layer, self.etype), (0, 1 | 2) | (1, _))
    }

    /// Says whether the header of a Read Request that is the culprit belongs into the Terminate.
    #[inline]
    pub const fn with_read_request(self) -> bool {
        matches!((self.layer, self.etype), (0, 1))
    }
}

impl Violation {
    /// The table.
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

impl Lower {
    /// The error code, in layer 2.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::Lost => 1,
            Self::Crc => 2,
            Self::Marker => 3,
            Self::Startup => 4,
            Self::Local => 5,
            Self::Reads => 6,
            Self::ReadyToReceive => 7,
        }
    }
}

impl Cause {
    /// What a Terminate says of it. The code of a local error means nothing.
    #[inline]
    pub const fn code(self) -> Code {
        match self {
            Self::Peer(violation) => violation.code(),
            Self::Local => Code::new(0, 0, 0xff),
            Self::Lower(lower) => Code::new(2, 0, lower.code()),
        }
    }
}

/// The segment that broke a rule, as far as a Terminate repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Culprit {
    /// Octets of the whole DDP Segment, header included.
    pub segment_length: u16,
    /// The DDP header as it arrived.
    pub header: Octets<{ Header::UNTAGGED_LEN }>,
    /// The Read Request, if it is one; advanced by what was sent of the response.
    pub read: Option<ReadRequest>,
}

impl Culprit {
    /// The segment of `length` octets that begins with `head`. `None` if not even its header is there.
    pub fn of(head: &[u8], length: usize) -> Option<Self> {
        let header = head.get(..Header::len_of(*head.first()?))?;
        let mut octets = Octets::new();
        octets.put_slice(header);
        Some(Self {
            segment_length: u16::try_from(length).unwrap_or(u16::MAX),
            header: octets,
            read: None,
        })
    }
}

/// Why a stream ends, and with which segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Why.
    pub cause: Cause,
    /// The segment that is to blame, if one is.
    pub culprit: Option<Culprit>,
}

impl Fault {
    /// The peer broke a rule with this segment.
    #[inline]
    pub const fn peer(violation: Violation, culprit: Option<Culprit>) -> Self {
        Self {
            cause: Cause::Peer(violation),
            culprit,
        }
    }

    /// This end failed.
    pub const LOCAL: Self = Self {
        cause: Cause::Local,
        culprit: None,
    };

    /// The lower layer failed.
    #[inline]
    pub const fn lower(lower: Lower) -> Self {
        Self {
            cause: Cause::Lower(lower),
            culprit: None,
        }
    }
}

/// A request to this crate that no correct caller makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// There is no room for one more.
    Full,
    /// A Read on a stream that may have none outstanding.
    NoReads,
    /// More private data than there may be.
    PrivateData,
    /// The buffer is too short.
    Buffer,
    /// An answer, or a completion, of something that is not outstanding.
    Unknown,
    /// Not in this state.
    State,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_protection_errors_carry_a_read_request() {
        let source = Violation::Source(Denied::Bounds).code();
        assert!(source.with_header() && source.with_read_request());
        for violation in [Violation::Opcode, Violation::NoBuffer, Violation::TooLong] {
            assert!(violation.code().with_header());
            assert!(!violation.code().with_read_request());
        }
    }

    #[test]
    fn local_and_lower_errors_carry_no_header() {
        assert!(!Cause::Local.code().with_header());
        assert!(!Cause::Lower(Lower::Crc).code().with_header());
        assert_eq!(Cause::Lower(Lower::Crc).code(), Code::new(2, 0, 2));
    }

    #[test]
    fn culprit_keeps_the_header_of_its_model() {
        let tagged = Culprit::of(&[0xc1; 40], 40).unwrap();
        assert_eq!(tagged.header.len(), Header::TAGGED_LEN);
        let untagged = Culprit::of(&[0x41; 18], 70_000).unwrap();
        assert_eq!(untagged.header.len(), Header::UNTAGGED_LEN);
        assert_eq!(untagged.segment_length, u16::MAX);
        assert_eq!(Culprit::of(&[0x41; 17], 17), None);
        assert_eq!(Culprit::of(&[], 0), None);
    }
}
