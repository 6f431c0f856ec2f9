// SPDX-License-Identifier: GPL-2.0

//! Read Requests of the peer, and responses to Reads of this end.

use rdmap::fault::{Misuse, OffendingSegment};
use rdmap::header::Untagged;
use rdmap::order::{InOrder, Order};
use rdmap::rx::{
    Delivery, HashKey, InboundRequest, Outstanding, Placement, Refusal, RxHalf, Wanted,
};
use rdmap::stag::{Range, Stag};
use rdmap::terminate::Terminate;
use rdmap::tx::Outgoing;

use crate::rx::{
    arrive, as_tagged, code, deliver, ordered, read_of, refused, reordered, request, tagged,
    undeliverable, untagged, ByStag, Ordered,
};
use crate::Queues;

// Shows P5.2.1-2, P5.2.2-2, P6.1-2, P6.1-5, P8.1.1-11.
#[test]
fn read_requests_are_answered_up_to_ird() {
    let mut rx = ordered();
    for msn in [1, 2] {
        let place = arrive(&mut rx, (), &request(msn, read_of(9, 10)));
        assert_eq!(place, Ok(Placement::Nothing));
        assert!(matches!(deliver(&mut rx), Some(Delivery::Request(_))));
    }
    rx.free_inbound(0).unwrap();
    arrive(&mut rx, (), &request(3, read_of(9, 10))).unwrap();
    // It is not delivered yet.
    assert_eq!(rx.free_inbound(2), Err(Misuse::Unknown));
    let third = InboundRequest {
        number: 2,
        wanted: Wanted::Read(read_of(9, 10)),
        offending: OffendingSegment::of(&request(3, read_of(9, 10)), 46),
    };
    assert_eq!(deliver(&mut rx), Some(Delivery::Request(third)));
    // The last segment of a response may be offered twice.
    for number in [1, 1, 2, 1] {
        rx.free_inbound(number).unwrap();
    }
    assert_eq!(rx.free_inbound(3), Err(Misuse::Unknown));
    let three = [1, 2, 3].map(|msn| request(msn, read_of(9, 10)));
    assert_eq!(refused(&three), (1, 2, 2));
    let twice = [1, 1].map(|msn| request(msn, read_of(9, 10)));
    assert_eq!(refused(&twice), (1, 2, 3));
}

// Shows P4.2-1, P5.2.1-4.
#[test]
fn read_request_has_its_length() {
    let whole = request(1, read_of(9, 1));
    let long = [&whole[..], &[0]].concat();
    assert_eq!(refused(&[long]), (1, 2, 5));
    assert_eq!(refused(&[whole[..45].to_vec()]), (0, 2, 0xff));
    let more = untagged(Untagged::ReadRequest, 1, 0, false, &whole[18..]);
    assert_eq!(refused(&[more]), (1, 2, 5));
    let late = untagged(Untagged::ReadRequest, 1, 28, true, &whole[18..]);
    assert_eq!(refused(&[late]), (1, 2, 4));
}

// Shows P3.2-5, P5.2.1-4, P5.2.1-10, P5.2.1-11, P7.1-4, P7.2-7a, P7.2-7b, P7.2-7c, P7.2-7d,
// P7.2-7e, P7.2-7f.
#[test]
fn read_source_is_checked_at_delivery() {
    for (stag, expected) in [(0, 0), (1, 3), (2, 4), (3, 1), (4, 2)] {
        let read = read_of(stag, 10);
        let fault = undeliverable(&[request(1, read)]);
        assert_eq!(code(fault), (0, 1, expected));
        assert_eq!(Terminate::new(&fault).read, Some(read));
        // The STag of a Read of no octets is not checked, and there is a response.
        let mut rx = ordered();
        arrive(&mut rx, (), &request(1, read_of(stag, 0))).unwrap();
        assert!(matches!(deliver(&mut rx), Some(Delivery::Request(_))));
    }
}

fn with_read(length: u32) -> Ordered {
    let mut rx = ordered();
    let range = Range {
        stag: Stag(50),
        offset: 1000,
        length,
    };
    rx.expect(7, range, true).unwrap();
    rx
}

fn response_fails(length: u32, segment: Vec<u8>) -> (u8, u8, u8) {
    match arrive(&mut with_read(length), (), &segment) {
        Err(Refusal::Fault(fault)) => code(fault),
        other => panic!("{other:?}"),
    }
}

// Shows P5.2.2-4, P5.2.2-6, P7.1-3.
#[test]
fn response_lies_in_the_sink_of_its_read() {
    assert_eq!(refused(&[tagged(true, 50, 1000, true, &[1])]), (0, 2, 6));
    assert_eq!(
        response_fails(10, tagged(true, 51, 1000, true, &[1])),
        (1, 1, 0)
    );
    assert_eq!(
        response_fails(10, tagged(true, 50, 999, true, &[1])),
        (1, 1, 1)
    );
    assert_eq!(
        response_fails(10, tagged(true, 50, 1010, true, &[1])),
        (1, 1, 1)
    );
    assert_eq!(
        response_fails(10, tagged(true, 50, 1000, true, &[1; 11])),
        (1, 1, 1)
    );
    assert_eq!(
        response_fails(0, tagged(true, 50, 1000, true, &[1])),
        (1, 1, 1)
    );
    assert_eq!(
        response_fails(10, tagged(true, 50, u64::MAX, true, &[1])),
        (1, 1, 1)
    );
}

// Shows P5.2.2-5.
#[test]
fn responses_keep_the_order_of_the_requests_where_segments_do() {
    fn respond_to_second<O: Order>(
        mut rx: RxHalf<O, Queues>,
        key: O::Key,
    ) -> Result<Placement, Refusal> {
        let range = |stag| Range {
            stag: Stag(stag),
            offset: 0,
            length: 1,
        };
        rx.expect(1, range(60), false).unwrap();
        rx.expect(2, range(61), false).unwrap();
        arrive(&mut rx, key, &tagged(true, 61, 0, true, &[1]))
    }
    let Err(Refusal::Fault(fault)) = respond_to_second(ordered(), ()) else {
        panic!("the second Read is answered first");
    };
    assert_eq!(code(fault), (1, 1, 0));
    let place = respond_to_second(reordered(), 1);
    assert!(matches!(place, Ok(Placement::Response { read: 2, .. })));
}

/// The first response is too short, which is found when it is delivered.
#[test]
fn segment_behind_the_end_of_a_response_is_of_the_next() {
    let range = |stag| Range {
        stag: Stag(stag),
        offset: 0,
        length: 2,
    };
    let mut rx = ordered();
    rx.expect(1, range(60), false).unwrap();
    rx.expect(2, range(61), false).unwrap();
    arrive(&mut rx, (), &tagged(true, 60, 0, true, &[1])).unwrap();
    let place = arrive(&mut rx, (), &tagged(true, 61, 0, false, &[1]));
    assert!(matches!(place, Ok(Placement::Response { read: 2, .. })));
    assert_eq!(rx.deliver(&ByStag).map_err(code), Err((1, 1, 1)));
}

// Shows P5.2.2-4.
#[test]
fn sink_that_was_invalidated_is_not_written() {
    for (stag, expected) in [(0, 0), (1, 2), (3, 1)] {
        let mut rx = ordered();
        let range = Range {
            stag: Stag(stag),
            offset: 0,
            length: 1,
        };
        rx.expect(1, range, false).unwrap();
        let place = arrive(&mut rx, (), &tagged(true, stag, 0, true, &[1]));
        let Err(Refusal::Fault(fault)) = place else {
            panic!("{place:?}");
        };
        assert_eq!(code(fault), (1, 1, expected));
    }
}

// Shows P5.2.2-3, P5.2.2-4, P5.2.2-6, P5.5-17.
#[test]
fn response_must_be_complete() {
    let mut rx = with_read(10);
    arrive(&mut rx, (), &tagged(true, 50, 1000, false, &[1; 5])).unwrap();
    assert_eq!(deliver(&mut rx), None);
    arrive(&mut rx, (), &tagged(true, 50, 1005, true, &[1; 5])).unwrap();
    let done = Delivery::ReadDone {
        read: 7,
        to_invalidate: Some(Stag(50)),
    };
    assert_eq!(deliver(&mut rx), Some(done));
    let mut rx = with_read(10);
    arrive(&mut rx, (), &tagged(true, 50, 1000, true, &[1; 5])).unwrap();
    assert_eq!(rx.deliver(&ByStag).map_err(code), Err((1, 1, 1)));
    // The same half twice.
    let mut rx = with_read(10);
    arrive(&mut rx, (), &tagged(true, 50, 1000, false, &[1; 5])).unwrap();
    arrive(&mut rx, (), &tagged(true, 50, 1000, false, &[1; 5])).unwrap();
    arrive(&mut rx, (), &tagged(true, 50, 1010, true, &[])).unwrap();
    assert_eq!(rx.deliver(&ByStag).map_err(code), Err((1, 1, 1)));
}

#[test]
fn response_of_no_octets_completes_its_read() {
    let mut rx = with_read(0);
    arrive(&mut rx, (), &tagged(true, 3, 5, true, &[])).unwrap();
    assert!(matches!(
        deliver(&mut rx),
        Some(Delivery::ReadDone { read: 7, .. })
    ));
}

/// With ORD 1, the request of the first Read is offered twice because the LLP does not take it at
/// once.
#[test]
fn read_that_is_offered_again_is_expected_once() {
    let range = |offset| Range {
        stag: Stag(9),
        offset,
        length: 4,
    };
    let mut rx = Ordered::new(
        InOrder::new(),
        HashKey(3, 4),
        vec![],
        vec![],
        vec![Outstanding::default(); 1],
    );
    let mut tx = crate::tx::tx_half(1);
    for (number, offset) in [(0, 100), (1, 200)] {
        tx.post(crate::tx::read(4)).unwrap();
        for _ in 0..2 {
            let next = tx.peek(128, &ByStag);
            assert!(matches!(next, Some(Outgoing::Read { number: shown, .. }) if shown == number));
            assert_eq!(rx.expect(number, range(offset), false), Ok(()));
        }
        tx.commit().unwrap();
        arrive(&mut rx, (), &tagged(true, 9, offset, true, &[1; 4])).unwrap();
        let done = Delivery::ReadDone {
            read: number,
            to_invalidate: None,
        };
        assert_eq!(deliver(&mut rx), Some(done));
        tx.done(number).unwrap();
    }
    assert_eq!(rx.expect(2, range(0), false), Ok(()));
    assert_eq!(rx.expect(3, range(0), false), Err(Misuse::Full));
}

// Shows P5.2.1-1.
#[test]
fn read_requests_are_in_queue_1() {
    let segment = request(1, read_of(9, 1));
    assert_eq!(segment[6..10], [0, 0, 0, 1]);
    let in_queue = |queue| {
        let mut segment = segment.clone();
        segment[9] = queue;
        refused(&[segment])
    };
    assert_eq!(in_queue(3), (0, 2, 6));
    assert_eq!(in_queue(4), (1, 2, 1));
    assert_eq!(in_queue(255), (1, 2, 1));
    assert_eq!(in_queue(0), (0, 2, 6));
    assert_eq!(in_queue(2), (0, 2, 6));
    assert_eq!(refused(&[as_tagged(segment.clone())]), (0, 2, 6));
}
