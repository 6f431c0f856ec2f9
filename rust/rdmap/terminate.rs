// SPDX-License-Identifier: GPL-2.0

//! The Terminate Message (RFC 5040, section 4.8): the reason for the end of a stream, and the
//! segment that caused it.
//!
//! Its payload is a control word, then, as the bits M, D and R say, the length of the segment that
//! caused the error, its DDP header, and the header of a Read Request. 52 octets at most, so a
//! Terminate is one segment over every LLP.
//!
//! A Terminate of this end follows figure 10 of the RFC, with one interpretation: the header of a
//! Read Request is included only with a protection error that a Read Request caused. A received one
//! is parsed by its length and not by R, because there are peers that set R and send no header.
//! Nothing depends on its contents; they are for people.

use crate::fault::{Code, Fault};
use crate::header::{Header, ReadRequest};
use crate::wire::{Octets, Reader};

const LENGTH_VALID: u32 = 1 << 15;
const WITH_HEADER: u32 = 1 << 14;
const WITH_READ_REQUEST: u32 = 1 << 13;

/// A Terminate Message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminate {
    /// The error.
    pub code: Code,
    /// The length in octets of the DDP Segment that caused it.
    pub segment_length: Option<u16>,
    /// The DDP header of that segment.
    pub header: Option<Octets<{ Header::UNTAGGED_LEN }>>,
    /// The header of the Read Request, if the segment is one.
    pub read: Option<ReadRequest>,
}

impl Terminate {
    /// The length of the longest payload in octets.
    pub const MAX_LEN: usize = 52;

    /// Creates the Terminate that reports `fault` to the peer.
    pub fn new(fault: &Fault) -> Self {
        let code = fault.cause.code();
        let offending = fault.offending.filter(|_| code.with_header());
        Self {
            code,
            segment_length: offending.map(|offending| offending.segment_length),
            header: offending.map(|offending| offending.header),
            read: fault.read.filter(|_| code.with_read_request()),
        }
    }

    /// Encodes the payload.
    pub fn emit(&self) -> Octets<{ Terminate::MAX_LEN }> {
        let mut out = Octets::new();
        let [layer, etype] = [self.code.layer, self.code.etype].map(|half| u32::from(half & 0x0f));
        let mut word = (layer << 28) | (etype << 24) | (u32::from(self.code.code) << 16);
        // The length is present whenever the header is.
        let header = self.header.zip(self.segment_length);
        if header.is_some() {
            word |= LENGTH_VALID | WITH_HEADER;
        }
        let read = self.read.filter(|_| header.is_some());
        if read.is_some() {
            word |= WITH_READ_REQUEST;
        }
        out.put(word.to_be_bytes());
        if let Some((header, length)) = header {
            out.put(length.to_be_bytes());
            out.put_slice(header.as_slice());
        }
        if let Some(read) = read {
            out.put_slice(read.emit().as_slice());
        }
        out
    }

    /// Parses a payload as far as it goes. Returns `None` if even the control word is incomplete.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(payload);
        let word = reader.u32()?;
        let [first, code, _, _] = word.to_be_bytes();
        let mut terminate = Self {
            code: Code::new(first >> 4, first & 0x0f, code),
            segment_length: None,
            header: None,
            read: None,
        };
        // It is present if M or D is set. Without either, the octets behind it are ignored.
        let length = reader.u16();
        terminate.segment_length = length.filter(|_| word & LENGTH_VALID != 0);
        if word & WITH_HEADER != 0 {
            let rest = reader.rest();
            let length = rest.first().map_or(0, |control| Header::len_of(*control));
            if let Some((header, rest)) = rest.split_at_checked(length).filter(|_| length > 0) {
                let mut octets = Octets::new();
                octets.put_slice(header);
                terminate.header = Some(octets);
                reader = Reader::new(rest);
                if word & WITH_READ_REQUEST != 0 {
                    terminate.read = ReadRequest::parse(reader.rest());
                }
            }
        }
        Some(terminate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{LlpError, OffendingSegment, Violation};
    use crate::stag::Denied;

    fn fault(violation: Violation, read: ReadRequest) -> Fault {
        Fault::peer(violation, OffendingSegment::of(&[0x41; 18], 46)).with_read(read)
    }

    // Shows P4.8-2, P4.8-4, P4.8-6, P7.1-2.
    #[test]
    fn local_error_is_a_bare_word() {
        let out = Terminate::new(&Fault::LOCAL).emit();
        assert_eq!(out.as_slice(), [0x00, 0xff, 0, 0]);
        let out = Terminate::new(&Fault::llp(LlpError::Crc)).emit();
        assert_eq!(out.as_slice(), [0x20, 0x02, 0, 0]);
    }

    // Shows P4.8-1, P4.8-3, P4.8-5, P4.8-7.
    #[test]
    fn failed_read_request_comes_back_whole() {
        let read = ReadRequest {
            length: 4096,
            ..ReadRequest::default()
        };
        let fault = fault(Violation::Source(Denied::Wrap), read);
        let terminate = Terminate::new(&fault);
        let out = terminate.emit();
        assert_eq!(out.len(), Terminate::MAX_LEN);
        assert_eq!(out.as_slice()[..6], [0x01, 0x04, 0xe0, 0x00, 0, 46]);
        assert_eq!(Terminate::parse(out.as_slice()), Some(terminate));
    }

    // Shows P4.8-3, P4.8-5, P4.8-7, P7.1-4.
    #[test]
    fn operation_error_of_a_read_request_leaves_its_header_out() {
        let fault = fault(Violation::Opcode, ReadRequest::default());
        let out = Terminate::new(&fault).emit();
        assert_eq!(out.as_slice()[..4], [0x02, 0x06, 0xc0, 0x00]);
        assert_eq!(out.len(), 4 + 2 + 18);
    }

    #[test]
    fn bits_that_promise_too_much_are_not_believed() {
        let payload = [0x01, 0x09, 0xe0, 0x00, 0, 18];
        let terminate = Terminate::parse(&payload).unwrap();
        assert_eq!(terminate.code, Code::new(0, 1, 9));
        assert_eq!(terminate.segment_length, Some(18));
        assert_eq!((terminate.header, terminate.read), (None, None));
        let mut payload = [0x41; 24];
        payload[..6].copy_from_slice(&[0x01, 0x09, 0xe0, 0x00, 0, 18]);
        let terminate = Terminate::parse(&payload).unwrap();
        assert_eq!(terminate.header.map(|header| header.len()), Some(18));
        assert_eq!(terminate.read, None);
        assert_eq!(Terminate::parse(&[0, 0, 0]), None);
    }

    // Shows P4.8-4.
    #[test]
    fn reserved_bits_are_ignored() {
        let terminate = Terminate::parse(&[0x10, 0x00, 0x1f, 0xff, 9, 9]).unwrap();
        assert_eq!(terminate.code, Code::new(1, 0, 0));
        assert_eq!(terminate.segment_length, None);
    }
}
