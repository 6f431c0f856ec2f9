// SPDX-License-Identifier: GPL-2.0

//! Sends to the receive half: the Receive of each segment, and the completeness of messages.

use rdmap::rx::{Delivery, Placement, Refusal};
use rdmap::stag::Stag;
use rdmap::terminate::Terminate;

use crate::rx::{
    arrive, as_tagged, code, deliver, invalidating, ordered, refused, send, undeliverable,
    untagged, ByStag,
};

// Shows P3.1-7, P5.3-2, P5.3-4, P5.3-7, P7.1-5, P7.2-1, D-9, D-10.
#[test]
fn send_needs_a_receive_of_its_length() {
    assert_eq!(refused(&[send(3, 0, true, &[1])]), (1, 2, 2));
    assert_eq!(refused(&[send(0, 0, true, &[1])]), (1, 2, 3));
    assert_eq!(refused(&[send(u32::MAX, 0, true, &[1])]), (1, 2, 3));
    assert_eq!(refused(&[send(1, 0, true, &[1; 101])]), (1, 2, 5));
    assert_eq!(refused(&[send(1, 99, true, &[1, 2])]), (1, 2, 5));
    assert_eq!(refused(&[send(1, 101, true, &[1])]), (1, 2, 4));
    assert_eq!(refused(&[send(1, u32::MAX, true, &[1, 2])]), (1, 2, 4));
}

// Shows P5.3-7.
#[test]
fn segments_of_a_send_do_not_run_over() {
    let first = send(1, 0, true, &[1; 10]);
    assert_eq!(
        refused(&[first.clone(), send(1, 10, false, &[1])]),
        (1, 2, 4)
    );
    assert_eq!(
        refused(&[first.clone(), send(1, 0, true, &[1; 10])]),
        (1, 2, 4)
    );
    assert_eq!(refused(&[send(1, 20, false, &[1]), first]), (1, 2, 4));
    // Few octets, of which one is behind the last segment.
    assert_eq!(
        refused(&[send(1, 20, false, &[1]), send(1, 9, true, &[1])]),
        (1, 2, 4)
    );
}

// Shows D-7, D-9.
#[test]
fn used_up_message_number_is_out_of_range() {
    let mut rx = ordered();
    arrive(&mut rx, (), &send(1, 0, true, &[1])).unwrap();
    assert!(deliver(&mut rx).is_some());
    let Err(Refusal::Fault(fault)) = arrive(&mut rx, (), &send(1, 0, true, &[1])) else {
        panic!("it is placed twice");
    };
    assert_eq!(code(fault), (1, 2, 3));
}

// Shows P3.1-5, P3.2-2, P5.3-2, D-8.
#[test]
fn every_send_uses_up_a_receive() {
    let mut rx = ordered();
    assert_eq!(
        arrive(&mut rx, (), &send(1, 0, true, &[])),
        Ok(Placement::Nothing)
    );
    let message = |receive, length| Delivery::Message {
        receive,
        length,
        solicited: false,
        invalidated: None,
    };
    assert_eq!(deliver(&mut rx), Some(message(0, 0)));
    let place = arrive(&mut rx, (), &send(2, 0, true, &[5; 7]));
    let expected = Placement::Receive {
        receive: 1,
        offset: 0,
        length: 7,
    };
    assert_eq!(place, Ok(expected));
    assert_eq!(deliver(&mut rx), Some(message(1, 7)));
    assert_eq!(deliver(&mut rx), None);
}

// Shows P5.3-7.
#[test]
fn message_that_is_not_whole_is_not_delivered() {
    let twice = [
        send(1, 0, false, &[1; 50]),
        send(1, 0, false, &[1; 50]),
        send(1, 100, true, &[]),
    ];
    assert_eq!(code(undeliverable(&twice)), (1, 2, 4));
    let gap = [send(1, 0, false, &[1; 10]), send(1, 20, true, &[1; 10])];
    assert_eq!(code(undeliverable(&gap)), (1, 2, 4));
    // Messages of a queue do not overtake one another.
    let overtaking = [
        send(1, 0, false, &[1; 10]),
        send(2, 0, true, &[1; 10]),
        send(1, 10, true, &[1; 10]),
    ];
    assert_eq!(code(undeliverable(&overtaking)), (1, 2, 3));
}

// Shows P3.2-2, P5.3-11, P5.3-12, P7.2-4, P7.2-5.
#[test]
fn invalidation_happens_at_delivery_or_ends_the_stream() {
    let mut rx = ordered();
    arrive(&mut rx, (), &untagged(invalidating(9), 1, 0, true, &[1])).unwrap();
    let expected = Delivery::Message {
        receive: 0,
        length: 1,
        solicited: true,
        invalidated: Some(Stag(9)),
    };
    assert_eq!(deliver(&mut rx), Some(expected));
    for (stag, expected) in [(0, (0, 2, 9)), (1, (0, 1, 9)), (5, (0, 1, 9))] {
        let fault = undeliverable(&[untagged(invalidating(stag), 1, 0, true, &[1])]);
        assert_eq!(code(fault), expected);
        let terminate = Terminate::new(&fault);
        assert!(terminate.header.is_some());
        assert_eq!(terminate.read, None);
    }
}

#[test]
fn receive_of_a_send_that_fails_comes_back() {
    let mut rx = ordered();
    arrive(&mut rx, (), &untagged(invalidating(0), 1, 0, true, &[1])).unwrap();
    assert_eq!(rx.flush(), None);
    assert!(rx.deliver(&ByStag).is_err());
    assert_eq!((rx.flush(), rx.flush()), (Some(0), Some(1)));
    assert_eq!(rx.flush(), None);
}

// Shows P5.5-14.
#[test]
fn nothing_is_delivered_before_its_octets_are_placed() {
    let mut rx = ordered();
    let segment = send(1, 0, true, &[1]);
    rx.segment((), &segment, segment.len(), &ByStag).unwrap();
    assert_eq!(deliver(&mut rx), None);
    rx.placed();
    assert!(deliver(&mut rx).is_some());
}

#[test]
fn more_receives_can_be_posted_as_others_are_used() {
    let mut rx = ordered();
    for msn in 1..=1000 {
        arrive(&mut rx, (), &send(msn, 0, true, &[1])).unwrap();
        let Some(Delivery::Message { receive, .. }) = deliver(&mut rx) else {
            panic!("{msn} is not delivered");
        };
        assert_eq!(receive, u64::from(msn - 1));
        rx.post_receive(100).unwrap();
    }
}

/// Octets 6 to 10 are the queue number.
// Shows P5.3-1.
#[test]
fn sends_are_in_queue_0() {
    let segment = send(1, 0, true, &[1]);
    assert_eq!(segment[6..10], [0; 4]);
    let in_queue = |queue| {
        let mut segment = segment.clone();
        segment[9] = queue;
        refused(&[segment])
    };
    assert_eq!(in_queue(3), (0, 2, 6));
    assert_eq!(in_queue(4), (1, 2, 1));
    assert_eq!(in_queue(255), (1, 2, 1));
    assert_eq!(in_queue(1), (0, 2, 6));
    assert_eq!(in_queue(2), (0, 2, 6));
    assert_eq!(refused(&[as_tagged(segment.clone())]), (0, 2, 6));
}
