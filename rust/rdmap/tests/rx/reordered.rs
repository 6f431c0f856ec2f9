// SPDX-License-Identifier: GPL-2.0

//! Segments that arrive out of order: placed at once, delivered in the order of the sender.

use rdmap::order::{Invalid, Order};
use rdmap::rx::{Delivery, InboundRequest, Placement, Refusal, Wanted};
use rdmap::stag::{Range, Stag};

use crate::rx::{
    arrive, atomic_request, code, deliver, immediate, read_of, reordered, request, send, tagged,
    terminate, ByStag, ADD_ONE,
};

// Shows P3.1-9, P5.5-3, P5.5-7, P5.5-9, P5.5-14, P5.5-15, S10-2, D-7, X5.4-2, X6.3-3, X7-1, X7-2.
#[test]
fn nothing_overtakes_in_delivery() {
    // As it was sent: Write, Send, Immediate Data, Read Request, Atomic Request, Terminate.
    let segments = [
        tagged(false, 9, 0, true, &[1]),
        send(1, 0, true, &[1]),
        immediate(2, false, &[1; 8]),
        request(1, read_of(9, 0)),
        atomic_request(2, &ADD_ONE),
        terminate(1, &[0x10, 0, 0, 0]),
    ];
    for order in permutations(segments.len()) {
        let mut rx = reordered();
        let mut delivered = Vec::new();
        let mut arrived = [false; 6];
        for at in order {
            let key = u16::try_from(at).unwrap();
            arrive(&mut rx, key, &segments[at]).unwrap();
            arrived[at] = true;
            while let Some(delivery) = deliver(&mut rx) {
                let seq = match delivery {
                    Delivery::Message { .. } => 1,
                    Delivery::Immediate { .. } => 2,
                    Delivery::Request(InboundRequest {
                        wanted: Wanted::Read(_),
                        ..
                    }) => 3,
                    Delivery::Request(_) => 4,
                    Delivery::Terminate(_) => 5,
                    Delivery::ReadDone { .. } | Delivery::AtomicDone { .. } => {
                        panic!("nothing was asked for")
                    }
                };
                assert!(arrived[..=seq].iter().all(|arrived| *arrived));
                delivered.push(seq);
            }
        }
        assert_eq!(delivered, [1, 2, 3, 4, 5]);
    }
}

fn permutations(length: usize) -> Vec<Vec<usize>> {
    match length {
        0 => vec![Vec::new()],
        _ => permutations(length - 1)
            .into_iter()
            .flat_map(|shorter| {
                (0..length).map(move |at| {
                    let mut longer = shorter.clone();
                    longer.insert(at, length - 1);
                    longer
                })
            })
            .collect(),
    }
}

// Shows P3.1-5, P5.5-14, D-7.
#[test]
fn segments_of_one_message_come_in_any_order() {
    let segments = [
        send(1, 0, false, &[1; 40]),
        send(1, 40, false, &[1; 40]),
        send(1, 80, true, &[1; 5]),
    ];
    for order in permutations(segments.len()) {
        let mut rx = reordered();
        for (count, at) in order.into_iter().enumerate() {
            assert_eq!(deliver(&mut rx), None, "after {count} segments");
            arrive(&mut rx, u16::try_from(at).unwrap(), &segments[at]).unwrap();
        }
        let whole = deliver(&mut rx);
        assert!(matches!(whole, Some(Delivery::Message { length: 85, .. })));
    }
}

// Shows P7-2, D-10.
#[test]
fn what_came_before_a_fault_is_delivered() {
    let mut rx = reordered();
    arrive(&mut rx, 0, &send(1, 0, true, &[1])).unwrap();
    let wrong = arrive(&mut rx, 2, &tagged(false, 0, 0, true, &[1]));
    assert!(matches!(wrong, Err(Refusal::Fault(_))));
    assert!(matches!(deliver(&mut rx), Some(Delivery::Message { .. })));
    assert_eq!(deliver(&mut rx), None);
}

#[test]
fn what_waits_for_a_dropped_segment_is_not_delivered() {
    let mut rx = reordered();
    // The Write that is sent first comes last, when the stream has failed, and is dropped.
    arrive(&mut rx, 1, &send(1, 0, true, &[1])).unwrap();
    assert!(arrive(&mut rx, 2, &tagged(false, 0, 0, true, &[1])).is_err());
    let late = arrive(&mut rx, 0, &tagged(false, 9, 0, true, &[1]));
    assert_eq!((late, deliver(&mut rx)), (Ok(Placement::Nothing), None));
    // Its number counts all the same.
    assert_eq!(rx.order().in_order_upto(), 3);
}

/// The memory was revoked between the check and the copy.
#[test]
fn nothing_is_delivered_behind_octets_that_could_not_be_moved() {
    let segments = [
        send(1, 0, true, &[1]),
        tagged(false, 9, 0, true, &[1]),
        send(2, 0, true, &[1]),
    ];
    for order in permutations(segments.len()) {
        let mut rx = reordered();
        let mut lost = false;
        for at in order {
            let (key, segment) = (u16::try_from(at).unwrap(), &segments[at]);
            let place = rx.segment(key, segment, segment.len(), &ByStag).unwrap();
            match place {
                Placement::Write(_) => {
                    lost = true;
                    rx.not_placed();
                }
                _ => {
                    assert_eq!(lost, place == Placement::Nothing);
                    rx.placed();
                }
            }
            while let Some(delivery) = deliver(&mut rx) {
                assert!(matches!(delivery, Delivery::Message { receive: 0, .. }));
            }
        }
        // Their numbers count all the same.
        assert_eq!(rx.order().in_order_upto(), 3);
    }
}

#[test]
fn numbers_that_cannot_be_end_the_session() {
    let mut rx = reordered();
    arrive(&mut rx, 0, &send(1, 0, true, &[1])).unwrap();
    let again = arrive(&mut rx, 0, &send(2, 0, true, &[1]));
    assert_eq!(again, Err(Refusal::Order(Invalid::Repeated)));
    let far = arrive(&mut reordered(), 32_767, &send(1, 0, true, &[1]));
    assert_eq!(far, Err(Refusal::Order(Invalid::Window)));
}

/// The peer sent a Send and two responses, the second one in two segments.
// Shows P5.5-8.
#[test]
fn responses_are_delivered_in_order() {
    let range = |stag, length| Range {
        stag: Stag(stag),
        offset: 0,
        length,
    };
    let segments = [
        send(1, 0, true, &[1]),
        tagged(true, 60, 0, true, &[1]),
        tagged(true, 61, 0, false, &[1]),
        tagged(true, 61, 1, true, &[1]),
    ];
    for order in permutations(segments.len()) {
        let mut rx = reordered();
        rx.expect(1, range(60, 1), false).unwrap();
        rx.expect(2, range(61, 2), false).unwrap();
        let mut delivered = Vec::new();
        let mut arrived = [false; 4];
        for at in order {
            arrive(&mut rx, u16::try_from(at).unwrap(), &segments[at]).unwrap();
            arrived[at] = true;
            while let Some(delivery) = deliver(&mut rx) {
                let seq = match delivery {
                    Delivery::Message { .. } => 0,
                    Delivery::ReadDone { read: 1, .. } => 1,
                    Delivery::ReadDone { .. } => 3,
                    other => panic!("{other:?}"),
                };
                assert!(arrived[..=seq].iter().all(|arrived| *arrived));
                delivered.push(seq);
            }
        }
        assert_eq!(delivered, [0, 1, 3]);
    }
}

// Shows P5.5-1.
#[test]
fn streams_do_not_wait_for_each_other() {
    let (mut one, mut other) = (reordered(), reordered());
    arrive(&mut one, 1, &send(2, 0, true, &[1])).unwrap();
    assert_eq!(deliver(&mut one), None);
    arrive(&mut other, 0, &send(1, 0, true, &[1])).unwrap();
    assert!(deliver(&mut other).is_some());
    arrive(&mut one, 0, &send(1, 0, true, &[1])).unwrap();
    assert!(deliver(&mut one).is_some() && deliver(&mut one).is_some());
}

/// The destination of an empty response decides as well.
#[test]
fn empty_response_is_that_of_the_read_whose_place_it_names() {
    let range = |offset, length| Range {
        stag: Stag(60),
        offset,
        length,
    };
    let mut rx = reordered();
    rx.expect(1, range(0, 0), false).unwrap();
    rx.expect(2, range(10, 1), false).unwrap();
    // The second response ends with a segment of no octets.
    arrive(&mut rx, 2, &tagged(true, 60, 11, true, &[])).unwrap();
    arrive(&mut rx, 1, &tagged(true, 60, 10, false, &[1])).unwrap();
    assert_eq!(deliver(&mut rx), None);
    arrive(&mut rx, 0, &tagged(true, 60, 0, true, &[])).unwrap();
    for expected in [1, 2] {
        let delivered = deliver(&mut rx);
        assert!(matches!(delivered, Some(Delivery::ReadDone { read, .. }) if read == expected));
    }
    let mut rx = reordered();
    rx.expect(1, range(0, 0), false).unwrap();
    let elsewhere = arrive(&mut rx, 0, &tagged(true, 60, 1, true, &[]));
    assert!(matches!(elsewhere, Err(Refusal::Fault(_))));
}

/// Returns the code with which the last of these segments, of the responses to two Reads of two
/// octets, is refused.
fn response_fails(segments: &[(u16, Vec<u8>)]) -> (u8, u8, u8) {
    let mut rx = reordered();
    for (read, stag) in [(1, 60), (2, 61)] {
        let range = Range {
            stag: Stag(stag),
            offset: 0,
            length: 2,
        };
        rx.expect(read, range, false).unwrap();
    }
    let ((last_key, last), before) = segments.split_last().unwrap();
    for (key, segment) in before {
        arrive(&mut rx, *key, segment).unwrap();
    }
    match arrive(&mut rx, *last_key, last) {
        Err(Refusal::Fault(fault)) => code(fault),
        other => panic!("{other:?}"),
    }
}

#[test]
fn response_that_ended_has_no_other_end_and_a_whole_one_no_other_octets() {
    let end = tagged(true, 60, 1, true, &[1]);
    let other_end = tagged(true, 60, 0, true, &[1]);
    // No Read is left with that STag: an invalid one.
    assert_eq!(
        response_fails(&[(1, end.clone()), (0, other_end)]),
        (1, 1, 0)
    );
    let begin = tagged(true, 60, 0, false, &[1]);
    let again = [(1, end), (0, begin.clone()), (2, begin)];
    assert_eq!(response_fails(&again), (1, 1, 0));
}

#[test]
fn response_beside_its_sink_is_out_of_bounds_whatever_other_reads_there_are() {
    for stag in [60, 61] {
        let beside = tagged(true, stag, 2, false, &[1]);
        assert_eq!(response_fails(&[(0, beside)]), (1, 1, 1));
    }
    let elsewhere = tagged(true, 62, 2, false, &[1]);
    assert_eq!(response_fails(&[(0, elsewhere)]), (1, 1, 0));
}
