// SPDX-License-Identifier: GPL-2.0

//! Entries and responses octet for octet, written by hand from the C header, as a little-endian
//! machine has them.

#![cfg(target_endian = "little")]

use uabi::cqe::{Cqe, Opcode, Status};
use uabi::response::{self, MappedRing, MmapOffset};
use uabi::ring::Slots;
use uabi::rqe::Rqe;
use uabi::sg_list::{Refusal, Sge};
use uabi::sqe::{Operation, Payload, Sqe};

/// Makes an entry of its octets and of `rest` behind them.
fn entry<const N: usize>(front: &[u8], rest: u8) -> [u64; N] {
    let mut octets = vec![rest; 8 * N];
    octets[..front.len()].copy_from_slice(front);
    crate::words(&octets)
}

#[rustfmt::skip]
const WRITE: [u8; 56] = [
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // id
    0x15, 0x00, 2, 0,                               // valid, signalled, fence; 2 entries; Write
    0x04, 0x03, 0x02, 0x01,                         // STag of the peer
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, // Tagged Offset of the peer
    0x00, 0x10, 0, 0, 0, 0, 0, 0,  0x10, 0, 0, 0,  0x01, 0x07, 0, 0,
    0x00, 0x20, 0, 0, 0, 0, 0, 0,  0x20, 0, 0, 0,  0x02, 0x08, 0, 0,
];

#[test]
fn write_of_two_entries() {
    // What stands in entries that are not used is of an earlier request.
    let sqe = Sqe::decode(&entry(&WRITE, 0xa5));
    assert_eq!(sqe.id, 0x1122_3344_5566_7788);
    assert!(sqe.signalled && sqe.fence && !sqe.solicited);
    assert_eq!(sqe.opcode, Opcode::Write);
    let Ok(Operation::Write {
        stag,
        offset,
        payload: Payload::List(list),
    }) = sqe.operation
    else {
        panic!("{sqe:?}");
    };
    assert_eq!((stag, offset), (0x0102_0304, 0x0102_0304_0506_0708));
    let sge = |address, length, lkey| Sge {
        address,
        length,
        lkey,
    };
    let expected = [sge(0x1000, 0x10, 0x701), sge(0x2000, 0x20, 0x802)];
    assert_eq!(list.as_slice(), expected);
    assert_eq!(list.len(), 0x30);
}

#[rustfmt::skip]
const INLINE_SEND: [u8; 45] = [
    7, 0, 0, 0, 0, 0, 0, 0,
    0x0b, 0x00, 200, 3,                             // valid, inline, solicited; Send
    0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // address without meaning
    5, 0, 0, 0,                                     // number of octets
    0xff, 0xff, 0xff, 0xff,
    b'h', b'e', b'l', b'l', b'o',
];

#[test]
fn inline_data_begin_at_octet_40() {
    let sqe = Sqe::decode(&entry(&INLINE_SEND, 0xff));
    assert!(sqe.solicited && !sqe.signalled && !sqe.fence);
    let Ok(Operation::Send {
        invalidate: None,
        payload: Payload::Inline(inline),
    }) = sqe.operation
    else {
        panic!("{sqe:?}");
    };
    assert_eq!(inline.as_slice(), b"hello");
}

#[rustfmt::skip]
const READ: [u8; 40] = [
    9, 0, 0, 0, 0, 0, 0, 0,
    0x05, 0x00, 1, 1,                               // valid, signalled; 1 entry; Read
    0x01, 0xee, 0xff, 0xc0,
    0, 0, 0, 0, 0, 0, 0, 0x80,
    0, 0, 0, 0, 0, 0, 0, 0x40,  0xff, 0xff, 0xff, 0xff,  0x03, 0, 0, 0,
];

#[test]
fn read_into_one_entry() {
    let sqe = Sqe::decode(&entry(&READ, 0));
    assert_eq!(
        sqe.operation,
        Ok(Operation::Read {
            stag: 0xc0ff_ee01,
            offset: 1 << 63,
            sink: Sge {
                address: 1 << 62,
                length: u32::MAX,
                lkey: 3,
            },
            invalidate: false,
        })
    );
}

#[rustfmt::skip]
const RECEIVE: [u8; 32] = [
    0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01,
    0x01, 0x00, 1, 0xff,  0xff, 0xff, 0xff, 0xff,   // valid; 1 entry; two fields that nobody uses
    0x00, 0xf0, 0xde, 0xbc, 0x9a, 0x78, 0, 0,  0x00, 0x02, 0, 0,  0x00, 0x01, 0, 0,
];

#[test]
fn receive_of_one_entry() {
    let rqe = Rqe::decode(&entry(&RECEIVE, 0x11));
    assert_eq!(rqe.id, 0x0123_4567_89ab_cdef);
    let sge = Sge {
        address: 0x789a_bcde_f000,
        length: 512,
        lkey: 256,
    };
    assert_eq!(rqe.list.unwrap().as_slice(), [sge]);
}

/// Six entries of 2 GiB, as a program could write them.
// Shows T18.
#[test]
fn lists_of_more_than_a_message_are_refused() {
    let mut send = [0; Sqe::WORDS];
    send[1] = 0x0000_0000_0306_0001;
    for sge in send[3..].chunks_mut(2) {
        sge.copy_from_slice(&[0, 0x8000_0000]);
    }
    let refused = Sqe::decode(&send).operation.unwrap_err();
    assert_eq!(refused, Refusal::TooLong);
    assert_eq!(refused.status(), Status::LocalQpOperation);
    // Two octets from the greatest address on.
    send[1] = 0x0000_0000_0301_0001;
    send[3..5].copy_from_slice(&[u64::MAX, 2]);
    let refused = Sqe::decode(&send).operation.unwrap_err();
    assert_eq!(refused.status(), Status::LocalProtection);
    let mut receive = [0; Rqe::WORDS];
    receive[1] = 0x0001_0001;
    receive[2..4].copy_from_slice(&[u64::MAX, 2]);
    assert_eq!(Rqe::decode(&receive).list, Err(Refusal::Wrap));
}

#[test]
fn completion_of_a_receive() {
    let stores = Cqe {
        id: 0x1122_3344_5566_7788,
        opcode: Opcode::Receive,
        status: Status::LocalLength,
        length: 0x0a0b_0c0d,
        invalidated: Some(0x0102_0304),
        qp: 0x0506_0708,
    }
    .encode();
    #[rustfmt::skip]
    let expected = [
        0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
        1, 8, 1, 0,  0x0d, 0x0c, 0x0b, 0x0a,
        0x04, 0x03, 0x02, 0x01, 0, 0, 0, 0,
        0x08, 0x07, 0x06, 0x05, 0, 0, 0, 0,
    ];
    assert_eq!(crate::stored([0xff; 32], stores), expected);
    assert_eq!(stores.last.offset, 8);
}

fn ring(entries: u32, offset: u64) -> MappedRing {
    MappedRing {
        slots: Slots::for_entries(entries, Slots::MAX).unwrap(),
        offset: MmapOffset::new(offset).unwrap(),
    }
}

#[test]
fn responses_have_no_octet_that_was_not_written() {
    assert_eq!(response::CONTEXT, [0; 8]);
    let stag = response::memory_region(0x0102_0304);
    assert_eq!(stag, [4, 3, 2, 1, 0, 0, 0, 0]);
    let queue = response::completion_queue(0x11, ring(100, 0x9_1000));
    #[rustfmt::skip]
    let expected = [
        0x11, 0, 0, 0,  128, 0, 0, 0,
        0x00, 0x10, 0x09, 0, 0, 0, 0, 0,
    ];
    assert_eq!(queue, expected);
    let shared = response::shared_receive_queue(ring(256, 0x0102_0304_0506_7000));
    #[rustfmt::skip]
    let expected = [
        0, 1, 0, 0,  0, 0, 0, 0,
        0x00, 0x70, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,
    ];
    assert_eq!(shared, expected);
}

#[test]
fn queue_pair_has_one_ring_or_two() {
    let (send, receive) = (ring(16, 0x9_1000), ring(1, 0xa_2000));
    let both = response::queue_pair(0x22, send, Some(receive));
    #[rustfmt::skip]
    let mut expected = [
        0x22, 0, 0, 0,  16, 0, 0, 0,  1, 0, 0, 0,  0, 0, 0, 0,
        0x00, 0x10, 0x09, 0, 0, 0, 0, 0,
        0x00, 0x20, 0x0a, 0, 0, 0, 0, 0,
    ];
    assert_eq!(both, expected);
    expected[8] = 0;
    expected[24..].fill(0);
    assert_eq!(response::queue_pair(0x22, send, None), expected);
}
