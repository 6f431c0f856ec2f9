// SPDX-License-Identifier: GPL-2.0

//! The enhanced connection set-up (RFC 6581): negotiation of the numbers of outstanding RDMA Reads.
//!
//! The private data begins with four octets, the same over MPA (revision 2) and over SCTP
//! (functions 5 and 6): two words of 14 bits, IRD and ORD, each with two flags above it. IRD is the
//! number of Read Requests that an end accepts at a time, ORD the number that it wants to have
//! outstanding. The ORD of one end must not exceed the IRD of the other.

use crate::fault::LlpError;
use crate::wire::{Octets, Reader};

const HIGH: u16 = 0x8000;
const LOW: u16 = 0x4000;
const READS: u16 = 0x3fff;

/// A number of RDMA Reads in 14 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadDepth(u16);

impl ReadDepth {
    /// The value with which the upper layer negotiates by its own means.
    pub const NOT_NEGOTIATED: Self = Self(READS);

    /// The greatest number that can be negotiated.
    pub const MAX: Self = Self(READS - 1);

    /// Creates a number of Reads, limited to the greatest that can be negotiated.
    #[inline]
    pub fn new(reads: u16) -> Self {
        Self(reads).min(Self::MAX)
    }

    /// Returns the number, or `None` if this end does not negotiate.
    #[inline]
    pub fn number(self) -> Option<u16> {
        (self != Self::NOT_NEGOTIATED).then_some(self.0)
    }
}

/// The messages with which the active side may say that it is ready to receive (RTR), after which
/// the passive side may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtrMessages {
    /// A Send of no octets.
    pub send: bool,
    /// An RDMA Write of no octets.
    pub write: bool,
    /// An RDMA Read of no octets.
    pub read: bool,
}

/// The four octets of an enhanced set-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Enhanced {
    /// Either side may send first, the passive one after the ready-to-receive message.
    pub peer_to_peer: bool,
    /// The ready-to-receive messages that are offered, or the one that is chosen.
    pub rtr: RtrMessages,
    /// Read Requests that this end accepts at a time.
    pub ird: ReadDepth,
    /// Read Requests that this end wants to have outstanding.
    pub ord: ReadDepth,
}

/// The numbers of Reads that both ends agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Read Requests that this end accepts at a time.
    pub ird: u16,
    /// Read Requests that this end may have outstanding.
    pub ord: u16,
}

impl Enhanced {
    /// The length in octets on the wire.
    pub const LEN: usize = 4;

    /// Splits the four octets from the front of private data. Returns `None` if it is shorter.
    pub fn split(private_data: &[u8]) -> Option<(Self, &[u8])> {
        let mut reader = Reader::new(private_data);
        let (ird, ord) = (reader.u16()?, reader.u16()?);
        let enhanced = Self {
            peer_to_peer: ird & HIGH != 0,
            rtr: RtrMessages {
                send: ird & LOW != 0,
                write: ord & HIGH != 0,
                read: ord & LOW != 0,
            },
            ird: ReadDepth(ird & READS),
            ord: ReadDepth(ord & READS),
        };
        Some((enhanced, reader.rest()))
    }

    /// Encodes the four octets.
    pub fn emit(&self) -> Octets<{ Enhanced::LEN }> {
        let flag = |set, flag| if set { flag } else { 0 };
        let ird = flag(self.peer_to_peer, HIGH) | flag(self.rtr.send, LOW) | self.ird.0;
        let ord = flag(self.rtr.write, HIGH) | flag(self.rtr.read, LOW) | self.ord.0;
        let mut out = Octets::new();
        out.put(ird.to_be_bytes());
        out.put(ord.to_be_bytes());
        out
    }

    /// Returns the reply of the passive side to this request within its own `limits`.
    ///
    /// It sends no more Reads than the peer accepts. It accepts as many as the peer wants to send,
    /// or fails (RFC 6581, section 9.1).
    pub fn answer(&self, limits: ReadLimits) -> Result<(Self, ReadLimits), LlpError> {
        let ord = self
            .ird
            .number()
            .map_or(limits.ord, |ird| ird.min(limits.ord));
        let ird = self.ord.number().unwrap_or(limits.ird);
        if ird > limits.ird {
            return Err(LlpError::InsufficientIrd);
        }
        let rtr = self.choose(ird)?;
        let answer = Self {
            peer_to_peer: self.peer_to_peer,
            rtr,
            ird: ReadDepth::new(ird),
            ord: ReadDepth::new(ord),
        };
        Ok((answer, ReadLimits { ird, ord }))
    }

    /// Chooses one of the ready-to-receive messages that the peer offers. A Write is preferred, as
    /// it uses nothing up here. A Read needs an `ird`.
    fn choose(&self, ird: u16) -> Result<RtrMessages, LlpError> {
        let none = RtrMessages::default();
        match self.rtr {
            _ if !self.peer_to_peer => Ok(none),
            RtrMessages { write: true, .. } => Ok(RtrMessages {
                write: true,
                ..none
            }),
            RtrMessages { read: true, .. } if ird > 0 => Ok(RtrMessages { read: true, ..none }),
            // A Send would use up a Receive without the knowledge of the upper layer.
            _ => Err(LlpError::NoMatchingRtr),
        }
    }

    /// Evaluates the reply to this request of the active side within its own `limits`.
    ///
    /// This side may lower its ORD and raise its IRD. A number that it does not negotiate is the
    /// peer's, up to the limit.
    pub fn accept(&self, answer: &Self, limits: ReadLimits) -> Result<ReadLimits, LlpError> {
        let (own_ird, own_ord) = (self.ird.number(), self.ord.number());
        let ird = match (own_ird, answer.ord.number()) {
            (Some(own), Some(theirs)) => own.max(theirs),
            (Some(own), None) => own,
            (None, theirs) => theirs.unwrap_or(limits.ird),
        };
        if ird > limits.ird {
            return Err(LlpError::InsufficientIrd);
        }
        let ord = match (own_ord, answer.ird.number()) {
            (Some(own), Some(theirs)) => own.min(theirs),
            (Some(own), None) => own,
            (None, theirs) => theirs.unwrap_or(limits.ord).min(limits.ord),
        };
        Ok(ReadLimits { ird, ord })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(ird: u16, ord: u16) -> Enhanced {
        Enhanced {
            ird: ReadDepth::new(ird),
            ord: ReadDepth::new(ord),
            ..Enhanced::default()
        }
    }

    const LIMITS: ReadLimits = ReadLimits { ird: 16, ord: 16 };

    #[test]
    fn flags_stand_above_the_numbers() {
        let all = Enhanced {
            peer_to_peer: true,
            rtr: RtrMessages {
                send: false,
                write: true,
                read: true,
            },
            ..reads(4, 0x3ffe)
        };
        assert_eq!(all.emit().as_slice(), [0x80, 0x04, 0xff, 0xfe]);
        assert_eq!(
            Enhanced::split(&[0x80, 4, 0xff, 0xfe]),
            Some((all, &[][..]))
        );
        assert_eq!(Enhanced::split(&[0; 3]), None);
    }

    // Shows E6581-2.
    #[test]
    fn responder_sends_no_more_than_the_initiator_takes() {
        let (answer, agreed) = reads(4, 2).answer(LIMITS).unwrap();
        assert_eq!(answer, reads(2, 4));
        assert_eq!(agreed, ReadLimits { ird: 2, ord: 4 });
    }

    // Shows E6581-2.
    #[test]
    fn responder_refuses_more_than_it_takes() {
        assert_eq!(reads(4, 17).answer(LIMITS), Err(LlpError::InsufficientIrd));
        assert!(reads(4, 16).answer(LIMITS).is_ok());
    }

    // Shows E6581-2.
    #[test]
    fn who_does_not_negotiate_sets_no_limit() {
        let open = Enhanced {
            ird: ReadDepth::NOT_NEGOTIATED,
            ord: ReadDepth::NOT_NEGOTIATED,
            ..Enhanced::default()
        };
        assert_eq!(open.answer(LIMITS).unwrap().1, LIMITS);
        assert_eq!(
            reads(4, 2).accept(&open, LIMITS),
            Ok(ReadLimits { ird: 4, ord: 2 })
        );
        assert_eq!(
            open.accept(&reads(4, 2), LIMITS),
            Ok(ReadLimits { ird: 2, ord: 4 })
        );
        let capped = open.accept(&reads(0x3ffe, 2), LIMITS);
        assert_eq!(capped, Ok(ReadLimits { ird: 2, ord: 16 }));
    }

    // Shows E6581-3.
    #[test]
    fn initiator_gives_way_as_far_as_it_can() {
        let request = reads(4, 8);
        assert_eq!(
            request.accept(&reads(6, 5), LIMITS),
            Ok(ReadLimits { ird: 5, ord: 6 })
        );
        assert_eq!(
            request.accept(&reads(6, 17), LIMITS),
            Err(LlpError::InsufficientIrd)
        );
    }

    // Shows M-11.
    #[test]
    fn ready_to_receive_is_chosen_among_what_is_offered() {
        let offer = |send, write, read| {
            let offer = Enhanced {
                peer_to_peer: true,
                rtr: RtrMessages { send, write, read },
                ..reads(1, 1)
            };
            offer.answer(LIMITS).map(|(answer, _)| answer.rtr)
        };
        assert!(offer(true, true, true).unwrap().write);
        assert!(offer(true, false, true).unwrap().read);
        assert_eq!(offer(true, false, false), Err(LlpError::NoMatchingRtr));
        // Without an IRD this end would have no slot for the Read.
        let read_only = Enhanced {
            peer_to_peer: true,
            rtr: RtrMessages {
                read: true,
                ..RtrMessages::default()
            },
            ..reads(1, 0)
        };
        assert_eq!(read_only.answer(LIMITS), Err(LlpError::NoMatchingRtr));
    }
}
