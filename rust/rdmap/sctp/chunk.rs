// SPDX-License-Identifier: GPL-2.0

//! The payload of an SCTP DATA chunk (RFC 5043, section 5.2): a DDP-SSN, then a DDP Segment or a
//! session control message.
//!
//! The payload protocol identifier tells them apart. Every chunk is unordered and not fragmented.
//! RFC 6581, section 7, adds the enhanced control messages, whose private data begins with
//! [`Enhanced`].

use crate::enhanced::Enhanced;
use crate::fault::Misuse;
use crate::wire::{put, Reader};

/// The adaptation layer indication of DDP, in INIT and INIT ACK.
pub const ADAPTATION: u32 = 1;

/// Payload protocol identifier of a DDP Segment.
pub const PPID_SEGMENT: u32 = 16;

/// Payload protocol identifier of a session control message.
pub const PPID_CONTROL: u32 = 17;

/// The length of the DDP-SSN in octets, which comes before a segment.
pub const SSN_LEN: usize = 2;

/// The length of the header of a control message in octets: DDP-SSN and function.
pub const CONTROL_LEN: usize = 4;

/// The greatest length of private data in octets, with those of [`Enhanced`].
pub const MAX_PRIVATE_DATA: usize = 512;

/// The least MULPDU, which a control message with all its private data needs (RFC 5043, section 9).
pub const MIN_MULPDU: u32 = 516;

/// Octets that are kept free in a packet for a SACK (RFC 5043, section 9).
pub const SACK_ROOM: u32 = 16;

/// Returns the longest DDP Segment, in octets, for SCTP that sends chunks of `fragmentation_point`
/// octets whole.
pub fn mulpdu(fragmentation_point: u32) -> u32 {
    fragmentation_point
        .saturating_sub(2)
        .saturating_sub(SACK_ROOM)
        .max(MIN_MULPDU)
}

/// The function of a control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The active side requests a session.
    Initiate,
    /// The passive side's upper layer accepts.
    Accept,
    /// The passive side's upper layer rejects.
    Reject,
    /// The last chunk of this side.
    Terminate,
}

/// A session control message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control<'a> {
    /// The function.
    pub function: Function,
    /// The negotiation of Reads, in enhanced Initiate and Accept.
    pub enhanced: Option<Enhanced>,
    /// The message is of the enhanced kind; such a Reject has no [`Self::enhanced`].
    pub is_enhanced: bool,
    /// Private data of the upper layer.
    pub private_data: &'a [u8],
}

/// The content of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// A DDP Segment.
    Segment(&'a [u8]),
    /// A session control message.
    Control(Control<'a>),
}

/// The payload of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// DDP stream sequence number.
    pub ssn: u16,
    /// The content.
    pub body: Body<'a>,
}

/// The reason why a chunk is not one of RFC 5043. Its session is terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Illegal {
    /// The payload protocol identifier is neither of the two.
    Ppid(u32),
    /// The chunk was sent for ordered delivery.
    Ordered,
    /// The chunk ends before its header does.
    Truncated,
    /// The function is unknown.
    Function(u16),
    /// There is more private data than the format allows.
    PrivateData(usize),
}

impl<'a> Chunk<'a> {
    /// Parses the payload of a chunk, whose identifier is in host order here.
    pub fn parse(ppid: u32, unordered: bool, payload: &'a [u8]) -> Result<Self, Illegal> {
        if !unordered {
            return Err(Illegal::Ordered);
        }
        let mut reader = Reader::new(payload);
        let ssn = reader.u16().ok_or(Illegal::Truncated)?;
        let body = match ppid {
            PPID_SEGMENT => Body::Segment(reader.rest()),
            PPID_CONTROL => Body::Control(Control::parse(&mut reader)?),
            _ => return Err(Illegal::Ppid(ppid)),
        };
        Ok(Self { ssn, body })
    }
}

impl<'a> Control<'a> {
    /// Creates a message without private data, which a Terminate always is.
    #[inline]
    pub const fn bare(function: Function) -> Self {
        Self {
            function,
            enhanced: None,
            is_enhanced: false,
            private_data: &[],
        }
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, Illegal> {
        let number = reader.u16().ok_or(Illegal::Truncated)?;
        let private_data = reader.rest();
        if private_data.len() > MAX_PRIVATE_DATA {
            return Err(Illegal::PrivateData(private_data.len()));
        }
        let (function, is_enhanced) = match number {
            1 => (Function::Initiate, false),
            2 => (Function::Accept, false),
            3 => (Function::Reject, false),
            // Private data is not expected here, and ignored.
            4 => return Ok(Self::bare(Function::Terminate)),
            5 => (Function::Initiate, true),
            6 => (Function::Accept, true),
            7 => (Function::Reject, true),
            _ => return Err(Illegal::Function(number)),
        };
        let mut control = Self {
            function,
            enhanced: None,
            is_enhanced,
            private_data,
        };
        if is_enhanced && function != Function::Reject {
            let (enhanced, rest) = Enhanced::split(private_data).ok_or(Illegal::Truncated)?;
            control.enhanced = Some(enhanced);
            control.private_data = rest;
        }
        Ok(control)
    }

    /// Returns the function as it is on the wire.
    const fn number(&self) -> u16 {
        match (self.function, self.is_enhanced) {
            (Function::Initiate, false) => 1,
            (Function::Accept, false) => 2,
            (Function::Reject, false) => 3,
            (Function::Terminate, _) => 4,
            (Function::Initiate, true) => 5,
            (Function::Accept, true) => 6,
            (Function::Reject, true) => 7,
        }
    }

    /// Writes the payload of the chunk, and returns its length.
    pub fn emit(&self, ssn: u16, out: &mut [u8]) -> Result<usize, Misuse> {
        let enhanced = self
            .enhanced
            .map(|enhanced| enhanced.emit())
            .unwrap_or_default();
        let due =
            self.is_enhanced && matches!(self.function, Function::Initiate | Function::Accept);
        if enhanced.is_empty() == due {
            return Err(Misuse::State);
        }
        let length = enhanced.len().saturating_add(self.private_data.len());
        let none_due = self.function == Function::Terminate;
        if length > MAX_PRIVATE_DATA || none_due && length > 0 {
            return Err(Misuse::PrivateData);
        }
        put(out, &ssn.to_be_bytes())
            .and_then(|out| put(out, &self.number().to_be_bytes()))
            .and_then(|out| put(out, enhanced.as_slice()))
            .and_then(|out| put(out, self.private_data))
            .ok_or(Misuse::Buffer)?;
        Ok(CONTROL_LEN.saturating_add(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows S4-2.
    #[test]
    fn segment_stands_behind_its_number() {
        let chunk = Chunk::parse(PPID_SEGMENT, true, &[0x12, 0x34, 0x41, 0x43]);
        let segment = Body::Segment(&[0x41, 0x43]);
        assert_eq!(
            chunk,
            Ok(Chunk {
                ssn: 0x1234,
                body: segment
            })
        );
    }

    // Shows S5.2.3-1.
    #[test]
    fn every_control_message_comes_back() {
        let enhanced = Some(Enhanced::default());
        for (function, enhanced, is_enhanced) in [
            (Function::Initiate, None, false),
            (Function::Accept, None, false),
            (Function::Reject, None, false),
            (Function::Initiate, enhanced, true),
            (Function::Accept, enhanced, true),
            (Function::Reject, None, true),
        ] {
            let control = Control {
                function,
                enhanced,
                is_enhanced,
                private_data: b"data",
            };
            let mut out = [0; 600];
            let length = control.emit(7, &mut out).unwrap();
            let chunk = Chunk::parse(PPID_CONTROL, true, &out[..length]).unwrap();
            assert_eq!(chunk.ssn, 7);
            assert_eq!(chunk.body, Body::Control(control));
        }
    }

    // Shows S5.2.3-3.
    #[test]
    fn terminate_is_bare() {
        let mut out = [0; 8];
        let terminate = Control::bare(Function::Terminate);
        assert_eq!(terminate.emit(1, &mut out), Ok(4));
        assert_eq!(out[..4], [0, 1, 0, 4]);
        let chatty = Control {
            private_data: b"x",
            ..terminate
        };
        assert_eq!(chatty.emit(1, &mut out), Err(Misuse::PrivateData));
        let parsed = Chunk::parse(PPID_CONTROL, true, &[0, 1, 0, 4, 9, 9]).unwrap();
        assert_eq!(parsed.body, Body::Control(terminate));
    }

    // Shows S4-1, S4-2, S5.2-1, S5.2.3-2.
    #[test]
    fn illegal_chunks_are_told_apart() {
        let parse = |ppid, payload: &[u8]| Chunk::parse(ppid, true, payload).err();
        assert_eq!(parse(18, &[0, 0, 0, 1]), Some(Illegal::Ppid(18)));
        assert_eq!(parse(PPID_CONTROL, &[0, 0, 0]), Some(Illegal::Truncated));
        assert_eq!(parse(PPID_SEGMENT, &[0]), Some(Illegal::Truncated));
        assert_eq!(
            parse(PPID_CONTROL, &[0, 0, 0, 8]),
            Some(Illegal::Function(8))
        );
        assert_eq!(
            parse(PPID_CONTROL, &[0, 0, 0, 5, 0, 0, 0]),
            Some(Illegal::Truncated)
        );
        let mut long = vec![0; 4 + 513];
        long[3] = 1;
        assert_eq!(parse(PPID_CONTROL, &long), Some(Illegal::PrivateData(513)));
        assert_eq!(parse(PPID_CONTROL, &long[..4 + 512]), None);
        let ordered = Chunk::parse(PPID_SEGMENT, false, &[0, 0]);
        assert_eq!(ordered, Err(Illegal::Ordered));
    }

    // Shows S9-1, S9-3, D-12.
    #[test]
    fn segments_leave_room_and_have_a_floor() {
        assert_eq!(mulpdu(1452), 1434);
        assert_eq!(mulpdu(0), MIN_MULPDU);
        assert_eq!(mulpdu(534), 516);
        assert_eq!(mulpdu(535), 517);
    }
}
