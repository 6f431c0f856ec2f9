// SPDX-License-Identifier: GPL-2.0

//! Faults of a stream: their cause, and the segment that caused them.
//!
//! [`Cause::Peer`]: the peer broke a rule, which [`Violation`] names. [`Cause::Local`]: this end
//! failed. [`Cause::Llp`]: the lower layer protocol (LLP) failed or found its own rules broken,
//! with the codes of RFC 5044, section 8, and RFC 6581, section 8. [`Misuse`]: a call of this crate
//! that is never correct.

use crate::header::Header;
use crate::header::ReadRequest;
use crate::violation::Code;
use crate::violation::Violation;
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
    /// A Read was posted on a stream whose ORD is zero.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_and_llp_errors_carry_no_header() {
        assert!(!Cause::Local.code().with_header());
        assert!(!Cause::Llp(LlpError::Crc).code().with_header());
        assert_eq!(Cause::Llp(LlpError::Crc).code(), Code::new(2, 0, 2));
    }

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
}
