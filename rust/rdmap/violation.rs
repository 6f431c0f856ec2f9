// SPDX-License-Identifier: GPL-2.0

//! Rules that a peer can break, and their mapping to Terminate codes.
//!
//! The codes are those of RFC 5040, section 4.8 (layer 0), and RFC 5041, section 7.2 (layer 1).
//! Where RFC 5040 leaves a choice:
//!
//! - "STag cannot be invalidated" exists twice. It is a protection error if the STag belongs to
//!   another stream or is shared, and an operation error if nothing valid has the STag.
//! - DDP has no code for missing rights. A tagged segment without them gets the code of an invalid
//!   STag.
//! - RDMAP has no code for more Read Requests than agreed. To DDP that is a message without a
//!   buffer.

use crate::stag::Denied;

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
    /// The opcode is unknown, or not allowed in this buffer model or queue.
    Opcode,
    /// The queue number is above 2.
    Queue,
    /// There is no buffer for the message number: a Send without a Receive, a Read Request beyond
    /// IRD.
    NoBuffer,
    /// The message number is used up, or comes too early.
    MessageNumber,
    /// The message offset is outside the buffer, or the segments do not make up a message.
    MessageOffset,
    /// The message is longer than its buffer.
    TooLong,
    /// A tagged segment may not be placed.
    Tagged(Denied),
    /// A Read Request names memory that may not be read.
    Source(Denied),
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

    /// Says whether the Terminate includes DDP header and segment length (RFC 5040, figure 10).
    #[inline]
    pub const fn with_header(self) -> bool {
        matches!((self.layer, self.etype), (0, 1 | 2) | (1, _))
    }

    /// Says whether the Terminate includes the header of a Read Request that caused the error.
    #[inline]
    pub const fn with_read_request(self) -> bool {
        matches!((self.layer, self.etype), (0, 1))
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
