// SPDX-License-Identifier: GPL-2.0

//! MPA connection set-up (RFC 5044, section 7.1; RFC 6581): one Request from the side that
//! connected, one Reply, and then FPDUs.
//!
//! A frame is a key of 16 octets, a flag octet, a revision, the length of the private data and the
//! private data. Revision 2 may put the four octets of [`Enhanced`] in front of the private data
//! and says so with S. Either side's C makes both use the CRC; M asks the other side for markers.
//!
//! [`Initiator`] and [`Responder`] are the two ends. The responder must not send before it has
//! received an FPDU (RFC 5044, section 7.1.2): until then it is [gated](Responder::may_send).

use crate::enhanced::{Enhanced, ReadLimits, RtrMessages};
use crate::fault::{LlpError, Misuse};
use crate::wire::{put, Reader};

const REQUEST_KEY: [u8; 16] = *b"MPA ID Req Frame";
const REPLY_KEY: [u8; 16] = *b"MPA ID Rep Frame";

const MARKERS: u8 = 0x80;
const CRC: u8 = 0x40;
const REJECT: u8 = 0x20;
const ENHANCED: u8 = 0x10;

/// The kind of a start-up frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The Request, from the side that connected.
    Request,
    /// The Reply to it.
    Reply,
}

/// A start-up frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Request or Reply.
    pub kind: Kind,
    /// The sender wants markers in the FPDUs that it receives.
    pub markers: bool,
    /// The sender wants the CRC used.
    pub crc: bool,
    /// The Reply rejects the connection. Without meaning in a Request.
    pub reject: bool,
    /// The revision: 1 or 2.
    pub revision: u8,
    /// The negotiation of Reads; in revision 2 only.
    pub enhanced: Option<Enhanced>,
    /// Private data of the upper layer, without the four octets of `enhanced`.
    pub private_data: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The length before the private data in octets.
    pub const HEADER_LEN: usize = 20;

    /// The greatest length of private data in octets, with those of [`Enhanced`].
    pub const MAX_PRIVATE_DATA: usize = 512;

    /// The length of the longest frame in octets.
    pub const MAX_LEN: usize = Self::HEADER_LEN + Self::MAX_PRIVATE_DATA;

    /// Parses the frame with which `stream` begins, and returns it with its length. Returns `None`
    /// if it is incomplete.
    ///
    /// A wrong octet is found as soon as it is there, so that nobody waits for a peer that does not
    /// speak MPA. The frames of both sides are checked with the same rigour. Reserved flags are
    /// ignored.
    pub fn parse(kind: Kind, stream: &'a [u8]) -> Result<Option<(Self, usize)>, LlpError> {
        let key = match kind {
            Kind::Request => &REQUEST_KEY,
            Kind::Reply => &REPLY_KEY,
        };
        if stream.iter().zip(key).any(|(found, due)| found != due) {
            return Err(LlpError::Startup);
        }
        let mut reader = Reader::new(stream.get(key.len()..).unwrap_or_default());
        let (Some(flags), Some(revision)) = (reader.u8(), reader.u8()) else {
            return Ok(None);
        };
        if !matches!(revision, 1 | 2) {
            return Err(LlpError::Startup);
        }
        let Some(length) = reader.u16().map(usize::from) else {
            return Ok(None);
        };
        if length > Self::MAX_PRIVATE_DATA {
            return Err(LlpError::Startup);
        }
        let Some(private_data) = reader.rest().get(..length) else {
            return Ok(None);
        };
        let (enhanced, private_data) = match revision == 2 && flags & ENHANCED != 0 {
            true => {
                let (enhanced, rest) = Enhanced::split(private_data).ok_or(LlpError::Startup)?;
                (Some(enhanced), rest)
            }
            false => (None, private_data),
        };
        let frame = Self {
            kind,
            markers: flags & MARKERS != 0,
            crc: flags & CRC != 0,
            reject: kind == Kind::Reply && flags & REJECT != 0,
            revision,
            enhanced,
            private_data,
        };
        Ok(Some((frame, Self::HEADER_LEN.saturating_add(length))))
    }

    /// Writes the frame, and returns its length.
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, Misuse> {
        let enhanced = self
            .enhanced
            .map(|enhanced| enhanced.emit())
            .unwrap_or_default();
        let length = enhanced.len().saturating_add(self.private_data.len());
        let length_field = u16::try_from(length).map_err(|_| Misuse::PrivateData)?;
        if length > Self::MAX_PRIVATE_DATA {
            return Err(Misuse::PrivateData);
        }
        let key = match self.kind {
            Kind::Request => &REQUEST_KEY,
            Kind::Reply => &REPLY_KEY,
        };
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(self.markers, MARKERS)
            | flag(self.crc, CRC)
            | flag(self.reject, REJECT)
            | flag(!enhanced.is_empty(), ENHANCED);
        put(out, key)
            .and_then(|out| put(out, &[flags, self.revision]))
            .and_then(|out| put(out, &length_field.to_be_bytes()))
            .and_then(|out| put(out, enhanced.as_slice()))
            .and_then(|out| put(out, self.private_data))
            .ok_or(Misuse::Buffer)?;
        Ok(Self::HEADER_LEN.saturating_add(length))
    }
}

/// The offer of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// It wants the CRC used, which is the default of RFC 5044.
    pub crc: bool,
    /// It wants markers.
    pub markers: bool,
    /// The numbers of Reads that it accepts and wants to send.
    pub reads: ReadLimits,
    /// The greatest number of Reads that it can accept if the peer insists.
    pub max_ird: u16,
    /// It uses revision 2 and negotiates the Reads. A responder follows the Request instead.
    pub enhanced: bool,
    /// It offers to say that it is ready to receive, with a Write of no octets, so that either side
    /// may send first (RFC 6581, section 9.2). A responder follows the Request instead.
    pub peer_to_peer: bool,
}

impl Offer {
    /// Returns the limits of the negotiation. Nothing could raise the number of Reads that this end
    /// wants to send.
    fn limits(&self) -> ReadLimits {
        ReadLimits {
            ird: self.max_ird,
            ..self.reads
        }
    }
}

/// The negotiated properties of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamParams {
    /// FPDUs carry a CRC, in both directions.
    pub crc: bool,
    /// The peer wants markers in what this end sends.
    pub send_markers: bool,
    /// This end asked for markers in what it receives.
    pub receive_markers: bool,
    /// The numbers of Reads in both directions.
    pub reads: ReadLimits,
    /// The message by which the active side says that it is ready to receive, if the passive one
    /// waits for it.
    pub rtr: Option<RtrMessages>,
}

/// The peer's decision on a Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The stream is open. With the private data of the Reply.
    Accepted(StreamParams, &'a [u8]),
    /// The upper layer of the peer rejects. With the private data of the Reply.
    Rejected(&'a [u8]),
}

/// The side that connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initiator {
    offer: Offer,
}

impl Initiator {
    /// Creates an initiator with this offer.
    #[inline]
    pub const fn new(offer: Offer) -> Self {
        Self { offer }
    }

    fn enhanced(&self) -> Option<Enhanced> {
        self.offer.enhanced.then(|| Enhanced {
            ird: crate::enhanced::ReadDepth::new(self.offer.reads.ird),
            ord: crate::enhanced::ReadDepth::new(self.offer.reads.ord),
            peer_to_peer: self.offer.peer_to_peer,
            rtr: RtrMessages {
                write: self.offer.peer_to_peer,
                ..RtrMessages::default()
            },
        })
    }

    /// Returns the Request.
    pub fn request<'a>(&self, private_data: &'a [u8]) -> Frame<'a> {
        Frame {
            kind: Kind::Request,
            markers: self.offer.markers,
            crc: self.offer.crc,
            reject: false,
            revision: if self.offer.enhanced { 2 } else { 1 },
            enhanced: self.enhanced(),
            private_data,
        }
    }

    /// Evaluates the Reply.
    ///
    /// It has the revision of the Request and is enhanced if that is (RFC 6581, section 6); a
    /// rejection need not be.
    pub fn reply<'a>(&self, reply: &Frame<'a>) -> Result<Outcome<'a>, LlpError> {
        let request = self.request(&[]);
        if reply.kind != Kind::Reply || reply.revision != request.revision {
            return Err(LlpError::Startup);
        }
        if reply.reject {
            return Ok(Outcome::Rejected(reply.private_data));
        }
        let reads = match (request.enhanced, reply.enhanced) {
            (Some(request), Some(answer)) => request.accept(&answer, self.offer.limits())?,
            (None, None) => self.offer.reads,
            _ => return Err(LlpError::Startup),
        };
        // If no ready-to-receive message was offered, nothing obliges this end to send one.
        let waits = |answer: &Enhanced| answer.peer_to_peer && self.offer.peer_to_peer;
        let rtr = reply.enhanced.filter(waits).map(|answer| answer.rtr);
        if rtr.is_some_and(|rtr| !rtr.write) {
            return Err(LlpError::NoMatchingRtr);
        }
        let stream = StreamParams {
            crc: self.offer.crc || reply.crc,
            send_markers: reply.markers,
            receive_markers: self.offer.markers,
            reads,
            rtr,
        };
        Ok(Outcome::Accepted(stream, reply.private_data))
    }
}

/// The side that was connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Responder {
    offer: Offer,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    AwaitRequest,
    AwaitUser {
        revision: u8,
        enhanced: Option<Enhanced>,
        crc: bool,
        markers: bool,
    },
    Gated,
    Open,
    Closed,
}

impl Responder {
    /// Creates a responder with this offer.
    #[inline]
    pub const fn new(offer: Offer) -> Self {
        Self {
            offer,
            state: State::AwaitRequest,
        }
    }

    /// Takes the Request, which the upper layer is to decide on.
    pub fn request(&mut self, request: &Frame<'_>) -> Result<(), LlpError> {
        if self.state != State::AwaitRequest || request.kind != Kind::Request {
            self.state = State::Closed;
            return Err(LlpError::Startup);
        }
        self.state = State::AwaitUser {
            revision: request.revision,
            enhanced: request.enhanced,
            crc: request.crc,
            markers: request.markers,
        };
        Ok(())
    }

    /// Accepts for the upper layer. Returns the Reply, and the negotiated properties of the stream.
    ///
    /// If the Reads cannot be agreed on, the caller [rejects](Self::reject) after the error.
    pub fn accept<'a>(
        &mut self,
        private_data: &'a [u8],
    ) -> Result<(Frame<'a>, StreamParams), Failed> {
        let State::AwaitUser {
            revision,
            enhanced,
            crc,
            markers,
        } = self.state
        else {
            return Err(Failed::Misuse(Misuse::State));
        };
        let (answer, reads) = match enhanced {
            Some(request) => {
                let (answer, reads) = request.answer(self.offer.limits()).map_err(Failed::Llp)?;
                (Some(answer), reads)
            }
            None => (None, self.offer.reads),
        };
        let crc = crc || self.offer.crc;
        let reply = Frame {
            kind: Kind::Reply,
            markers: self.offer.markers,
            crc,
            reject: false,
            revision,
            enhanced: answer,
            private_data,
        };
        let stream = StreamParams {
            crc,
            send_markers: markers,
            receive_markers: self.offer.markers,
            reads,
            rtr: answer
                .filter(|answer| answer.peer_to_peer)
                .map(|answer| answer.rtr),
        };
        self.state = State::Gated;
        Ok((reply, stream))
    }

    /// Rejects for the upper layer. Returns the Reply, after which the connection is closed.
    pub fn reject<'a>(&mut self, private_data: &'a [u8]) -> Result<Frame<'a>, Misuse> {
        let State::AwaitUser {
            revision, enhanced, ..
        } = self.state
        else {
            return Err(Misuse::State);
        };
        self.state = State::Closed;
        Ok(Frame {
            kind: Kind::Reply,
            markers: self.offer.markers,
            crc: self.offer.crc,
            reject: true,
            revision,
            // An enhanced Request is rejected with an enhanced Reply, which has the numbers of this
            // end.
            enhanced: enhanced.map(|_| Enhanced {
                ird: crate::enhanced::ReadDepth::new(self.offer.max_ird),
                ord: crate::enhanced::ReadDepth::new(self.offer.reads.ord),
                ..Enhanced::default()
            }),
            private_data,
        })
    }

    /// Takes note of the first FPDU, which arrived complete.
    #[inline]
    pub fn received(&mut self) {
        if self.state == State::Gated {
            self.state = State::Open;
        }
    }

    /// Returns whether FPDUs may be sent.
    #[inline]
    pub fn may_send(&self) -> bool {
        self.state == State::Open
    }
}

/// The reason why a connection is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The Request cannot be met.
    Llp(LlpError),
    /// There is no Request to accept.
    Misuse(Misuse),
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFER: Offer = Offer {
        crc: true,
        markers: false,
        reads: ReadLimits { ird: 4, ord: 2 },
        max_ird: 16,
        enhanced: true,
        peer_to_peer: false,
    };

    fn connect(active: Offer, passive: Offer) -> (StreamParams, StreamParams) {
        let initiator = Initiator::new(active);
        let mut responder = Responder::new(passive);
        let (mut request, mut reply) = ([0; Frame::MAX_LEN], [0; Frame::MAX_LEN]);
        let emitted = initiator.request(b"hello").emit(&mut request).unwrap();
        let parsed = Frame::parse(Kind::Request, &request);
        let (frame, length) = parsed.unwrap().unwrap();
        assert_eq!(length, emitted);
        assert_eq!(frame.private_data, b"hello");
        responder.request(&frame).unwrap();
        let (answer, here) = responder.accept(b"welcome").unwrap();
        assert!(!responder.may_send());
        responder.received();
        assert!(responder.may_send());
        answer.emit(&mut reply).unwrap();
        let (reply, _) = Frame::parse(Kind::Reply, &reply).unwrap().unwrap();
        let Ok(Outcome::Accepted(there, b"welcome")) = initiator.reply(&reply) else {
            panic!("{reply:?}");
        };
        (there, here)
    }

    // Shows E6581-4, M-9.
    #[test]
    fn both_ends_agree() {
        for enhanced in [true, false] {
            let active = Offer { enhanced, ..OFFER };
            let (there, here) = connect(active, OFFER);
            assert_eq!(there.crc, here.crc);
            if enhanced {
                assert_eq!(there.reads.ord, here.reads.ird);
                assert_eq!(there.reads.ird, 4);
                assert_eq!(here.reads.ord, 2);
            }
        }
    }

    // Shows M-3.
    #[test]
    fn one_wish_for_the_crc_is_enough() {
        for (active, passive) in [(true, true), (true, false), (false, true), (false, false)] {
            let active_offer = Offer {
                crc: active,
                ..OFFER
            };
            let passive_offer = Offer {
                crc: passive,
                ..OFFER
            };
            let (there, here) = connect(active_offer, passive_offer);
            assert_eq!(
                (there.crc, here.crc),
                (active || passive, active || passive)
            );
        }
    }

    /// The Reply says what the responder has decided, so that both ends read the same two frames.
    // Shows M-3.
    #[test]
    fn reply_has_the_flag_if_either_side_wants_the_crc() {
        for (active, passive) in [(true, true), (true, false), (false, true), (false, false)] {
            let wish = |crc| Offer { crc, ..OFFER };
            let request = Initiator::new(wish(active)).request(&[]);
            assert_eq!(request.crc, active);
            let mut responder = Responder::new(wish(passive));
            responder.request(&request).unwrap();
            assert_eq!(responder.accept(&[]).unwrap().0.crc, active || passive);
        }
    }

    #[test]
    fn markers_are_each_receivers_wish() {
        let wish = Offer {
            markers: true,
            ..OFFER
        };
        let (there, here) = connect(wish, OFFER);
        assert!(there.receive_markers && here.send_markers);
        assert!(!there.send_markers && !here.receive_markers);
    }

    // Shows M-11.
    #[test]
    fn reply_must_match_the_request() {
        let initiator = Initiator::new(OFFER);
        let reply = Frame {
            kind: Kind::Reply,
            ..initiator.request(&[])
        };
        assert!(matches!(initiator.reply(&reply), Ok(Outcome::Accepted(..))));
        let plain = Frame {
            enhanced: None,
            ..reply
        };
        assert_eq!(initiator.reply(&plain), Err(LlpError::Startup));
        let old = Frame {
            revision: 1,
            ..plain
        };
        assert_eq!(initiator.reply(&old), Err(LlpError::Startup));
        let refusal = Frame {
            reject: true,
            private_data: b"no",
            ..plain
        };
        assert_eq!(initiator.reply(&refusal), Ok(Outcome::Rejected(b"no")));
        assert_eq!(
            initiator.reply(&initiator.request(&[])),
            Err(LlpError::Startup)
        );
    }

    #[test]
    fn second_request_closes() {
        let request = Initiator::new(OFFER).request(&[]);
        let mut responder = Responder::new(OFFER);
        assert_eq!(responder.accept(&[]), Err(Failed::Misuse(Misuse::State)));
        assert_eq!(responder.request(&request), Ok(()));
        assert_eq!(responder.request(&request), Err(LlpError::Startup));
        assert!(responder.accept(&[]).is_err());
    }

    #[test]
    fn too_many_reads_can_be_refused_afterwards() {
        let greedy = Offer {
            reads: ReadLimits { ird: 4, ord: 17 },
            ..OFFER
        };
        let mut responder = Responder::new(OFFER);
        let request = Initiator::new(greedy).request(&[]);
        responder.request(&request).unwrap();
        assert_eq!(
            responder.accept(&[]),
            Err(Failed::Llp(LlpError::InsufficientIrd))
        );
        let reply = responder.reject(b"no").unwrap();
        assert!(reply.reject && reply.enhanced.is_some());
        assert_eq!(responder.reject(b"no"), Err(Misuse::State));
    }

    /// Without the negotiation the same Reads would not be asked for, and the connection would be
    /// accepted.
    // Shows E6581-1.
    #[test]
    fn refusal_of_enhanced_reads_says_what_there_would_be() {
        let greedy = |enhanced| Offer {
            reads: ReadLimits { ird: 4, ord: 17 },
            enhanced,
            ..OFFER
        };
        let mut responder = Responder::new(OFFER);
        let plain = Initiator::new(greedy(false)).request(&[]);
        responder.request(&plain).unwrap();
        assert!(responder.accept(&[]).is_ok());

        let mut responder = Responder::new(OFFER);
        let initiator = Initiator::new(greedy(true));
        responder.request(&initiator.request(&[])).unwrap();
        assert_eq!(
            responder.accept(&[]),
            Err(Failed::Llp(LlpError::InsufficientIrd))
        );
        let mut out = [0; Frame::MAX_LEN];
        let length = responder.reject(b"no").unwrap().emit(&mut out).unwrap();
        // C, R and S; revision 2; IRD 16, ORD 2.
        let expected = b"MPA ID Rep Frame\x70\x02\x00\x06\x00\x10\x00\x02no";
        assert_eq!(&out[..length], expected);
        let (reply, _) = Frame::parse(Kind::Reply, &out).unwrap().unwrap();
        assert_eq!(initiator.reply(&reply), Ok(Outcome::Rejected(b"no")));
    }

    // Shows M-11.
    #[test]
    fn revision_1_is_answered_in_kind() {
        let old = Offer {
            enhanced: false,
            ..OFFER
        };
        let mut out = [0; Frame::MAX_LEN];
        let length = Initiator::new(old).request(b"hi").emit(&mut out).unwrap();
        assert_eq!(&out[..length], b"MPA ID Req Frame\x40\x01\x00\x02hi");
        let (request, _) = Frame::parse(Kind::Request, &out).unwrap().unwrap();
        let mut responder = Responder::new(OFFER);
        responder.request(&request).unwrap();
        let (reply, stream) = responder.accept(b"yes").unwrap();
        assert_eq!(stream.reads, OFFER.reads);
        let length = reply.emit(&mut out).unwrap();
        assert_eq!(&out[..length], b"MPA ID Rep Frame\x40\x01\x00\x03yes");
    }

    /// S, revision 2, four octets in front of the private data; and the message that opens the
    /// passive side.
    // Shows M-11.
    #[test]
    fn ready_to_receive_message_is_chosen_on_the_wire() {
        for (offered, chosen) in [
            ([0xc0, 4, 0xc0, 2], [0x80, 2, 0x80, 2]),
            ([0x80, 4, 0x40, 2], [0x80, 2, 0x40, 2]),
        ] {
            let mut octets = b"MPA ID Req Frame\x50\x02\x00\x04".to_vec();
            octets.extend(offered);
            let (request, _) = Frame::parse(Kind::Request, &octets).unwrap().unwrap();
            let mut responder = Responder::new(OFFER);
            responder.request(&request).unwrap();
            let (reply, stream) = responder.accept(&[]).unwrap();
            assert!(stream.rtr.is_some());
            let mut out = [0; Frame::MAX_LEN];
            let length = reply.emit(&mut out).unwrap();
            let mut expected = b"MPA ID Rep Frame\x50\x02\x00\x04".to_vec();
            expected.extend(chosen);
            assert_eq!(out[..length], expected);
        }
        // A Send alone is none that this end can take.
        let octets = b"MPA ID Req Frame\x50\x02\x00\x04\xc0\x04\x00\x02";
        let (request, _) = Frame::parse(Kind::Request, octets).unwrap().unwrap();
        let mut responder = Responder::new(OFFER);
        responder.request(&request).unwrap();
        let refusal = Err(Failed::Llp(LlpError::NoMatchingRtr));
        assert_eq!(responder.accept(&[]), refusal);
    }

    #[test]
    fn initiator_offers_a_write_that_says_it_is_ready() {
        let offer = Offer {
            peer_to_peer: true,
            ..OFFER
        };
        let (active, passive) = connect(offer, OFFER);
        let write = RtrMessages {
            write: true,
            ..RtrMessages::default()
        };
        assert_eq!((active.rtr, passive.rtr), (Some(write), Some(write)));
        let (active, passive) = connect(OFFER, offer);
        assert_eq!((active.rtr, passive.rtr), (None, None));
    }

    /// A peer that does not wait for the message gets none, and it may not wait for another one.
    #[test]
    fn initiator_says_that_it_is_ready_as_it_offered() {
        let initiator = Initiator::new(Offer {
            peer_to_peer: true,
            ..OFFER
        });
        let answered = |ird: u8, ord: u8| {
            let mut octets = b"MPA ID Rep Frame\x50\x02\x00\x04".to_vec();
            octets.extend([ird, 2, ord, 4]);
            let (reply, _) = Frame::parse(Kind::Reply, &octets).unwrap().unwrap();
            match initiator.reply(&reply) {
                Ok(Outcome::Accepted(stream, _)) => Ok(stream.rtr.is_some()),
                Ok(Outcome::Rejected(_)) => Ok(false),
                Err(error) => Err(error),
            }
        };
        assert_eq!(answered(0, 0), Ok(false));
        assert_eq!(answered(0x80, 0x80), Ok(true));
        assert_eq!(answered(0x80, 0x40), Err(LlpError::NoMatchingRtr));
        assert_eq!(answered(0xc0, 0), Err(LlpError::NoMatchingRtr));
    }

    // Shows M-8.
    #[test]
    fn private_data_has_an_end() {
        let initiator = Initiator::new(OFFER);
        let mut out = [0; Frame::MAX_LEN];
        let longest = initiator.request(&[0; 508]);
        assert_eq!(longest.emit(&mut out), Ok(Frame::MAX_LEN));
        assert_eq!(longest.emit(&mut out[1..]), Err(Misuse::Buffer));
        let too_long = initiator.request(&[0; 509]).emit(&mut out);
        assert_eq!(too_long, Err(Misuse::PrivateData));
    }
}
