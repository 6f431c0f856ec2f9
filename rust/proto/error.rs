// SPDX-License-Identifier: GPL-2.0

//! The errors of this crate, by whose fault they are.
//!
//! [`DecodeError`]: these bytes are no RPC-over-RDMA header. [`Violation`]: a well-formed message
//! that breaks a rule of RFC 8166; the peer's fault. [`Misuse`]: a request to this crate that no
//! correct caller makes; our fault.

/// Bytes that do not decode, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The fault.
    pub fault: Fault,
    /// Offset in bytes, from the start of the message, of the item that is wrong.
    pub at: usize,
}

/// A fault of bytes that do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The message ends inside an item.
    Truncated,
    /// A presence word is neither 0 nor 1.
    Presence(u32),
    /// A segment count that the rest of the message cannot hold.
    Count(u32),
    /// A Position that is no multiple of four.
    Position(u32),
    /// More segments or chunks than the caller's limit.
    TooMany,
}

/// A well-formed message that breaks a rule of RFC 8166.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The reply names more Write chunks than the Call offered.
    ChunkCount {
        /// Chunks in the Call.
        offered: usize,
        /// Chunks in the reply.
        returned: usize,
    },
    /// A chunk came back with more segments than it has.
    SegmentCount {
        /// Segments in the Call.
        offered: usize,
        /// Segments in the reply.
        returned: usize,
    },
    /// A segment came back with another handle or offset than the Call offered.
    ForeignSegment {
        /// The handle that came back.
        handle: u32,
    },
    /// A segment came back longer than it was offered.
    LongSegment {
        /// Bytes offered.
        offered: u32,
        /// Bytes the peer claims to have written.
        returned: u32,
    },
    /// A segment holds bytes although one before it was not filled.
    Gap {
        /// The handle of the segment behind the gap.
        handle: u32,
    },
    /// A Reply chunk came back that was never offered.
    UnofferedReplyChunk,
    /// An inline reply claims bytes in the Reply chunk as well.
    TwoPayloads {
        /// Bytes claimed in the Reply chunk.
        length: u64,
    },
    /// The upper layer expected another number of bytes in a Write chunk.
    ResultLength {
        /// Length of the result according to the reply itself.
        expected: usize,
        /// Bytes written to its chunk.
        written: usize,
    },
    /// A result that is not DDP-eligible was returned in a Write chunk.
    ResultNotEligible {
        /// Bytes written to the chunk.
        written: usize,
    },
}

impl Violation {
    /// Returns the rule that is broken, for people.
    pub const fn reason(&self) -> &'static str {
        match self {
            Violation::ChunkCount { .. } => "more Write chunks than were offered",
            Violation::SegmentCount { .. } => "more segments than were offered",
            Violation::ForeignSegment { .. } => "a segment that was not offered",
            Violation::LongSegment { .. } => "a segment longer than it was offered",
            Violation::Gap { .. } => "a segment used before the one before it was full",
            Violation::UnofferedReplyChunk => "a Reply chunk that was not offered",
            Violation::TwoPayloads { .. } => "a message both inline and in the Reply chunk",
            Violation::ResultLength { .. } => "a result of another length than its Write chunk",
            Violation::ResultNotEligible { .. } => {
                "a result in a Write chunk that may not be there"
            }
        }
    }
}

/// A request to this crate that no correct caller makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// The output buffer is too short.
    Buffer {
        /// Bytes needed.
        needed: usize,
        /// Bytes there.
        room: usize,
    },
    /// A credit word of zero.
    ZeroCredits,
    /// A Position that is no multiple of four.
    Position(u32),
    /// A message with an inline payload and a Position-Zero chunk.
    TwoPayloads,
    /// A message without any payload.
    NoPayload,
    /// Sizes that contradict each other.
    Sizes,
    /// A buffer below the 1024 bytes that every implementation has.
    SmallBuffer(usize),
}
