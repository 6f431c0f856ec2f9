// SPDX-License-Identifier: GPL-2.0

//! Atomic Requests of the peer, and Atomic Responses to those of this end (RFC 7306, section 5).

use rdmap::atomic::{Atomic, AtomicRequest, AtomicResponse};
use rdmap::fault::{Misuse, OffendingSegment};
use rdmap::header::Untagged;
use rdmap::order::Order;
use rdmap::rx::{Delivery, InboundRequest, Placement, Refusal, RxHalf, Wanted};
use rdmap::stag::{Range, Stag};

use crate::rx::{
    arrive, atomic_request, code, deliver, ordered, read_of, refused, reordered, request, tagged,
    undeliverable, untagged, ByStag, ADD_ONE,
};
use crate::Queues;

// Shows X5.2-1, X5.2-2, X5.2-6, X5.2-7, X5.2.2-1.
#[test]
fn atomic_requests_and_read_requests_share_numbers_and_ird() {
    let mut rx = ordered();
    let segments = [request(1, read_of(9, 10)), atomic_request(2, &ADD_ONE)];
    for segment in &segments {
        assert_eq!(arrive(&mut rx, (), segment), Ok(Placement::Nothing));
    }
    let wanted = [Wanted::Read(read_of(9, 10)), Wanted::Atomic(ADD_ONE)];
    for (number, wanted) in (0..).zip(wanted) {
        let segment = &segments[usize::try_from(number).unwrap()];
        let due = InboundRequest {
            number,
            wanted,
            offending: OffendingSegment::of(segment, segment.len()),
        };
        assert_eq!(deliver(&mut rx), Some(Delivery::Request(due)));
    }
    rx.free_inbound(0).unwrap();
    arrive(&mut rx, (), &atomic_request(3, &ADD_ONE)).unwrap();
    let more = [1, 2, 3].map(|msn| atomic_request(msn, &ADD_ONE));
    assert_eq!(refused(&more), (1, 2, 2));
    let mixed = [
        request(1, read_of(9, 1)),
        atomic_request(2, &ADD_ONE),
        request(3, read_of(9, 1)),
    ];
    assert_eq!(refused(&mixed), (1, 2, 2));
    let twice = [1, 1].map(|msn| atomic_request(msn, &ADD_ONE));
    assert_eq!(refused(&twice), (1, 2, 3));
}

// Shows X4.1-4, X5.2.2-4, X8.2-1.
#[test]
fn atomic_messages_have_their_length_and_their_queue() {
    let whole = atomic_request(1, &ADD_ONE);
    assert_eq!(whole.len(), 70);
    for length in [18, 19, 46, 69] {
        assert_eq!(refused(&[whole[..length].to_vec()]), (0, 2, 0xff));
    }
    let long = [&whole[..], &[0]].concat();
    assert_eq!(refused(&[long]), (1, 2, 5));
    let more = untagged(Untagged::AtomicRequest, 1, 0, false, &whole[18..]);
    assert_eq!(refused(&[more]), (1, 2, 5));
    let late = untagged(Untagged::AtomicRequest, 1, 52, true, &whole[18..]);
    assert_eq!(refused(&[late]), (1, 2, 4));
    // Each opcode on each queue that is not its own.
    for (opcode, queue) in [
        (0x48, 0),
        (0x49, 0),
        (0x4a, 1),
        (0x4b, 3),
        (0x43, 0),
        (0x41, 1),
    ] {
        for other in (0..4).filter(|other| *other != queue) {
            let mut wrong = whole.clone();
            (wrong[1], wrong[9]) = (opcode, other);
            assert_eq!(refused(&[wrong]), (0, 2, 6), "{opcode:#x} {other}");
        }
        let mut wrong = whole.clone();
        (wrong[1], wrong[9]) = (opcode, 4);
        assert_eq!(refused(&[wrong]), (1, 2, 1));
        let mut wrong = whole.clone();
        (wrong[0], wrong[1]) = (0xc1, opcode);
        assert_eq!(refused(&[wrong]), (0, 2, 6));
        let mut wrong = whole.clone();
        (wrong[1], wrong[9]) = (opcode & 0x0f, queue);
        assert_eq!(refused(&[wrong]), (0, 2, 5));
    }
}

// Shows X5.2-4.
#[test]
fn other_operation_codes_stand_for_nothing() {
    for operation in (0..16).filter(|operation| ![0, 2].contains(operation)) {
        let mut segment = atomic_request(1, &ADD_ONE);
        segment[21] = operation;
        assert_eq!(refused(&[segment]), (0, 2, 6));
    }
}

// Shows X5.2-8.
#[test]
fn reserved_bits_of_an_atomic_request_are_ignored() {
    let mut segment = atomic_request(1, &ADD_ONE);
    segment[18..22].copy_from_slice(&[0xff, 0xff, 0xff, 0xf0]);
    // What a FetchAdd compares is ignored as well.
    segment[54..].fill(0x5a);
    let mut rx = ordered();
    arrive(&mut rx, (), &segment).unwrap();
    let Some(Delivery::Request(delivered)) = deliver(&mut rx) else {
        panic!("it is not delivered");
    };
    assert_eq!(delivered.wanted, Wanted::Atomic(ADD_ONE));
}

/// The codes are those of a Read Request's source.
// Shows X5.1-3, X8.2-2.
#[test]
fn memory_of_an_atomic_operation_is_checked_at_delivery() {
    for (stag, expected) in [(0, 0), (1, 3), (2, 4), (3, 1), (4, 2)] {
        let at = AtomicRequest {
            stag: Stag(stag),
            ..ADD_ONE
        };
        let fault = undeliverable(&[atomic_request(1, &at)]);
        assert_eq!(code(fault), (0, 1, expected));
    }
    for offset in 1..8 {
        let at = AtomicRequest {
            offset: 0x1000 + offset,
            ..ADD_ONE
        };
        let fault = undeliverable(&[atomic_request(1, &at)]);
        assert_eq!(code(fault), (0, 2, 7));
    }
    let aligned = AtomicRequest {
        offset: 0x1008,
        operation: Atomic::CmpSwap {
            swap: 1,
            swap_mask: 2,
            compare: 3,
            compare_mask: 4,
        },
        ..ADD_ONE
    };
    let mut rx = ordered();
    arrive(&mut rx, (), &atomic_request(1, &aligned)).unwrap();
    let delivered = deliver(&mut rx);
    let Some(Delivery::Request(InboundRequest { wanted, .. })) = delivered else {
        panic!("{delivered:?}");
    };
    assert_eq!(wanted, Wanted::Atomic(aligned));
}

fn response(msn: u32, identifier: u32, original: u64) -> Vec<u8> {
    let payload = AtomicResponse {
        identifier,
        original,
    };
    let payload = payload.emit();
    untagged(Untagged::AtomicResponse, msn, 0, true, payload.as_slice())
}

fn done(request: u64, original: u64) -> Option<Delivery> {
    Some(Delivery::AtomicDone { request, original })
}

const SINK: Range = Range {
    stag: Stag(50),
    offset: 0,
    length: 4,
};

/// A stream with a Read and an atomic operation outstanding: requests 3 and 5.
fn asking<O: Order>(mut rx: RxHalf<O, Queues>) -> RxHalf<O, Queues> {
    rx.expect(3, SINK, false).unwrap();
    rx.expect_atomic(5).unwrap();
    // The LLP did not take it: it is offered again.
    rx.expect_atomic(5).unwrap();
    rx
}

fn octets() -> Vec<u8> {
    tagged(true, 50, 0, true, &[1; 4])
}

// Shows X5.2.2-2, X5.2.2-3, X5.2.2-5, X5.2.2-6.
#[test]
fn response_is_that_of_the_atomic_operation_with_its_number() {
    let mut rx = asking(ordered());
    // ORD is two, for both kinds.
    assert_eq!(rx.expect_atomic(6), Err(Misuse::Full));
    arrive(&mut rx, (), &octets()).unwrap();
    assert!(matches!(
        deliver(&mut rx),
        Some(Delivery::ReadDone { read: 3, .. })
    ));
    arrive(&mut rx, (), &response(1, 5, 77)).unwrap();
    assert_eq!(deliver(&mut rx), done(5, 77));
    for (number, msn) in [(6, 2), (9, 3)] {
        rx.expect_atomic(number).unwrap();
        let identifier = u32::try_from(number).unwrap();
        arrive(&mut rx, (), &response(msn, identifier, 1)).unwrap();
        assert_eq!(deliver(&mut rx), done(number, 1));
    }
}

fn refusal<O: Order>(rx: &mut RxHalf<O, Queues>, key: O::Key, segment: &[u8]) -> (u8, u8, u8) {
    match arrive(rx, key, segment) {
        Err(Refusal::Fault(fault)) => code(fault),
        other => panic!("{other:?}"),
    }
}

// Shows X5.2.2-4.
#[test]
fn response_that_answers_nothing_is_refused() {
    // None is outstanding, or another one, or it was there already.
    assert_eq!(refused(&[response(1, 0, 7)]), (1, 2, 2));
    assert_eq!(refused(&[response(0, 0, 7)]), (1, 2, 3));
    let answered = || {
        let mut rx = asking(ordered());
        arrive(&mut rx, (), &octets()).unwrap();
        deliver(&mut rx).unwrap();
        rx
    };
    let refusal = |segment: Vec<u8>| refusal(&mut answered(), (), &segment);
    assert_eq!(refusal(response(2, 5, 7)), (1, 2, 2));
    assert_eq!(refusal(response(0, 5, 7)), (1, 2, 3));
    assert_eq!(refusal(response(1, 6, 7)), (0, 2, 7));
    let whole = response(1, 5, 7);
    assert_eq!(whole.len(), 30);
    assert_eq!(refusal(whole[..29].to_vec()), (0, 2, 0xff));
    assert_eq!(refusal([&whole[..], &[0; 20]].concat()), (1, 2, 5));
    let mut rx = answered();
    arrive(&mut rx, (), &whole).unwrap();
    assert_eq!(self::refusal(&mut rx, (), &whole), (1, 2, 3));
    // It was delivered.
    let mut rx = answered();
    arrive(&mut rx, (), &whole).unwrap();
    assert_eq!(deliver(&mut rx), done(5, 7));
    assert_eq!(self::refusal(&mut rx, (), &whole), (1, 2, 3));
}

// Shows X5.2.2-5.
#[test]
fn responses_come_in_the_order_of_the_requests() {
    // Over a layer that keeps the order, that of the older request is still to come.
    let mut rx = asking(ordered());
    assert_eq!(refusal(&mut rx, (), &response(1, 5, 7)), (1, 2, 2));
    let mut rx = ordered();
    rx.expect_atomic(5).unwrap();
    rx.expect(6, SINK, false).unwrap();
    assert_eq!(refusal(&mut rx, (), &octets()), (0, 2, 6));
    // Where segments may overtake, it waits.
    let mut rx = asking(reordered());
    arrive(&mut rx, 1, &response(1, 5, 7)).unwrap();
    assert_eq!(deliver(&mut rx), None);
    arrive(&mut rx, 0, &octets()).unwrap();
    assert!(matches!(deliver(&mut rx), Some(Delivery::ReadDone { .. })));
    assert_eq!(deliver(&mut rx), done(5, 7));
    // Of two, the later one was sent first.
    let mut rx = reordered();
    rx.expect_atomic(5).unwrap();
    rx.expect_atomic(6).unwrap();
    arrive(&mut rx, 1, &response(1, 5, 7)).unwrap();
    arrive(&mut rx, 0, &response(2, 6, 8)).unwrap();
    assert_eq!(deliver(&mut rx), done(5, 7));
    assert_eq!(code(rx.deliver(&ByStag).unwrap_err()), (1, 2, 3));
}

// Shows X5.4-2.
#[test]
fn atomic_request_waits_for_what_was_sent_before() {
    let mut rx = reordered();
    arrive(&mut rx, 1, &atomic_request(1, &ADD_ONE)).unwrap();
    assert_eq!(deliver(&mut rx), None);
    arrive(&mut rx, 0, &tagged(false, 9, 0, true, &[1])).unwrap();
    assert!(matches!(deliver(&mut rx), Some(Delivery::Request(_))));
}

/// The peer answers a request that the LLP has not taken yet; it is offered again.
// Shows X5.2.2-4.
#[test]
fn response_that_is_too_early_is_the_only_one() {
    let mut rx = ordered();
    rx.expect_atomic(5).unwrap();
    arrive(&mut rx, (), &response(1, 5, 7)).unwrap();
    assert_eq!(deliver(&mut rx), done(5, 7));
    rx.expect_atomic(5).unwrap();
    assert_eq!(refusal(&mut rx, (), &response(2, 5, 8)), (1, 2, 2));
    // So it is with a Read.
    let mut rx = ordered();
    rx.expect(5, SINK, false).unwrap();
    arrive(&mut rx, (), &octets()).unwrap();
    assert!(matches!(deliver(&mut rx), Some(Delivery::ReadDone { .. })));
    rx.expect(5, SINK, false).unwrap();
    assert_eq!(refusal(&mut rx, (), &octets()), (0, 2, 6));
}

/// It would be carried out once more.
// Shows X5.2-2.
#[test]
fn atomic_request_that_comes_again_is_refused_also_after_its_answer() {
    let mut rx = ordered();
    arrive(&mut rx, (), &atomic_request(1, &ADD_ONE)).unwrap();
    deliver(&mut rx).unwrap();
    rx.free_inbound(0).unwrap();
    let again = atomic_request(1, &ADD_ONE);
    assert_eq!(refusal(&mut rx, (), &again), (1, 2, 3));
    let mut rx = reordered();
    arrive(&mut rx, 1, &atomic_request(2, &ADD_ONE)).unwrap();
    arrive(&mut rx, 0, &atomic_request(1, &ADD_ONE)).unwrap();
    deliver(&mut rx).unwrap();
    deliver(&mut rx).unwrap();
    rx.free_inbound(1).unwrap();
    assert_eq!(refusal(&mut rx, 2, &again), (1, 2, 3));
}
