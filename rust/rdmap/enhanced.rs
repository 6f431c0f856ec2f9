// SPDX-License-Identifier: GPL-2.0

//! The enhanced connection set-up (RFC 6581): negotiation of the numbers of outstanding RDMA Reads.
//!
//! The private data begins with four octets, the same over MPA (revision 2) and over SCTP
//! (functions 5 and 6): two words of 14 bits, IRD and ORD, each with two flags above it. IRD is the
//! number of Read Requests that an end accepts at a time, ORD the number that it wants to have
//! outstanding. The ORD of one end must not exceed the IRD of the other.

use crate::fault::Lower;
use crate::wire::Octets;
use crate::wire::Reader;

const HIGH: u16 = 0x8000;
const LOW: u16 = 0x4000;
const READS: u16 = 0x3fff;

/// A number of RDMA Reads in 14 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reads(u16);

impl Reads {
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
        Some(self.0).filter(|_| self != Self::NOT_NEGOTIATED)
    }
}

/// The messages with which the active side may say that it is ready to receive (RTR), after which
/// the passive side may send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadyToReceive {
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
    pub ready: ReadyToReceive,
    /// Read Requests that this end accepts at a time.
    pub ird: Reads,
    /// Read Requests that this end wants to have outstanding.
    pub ord: Reads,
}

/// The numbers of Reads that both ends agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
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
            ready: ReadyToReceive {
                send: ird & LOW != 0,
                write: ord & HIGH != 0,
                read: ord & LOW != 0,
            },
            ird: Reads(ird & READS),
            ord: Reads(ord & READS),
        };
        Some((enhanced, reader.rest()))
    }

    /// Encodes the four octets.
    pub fn emit(&self) -> Octets<{ Enhanced::LEN }> {
        let flag = |set, flag| if set { flag } else { 0 };
        let ird = flag(self.peer_to_peer, HIGH) | flag(self.ready.send, LOW) | self.ird.0;
        let ord = flag(self.ready.write, HIGH) | flag(self.ready.read, LOW) | self.ord.0;
        let mut out = Octets::new();
        out.put(ird.to_be_bytes());
        out.put(ord.to_be_bytes());
        out
    }

    /// Returns the reply of the passive side to this request within its own `limits`.
    ///
    /// It sends no more Reads than the peer accepts. It accepts as many as the peer wants to send,
    /// or fails (RFC 6581, section 9.1).
    pub fn answer(&self, limits: Agreed) -> Result<(Self, Agreed), Lower> {
        let ord = self
            .ird
            .number()
            .map_or(limits.ord, |ird| ird.min(limits.ord));
        let ird = self.ord.number().unwrap_or(limits.ird);
        if ird > limits.ird {
            return Err(Lower::Reads);
        }
        let ready = self.choose(ird)?;
        let answer = Self {
            peer_to_peer: self.peer_to_peer,
            ready,
            ird: Reads::new(ird),
            ord: Reads::new(ord),
        };
        Ok((answer, Agreed { ird, ord }))
    }

    /// Chooses one of the ready-to-receive messages that the peer offers. A Write is preferred, as
    /// it uses nothing up here. A Read needs an `ird`.
    fn choose(&self, ird: u16) -> Result<ReadyToReceive, Lower> {
        let none = ReadyToReceive::default();
        match self.ready {
            _ if !self.peer_to_peer => Ok(none),
            ReadyToReceive { write: true, .. } => Ok(ReadyToReceive {
                write: true,
                ..none
            }),
            ReadyToReceive { read: true, .. } if ird > 0 => {
                Ok(ReadyToReceive { read: true, ..none })
            }
            // A Send would use up a Receive without the knowledge of the upper layer.
            _ => Err(Lower::ReadyToReceive),
        }
    }

    /// Evaluates the reply to this request of the active side within its own `limits`.
    ///
    /// This side may lower its ORD and raise its IRD. A number that it does not negotiate is the
    /// peer's, up to the limit.
    pub fn accept(&self, answer: &Self, limits: Agreed) -> Result<Agreed, Lower> {
        let (own_ird, own_ord) = (self.ird.number(), self.ord.number());
        let ird = match (own_ird, answer.ord.number()) {
            (Some(own), Some(theirs)) => own.max(theirs),
            (Some(own), None) => own,
            (None, theirs) => theirs.unwrap_or(limits.ird),
        };
        if ird > limits.ird {
            return Err(Lower::Reads);
        }
        let ord = match (own_ord, answer.ird.number()) {
            (Some(own), Some(theirs)) => own.min(theirs),
            (Some(own), None) => own,
            (None, theirs) => theirs.unwrap_or(limits.ord).min(limits.ord),
        };
        Ok(Agreed { ird, ord })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(ird: u16, ord: u16) -> Enhanced {
        Enhanced {
            ird: Reads::new(ird),
            ord: Reads::new(ord),
            ..Enhanced::default()
        }
    }

    const LIMITS: Agreed = Agreed { ird: 16, ord: 16 };

    #[test]
    fn flags_stand_above_the_numbers() {
        let all = Enhanced {
            peer_to_peer: true,
            ready: ReadyToReceive {
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

    #[test]
    fn responder_sends_no_more_than_the_initiator_takes() {
        let (answer, agreed) = reads(4, 2).answer(LIMITS).unwrap();
        assert_eq!(answer, reads(2, 4));
        assert_eq!(agreed, Agreed { ird: 2, ord: 4 });
    }

    #[test]
    fn responder_refuses_more_than_it_takes() {
        assert_eq!(reads(4, 17).answer(LIMITS), Err(Lower::Reads));
        assert!(reads(4, 16).answer(LIMITS).is_ok());
    }

    #[test]
    fn who_does_not_negotiate_sets_no_limit() {
        let open = Enhanced {
            ird: Reads::NOT_NEGOTIATED,
            ord: Reads::NOT_NEGOTIATED,
            ..Enhanced::default()
        };
        assert_eq!(open.answer(LIMITS).unwrap().1, LIMITS);
        assert_eq!(
            reads(4, 2).accept(&open, LIMITS),
            Ok(Agreed { ird: 4, ord: 2 })
        );
        assert_eq!(
            open.accept(&reads(4, 2), LIMITS),
            Ok(Agreed { ird: 2, ord: 4 })
        );
        let capped = open.accept(&reads(0x3ffe, 2), LIMITS);
        assert_eq!(capped, Ok(Agreed { ird: 2, ord: 16 }));
    }

    #[test]
    fn initiator_gives_way_as_far_as_it_can() {
        let request = reads(4, 8);
        assert_eq!(
            request.accept(&reads(6, 5), LIMITS),
            Ok(Agreed { ird: 5, ord: 6 })
        );
        assert_eq!(request.accept(&reads(6, 17), LIMITS), Err(Lower::Reads));
    }

    #[test]
    fn ready_to_receive_is_chosen_among_what_is_offered() {
        let offer = |send, write, read| {
            let offer = Enhanced {
                peer_to_peer: true,
                ready: ReadyToReceive { send, write, read },
                ..reads(1, 1)
            };
            offer.answer(LIMITS).map(|(answer, _)| answer.ready)
        };
        assert!(offer(true, true, true).unwrap().write);
        assert!(offer(true, false, true).unwrap().read);
        assert_eq!(offer(true, false, false), Err(Lower::ReadyToReceive));
        // Without an IRD this end would have no slot for the Read.
        let read_only = Enhanced {
            peer_to_peer: true,
            ready: ReadyToReceive {
                read: true,
                ..ReadyToReceive::default()
            },
            ..reads(1, 0)
        };
        assert_eq!(read_only.answer(LIMITS), Err(Lower::ReadyToReceive));
    }
}
