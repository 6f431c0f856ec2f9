// SPDX-License-Identifier: GPL-2.0

//! Entries of a Completion Queue, and the control word behind them.
//!
//! ```text
//! octets  0-7      work request id
//!         8        flags: 1 if the entry is valid
//!         9        opcode
//!         10-11    status
//!         12-15    number of octets
//!         16-23    STag that a Send of the peer has invalidated
//!         24-31    number of the queue pair
//! ```
//!
//! The device writes an entry whose flags are 0, and the process sets them to 0 again. The library
//! looks opcode and status up in tables, without a check.

/// The operation that a completion is of. The numbers are those of Send Queue entries, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// RDMA Write.
    Write,
    /// RDMA Read.
    Read,
    /// RDMA Read that invalidates its own sink.
    ReadInvalidate,
    /// Send.
    Send,
    /// Send with Invalidate.
    SendInvalidate,
    /// Receive.
    Receive,
}

impl Opcode {
    /// Returns the opcode of this number.
    #[inline]
    pub const fn of(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Write,
            1 => Self::Read,
            2 => Self::ReadInvalidate,
            3 => Self::Send,
            5 => Self::SendInvalidate,
            8 => Self::Receive,
            _ => return None,
        })
    }

    /// Returns its number.
    #[inline]
    pub const fn code(self) -> u8 {
        match self {
            Self::Write => 0,
            Self::Read => 1,
            Self::ReadInvalidate => 2,
            Self::Send => 3,
            Self::SendInvalidate => 5,
            Self::Receive => 8,
        }
    }
}

/// The status of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The request was carried out.
    Success,
    /// The message was longer than the Receive.
    LocalLength,
    /// The list names memory that it may not.
    LocalProtection,
    /// The request is not valid.
    LocalQpOperation,
    /// The queue pair ended before.
    Flushed,
    /// The peer answered with what this end did not expect.
    BadResponse,
    /// This end's memory could not be accessed.
    LocalAccess,
    /// The peer refused access to its memory.
    RemoteAccess,
    /// The peer found the request invalid.
    RemoteInvalidRequest,
    /// Anything else.
    General,
}

impl Status {
    /// Returns its number.
    #[inline]
    pub const fn code(self) -> u16 {
        match self {
            Self::Success => 0,
            Self::LocalLength => 1,
            Self::LocalProtection => 2,
            Self::LocalQpOperation => 3,
            Self::Flushed => 4,
            Self::BadResponse => 5,
            Self::LocalAccess => 6,
            Self::RemoteAccess => 7,
            Self::RemoteInvalidRequest => 8,
            Self::General => 9,
        }
    }
}

/// A completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cqe {
    /// The id of the request.
    pub id: u64,
    /// The operation of the request.
    pub opcode: Opcode,
    /// Its status.
    pub status: Status,
    /// The number of octets.
    pub length: u32,
    /// The STag that the peer's Send has invalidated.
    pub invalidated: Option<u32>,
    /// The number of the queue pair.
    pub qp: u32,
}

/// A 64-bit word of an entry, and the octet where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// The offset in the entry.
    pub offset: usize,
    /// The word.
    pub word: u64,
}

/// The stores that write an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stores {
    /// The words without flags, in any order.
    pub first: [Store; 3],
    /// The word with the flags. It is stored last, in one piece, so that whoever sees it sees the
    /// others.
    pub last: Store,
}

const VALID: u8 = 1;

impl Cqe {
    /// The length in octets.
    pub const LEN: usize = 32;
    /// The offset of the word that has the flags.
    pub const FLAGS_WORD: usize = 8;

    /// Returns whether an entry whose word at [`Self::FLAGS_WORD`] is this one may be written.
    /// Otherwise the queue is full: the process did not take what was there.
    #[inline]
    pub const fn is_free(word: u64) -> bool {
        let [flags, ..] = word.to_ne_bytes();
        flags == 0
    }

    /// Encodes the completion.
    pub fn encode(&self) -> Stores {
        let [status_0, status_1] = self.status.code().to_ne_bytes();
        let [length_0, length_1, length_2, length_3] = self.length.to_ne_bytes();
        let [stag_0, stag_1, stag_2, stag_3] = self.invalidated.unwrap_or(0).to_ne_bytes();
        let last = [
            VALID,
            self.opcode.code(),
            status_0,
            status_1,
            length_0,
            length_1,
            length_2,
            length_3,
        ];
        let invalidated = [stag_0, stag_1, stag_2, stag_3, 0, 0, 0, 0];
        let store = |offset, word| Store { offset, word };
        Stores {
            first: [
                store(0, self.id),
                store(16, u64::from_ne_bytes(invalidated)),
                store(24, self.qp.into()),
            ],
            last: store(Self::FLAGS_WORD, u64::from_ne_bytes(last)),
        }
    }
}

/// Which completion the process wants to be told of. It stores this in the control word, and the
/// device tells it once and stores [`Arm::NONE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arm {
    /// None.
    Nothing,
    /// The next one that is solicited or not successful.
    Solicited,
    /// The next one.
    Any,
}

impl Arm {
    /// The control word of [`Arm::Nothing`].
    pub const NONE: u32 = 0;
    /// The length of the control word in octets, with what is reserved behind it.
    pub const LEN: usize = 8;

    /// Reads a control word. Bits without meaning are ignored.
    #[inline]
    pub const fn of(control: u32) -> Self {
        match (control & 2 != 0, control & 1 != 0) {
            (true, _) => Self::Any,
            (false, true) => Self::Solicited,
            (false, false) => Self::Nothing,
        }
    }

    /// Returns whether the process is to be told of a completion. One of a Receive is `solicited`
    /// if the peer's Send was.
    #[inline]
    pub const fn is_due(self, solicited: bool, status: Status) -> bool {
        match self {
            Self::Nothing => false,
            Self::Solicited => solicited || !matches!(status, Status::Success),
            Self::Any => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const OPCODES: [Opcode; 6] = [
        Opcode::Write,
        Opcode::Read,
        Opcode::ReadInvalidate,
        Opcode::Send,
        Opcode::SendInvalidate,
        Opcode::Receive,
    ];
    pub(crate) const STATUSES: [Status; 10] = [
        Status::Success,
        Status::LocalLength,
        Status::LocalProtection,
        Status::LocalQpOperation,
        Status::Flushed,
        Status::BadResponse,
        Status::LocalAccess,
        Status::RemoteAccess,
        Status::RemoteInvalidRequest,
        Status::General,
    ];

    #[test]
    fn numbers_stay_within_the_tables_of_the_library() {
        for opcode in OPCODES {
            assert!(opcode.code() <= 8);
            assert_eq!(Opcode::of(opcode.code()), Some(opcode));
        }
        for (code, status) in (0_u16..).zip(STATUSES) {
            assert_eq!(status.code(), code);
        }
        let known = (0..=u8::MAX).filter(|code| Opcode::of(*code).is_some());
        assert_eq!(known.count(), OPCODES.len());
    }

    #[test]
    fn an_entry_is_free_without_flags() {
        assert!(Cqe::is_free(!0xff));
        for bit in 0..8 {
            assert!(!Cqe::is_free(1 << bit));
        }
    }

    #[test]
    fn control_word_says_who_is_told_of_what() {
        let of = [0, 1, 2, 3, 4, 5, 6, 7].map(Arm::of);
        let (nothing, solicited, any) = (Arm::Nothing, Arm::Solicited, Arm::Any);
        let expected = [nothing, solicited, any, any, nothing, solicited, any, any];
        assert_eq!(of, expected);
        assert_eq!(Arm::of(Arm::NONE), Arm::Nothing);
        assert_eq!(Arm::of(!3), Arm::Nothing);

        let due = |arm: Arm| {
            [
                arm.is_due(false, Status::Success),
                arm.is_due(true, Status::Success),
                arm.is_due(false, Status::Flushed),
            ]
        };
        assert_eq!(due(Arm::Nothing), [false, false, false]);
        assert_eq!(due(Arm::Solicited), [false, true, true]);
        assert_eq!(due(Arm::Any), [true, true, true]);
    }
}
