// SPDX-License-Identifier: GPL-2.0

//! Tests of the transmit half alone: cutting of messages, scheduling, and the time of completions.

mod atomics;
mod ending;
mod immediate;
mod refused;

use proptest::collection::vec;
use proptest::prelude::*;
use rdmap::atomic::Atomic;
use rdmap::fault::{Fault, Misuse, OffendingSegment};
use rdmap::header::{Header, Model, ReadRequest, Untagged};
use rdmap::mpa::frame;
use rdmap::order::InOrder;
use rdmap::rx::{Closed, HashKey, InboundRequest, RxHalf, Wanted};
use rdmap::stag::{Access, Denied, Memory, Range, Stag};
use rdmap::terminate::Terminate;
use rdmap::tx::{Completion, Operation, Outgoing, Payload, Posted, Request, Status, TxHalf};

use crate::Queues;

/// Memory that exists, or existed.
struct All(Result<(), Denied>);

impl Memory for All {
    fn check(&self, _: Range, _: Access) -> Result<(), Denied> {
        self.0
    }

    fn update(&self, _: Range, _: Atomic) -> Result<u64, Denied> {
        self.0.map(|()| 7)
    }

    fn invalidate(&self, _: Stag) -> Result<(), Denied> {
        self.0
    }
}

const THERE: All = All(Ok(()));

pub fn tx_half(ord: u16) -> TxHalf<Queues> {
    tx_half_over(ord, true)
}

fn tx_half_over(ord: u16, in_order: bool) -> TxHalf<Queues> {
    let responses = vec![InboundRequest::default(); 4];
    TxHalf::new(vec![Posted::EMPTY; 8], responses, ord, in_order)
}

/// Returns the proof that the receive half of a stream is closed.
fn closed() -> Closed {
    let mut rx = RxHalf::<_, Queues>::new(InOrder::new(), HashKey(0, 0), vec![], vec![], vec![]);
    rx.close().unwrap()
}

fn send(length: u32) -> Request {
    Request {
        operation: Operation::Send {
            length,
            solicited: false,
            invalidate: None,
        },
        fence: false,
    }
}

fn write(length: u32, offset: u64) -> Request {
    Request {
        operation: Operation::Write(Range {
            stag: Stag(5),
            offset,
            length,
        }),
        fence: false,
    }
}

pub fn read(length: u32) -> Request {
    Request {
        operation: Operation::Read(ReadRequest {
            length,
            sink_stag: Stag(1),
            source_stag: Stag(2),
            ..ReadRequest::default()
        }),
        fence: false,
    }
}

fn fenced(request: Request) -> Request {
    Request {
        fence: true,
        ..request
    }
}

fn inbound_read(length: u32, sink_offset: u64) -> InboundRequest {
    InboundRequest {
        number: 0,
        wanted: Wanted::Read(ReadRequest {
            sink_stag: Stag(0xa59d_8500),
            sink_offset,
            length,
            source_stag: Stag(7),
            source_offset: 100,
        }),
        offending: OffendingSegment::of(&[0x41; 18], 46),
    }
}

/// A segment: its header, and the length of its payload.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    header: Header,
    octets: u32,
}

impl Seen {
    fn of(outgoing: &Outgoing) -> Self {
        let (header, payload) = match outgoing {
            Outgoing::Segment {
                header, payload, ..
            } => (header, payload),
            Outgoing::Read { header, .. } | Outgoing::Atomic { header, .. } => {
                (header, &Payload::None)
            }
            Outgoing::Local(_) => panic!("it is no segment"),
        };
        let (header, _) = Header::parse(header.as_slice()).unwrap();
        let octets = match payload {
            Payload::None => 0,
            Payload::Request { length, .. } => *length,
            Payload::Response(range) => range.length,
        };
        Self { header, octets }
    }
}

/// Returns everything that is sent now.
fn drain(tx: &mut TxHalf<Queues>, mulpdu: u32) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(outgoing) = tx.peek(mulpdu, &THERE) {
        let segment = Seen::of(&outgoing);
        tx.commit().unwrap();
        seen.push(segment);
    }
    seen
}

fn offsets(seen: &[Seen]) -> Vec<(u64, u32, bool)> {
    seen.iter()
        .map(|seen| {
            let offset = match seen.header.model {
                Model::Tagged { offset, .. } => offset,
                Model::Untagged { offset, .. } => u64::from(offset),
            };
            (offset, seen.octets, seen.header.last)
        })
        .collect()
}

fn opcodes(seen: &[Seen]) -> Vec<u8> {
    seen.iter()
        .map(|seen| seen.header.opcode().code())
        .collect()
}

/// A capture with an MTU of 1500 and TCP time stamps.
// Shows GV-05, P4.4-3, P5.2.2-1, P5.2.2-7, D-3.
#[test]
fn gv05_read_response_of_1500_octets() {
    let mulpdu = frame::mulpdu(1448, false);
    assert_eq!(mulpdu, 1442);
    let mut tx = tx_half(1);
    tx.respond(inbound_read(1500, 0x1_0000)).unwrap();
    let seen = drain(&mut tx, mulpdu);
    let expected = [(0x1_0000, 1428, false), (0x1_0000 + 0x594, 72, true)];
    assert_eq!(offsets(&seen), expected);
    for segment in &seen {
        let Model::Tagged { response, stag, .. } = segment.header.model else {
            panic!("{segment:?}");
        };
        assert!(response);
        assert_eq!(stag, Stag(0xa59d_8500));
    }
}

/// RFC 5041, section 5.2.
// Shows GV-06, P3.1-4, P5.1-1, P5.1-7, D-2.
#[test]
fn gv06_two_kib_in_segments_of_1500() {
    let mut tx = tx_half(1);
    tx.post(send(2048)).unwrap();
    tx.post(write(2048, 16_384)).unwrap();
    let seen = drain(&mut tx, 1500);
    let expected = [
        (0, 1482, false),
        (1482, 566, true),
        (16_384, 1486, false),
        (17_870, 562, true),
    ];
    assert_eq!(offsets(&seen), expected);
}

// Shows P5.1-8, P5.2.1-8, P5.2.1-12, P5.3-9, D-5.
#[test]
fn message_of_no_octets_is_one_segment() {
    let mut tx = tx_half(1);
    for request in [send(0), write(0, 9), read(0)] {
        tx.post(request).unwrap();
    }
    tx.respond(inbound_read(0, 3)).unwrap();
    let seen = drain(&mut tx, 128);
    assert_eq!(opcodes(&seen), [2, 3, 0, 1]);
    assert!(seen.iter().all(|seen| seen.octets == 0 && seen.header.last));
}

// Shows P3.1-3, D-3.
#[test]
fn each_queue_counts_its_messages() {
    let mut tx = tx_half(4);
    for request in [send(1), read(1), write(1, 0), send(1), read(1), send(300)] {
        tx.post(request).unwrap();
    }
    let seen = drain(&mut tx, 128);
    let numbers: Vec<_> = seen
        .iter()
        .filter_map(|seen| match seen.header.model {
            Model::Untagged { message, msn, .. } => Some((message.queue().number(), msn)),
            Model::Tagged { .. } => None,
        })
        .collect();
    let expected = [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (0, 3), (0, 3)];
    assert_eq!(numbers, expected);
}

proptest! {
    #![proptest_config(crate::seeds_beside_tests())]

    // Shows P3.1-4, P4.4-4, P5.1-4, D-2, D-4, D-6, D-12.
    #[test]
    fn segments_cover_a_message_once_whatever_the_size_does(
        length in 0..5000_u32, offset: u64, sizes in vec((128..1500_u32, any::<bool>()), 1..8), tagged: bool,
    ) {
        let mut tx = tx_half(1);
        tx.post(if tagged { write(length, offset) } else { send(length) }).unwrap();
        let start = if tagged { offset } else { 0 };
        let mut covered = 0;
        for (mut size, refused) in sizes.into_iter().cycle() {
            let mut outgoing = tx.peek(size, &THERE).unwrap();
            if refused {
                // The LLP did not take it: it is cut anew.
                size = 128;
                outgoing = tx.peek(size, &THERE).unwrap();
            }
            let seen = Seen::of(&outgoing);
            let [(at, octets, last)] = offsets(&[seen])[..] else { panic!() };
            prop_assert_eq!(at, start.wrapping_add(u64::from(covered)));
            let header_len = if tagged { 14 } else { 18 };
            prop_assert!(octets + header_len <= size);
            covered += octets;
            tx.commit().unwrap();
            prop_assert_eq!(last, covered == length);
            if last {
                break;
            }
        }
        prop_assert_eq!(tx.peek(128, &THERE), None);
    }
}

// Shows P6.1-3, P6.1-4, P8.1.1-11.
#[test]
fn reads_wait_for_ord_and_hold_up_what_follows() {
    let mut tx = tx_half(2);
    for request in [read(1), read(1), read(1), send(1)] {
        tx.post(request).unwrap();
    }
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1, 1]);
    tx.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1, 3]);
    assert_eq!(tx.done(0), Err(Misuse::Unknown));
    assert_eq!(tx.done(3), Err(Misuse::Unknown));
    let mut none = self::tx_half(0);
    assert_eq!(none.post(read(1)), Err(Misuse::NoReads));
}

fn read_to(offset: u64, length: u32) -> Request {
    let mut request = read(length);
    if let Operation::Read(read) = &mut request.operation {
        read.sink_offset = offset;
    }
    request
}

/// The destination identifies segments that come in any order.
#[test]
fn reads_whose_sinks_overlap_wait_for_each_other_where_segments_do_not_keep_their_order() {
    let requests = [read_to(100, 10), read_to(110, 10), read_to(105, 1), send(1)];
    for (in_order, expected) in [(true, vec![1, 1, 1, 3]), (false, vec![1, 1])] {
        let mut tx = tx_half_over(4, in_order);
        for request in requests {
            tx.post(request).unwrap();
        }
        assert_eq!(opcodes(&drain(&mut tx, 128)), expected);
        tx.done(1).unwrap();
        assert_eq!(opcodes(&drain(&mut tx, 128)), []);
        tx.done(0).unwrap();
        let rest = if in_order { vec![] } else { vec![1, 3] };
        assert_eq!(opcodes(&drain(&mut tx, 128)), rest);
    }
}

// Shows P5.5-10.
#[test]
fn fence_waits_for_all_reads() {
    let mut tx = tx_half(4);
    for request in [read(1), read(1), fenced(send(1)), write(1, 0)] {
        tx.post(request).unwrap();
    }
    assert_eq!(opcodes(&drain(&mut tx, 128)), [1, 1]);
    tx.done(1).unwrap();
    assert!(drain(&mut tx, 128).is_empty());
    tx.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [3, 0]);
}

// Shows P5.5-13.
#[test]
fn completions_keep_the_order_of_posting() {
    let mut tx = tx_half(4);
    for request in [send(1), read(1), send(1), write(1, 0)] {
        tx.post(request).unwrap();
    }
    drain(&mut tx, 128);
    assert_eq!(tx.complete(), None);
    tx.release(4);
    let success = |number| {
        Some(Completion {
            number,
            status: Status::Success,
        })
    };
    assert_eq!(tx.complete(), success(0));
    // The Send behind the Read waits for it.
    assert_eq!(tx.complete(), None);
    tx.done(1).unwrap();
    assert_eq!(tx.complete(), success(1));
    assert_eq!(tx.complete(), success(2));
    assert_eq!(tx.complete(), success(3));
    assert_eq!(tx.complete(), None);
}

// Shows P5.5-12.
#[test]
fn send_is_complete_when_its_last_segment_is_taken() {
    let mut tx = tx_half(1);
    tx.post(send(300)).unwrap();
    drain(&mut tx, 128);
    tx.release(2);
    assert_eq!(tx.complete(), None);
    tx.release(99);
    assert!(tx.complete().is_some());
}

#[test]
fn local_operations_hold_up_what_follows_until_they_are_done() {
    let mut tx = tx_half(1);
    let local = Request {
        operation: Operation::Local,
        fence: false,
    };
    tx.post(local).unwrap();
    tx.post(send(1)).unwrap();
    assert_eq!(tx.done(0), Err(Misuse::Unknown));
    assert_eq!(tx.peek(128, &THERE), Some(Outgoing::Local(0)));
    tx.commit().unwrap();
    assert_eq!(tx.peek(128, &THERE), None);
    // Answers go on.
    tx.respond(inbound_read(1, 0)).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [2]);
    assert_eq!(tx.complete(), None);
    tx.done(0).unwrap();
    assert_eq!(opcodes(&drain(&mut tx, 128)), [3]);
    assert!(tx.complete().is_some());
}

#[test]
fn responses_and_requests_alternate_between_messages() {
    let mut tx = tx_half(1);
    for _ in 0..3 {
        tx.post(send(200)).unwrap();
        tx.respond(inbound_read(200, 0)).unwrap();
    }
    let expected = [2, 2, 3, 3, 2, 2, 3, 3, 2, 2, 3, 3];
    assert_eq!(opcodes(&drain(&mut tx, 128)), expected);
}

#[test]
fn responses_are_owed_until_they_are_committed_or_cannot_be() {
    let mut tx = tx_half(1);
    assert!(!tx.owes_responses());
    tx.respond(inbound_read(1500, 0)).unwrap();
    for _ in 0..2 {
        assert!(tx.owes_responses());
        tx.peek(1014, &THERE).unwrap();
        assert!(tx.owes_responses());
        tx.commit().unwrap();
    }
    assert!(!tx.owes_responses());
    tx.respond(inbound_read(1, 0)).unwrap();
    tx.fail(Fault::LOCAL);
    assert!(!tx.owes_responses());
}

// Shows P5.2.1-6, P5.2.2-5, P5.5-18.
#[test]
fn responses_keep_the_order_of_the_requests() {
    let mut tx = tx_half(1);
    for offset in [10, 20, 30] {
        tx.respond(inbound_read(1, offset)).unwrap();
    }
    let seen = drain(&mut tx, 128);
    let order: Vec<_> = offsets(&seen).into_iter().map(|(at, ..)| at).collect();
    assert_eq!(order, [10, 20, 30]);
}

/// Returns the payload of the Terminate that is sent next.
pub fn terminate(tx: &mut TxHalf<Queues>) -> Terminate {
    let Some(Outgoing::Segment { header, .. }) = tx.peek(128, &THERE) else {
        panic!("there is none");
    };
    assert!(header.len() <= 70);
    tx.commit().unwrap();
    let (parsed, payload) = Header::parse(header.as_slice()).unwrap();
    let model = Model::Untagged {
        message: Untagged::Terminate,
        msn: 1,
        offset: 0,
    };
    assert_eq!(parsed, Header { last: true, model });
    Terminate::parse(payload).unwrap()
}
