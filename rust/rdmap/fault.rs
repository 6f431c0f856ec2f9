// SPDX-License-Identifier: GPL-2.0

//! Why a stream ends, whose fault it is, and which segment is to blame.
//!
//! [`Cause::Peer`]: the peer broke a rule, which [`Violation`] names. [`Cause::Local`]: this end failed.
//! [`Cause::Lower`]: the lower layer protocol (LLP) failed or found its own rules broken, with the codes of RFC 5044,
//! section 8, and RFC 6581, section 8. [`Misuse`]: a request to this crate that no correct caller makes.

use crate::header::Header;
use crate::header::ReadRequest;
use crate::violation::Code;
use crate::violation::Violation;
use crate::wire::Octets;

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
    /// The Read Request, if it is one; advanced by what was sent of the response.
    pub read: Option<ReadRequest>,
}

impl Fault {
    /// The peer broke a rule with this segment.
    #[inline]
    pub const fn peer(violation: Violation, culprit: Option<Culprit>) -> Self {
        Self {
            cause: Cause::Peer(violation),
            culprit,
            read: None,
        }
    }

    /// The same, and the segment is this Read Request.
    #[inline]
    pub const fn with_read(self, read: ReadRequest) -> Self {
        Self {
            read: Some(read),
            ..self
        }
    }

    /// This end failed.
    pub const LOCAL: Self = Self {
        cause: Cause::Local,
        culprit: None,
        read: None,
    };

    /// The lower layer failed.
    #[inline]
    pub const fn lower(lower: Lower) -> Self {
        Self {
            cause: Cause::Lower(lower),
            culprit: None,
            read: None,
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
    fn local_and_lower_errors_carry_no_header() {
        assert!(!Cause::Local.code().with_header());
        assert!(!Cause::Lower(Lower::Crc).code().with_header());
        assert_eq!(Cause::Lower(Lower::Crc).code(), Code::new(2, 0, 2));
    }

    #[test]
    fn lower_layer_has_seven_codes() {
        let all = [
            Lower::Lost,
            Lower::Crc,
            Lower::Marker,
            Lower::Startup,
            Lower::Local,
            Lower::Reads,
            Lower::ReadyToReceive,
        ];
        assert_eq!(all.map(Lower::code), [1, 2, 3, 4, 5, 6, 7]);
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
