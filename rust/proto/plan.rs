// SPDX-License-Identifier: GPL-2.0

//! The choice between inline and chunks for a Call and its reply (RFC 8166, sections 3.5 and 4.3).
//!
//! The reply is planned first, because the chunks offered for it lengthen the header of the Call.
//! They lengthen the header of the reply as well: the Responder repeats them there. Whatever is
//! equal to a threshold fits.

use core::ops::Range;

use crate::chunk::{self, ReadSegment};
use crate::cm_private_data::PrivateData;
use crate::error::Misuse;
use crate::header::{Body, MIN_LEN};
use crate::xdr::roundup;

/// The end of the connection that this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Opened the connection: Requester in the forward direction.
    Client,
    /// Accepted the connection: Responder in the forward direction.
    Server,
}

/// The longest Send in each direction, header and payload together.
///
/// Fixed for the life of a connection. They go by direction on the wire, not by who is Requester:
/// a reverse-direction Call goes from the server to the client.
// Argues for S3.3.2-03.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The threshold from the client to the server.
    pub call: usize,
    /// The threshold from the server to the client.
    pub reply: usize,
}

impl Thresholds {
    /// The thresholds of every implementation (RFC 8166, section 3.3.3).
    pub const DEFAULT: Self = Self {
        call: PrivateData::MIN_SIZE,
        reply: PrivateData::MIN_SIZE,
    };

    /// Returns the thresholds that both ends support.
    ///
    /// A peer without private data gets the default in both directions, whatever our own sizes are.
    pub fn negotiate(role: Role, ours: PrivateData, theirs: Option<PrivateData>) -> Self {
        let Some(theirs) = theirs else {
            return Self::DEFAULT;
        };
        let (client, server) = match role {
            Role::Client => (ours, theirs),
            Role::Server => (theirs, ours),
        };
        Self {
            call: client.send_size().min(server.receive_size()),
            reply: server.send_size().min(client.receive_size()),
        }
    }
}

/// A DDP-eligible argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Offset of its first byte in the Call, behind its count word.
    pub position: u32,
    /// Length without padding.
    pub length: usize,
}

/// The sizes of one RPC, padding included where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The whole Call.
    pub call: usize,
    /// The eligible argument in it.
    pub argument: Option<Argument>,
    /// The longest possible reply, with the longest eligible result in it.
    pub reply: usize,
    /// Length without padding of the longest eligible result.
    pub result: Option<usize>,
    /// Set if data may be reduced. RPCSEC_GSS integrity and privacy forbid it (RFC 8166, section
    /// 8.2.2.3).
    pub reduction: bool,
    /// Segments that one chunk has at most.
    pub segments: usize,
}

/// The form in which the Call travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallForm {
    /// Whole, behind the header.
    Inline,
    /// Behind the header without its argument and the padding after it; the argument in a Read
    /// chunk.
    ReadChunk(Argument),
    /// Whole, in a Position-Zero Read chunk; nothing behind the header.
    PositionZero,
}

/// The chunks that are offered to the Responder for the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// None: the reply fits behind its header.
    Inline,
    /// A Write chunk for the result.
    WriteChunk {
        /// Least length of the chunk. It has no space for padding.
        write: usize,
    },
    /// A Write chunk for the result, and a Reply chunk should the rest be too long.
    WriteAndReplyChunk {
        /// Least length of the Write chunk. It has no space for padding.
        write: usize,
        /// Least length of the Reply chunk.
        reply: usize,
    },
    /// A Reply chunk for the whole reply.
    ReplyChunk {
        /// Least length of the chunk.
        reply: usize,
    },
}

/// The forms in which one RPC travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The form in which the Call travels.
    pub call: CallForm,
    /// The chunks that are offered to the Responder for the reply.
    pub reply: ReplyForm,
}

/// The reason why an RPC cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// The sizes contradict each other.
    Misuse(Misuse),
    /// The header of the Call alone exceeds the threshold.
    CallHeader {
        /// Length of the header.
        length: usize,
    },
    /// The header of the reply alone exceeds the threshold.
    ReplyHeader {
        /// Length of the header.
        length: usize,
    },
}

impl From<Misuse> for PlanError {
    fn from(misuse: Misuse) -> Self {
        PlanError::Misuse(misuse)
    }
}

impl Plan {
    /// Decides how the RPC of these sizes travels.
    pub fn new(sizes: &Sizes, thresholds: &Thresholds) -> Result<Self, PlanError> {
        let reply = ReplyForm::new(sizes, thresholds.reply)?;
        let call = CallForm::new(sizes, reply, thresholds.call)?;
        Ok(Self { call, reply })
    }
}

impl ReplyForm {
    fn new(sizes: &Sizes, threshold: usize) -> Result<Self, PlanError> {
        if MIN_LEN.saturating_add(sizes.reply) <= threshold {
            return Ok(ReplyForm::Inline);
        }
        // A result of no length needs no chunk, and a chunk of no length is one for nothing.
        let result = sizes.result.filter(|length| sizes.reduction && *length > 0);
        let form = match result {
            Some(write) => {
                let rest = sizes
                    .reply
                    .checked_sub(roundup(write))
                    .ok_or(Misuse::Sizes)?;
                let short = ReplyForm::WriteChunk { write };
                if short.header_len(sizes.segments).saturating_add(rest) <= threshold {
                    return Ok(short);
                }
                ReplyForm::WriteAndReplyChunk {
                    write,
                    reply: roundup(rest),
                }
            }
            None => ReplyForm::ReplyChunk {
                reply: roundup(sizes.reply),
            },
        };
        match form.header_len(sizes.segments) {
            length if length > threshold => Err(PlanError::ReplyHeader { length }),
            _ => Ok(form),
        }
    }

    /// Returns the length of a header with this form's chunks and an empty Read list.
    fn header_len(self, segments: usize) -> usize {
        let reply = chunk::chunk_len(segments);
        let write = reply.saturating_add(4);
        MIN_LEN.saturating_add(match self {
            ReplyForm::Inline => 0,
            ReplyForm::WriteChunk { .. } => write,
            ReplyForm::WriteAndReplyChunk { .. } => write.saturating_add(reply),
            ReplyForm::ReplyChunk { .. } => reply,
        })
    }
}

impl CallForm {
    fn new(sizes: &Sizes, reply: ReplyForm, threshold: usize) -> Result<Self, PlanError> {
        let header = reply.header_len(sizes.segments);
        if header.saturating_add(sizes.call) <= threshold {
            return Ok(CallForm::Inline);
        }
        let header = header.saturating_add(sizes.segments.saturating_mul(ReadSegment::WIRE_LEN));
        let argument = sizes
            .argument
            .filter(|argument| sizes.reduction && argument.length > 0);
        if let Some(argument) = argument {
            let rest = argument.rest(sizes.call)?;
            if header.saturating_add(rest) <= threshold {
                return Ok(CallForm::ReadChunk(argument));
            }
        }
        match header {
            length if length > threshold => Err(PlanError::CallHeader { length }),
            _ => Ok(CallForm::PositionZero),
        }
    }

    /// Returns the place of the message.
    #[inline]
    pub fn body(self) -> Body {
        match self {
            CallForm::Inline | CallForm::ReadChunk(_) => Body::Msg,
            CallForm::PositionZero => Body::NoMsg,
        }
    }

    /// Returns the Position of the Read chunk, and the range of a Call of `length` bytes that it
    /// covers.
    #[inline]
    pub fn read_chunk(self, length: usize) -> Option<(u32, Range<usize>)> {
        match self {
            CallForm::Inline => None,
            CallForm::ReadChunk(argument) => Some((argument.position, argument.range())),
            CallForm::PositionZero => Some((0, 0..length)),
        }
    }

    /// Returns the ranges of a Call of `length` bytes that follow the header, in this order.
    #[inline]
    pub fn inline(self, length: usize) -> [Range<usize>; 2] {
        match self {
            CallForm::Inline => [0..length, length..length],
            CallForm::ReadChunk(argument) => {
                let Range { start, end } = argument.range();
                // RFC 8166, section 3.4.4.4: the padding is reduced with its item.
                [0..start, roundup(end)..length]
            }
            CallForm::PositionZero => [0..0, 0..0],
        }
    }
}

impl Argument {
    /// Returns its range in the Call.
    fn range(self) -> Range<usize> {
        let start = usize::try_from(self.position).unwrap_or(usize::MAX);
        start..start.saturating_add(self.length)
    }

    /// Returns the length of the Call without this argument and its padding.
    fn rest(self, call: usize) -> Result<usize, Misuse> {
        if self.position & 3 != 0 {
            return Err(Misuse::Position(self.position));
        }
        let rest = call
            .checked_sub(roundup(self.length))
            .ok_or(Misuse::Sizes)?;
        match usize::try_from(self.position) {
            Ok(position) if position <= rest => Ok(rest),
            _ => Err(Misuse::Sizes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        call: 100,
        argument: None,
        reply: 100,
        result: None,
        reduction: true,
        segments: 1,
    };
    const LIMITS: Thresholds = Thresholds {
        call: 1024,
        reply: 1024,
    };

    fn plan(sizes: Sizes) -> (CallForm, ReplyForm) {
        let plan = Plan::new(&sizes, &LIMITS).unwrap();
        (plan.call, plan.reply)
    }

    // Shows S3.3.2-02, S3.5.3-01, S4.3.3-02.
    #[test]
    fn equal_to_the_threshold_fits() {
        let fits = Sizes {
            call: 1024 - 28,
            reply: 1024 - 28,
            ..SIZES
        };
        assert_eq!(plan(fits), (CallForm::Inline, ReplyForm::Inline));
        let long = Sizes {
            call: 1024 - 24,
            ..fits
        };
        assert_eq!(plan(long), (CallForm::PositionZero, ReplyForm::Inline));
        let long = Sizes {
            reply: 1024 - 24,
            ..SIZES
        };
        assert_eq!(
            plan(long),
            (CallForm::Inline, ReplyForm::ReplyChunk { reply: 1000 })
        );
    }

    // Shows S3.5.2-01.
    #[test]
    fn small_data_stays_inline() {
        let sizes = Sizes {
            call: 600,
            argument: Some(Argument {
                position: 88,
                length: 512,
            }),
            reply: 600,
            result: Some(512),
            ..SIZES
        };
        assert_eq!(plan(sizes), (CallForm::Inline, ReplyForm::Inline));
    }

    #[test]
    fn each_byte_of_a_call_has_one_place() {
        let argument = Argument {
            position: 40,
            length: 5,
        };
        let places = |form: CallForm| (form.body(), form.read_chunk(60), form.inline(60));
        assert_eq!(places(CallForm::Inline), (Body::Msg, None, [0..60, 60..60]));
        assert_eq!(
            places(CallForm::ReadChunk(argument)),
            (Body::Msg, Some((40, 40..45)), [0..40, 48..60])
        );
        assert_eq!(
            places(CallForm::PositionZero),
            (Body::NoMsg, Some((0, 0..60)), [0..0, 0..0])
        );
    }

    // Shows S4.3.3-01.
    #[test]
    fn echo_of_the_offer_counts() {
        // Without the 24 bytes of the repeated Write chunk the rest would fit.
        let sizes = Sizes {
            reply: 4096 + 1024 - 28 - 24,
            result: Some(4094),
            ..SIZES
        };
        assert_eq!(plan(sizes).1, ReplyForm::WriteChunk { write: 4094 });
        let sizes = Sizes {
            reply: sizes.reply + 4,
            ..sizes
        };
        let rest = 1024 - 28 - 24 + 4;
        assert_eq!(
            plan(sizes).1,
            ReplyForm::WriteAndReplyChunk {
                write: 4094,
                reply: rest
            }
        );
    }

    #[test]
    fn result_chunks_lengthen_the_call() {
        let sizes = Sizes {
            call: 1024 - 28,
            reply: 4096,
            ..SIZES
        };
        assert_eq!(plan(sizes).0, CallForm::PositionZero);
    }

    // Shows S8.2.2.3-01, S8.2.2.3-02, N-19.
    #[test]
    fn without_reduction_everything_goes_whole() {
        let argument = Argument {
            position: 96,
            length: 8190,
        };
        let sizes = Sizes {
            call: 96 + 8192,
            argument: Some(argument),
            reply: 9000,
            result: Some(8192),
            ..SIZES
        };
        assert_eq!(
            plan(sizes),
            (
                CallForm::ReadChunk(argument),
                ReplyForm::WriteChunk { write: 8192 }
            )
        );
        let sizes = Sizes {
            reduction: false,
            ..sizes
        };
        assert_eq!(
            plan(sizes),
            (
                CallForm::PositionZero,
                ReplyForm::ReplyChunk { reply: 9000 }
            )
        );
    }

    #[test]
    fn too_many_segments_cannot_be_sent() {
        let sizes = Sizes {
            call: 4096,
            segments: 42,
            ..SIZES
        };
        assert_eq!(
            Plan::new(&sizes, &LIMITS),
            Err(PlanError::CallHeader {
                length: 28 + 42 * 24
            })
        );
        let sizes = Sizes {
            reply: 4096,
            segments: 63,
            ..SIZES
        };
        assert_eq!(
            Plan::new(&sizes, &LIMITS),
            Err(PlanError::ReplyHeader {
                length: 32 + 63 * 16
            })
        );
    }

    #[test]
    fn contradicting_sizes_are_refused() {
        let argument = |position, length| Sizes {
            call: 2000,
            argument: Some(Argument { position, length }),
            ..SIZES
        };
        assert_eq!(
            Plan::new(&argument(97, 1900), &LIMITS),
            Err(PlanError::Misuse(Misuse::Position(97)))
        );
        for sizes in [
            argument(104, 1900),
            argument(0, 2001),
            argument(0, usize::MAX),
        ] {
            assert_eq!(
                Plan::new(&sizes, &LIMITS),
                Err(PlanError::Misuse(Misuse::Sizes))
            );
        }
        let sizes = Sizes {
            reply: 2000,
            result: Some(2001),
            ..SIZES
        };
        assert_eq!(
            Plan::new(&sizes, &LIMITS),
            Err(PlanError::Misuse(Misuse::Sizes))
        );
    }
}
