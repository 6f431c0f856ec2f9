// SPDX-License-Identifier: GPL-2.0

//! Completions, as a process reads them: with all octets written, and handed over by the last
//! store.

use proptest::option;
use proptest::prelude::*;
use uabi::cqe::{Cqe, Opcode, Status};

fn opcode() -> impl Strategy<Value = Opcode> {
    prop_oneof![
        Just(Opcode::Write),
        Just(Opcode::Read),
        Just(Opcode::ReadInvalidate),
        Just(Opcode::Send),
        Just(Opcode::SendInvalidate),
        Just(Opcode::Receive),
    ]
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![
        Just(Status::Success),
        Just(Status::LocalLength),
        Just(Status::LocalProtection),
        Just(Status::LocalQpOperation),
        Just(Status::Flushed),
        Just(Status::BadResponse),
        Just(Status::LocalAccess),
        Just(Status::RemoteAccess),
        Just(Status::RemoteInvalidRequest),
        Just(Status::General),
    ]
}

fn cqe() -> impl Strategy<Value = Cqe> {
    (
        any::<u64>(),
        opcode(),
        status(),
        any::<u32>(),
        option::of(any::<u32>()),
        any::<u32>(),
    )
        .prop_map(|(id, opcode, status, length, invalidated, qp)| Cqe {
            id,
            opcode,
            status,
            length,
            invalidated,
            qp,
        })
}

proptest! {
    #![proptest_config(crate::seeds_beside_tests())]

    /// Nothing of what the entry had, and of the queue pair nothing but its number.
    // Shows T24, T25.
    #[test]
    fn every_octet_is_written(cqe in cqe(), before: u8) {
        let octets = crate::stored([before; 32], cqe.encode());
        let number = |at: usize| u32::from_ne_bytes(octets[at..][..4].try_into().unwrap());
        prop_assert_eq!(&octets[..8], &cqe.id.to_ne_bytes());
        prop_assert_eq!(octets[8], 1);
        prop_assert_eq!(octets[9], cqe.opcode.code());
        prop_assert_eq!(&octets[10..12], &cqe.status.code().to_ne_bytes());
        prop_assert_eq!(number(12), cqe.length);
        prop_assert_eq!(number(16), cqe.invalidated.unwrap_or(0));
        prop_assert_eq!(&octets[20..24], &[0; 4]);
        prop_assert_eq!(&octets[24..], &u64::from(cqe.qp).to_ne_bytes());
    }

    #[test]
    fn only_the_last_store_hands_over(cqe in cqe()) {
        let stores = cqe.encode();
        for store in stores.first {
            prop_assert_ne!(store.offset, Cqe::FLAGS_WORD);
        }
        prop_assert_eq!(stores.last.offset, Cqe::FLAGS_WORD);
        prop_assert!(!Cqe::is_free(stores.last.word));
    }
}
