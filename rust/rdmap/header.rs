// SPDX-License-Identifier: GPL-2.0

//! The headers of a DDP Segment: DDP's own (RFC 5041, section 4) and RDMAP's part of it (RFC 5040,
//! section 4, and RFC 7306, section 4).
//!
//! A tagged segment says where its payload goes: STag and Tagged Offset (TO). An untagged one names
//! one of four queues (QN), the number of the message there (MSN) and the offset inside the
//! message (MO); the receiver supplies the buffer. RDMAP's control octet and, untagged, the STag to
//! invalidate travel inside DDP's header.
//!
//! | octets | tagged | untagged |
//! | --- | --- | --- |
//! | 0 | T = 1, L, reserved, DV | T = 0, L, reserved, DV |
//! | 1 | RV, reserved, opcode | RV, reserved, opcode |
//! | 2..6 | STag | Invalidate STag |
//! | 6.. | TO (8) | QN (4), MSN (4), MO (4) |

use crate::fault::Violation;
use crate::stag::{Range, Stag};
use crate::wire::{Octets, Reader};

const TAGGED: u8 = 0x80;
const LAST: u8 = 0x40;
const DDP_VERSION_MASK: u8 = 0x03;
const DDP_VERSION: u8 = 1;
const RDMAP_VERSION_MASK: u8 = 0xc0;
const RDMAP_VERSION: u8 = 0x40;
const OPCODE_MASK: u8 = 0x0f;

/// The kind of an RDMA Message (RFC 5040, section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// RDMA Write.
    Write,
    /// RDMA Read Request.
    ReadRequest,
    /// RDMA Read Response.
    ReadResponse,
    /// Send, of any of its four kinds.
    Send(Send),
    /// Terminate.
    Terminate,
    /// Immediate Data.
    Immediate {
        /// With Solicited Event.
        solicited: bool,
    },
    /// Atomic Request.
    AtomicRequest,
    /// Atomic Response.
    AtomicResponse,
}

/// The kind of a Send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Send {
    /// With Solicited Event.
    pub solicited: bool,
    /// With Invalidate.
    pub invalidate: bool,
}

impl Opcode {
    /// Returns the four bits on the wire.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::Write => 0,
            Self::ReadRequest => 1,
            Self::ReadResponse => 2,
            Self::Send(Send {
                solicited: false,
                invalidate: false,
            }) => 3,
            Self::Send(Send {
                solicited: false,
                invalidate: true,
            }) => 4,
            Self::Send(Send {
                solicited: true,
                invalidate: false,
            }) => 5,
            Self::Send(Send {
                solicited: true,
                invalidate: true,
            }) => 6,
            Self::Terminate => 7,
            Self::Immediate { solicited: false } => 8,
            Self::Immediate { solicited: true } => 9,
            Self::AtomicRequest => 10,
            Self::AtomicResponse => 11,
        }
    }

    /// Returns the opcode of these four bits.
    #[inline]
    pub const fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Write,
            1 => Self::ReadRequest,
            2 => Self::ReadResponse,
            3..=6 => Self::Send(Send {
                solicited: code >= 5,
                invalidate: code == 4 || code == 6,
            }),
            7 => Self::Terminate,
            8 | 9 => Self::Immediate {
                solicited: code == 9,
            },
            10 => Self::AtomicRequest,
            11 => Self::AtomicResponse,
            _ => return None,
        })
    }

    /// Returns the queue of its messages, or `None` if they are tagged.
    #[inline]
    pub const fn queue(self) -> Option<Queue> {
        match self {
            Self::Write | Self::ReadResponse => None,
            Self::Send(_) | Self::Immediate { .. } => Some(Queue::Send),
            Self::ReadRequest | Self::AtomicRequest => Some(Queue::Request),
            Self::Terminate => Some(Queue::Terminate),
            Self::AtomicResponse => Some(Queue::AtomicResponse),
        }
    }
}

/// A queue of Untagged Buffers (RFC 5040, section 3.1; RFC 7306, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// QN 0: Sends and Immediate Data.
    Send,
    /// QN 1: Read Requests and Atomic Requests.
    Request,
    /// QN 2.
    Terminate,
    /// QN 3.
    AtomicResponse,
}

impl Queue {
    /// Returns the queue number.
    #[inline]
    pub const fn number(self) -> u32 {
        match self {
            Self::Send => 0,
            Self::Request => 1,
            Self::Terminate => 2,
            Self::AtomicResponse => 3,
        }
    }

    /// Returns the queue with this number.
    #[inline]
    pub const fn of(number: u32) -> Option<Self> {
        match number {
            0 => Some(Self::Send),
            1 => Some(Self::Request),
            2 => Some(Self::Terminate),
            3 => Some(Self::AtomicResponse),
            _ => None,
        }
    }
}

/// The header of a DDP Segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The segment is the last one of its message.
    pub last: bool,
    /// The buffer model, with its fields.
    pub model: Model,
}

/// The buffer model of a segment, with its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// The Tagged Buffer Model.
    Tagged {
        /// [`Opcode::ReadResponse`], or else [`Opcode::Write`].
        response: bool,
        /// The STag of the receiver's buffer.
        stag: Stag,
        /// Tagged Offset of the first octet of the payload.
        offset: u64,
    },
    /// The Untagged Buffer Model.
    Untagged {
        /// The kind of the message, and with that its queue.
        message: Untagged,
        /// Message sequence number in its queue; the first is 1.
        msn: u32,
        /// Message offset of the first octet of this segment's payload.
        offset: u32,
    },
}

/// The kind of an untagged message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Untagged {
    /// A Send of any kind.
    Send {
        /// With Solicited Event.
        solicited: bool,
        /// With Invalidate: the STag that loses its validity when the Send is delivered.
        invalidate: Option<Stag>,
    },
    /// An RDMA Read Request.
    ReadRequest,
    /// A Terminate.
    Terminate,
    /// Immediate Data.
    Immediate {
        /// With Solicited Event.
        solicited: bool,
    },
    /// An Atomic Request.
    AtomicRequest,
    /// An Atomic Response.
    AtomicResponse,
}

impl Untagged {
    /// Returns the opcode.
    #[inline]
    pub const fn opcode(self) -> Opcode {
        match self {
            Self::Send {
                solicited,
                invalidate,
            } => Opcode::Send(Send {
                solicited,
                invalidate: invalidate.is_some(),
            }),
            Self::ReadRequest => Opcode::ReadRequest,
            Self::Terminate => Opcode::Terminate,
            Self::Immediate { solicited } => Opcode::Immediate { solicited },
            Self::AtomicRequest => Opcode::AtomicRequest,
            Self::AtomicResponse => Opcode::AtomicResponse,
        }
    }

    /// Returns the queue.
    #[inline]
    pub const fn queue(self) -> Queue {
        match self {
            Self::Send { .. } | Self::Immediate { .. } => Queue::Send,
            Self::ReadRequest | Self::AtomicRequest => Queue::Request,
            Self::Terminate => Queue::Terminate,
            Self::AtomicResponse => Queue::AtomicResponse,
        }
    }
}

impl Header {
    /// The length of a tagged header in octets.
    pub const TAGGED_LEN: usize = 14;

    /// The length of an untagged header in octets, which is the longer one.
    pub const UNTAGGED_LEN: usize = 18;

    /// Returns whether a segment that begins with this octet is tagged: it needs no Receive.
    #[inline]
    pub const fn is_tagged(control: u8) -> bool {
        control & TAGGED != 0
    }

    /// Returns the length in octets of the header that begins with this octet.
    #[inline]
    pub const fn len_of(control: u8) -> usize {
        match Self::is_tagged(control) {
            false => Self::UNTAGGED_LEN,
            true => Self::TAGGED_LEN,
        }
    }

    /// Parses the header of a segment, and returns it with the octets behind it.
    ///
    /// Checks what the header alone can show, in this order: DDP version, RDMAP version, opcode,
    /// buffer model, queue. Reserved bits are ignored, and so is an Invalidate STag that the opcode
    /// does not use (RFC 5040, section 4.1).
    pub fn parse(segment: &[u8]) -> Result<(Self, &[u8]), Violation> {
        let mut reader = Reader::new(segment);
        let (Some(ddp), Some(rdmap)) = (reader.u8(), reader.u8()) else {
            return Err(Violation::Truncated);
        };
        let tagged = ddp & TAGGED != 0;
        let model = match tagged {
            true => reader.u32().zip(reader.u64()).map(|(stag, offset)| {
                let response = rdmap & OPCODE_MASK == Opcode::ReadResponse.code();
                (
                    0,
                    Model::Tagged {
                        response,
                        stag: Stag(stag),
                        offset,
                    },
                )
            }),
            false => Self::untagged(&mut reader, rdmap & OPCODE_MASK),
        };
        let Some((queue, model)) = model else {
            return Err(Violation::Truncated);
        };
        if ddp & DDP_VERSION_MASK != DDP_VERSION {
            return Err(Violation::DdpVersion { tagged });
        }
        if rdmap & RDMAP_VERSION_MASK != RDMAP_VERSION {
            return Err(Violation::RdmapVersion);
        }
        let Some(opcode) = Opcode::of(rdmap & OPCODE_MASK) else {
            return Err(Violation::Opcode);
        };
        if opcode.queue().is_none() != tagged {
            return Err(Violation::Opcode);
        }
        if !tagged {
            match Queue::of(queue) {
                None => return Err(Violation::Queue),
                // The queue exists, but this kind of message does not belong there.
                found if found != opcode.queue() => return Err(Violation::Opcode),
                Some(_) => {}
            }
        }
        let header = Self {
            last: ddp & LAST != 0,
            model,
        };
        Ok((header, reader.rest()))
    }

    /// Parses the untagged fields, and returns the queue number as it is on the wire. The result
    /// for a tagged opcode is not used.
    fn untagged(reader: &mut Reader<'_>, code: u8) -> Option<(u32, Model)> {
        let stag = Stag(reader.u32()?);
        let queue = reader.u32()?;
        let (msn, offset) = (reader.u32()?, reader.u32()?);
        let message = match Opcode::of(code) {
            Some(Opcode::Send(kind)) => Untagged::Send {
                solicited: kind.solicited,
                invalidate: kind.invalidate.then_some(stag),
            },
            Some(Opcode::ReadRequest) => Untagged::ReadRequest,
            Some(Opcode::Immediate { solicited }) => Untagged::Immediate { solicited },
            Some(Opcode::AtomicRequest) => Untagged::AtomicRequest,
            Some(Opcode::AtomicResponse) => Untagged::AtomicResponse,
            _ => Untagged::Terminate,
        };
        let model = Model::Untagged {
            message,
            msn,
            offset,
        };
        Some((queue, model))
    }

    /// Returns the opcode.
    #[inline]
    pub const fn opcode(&self) -> Opcode {
        match self.model {
            Model::Tagged { response: true, .. } => Opcode::ReadResponse,
            Model::Tagged { .. } => Opcode::Write,
            Model::Untagged { message, .. } => message.opcode(),
        }
    }

    /// Encodes the header.
    pub fn emit(&self) -> Octets<{ Header::UNTAGGED_LEN }> {
        let mut out = Octets::new();
        let last = if self.last { LAST } else { 0 };
        let rdmap = RDMAP_VERSION | self.opcode().code();
        match self.model {
            Model::Tagged { stag, offset, .. } => {
                out.put([TAGGED | last | DDP_VERSION, rdmap]);
                out.put(stag.0.to_be_bytes());
                out.put(offset.to_be_bytes());
            }
            Model::Untagged {
                message,
                msn,
                offset,
            } => {
                let stag = match message {
                    Untagged::Send {
                        invalidate: Some(stag),
                        ..
                    } => stag,
                    _ => Stag(0),
                };
                out.put([last | DDP_VERSION, rdmap]);
                out.put(stag.0.to_be_bytes());
                out.put(message.queue().number().to_be_bytes());
                out.put(msn.to_be_bytes());
                out.put(offset.to_be_bytes());
            }
        }
        out
    }
}

/// The header of an RDMA Read Request, which is all of its payload (RFC 5040, section 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadRequest {
    /// The STag of the Data Sink's buffer. The Data Source copies it without a check.
    pub sink_stag: Stag,
    /// The Tagged Offset in that buffer.
    pub sink_offset: u64,
    /// RDMA Read Message Size.
    pub length: u32,
    /// The STag of the memory that the Data Source is to send.
    pub source_stag: Stag,
    /// The Tagged Offset in that memory.
    pub source_offset: u64,
}

impl ReadRequest {
    /// The length in octets on the wire.
    pub const LEN: usize = 28;

    /// Parses the header. Returns `None` if it is incomplete.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        Some(Self {
            sink_stag: Stag(reader.u32()?),
            sink_offset: reader.u64()?,
            length: reader.u32()?,
            source_stag: Stag(reader.u32()?),
            source_offset: reader.u64()?,
        })
    }

    /// Encodes the header.
    pub fn emit(&self) -> Octets<{ ReadRequest::LEN }> {
        let mut out = Octets::new();
        out.put(self.sink_stag.0.to_be_bytes());
        out.put(self.sink_offset.to_be_bytes());
        out.put(self.length.to_be_bytes());
        out.put(self.source_stag.0.to_be_bytes());
        out.put(self.source_offset.to_be_bytes());
        out
    }

    /// Returns the rest of the Read when `sent` octets of the response have been sent (RFC 5040,
    /// section 4.8).
    pub fn advanced(&self, sent: u32) -> Self {
        Self {
            sink_offset: self.sink_offset.wrapping_add(u64::from(sent)),
            source_offset: self.source_offset.wrapping_add(u64::from(sent)),
            length: self.length.saturating_sub(sent),
            ..*self
        }
    }

    /// Returns the memory that the response goes to.
    #[inline]
    pub const fn sink(&self) -> Range {
        Range {
            stag: self.sink_stag,
            offset: self.sink_offset,
            length: self.length,
        }
    }

    /// Returns the memory that the Data Source is to send.
    #[inline]
    pub const fn source(&self) -> Range {
        Range {
            stag: self.source_stag,
            offset: self.source_offset,
            length: self.length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows P4.1-4, X4.1-1.
    #[test]
    fn every_opcode_has_one_code() {
        for code in 0..=11 {
            assert_eq!(Opcode::of(code).map(Opcode::code), Some(code));
        }
        for code in 12..=u8::MAX {
            assert_eq!(Opcode::of(code), None);
        }
    }

    // Shows P4.1-1, P4.1-6, P4.1-7, P5.1-1.
    #[test]
    fn first_octets_are_those_of_the_table() {
        let tagged = |last| Header {
            last,
            model: Model::Tagged {
                response: false,
                stag: Stag(1),
                offset: 2,
            },
        };
        let untagged = |last| Header {
            last,
            model: Model::Untagged {
                message: Untagged::ReadRequest,
                msn: 1,
                offset: 0,
            },
        };
        assert_eq!(tagged(true).emit().as_slice()[..2], [0xc1, 0x40]);
        assert_eq!(tagged(false).emit().as_slice()[..2], [0x81, 0x40]);
        assert_eq!(untagged(true).emit().as_slice()[..2], [0x41, 0x41]);
        assert_eq!(untagged(false).emit().as_slice()[..2], [0x01, 0x41]);
        assert_eq!(tagged(true).emit().len(), Header::TAGGED_LEN);
        assert_eq!(untagged(true).emit().len(), Header::UNTAGGED_LEN);
    }

    // Shows X4.1-1, X4.1-2, X4.1-3.
    #[test]
    fn messages_of_rfc_7306_have_their_queues_and_no_stag() {
        let header = |message| Header {
            last: true,
            model: Model::Untagged {
                message,
                msn: 7,
                offset: 0,
            },
        };
        for (message, code, queue) in [
            (Untagged::Immediate { solicited: false }, 0x48, 0),
            (Untagged::Immediate { solicited: true }, 0x49, 0),
            (Untagged::AtomicRequest, 0x4a, 1),
            (Untagged::AtomicResponse, 0x4b, 3),
        ] {
            let due = [
                0x41, code, 0, 0, 0, 0, 0, 0, 0, queue, 0, 0, 0, 7, 0, 0, 0, 0,
            ];
            assert_eq!(header(message).emit().as_slice(), due);
            // An STag to invalidate is ignored.
            let mut octets = due;
            octets[2] = 9;
            assert_eq!(Header::parse(&octets), Ok((header(message), &[][..])));
        }
    }

    // Shows P4.8-8.
    #[test]
    fn read_request_advances_at_both_ends() {
        let request = ReadRequest {
            sink_offset: u64::MAX,
            length: 5000,
            source_offset: 7,
            ..ReadRequest::default()
        };
        let left = request.advanced(2048);
        assert_eq!(left.sink_offset, 2047);
        assert_eq!(left.source_offset, 2055);
        assert_eq!(left.length, 2952);
    }
}
