// SPDX-License-Identifier: GPL-2.0

//! Read Requests of the peer, and responses to Reads of this end.

use rdmap::fault::Culprit;
use rdmap::fault::Misuse;
use rdmap::header::Untagged;
use rdmap::order::Arrival;
use rdmap::order::Order;
use rdmap::sink::Answer;
use rdmap::sink::Delivery;
use rdmap::sink::Key;
use rdmap::sink::Outstanding;
use rdmap::sink::Place;
use rdmap::sink::Refusal;
use rdmap::sink::Sink;
use rdmap::source::Outgoing;
use rdmap::stag::Range;
use rdmap::stag::Stag;
use rdmap::terminate::Terminate;

use crate::sink::arrive;
use crate::sink::as_tagged;
use crate::sink::code;
use crate::sink::deliver;
use crate::sink::ordered;
use crate::sink::read_of;
use crate::sink::refused;
use crate::sink::reordered;
use crate::sink::request;
use crate::sink::tagged;
use crate::sink::undeliverable;
use crate::sink::untagged;
use crate::sink::Answers;
use crate::sink::Ordered;
use crate::sink::Queues;

#[test]
fn read_requests_are_answered_up_to_ird() {
    let mut sink = ordered();
    for msn in [1, 2] {
        let place = arrive(&mut sink, (), &request(msn, read_of(9, 10)));
        assert_eq!(place, Ok(Place::Nothing));
        assert!(matches!(deliver(&mut sink), Some(Delivery::Answer(_))));
    }
    sink.answered(0).unwrap();
    arrive(&mut sink, (), &request(3, read_of(9, 10))).unwrap();
    // It is not delivered yet.
    assert_eq!(sink.answered(2), Err(Misuse::Unknown));
    let third = Answer {
        number: 2,
        request: read_of(9, 10),
        culprit: Culprit::of(&request(3, read_of(9, 10)), 46),
    };
    assert_eq!(deliver(&mut sink), Some(Delivery::Answer(third)));
    // The last segment of a response may be offered twice.
    for number in [1, 1, 2, 1] {
        sink.answered(number).unwrap();
    }
    assert_eq!(sink.answered(3), Err(Misuse::Unknown));
    let three = [1, 2, 3].map(|msn| request(msn, read_of(9, 10)));
    assert_eq!(refused(&three), (1, 2, 2));
    let twice = [1, 1].map(|msn| request(msn, read_of(9, 10)));
    assert_eq!(refused(&twice), (1, 2, 3));
}

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

#[test]
fn read_source_is_checked_at_delivery() {
    for (stag, expected) in [(0, 0), (1, 3), (2, 4), (3, 1), (4, 2)] {
        let read = read_of(stag, 10);
        let fault = undeliverable(&[request(1, read)]);
        assert_eq!(code(fault), (0, 1, expected));
        assert_eq!(Terminate::new(&fault).read, Some(read));
        // The STag of a Read of no octets is not checked, and there is a response.
        let mut sink = ordered();
        arrive(&mut sink, (), &request(1, read_of(stag, 0))).unwrap();
        assert!(matches!(deliver(&mut sink), Some(Delivery::Answer(_))));
    }
}

fn with_read(length: u32) -> Ordered {
    let mut sink = ordered();
    let range = Range {
        stag: Stag(50),
        offset: 1000,
        length,
    };
    sink.expect(7, range, true).unwrap();
    sink
}

fn response_fails(length: u32, segment: Vec<u8>) -> (u8, u8, u8) {
    match arrive(&mut with_read(length), (), &segment) {
        Err(Refusal::Fault(fault)) => code(fault),
        other => panic!("{other:?}"),
    }
}

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

#[test]
fn responses_keep_the_order_of_the_requests_where_segments_do() {
    fn answered<O: Order>(mut sink: Sink<O, Queues>, key: O::Key) -> Result<Place, Refusal> {
        let range = |stag| Range {
            stag: Stag(stag),
            offset: 0,
            length: 1,
        };
        sink.expect(1, range(60), false).unwrap();
        sink.expect(2, range(61), false).unwrap();
        arrive(&mut sink, key, &tagged(true, 61, 0, true, &[1]))
    }
    let Err(Refusal::Fault(fault)) = answered(ordered(), ()) else {
        panic!("the second Read is answered first");
    };
    assert_eq!(code(fault), (1, 1, 0));
    let place = answered(reordered(), 1);
    assert!(matches!(place, Ok(Place::Response { read: 2, .. })));
}

/// The first response is too short, which is found when it is delivered.
#[test]
fn segment_behind_the_end_of_a_response_is_of_the_next() {
    let range = |stag| Range {
        stag: Stag(stag),
        offset: 0,
        length: 2,
    };
    let mut sink = ordered();
    sink.expect(1, range(60), false).unwrap();
    sink.expect(2, range(61), false).unwrap();
    arrive(&mut sink, (), &tagged(true, 60, 0, true, &[1])).unwrap();
    let place = arrive(&mut sink, (), &tagged(true, 61, 0, false, &[1]));
    assert!(matches!(place, Ok(Place::Response { read: 2, .. })));
    assert_eq!(sink.deliver(&Answers).map_err(code), Err((1, 1, 1)));
}

#[test]
fn sink_that_was_invalidated_is_not_written() {
    for (stag, expected) in [(0, 0), (1, 2), (3, 1)] {
        let mut sink = ordered();
        let range = Range {
            stag: Stag(stag),
            offset: 0,
            length: 1,
        };
        sink.expect(1, range, false).unwrap();
        let place = arrive(&mut sink, (), &tagged(true, stag, 0, true, &[1]));
        let Err(Refusal::Fault(fault)) = place else {
            panic!("{place:?}");
        };
        assert_eq!(code(fault), (1, 1, expected));
    }
}

#[test]
fn response_must_be_complete() {
    let mut sink = with_read(10);
    arrive(&mut sink, (), &tagged(true, 50, 1000, false, &[1; 5])).unwrap();
    assert_eq!(deliver(&mut sink), None);
    arrive(&mut sink, (), &tagged(true, 50, 1005, true, &[1; 5])).unwrap();
    let done = Delivery::ReadDone {
        read: 7,
        to_invalidate: Some(Stag(50)),
    };
    assert_eq!(deliver(&mut sink), Some(done));
    let mut sink = with_read(10);
    arrive(&mut sink, (), &tagged(true, 50, 1000, true, &[1; 5])).unwrap();
    assert_eq!(sink.deliver(&Answers).map_err(code), Err((1, 1, 1)));
    // The same half twice.
    let mut sink = with_read(10);
    arrive(&mut sink, (), &tagged(true, 50, 1000, false, &[1; 5])).unwrap();
    arrive(&mut sink, (), &tagged(true, 50, 1000, false, &[1; 5])).unwrap();
    arrive(&mut sink, (), &tagged(true, 50, 1010, true, &[])).unwrap();
    assert_eq!(sink.deliver(&Answers).map_err(code), Err((1, 1, 1)));
}

#[test]
fn response_of_no_octets_completes_its_read() {
    let mut sink = with_read(0);
    arrive(&mut sink, (), &tagged(true, 3, 5, true, &[])).unwrap();
    assert!(matches!(
        deliver(&mut sink),
        Some(Delivery::ReadDone { read: 7, .. })
    ));
}

/// With ORD 1, the request of the first Read is offered twice because the lower layer does not take
/// it at once.
#[test]
fn read_that_is_shown_again_is_expected_once() {
    let range = |offset| Range {
        stag: Stag(9),
        offset,
        length: 4,
    };
    let mut sink = Ordered::new(
        Arrival::new(),
        Key(3, 4),
        vec![],
        vec![],
        vec![Outstanding::default(); 1],
    );
    let mut source = crate::source::source(1);
    for (number, offset) in [(0, 100), (1, 200)] {
        source.post(crate::source::read(4)).unwrap();
        for _ in 0..2 {
            let next = source.next(128, &Answers);
            assert!(matches!(next, Some(Outgoing::Read { number: shown, .. }) if shown == number));
            assert_eq!(sink.expect(number, range(offset), false), Ok(()));
        }
        source.handed().unwrap();
        arrive(&mut sink, (), &tagged(true, 9, offset, true, &[1; 4])).unwrap();
        let done = Delivery::ReadDone {
            read: number,
            to_invalidate: None,
        };
        assert_eq!(deliver(&mut sink), Some(done));
        source.done(number).unwrap();
    }
    assert_eq!(sink.expect(2, range(0), false), Ok(()));
    assert_eq!(sink.expect(3, range(0), false), Err(Misuse::Full));
}

#[test]
fn read_requests_are_in_queue_1() {
    let segment = request(1, read_of(9, 1));
    assert_eq!(segment[6..10], [0, 0, 0, 1]);
    let in_queue = |queue| {
        let mut segment = segment.clone();
        segment[9] = queue;
        refused(&[segment])
    };
    assert_eq!(in_queue(3), (1, 2, 1));
    assert_eq!(in_queue(255), (1, 2, 1));
    assert_eq!(in_queue(0), (0, 2, 6));
    assert_eq!(in_queue(2), (0, 2, 6));
    assert_eq!(refused(&[as_tagged(segment.clone())]), (0, 2, 6));
}
