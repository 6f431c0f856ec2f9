// SPDX-License-Identifier: GPL-2.0

//! A Write with Immediate Data: two messages, one request (RFC 7306, sections 6 and 7).

use rdmap::fault::Fault;
use rdmap::stag::{Range, Stag};
use rdmap::tx::{Completion, Operation, Outgoing, Payload, Request, Status};

use crate::tx::{drain, inbound_read, offsets, opcodes, send, tx_half, THERE};

fn write_immediate(length: u32, solicited: bool) -> Request {
    Request {
        operation: Operation::WriteImmediate {
            range: Range {
                stag: Stag(5),
                offset: 900,
                length,
            },
            data: [1, 2, 3, 4, 0, 0, 0, 0],
            solicited,
        },
        fence: false,
    }
}

// Shows X6.3-1, X6.3-4, X7-2.
#[test]
fn write_with_immediate_data_is_a_write_and_then_immediate_data() {
    for (length, expected) in [
        (0, vec![(900, 0, true), (0, 0, true)]),
        (114, vec![(900, 114, true), (0, 0, true)]),
        (115, vec![(900, 114, false), (1014, 1, true), (0, 0, true)]),
    ] {
        let mut tx = tx_half(1);
        tx.post(write_immediate(length, false)).unwrap();
        let seen = drain(&mut tx, 128);
        assert_eq!(offsets(&seen), expected);
        let codes = opcodes(&seen);
        let (last, before) = codes.split_last().unwrap();
        assert_eq!(*last, 8);
        assert!(before.iter().all(|code| *code == 0));
    }
}

// Shows X6.3-1.
#[test]
fn immediate_data_is_one_segment_of_26_octets() {
    for (solicited, opcode) in [(false, 0x48), (true, 0x49)] {
        let mut tx = tx_half(1);
        tx.post(send(1)).unwrap();
        tx.post(write_immediate(0, solicited)).unwrap();
        for _ in 0..2 {
            tx.peek(128, &THERE).unwrap();
            tx.commit().unwrap();
        }
        let Some(Outgoing::Segment {
            header,
            payload,
            last,
            last_of_response,
        }) = tx.peek(26, &THERE)
        else {
            panic!("there is none");
        };
        let mut expected = vec![0x41, opcode, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0];
        expected.extend([1, 2, 3, 4, 0, 0, 0, 0]);
        assert_eq!(header.as_slice(), expected);
        assert_eq!(
            (payload, last, last_of_response),
            (Payload::None, true, None)
        );
    }
}

// Shows X6.3-4, X7-2.
#[test]
fn nothing_comes_between_a_write_and_its_immediate_data() {
    let mut tx = tx_half(1);
    for _ in 0..2 {
        tx.post(write_immediate(200, false)).unwrap();
        tx.respond(inbound_read(1, 0)).unwrap();
    }
    let expected = [2, 0, 0, 8, 2, 0, 0, 8];
    assert_eq!(opcodes(&drain(&mut tx, 128)), expected);
}

// Shows X6.4-1.
#[test]
fn write_with_immediate_data_completes_once_with_its_last_segment() {
    let mut tx = tx_half(1);
    tx.post(write_immediate(200, false)).unwrap();
    tx.post(send(1)).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [0, 0, 8, 3]);
    tx.release(2);
    assert_eq!(tx.complete(), None);
    tx.release(3);
    let success = Completion {
        number: 0,
        status: Status::Success,
    };
    assert_eq!(tx.complete(), Some(success));
    assert_eq!(tx.complete(), None);
}

/// The memory is gone between the two messages, or the LLP takes less.
// Shows X8.1-1.
#[test]
fn write_that_fails_has_no_immediate_data() {
    let mut tx = tx_half(1);
    tx.post(write_immediate(200, false)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.commit().unwrap();
    tx.peek(500, &THERE).unwrap();
    tx.abandon();
    let told = crate::tx::terminate(&mut tx);
    assert_eq!((told.code.layer, told.code.etype), (0, 0));
    assert_eq!((told.header, told.read), (None, None));
    assert_eq!(tx.peek(128, &THERE), None);
    tx.release(u64::MAX);
    let failed = Completion {
        number: 0,
        status: Status::Failed,
    };
    assert_eq!((tx.complete(), tx.complete()), (Some(failed), None));
}

#[test]
fn write_without_its_immediate_data_is_flushed_once() {
    let mut tx = tx_half(1);
    tx.post(write_immediate(100, false)).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.commit().unwrap();
    tx.release(1);
    assert_eq!(tx.complete(), None);
    tx.fail(Fault::LOCAL);
    let flushed = Completion {
        number: 0,
        status: Status::Flushed,
    };
    assert_eq!((tx.complete(), tx.complete()), (Some(flushed), None));
    assert_eq!(opcodes(&drain(&mut tx, 128)), [7]);
}
