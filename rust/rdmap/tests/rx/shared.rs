// SPDX-License-Identifier: GPL-2.0

//! Tests: Receives that are posted when a message needs one, as from a shared receive queue.

use crate::rx::arrive;
use crate::rx::deliver;
use crate::rx::immediate;
use crate::rx::ordered;
use crate::rx::read_of;
use crate::rx::refused;
use crate::rx::reordered;
use crate::rx::request;
use crate::rx::send;
use crate::rx::tagged;
use crate::rx::terminate;

/// Two Receives are posted, and there is room for four.
#[test]
fn segment_wants_the_receives_up_to_its_own() {
    let rx = reordered();
    for (msn, wanted) in [
        (1, 0),
        (2, 0),
        (3, 1),
        (4, 2),
        (5, 0),
        (0, 0),
        (u32::MAX, 0),
        (1 << 31, 0),
    ] {
        let part = send(msn, 0, false, &[1]);
        assert_eq!(rx.receives_wanted(&part), wanted, "{msn}");
        assert_eq!(rx.receives_wanted(&immediate(msn, false, &[0; 8])), wanted);
    }
}

#[test]
fn message_that_skips_others_in_order_wants_none() {
    let rx = ordered();
    let wanted = [2, 3, 4].map(|msn| rx.receives_wanted(&send(msn, 0, true, &[1])));
    assert_eq!(wanted, [0, 1, 0]);
}

#[test]
fn delivered_messages_make_room() {
    let mut rx = ordered();
    for msn in 1..20 {
        let segment = send(msn, 0, true, &[1]);
        let expected = u64::from(msn > 2);
        assert_eq!(rx.receives_wanted(&segment), expected, "{msn}");
        if msn > 2 {
            rx.post_receive(100).unwrap();
        }
        arrive(&mut rx, (), &segment).unwrap();
        assert!(deliver(&mut rx).is_some());
    }
    // Messages that have begun hold theirs.
    for msn in 20..24 {
        let part = send(msn, 0, false, &[1]);
        assert_eq!(rx.receives_wanted(&part), 1);
        rx.post_receive(100).unwrap();
        arrive(&mut rx, (), &part).unwrap();
    }
    assert_eq!(rx.receives_wanted(&send(24, 0, false, &[1])), 0);
    assert_eq!(rx.receives_wanted(&send(20, 1, true, &[1])), 0);
}

#[test]
fn other_segments_want_none() {
    let rx = ordered();
    for segment in [
        vec![],
        vec![0x41],
        tagged(false, 9, 0, true, &[1]),
        request(3, read_of(9, 1)),
        terminate(3, &[0; 4]),
        // A version that is not known.
        [&[0x40], &send(3, 0, true, &[1])[1..]].concat(),
    ] {
        assert_eq!(rx.receives_wanted(&segment), 0, "{segment:?}");
    }
}

#[test]
fn stream_that_failed_or_is_closed_wants_none() {
    let message = send(3, 0, true, &[1]);
    let mut rx = ordered();
    assert_eq!(rx.receives_wanted(&message), 1);
    assert!(arrive(&mut rx, (), &send(9, 0, true, &[1])).is_err());
    assert_eq!(rx.receives_wanted(&message), 0);
    let mut rx = ordered();
    let _ = rx.close();
    assert_eq!(rx.receives_wanted(&message), 0);
}

/// For which none was left.
#[test]
fn message_without_its_receive_is_refused() {
    assert_eq!(refused(&[send(3, 0, true, &[1])]), (1, 2, 2));
}
