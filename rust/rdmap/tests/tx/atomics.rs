// SPDX-License-Identifier: GPL-2.0

//! Atomic Requests of this end, and Atomic Responses to the peer's (RFC 7306, section 5).

use std::cell::Cell;

use rdmap::atomic::{Atomic, AtomicRequest, AtomicResponse};
use rdmap::fault::{Misuse, OffendingSegment};
use rdmap::header::Header;
use rdmap::rx::{InboundRequest, Wanted};
use rdmap::stag::{Access, Denied, Memory, Range, Stag};
use rdmap::tx::{Completion, Operation, Outgoing, Request, Status};

use crate::tx::{
    drain, fenced, inbound_read, opcodes, read, send, tx_half, tx_half_over, write, All, THERE,
};

const ADD: Atomic = Atomic::FetchAdd { add: 3, mask: 0 };

fn atomic() -> Request {
    Request {
        operation: Operation::Atomic {
            stag: Stag(2),
            offset: 0x1_0000_0008,
            operation: ADD,
        },
        fence: false,
    }
}

// Shows X5.2-1, X5.2-5, X5.2-8.
#[test]
fn atomic_requests_count_with_read_requests() {
    let mut tx = tx_half(4);
    for request in [read(1), atomic(), send(1), atomic(), read(1)] {
        tx.post(request).unwrap();
    }
    let mut numbers = Vec::new();
    while let Some(outgoing) = tx.peek(128, &THERE) {
        let header = match outgoing {
            Outgoing::Read { header, .. } | Outgoing::Segment { header, .. } => header,
            Outgoing::Atomic { number, header } => {
                let payload = &header.as_slice()[18..];
                let found = AtomicRequest::parse(payload, 52).unwrap();
                let due = AtomicRequest {
                    identifier: u32::try_from(number).unwrap(),
                    stag: Stag(2),
                    offset: 0x1_0000_0008,
                    operation: ADD,
                };
                assert_eq!((header.len(), found), (70, due));
                header
            }
            Outgoing::Local(_) => panic!("it is no segment"),
        };
        let octets = header.as_slice();
        numbers.push((octets[1], octets[9], octets[13]));
        tx.commit().unwrap();
    }
    let expected = [
        (0x41, 1, 1),
        (0x4a, 1, 2),
        (0x43, 0, 1),
        (0x4a, 1, 3),
        (0x41, 1, 4),
    ];
    assert_eq!(numbers, expected);
}

// Shows X5.2-1, X5.2.2-2.
#[test]
fn atomic_operations_wait_for_ord_and_fences_for_them() {
    let mut tx = tx_half(2);
    for request in [atomic(), read(1), atomic(), fenced(send(1))] {
        tx.post(request).unwrap();
    }
    assert_eq!(opcodes(&drain(&mut tx, 128)), [10, 1]);
    tx.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [10]);
    tx.done(1).unwrap();
    assert!(drain(&mut tx, 128).is_empty());
    tx.done(2).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [3]);
    assert_eq!(tx_half(0).post(atomic()), Err(Misuse::NoReads));
}

/// A Read is searched for among those that are outstanding, which are not all Reads.
#[test]
fn atomic_operation_hides_no_read_with_the_same_destination() {
    let mut tx = tx_half_over(4, false);
    for request in [read(10), atomic(), atomic(), read(10)] {
        tx.post(request).unwrap();
    }
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1, 10, 10]);
    tx.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1]);
}

// Shows X5.4-1, X5.4-3.
#[test]
fn atomic_operation_is_complete_when_its_response_was_delivered() {
    let mut tx = tx_half(1);
    for request in [atomic(), write(1, 0), send(1)] {
        tx.post(request).unwrap();
    }
    // What follows does not wait, but completes behind it.
    assert_eq!(opcodes(&drain(&mut tx, 128)), [10, 0, 3]);
    tx.release(3);
    assert_eq!(tx.complete(), None);
    tx.done(0).unwrap();
    for number in 0..3 {
        let success = Completion {
            number,
            status: Status::Success,
        };
        assert_eq!(tx.complete(), Some(success));
    }
    // The response was faster than the context that sends.
    let mut tx = tx_half(1);
    tx.post(atomic()).unwrap();
    tx.peek(128, &THERE).unwrap();
    tx.done(0).unwrap();
    assert_eq!(tx.complete(), None);
    tx.commit().unwrap();
    tx.release(1);
    assert!(tx.complete().is_some());
    assert_eq!(tx.done(0), Err(Misuse::Unknown));
}

/// Memory that counts the operations on it.
struct Counter(Cell<u64>);

impl Memory for Counter {
    fn check(&self, _: Range, _: Access) -> Result<(), Denied> {
        Ok(())
    }

    fn update(&self, target: Range, operation: Atomic) -> Result<u64, Denied> {
        assert_eq!(target.length, 8);
        let original = self.0.get();
        self.0.set(operation.apply(original));
        Ok(original)
    }

    fn invalidate(&self, _: Stag) -> Result<(), Denied> {
        Ok(())
    }
}

fn inbound_atomic(number: u64) -> InboundRequest {
    InboundRequest {
        number,
        wanted: Wanted::Atomic(AtomicRequest {
            identifier: 0xfedc_ba98,
            stag: Stag(7),
            offset: 16,
            operation: ADD,
        }),
        offending: OffendingSegment::of(&[0x41; 18], 70),
    }
}

/// Returns the segment that is offered next, which ends a response.
fn response(outgoing: Option<Outgoing>) -> Vec<u8> {
    let Some(Outgoing::Segment {
        header,
        last_of_response: Some(_),
        ..
    }) = outgoing
    else {
        panic!("{outgoing:?}");
    };
    header.as_slice().to_vec()
}

// Shows X5.2-7, X5.2-8, X5.2.2-6, X7-4.
#[test]
fn atomic_operation_is_carried_out_once_when_its_response_has_its_turn() {
    let memory = Counter(Cell::new(100));
    let mut tx = tx_half(1);
    tx.respond(inbound_atomic(0)).unwrap();
    tx.respond(inbound_atomic(1)).unwrap();
    assert!(tx.owes_responses());
    assert_eq!(memory.0.get(), 100);
    for (msn, original) in [(1, 100), (2, 103)] {
        // The LLP has no space, then it has.
        let mut offered = Vec::new();
        for mulpdu in [128, 1500, 200] {
            offered = response(tx.peek(mulpdu, &memory));
            assert_eq!(memory.0.get(), original + 3);
        }
        assert_eq!(offered.len(), 30);
        assert_eq!(offered[..2], [0x41, 0x4b]);
        assert_eq!((offered[9], offered[13]), (3, msn));
        let found = AtomicResponse::parse(&offered[18..], 12);
        let due = AtomicResponse {
            identifier: 0xfedc_ba98,
            original,
        };
        assert_eq!(found, Ok(due));
        tx.commit().unwrap();
    }
    assert!(!tx.owes_responses());
}

// Shows X5.2-6, X5.2.2-5, X7-3.
#[test]
fn responses_of_both_kinds_keep_the_order_of_the_requests() {
    let memory = Counter(Cell::new(0));
    let mut tx = tx_half(1);
    tx.respond(inbound_read(200, 0)).unwrap();
    tx.respond(inbound_atomic(1)).unwrap();
    tx.respond(inbound_read(1, 0)).unwrap();
    let mut seen = Vec::new();
    while let Some(outgoing) = tx.peek(128, &memory) {
        let Outgoing::Segment { header, .. } = outgoing else {
            panic!("{outgoing:?}");
        };
        let (header, _) = Header::parse(header.as_slice()).unwrap();
        // The operation is behind the whole response before it, and before the one behind it.
        seen.push((header.opcode().code(), memory.0.get()));
        tx.commit().unwrap();
    }
    assert_eq!(seen, [(2, 0), (2, 0), (11, 3), (2, 3)]);
}

// Shows X8.1-2.
#[test]
fn atomic_operation_whose_memory_has_gone_has_no_response() {
    let mut tx = tx_half(1);
    tx.respond(inbound_atomic(0)).unwrap();
    let gone = All(Err(Denied::Invalid));
    let Some(Outgoing::Segment {
        last_of_response: None,
        ..
    }) = tx.peek(128, &gone)
    else {
        panic!("a Terminate is due");
    };
    let told = crate::tx::terminate(&mut tx);
    let code = told.code;
    assert_eq!((code.layer, code.etype, code.code), (0, 1, 0));
    assert_eq!(told.segment_length, Some(70));
    assert!(told.header.is_some() && told.read.is_none());
}

/// The memory for the result has gone while the request was on its way.
#[test]
fn atomic_operation_whose_result_is_lost_fails() {
    let mut tx = tx_half(1);
    tx.post(atomic()).unwrap();
    tx.post(send(1)).unwrap();
    drain(&mut tx, 128);
    tx.release(2);
    tx.done(0).unwrap();
    tx.spoil(0);
    for (number, status) in [(0, Status::Failed), (1, Status::Flushed)] {
        assert_eq!(tx.complete(), Some(Completion { number, status }));
    }
    let told = crate::tx::terminate(&mut tx);
    assert_eq!((told.code.layer, told.code.etype), (0, 0));
}
