// SPDX-License-Identifier: GPL-2.0

//! Entries of a Send Queue.
//!
//! ```text
//! octets  0-7      work request id
//!         8-9      flags; the last that the process writes
//!         10       number of entries of the list; without meaning if there are inline data
//!         11       opcode
//!         12-15    STag of the peer; STag to invalidate
//!         16-23    Tagged Offset of the peer
//!         24-119   list: 6 times address (8), length (4), local key (4); or, with inline data,
//!                  their number in the first entry's length, and the octets from 40 on
//! ```

use crate::cqe::Opcode;
use crate::sg_list::{Inline, Refusal, SgList, Sge};

/// A request of a Send Queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sqe {
    /// The id, which the completion returns.
    pub id: u64,
    /// It completes visibly if it succeeds.
    pub signalled: bool,
    /// With Solicited Event.
    pub solicited: bool,
    /// It waits until all earlier Reads are done.
    pub fence: bool,
    /// The opcode for the completion. That of a Send if the entry has none that a process may use:
    /// such a request fails, and its completion's opcode has no meaning.
    pub opcode: Opcode,
    /// The operation, or the reason why there is none.
    pub operation: Result<Operation, Refusal>,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Sends the payload.
    Send {
        /// The STag of the peer to invalidate.
        ///
        /// A Send with Invalidate that names no STag, which is 0, is a plain Send: libsiw loses the
        /// STag, and peers invalidate what was not invalidated for them.
        invalidate: Option<u32>,
        /// The payload.
        payload: Payload,
    },
    /// Writes the payload to the peer's memory.
    Write {
        /// The STag of the peer.
        stag: u32,
        /// The Tagged Offset of the peer.
        offset: u64,
        /// The payload.
        payload: Payload,
    },
    /// Reads from the peer.
    Read {
        /// The STag of the peer.
        stag: u32,
        /// The Tagged Offset of the peer.
        offset: u64,
        /// The memory for the response. It is empty if the list is.
        sink: Sge,
        /// The region of `sink` is invalidated afterwards.
        invalidate: bool,
    },
}

/// The octets of a Send or a Write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// They are in memory regions.
    List(SgList),
    /// They are here.
    Inline(Inline),
}

impl Payload {
    /// Returns the number of octets.
    #[inline]
    pub fn len(&self) -> u32 {
        match self {
            Self::List(list) => list.len(),
            Self::Inline(inline) => inline.len(),
        }
    }

    /// Returns whether there are no octets.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

const INLINE: u16 = 1 << 1;
const SIGNALLED: u16 = 1 << 2;
const SOLICITED: u16 = 1 << 3;
const FENCE: u16 = 1 << 4;

impl Sqe {
    /// The number of 64-bit words.
    pub const WORDS: usize = 15;

    /// Decodes a copy of an entry.
    pub fn decode(words: &[u64; Self::WORDS]) -> Self {
        let [id, head, offset, list @ ..] = words;
        let [flags_0, flags_1, count, opcode, stag @ ..] = head.to_ne_bytes();
        let flags = u16::from_ne_bytes([flags_0, flags_1]);
        let opcode = match Opcode::of(opcode) {
            Some(Opcode::Receive) => None,
            opcode => opcode,
        };
        let operation = match opcode {
            None => Err(Refusal::Opcode),
            Some(opcode) => operation(
                opcode,
                u32::from_ne_bytes(stag),
                *offset,
                (flags & INLINE == 0).then_some(count),
                list,
            ),
        };
        Self {
            id: *id,
            signalled: flags & SIGNALLED != 0,
            solicited: flags & SOLICITED != 0,
            fence: flags & FENCE != 0,
            opcode: opcode.unwrap_or(Opcode::Send),
            operation,
        }
    }
}

/// Decodes what a request is to do. `count` is the number of entries of its list; there is none if
/// it has inline data.
fn operation(
    opcode: Opcode,
    stag: u32,
    offset: u64,
    count: Option<u8>,
    list: &[u64; SgList::WORDS],
) -> Result<Operation, Refusal> {
    let payload = || match count {
        Some(count) => SgList::decode(list, count).map(Payload::List),
        None => Inline::decode(list).map(Payload::Inline),
    };
    let read = |invalidate| {
        let list = SgList::decode(list, count.ok_or(Refusal::InlineRead)?)?;
        let sink = match list.as_slice() {
            [] => Sge::default(),
            [sink] => *sink,
            _ => return Err(Refusal::ReadSges),
        };
        Ok(Operation::Read {
            stag,
            offset,
            sink,
            invalidate,
        })
    };
    Ok(match opcode {
        Opcode::Send => Operation::Send {
            invalidate: None,
            payload: payload()?,
        },
        Opcode::SendInvalidate => Operation::Send {
            invalidate: (stag != 0).then_some(stag),
            payload: payload()?,
        },
        Opcode::Write => Operation::Write {
            stag,
            offset,
            payload: payload()?,
        },
        Opcode::Read => read(false)?,
        Opcode::ReadInvalidate => read(true)?,
        Opcode::Receive => return Err(Refusal::Opcode),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with these flags, number of entries and opcode, and a list of one octet each.
    fn words(flags: u16, count: u8, opcode: u8, stag: u32) -> [u64; Sqe::WORDS] {
        let mut words = [0; Sqe::WORDS];
        words[1] = u64::from(flags)
            | u64::from(count) << 16
            | u64::from(opcode) << 24
            | u64::from(stag) << 32;
        for entry in words[3..].chunks_mut(2) {
            entry[1] = 1;
        }
        words
    }

    fn operation_of(flags: u16, count: u8, opcode: u8) -> Result<Operation, Refusal> {
        Sqe::decode(&words(flags, count, opcode, 9)).operation
    }

    #[test]
    fn opcodes_that_are_not_for_processes_are_refused() {
        for opcode in 0..=u8::MAX {
            let sqe = Sqe::decode(&words(0, 1, opcode, 0));
            let refused = !matches!(opcode, 0..=3 | 5);
            assert_eq!(sqe.operation == Err(Refusal::Opcode), refused, "{opcode}");
            if refused {
                assert_eq!(sqe.opcode, Opcode::Send);
            } else {
                assert_eq!(sqe.opcode.code(), opcode);
            }
        }
    }

    #[test]
    fn a_read_has_one_sink_at_most() {
        for (opcode, invalidate) in [(1, false), (2, true)] {
            let sink = |count| match operation_of(0, count, opcode) {
                Ok(Operation::Read {
                    sink,
                    invalidate: also,
                    ..
                }) if also == invalidate => Ok(sink.length),
                Err(refusal) => Err(refusal),
                other => panic!("{other:?}"),
            };
            assert_eq!((sink(0), sink(1)), (Ok(0), Ok(1)));
            assert_eq!(sink(2), Err(Refusal::ReadSges));
            assert_eq!(sink(6), Err(Refusal::ReadSges));
            assert_eq!(sink(7), Err(Refusal::TooManySges));
            let inline = operation_of(INLINE, 1, opcode);
            assert_eq!(inline, Err(Refusal::InlineRead));
        }
    }

    #[test]
    fn number_of_entries_has_no_meaning_with_inline_data() {
        for opcode in [0, 3, 5] {
            for count in [0, 6, 7, 255] {
                let length = match operation_of(INLINE, count, opcode) {
                    Ok(Operation::Send { payload, .. } | Operation::Write { payload, .. }) => {
                        assert!(matches!(payload, Payload::Inline(_)));
                        payload.len()
                    }
                    other => panic!("{other:?}"),
                };
                assert_eq!(length, 1);
            }
        }
    }

    #[test]
    fn each_flag_is_read() {
        let flags = |flags| {
            let sqe = Sqe::decode(&words(flags, 0, 3, 0));
            (sqe.signalled, sqe.solicited, sqe.fence)
        };
        assert_eq!(flags(4), (true, false, false));
        assert_eq!(flags(8), (false, true, false));
        assert_eq!(flags(16), (false, false, true));
        // VALID, which the owner of the ring looks at, and bits without meaning.
        assert_eq!(flags(!0x1e), (false, false, false));
    }

    #[test]
    fn send_with_invalidate_of_nothing_is_a_plain_send() {
        let invalidate = |opcode, stag| match Sqe::decode(&words(0, 0, opcode, stag)).operation {
            Ok(Operation::Send { invalidate, .. }) => invalidate,
            other => panic!("{other:?}"),
        };
        assert_eq!(invalidate(5, 0), None);
        assert_eq!(invalidate(5, 1), Some(1));
        assert_eq!(invalidate(3, 1), None);
        assert_eq!(
            Sqe::decode(&words(0, 0, 5, 0)).opcode,
            Opcode::SendInvalidate
        );
    }

    #[test]
    fn payload_is_empty_without_octets() {
        let payload = |flags, count| match operation_of(flags, count, 3) {
            Ok(Operation::Send { payload, .. }) => payload,
            other => panic!("{other:?}"),
        };
        assert!(payload(0, 0).is_empty());
        assert!(!payload(0, 1).is_empty());
        assert!(!payload(INLINE, 0).is_empty());
    }
}
