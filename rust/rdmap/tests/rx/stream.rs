// SPDX-License-Identifier: GPL-2.0

//! Writes, Terminates, and the end of a stream.

use std::cell::Cell;

use proptest::prelude::*;
use rdmap::atomic::Atomic;
use rdmap::fault::{Cause, Code};
use rdmap::header::Untagged;
use rdmap::order::Invalid;
use rdmap::rx::{Delivery, Placement, Refusal, HEAD_LEN};
use rdmap::stag::{Access, Denied, Memory, Range, Stag};

use crate::rx::{
    arrive, code, deliver, invalidating, ordered, read_of, refused, request, send, tagged,
    terminate, untagged, ByStag,
};

// Shows P3.2-4, P5.1-2, P5.1-3, P5.1-8, P7.1-3, P8.1.1-1, P8.1.1-2, S6-3, D-5, D-9.
#[test]
fn writes_are_checked_and_never_delivered() {
    let mut rx = ordered();
    let range = Range {
        stag: Stag(9),
        offset: 77,
        length: 3,
    };
    let place = arrive(&mut rx, (), &tagged(false, 9, 77, true, &[1; 3]));
    assert_eq!(place, Ok(Placement::Write(range)));
    assert_eq!(deliver(&mut rx), None);
    for (stag, expected) in [(0, 0), (1, 2), (2, 3), (3, 1), (4, 0)] {
        let write = tagged(false, stag, 0, true, &[1]);
        assert_eq!(refused(&[write]), (1, 1, expected));
        // The STag of a Write of no octets is not checked.
        let write = tagged(false, stag, 0, true, &[]);
        assert_eq!(arrive(&mut ordered(), (), &write), Ok(Placement::Nothing));
    }
}

// Shows P5.4-2, P5.4-3.
#[test]
fn terminate_is_delivered_and_is_the_last() {
    let mut rx = ordered();
    arrive(&mut rx, (), &send(1, 0, true, &[1])).unwrap();
    arrive(&mut rx, (), &terminate(1, &[0x10, 0, 0, 0])).unwrap();
    assert!(matches!(deliver(&mut rx), Some(Delivery::Message { .. })));
    let Some(Delivery::Terminate(told)) = deliver(&mut rx) else {
        panic!("it is not delivered");
    };
    assert_eq!(told.code, Code::new(1, 0, 0));
    let place = arrive(&mut rx, (), &send(2, 0, true, &[1]));
    assert_eq!((place, deliver(&mut rx)), (Ok(Placement::Nothing), None));
    assert_eq!((rx.flush(), rx.flush()), (Some(1), None));
}

/// 18 octets of header, a word, a length, 18 octets of a header and 28 of a Read Request (RFC 5040,
/// section 4.8).
#[test]
fn head_is_that_of_the_longest_terminate() {
    let read = read_of(9, 10);
    let mut payload = vec![0x01, 0x01, 0xe0, 0, 0, 46];
    payload.extend(request(1, read));
    let longest = terminate(1, &payload);
    assert_eq!((longest.len(), HEAD_LEN), (70, 70));
    let mut rx = ordered();
    rx.segment((), &longest[..HEAD_LEN], longest.len(), &ByStag)
        .unwrap();
    rx.placed();
    let Some(Delivery::Terminate(told)) = deliver(&mut rx) else {
        panic!("it is not delivered");
    };
    assert_eq!(told.read, Some(read));
}

// Shows P5.4-4.
#[test]
fn wrong_terminate_is_not_answered() {
    let wrong = [
        terminate(2, &[0x10, 0, 0, 0]),
        terminate(1, &[0x10, 0, 0]),
        untagged(Untagged::Terminate, 1, 4, true, &[0x10, 0, 0, 0]),
        untagged(Untagged::Terminate, 1, 0, false, &[0x10, 0, 0, 0]),
    ];
    for segment in wrong {
        let mut rx = ordered();
        let place = arrive(&mut rx, (), &segment);
        assert!(matches!(place, Err(Refusal::Terminate(_))), "{place:?}");
        assert_eq!(arrive(&mut rx, (), &segment), Ok(Placement::Nothing));
    }
}

#[test]
fn segment_that_lies_about_its_length_is_refused() {
    let mut rx = ordered();
    let segment = send(1, 0, true, &[1]);
    let place = rx.segment((), &segment, 10, &ByStag);
    assert!(matches!(place, Err(Refusal::Fault(_))));
}

#[test]
fn receive_is_not_given_back_while_octets_are_moved_to_it() {
    let mut rx = ordered();
    let segment = send(1, 0, true, &[1]);
    rx.segment((), &segment, segment.len(), &ByStag).unwrap();
    assert!(rx.close().is_none());
    assert_eq!(rx.flush(), None);
    rx.placed();
    assert!(rx.close().is_some());
    assert_eq!(rx.flush(), Some(0));
    assert_eq!(rx.flush(), Some(1));
    assert_eq!(rx.flush(), None);
}

#[test]
fn receive_is_given_back_whose_octets_could_not_be_moved() {
    let mut rx = ordered();
    let segment = send(1, 0, true, &[1]);
    rx.segment((), &segment, segment.len(), &ByStag).unwrap();
    rx.not_placed();
    assert_eq!((deliver(&mut rx), rx.flush()), (None, None));
    assert!(rx.close().is_some());
    assert_eq!((rx.flush(), rx.flush()), (Some(0), Some(1)));
    // The other context closes it meanwhile.
    let mut rx = ordered();
    rx.segment((), &segment, segment.len(), &ByStag).unwrap();
    assert!(rx.close().is_none());
    rx.not_placed();
    assert_eq!((deliver(&mut rx), rx.flush()), (None, Some(0)));
}

#[test]
fn segment_before_its_time_changes_nothing() {
    let mut rx = ordered();
    let segment = send(1, 0, true, &[1]);
    rx.segment((), &segment, segment.len(), &ByStag).unwrap();
    let busy = Err(Refusal::Order(Invalid::Busy));
    assert_eq!(rx.segment((), &segment, segment.len(), &ByStag), busy);
    rx.placed();
    assert!(deliver(&mut rx).is_some());
    let second = send(2, 0, true, &[1]);
    let place = arrive(&mut rx, (), &second);
    assert!(matches!(place, Ok(Placement::Receive { receive: 1, .. })));
}

#[test]
fn first_fault_is_the_peers() {
    let Err(Refusal::Fault(fault)) = arrive(&mut ordered(), (), &[0x41]) else {
        panic!("it is placed");
    };
    assert!(matches!(fault.cause, Cause::Peer(_)));
    assert_eq!(fault.offending, None);
}

// Shows P6.1-1.
#[test]
fn what_is_no_rdma_message_ends_the_stream() {
    let mut other_version = send(1, 0, true, &[1]);
    other_version[1] &= 0x3f;
    let mut other_ddp = send(1, 0, true, &[1]);
    other_ddp[0] ^= 3;
    let cases = [
        b"MPA ID Req Frame\x40\x01\x00\x00".to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
        other_version,
        other_ddp,
    ];
    for segment in cases {
        let mut rx = ordered();
        let place = arrive(&mut rx, (), &segment);
        assert!(matches!(place, Err(Refusal::Fault(_))), "{segment:?}");
        let good = send(1, 0, true, &[1]);
        assert_eq!(arrive(&mut rx, (), &good), Ok(Placement::Nothing));
        assert_eq!(deliver(&mut rx), None);
    }
}

/// Memory that exists until it is invalidated.
struct Once(Cell<bool>);

impl Memory for Once {
    fn check(&self, _: Range, _: Access) -> Result<(), Denied> {
        self.0.get().then_some(()).ok_or(Denied::Invalid)
    }

    fn update(&self, target: Range, _: Atomic) -> Result<u64, Denied> {
        self.check(target, Access::RemoteAtomic).map(|()| 0)
    }

    fn invalidate(&self, _: Stag) -> Result<(), Denied> {
        self.0.set(false);
        Ok(())
    }
}

proptest! {
    #![proptest_config(crate::seeds_beside_tests())]

    /// The peer revokes access with a Send, or this end does.
    // Shows P8.1.1-6.
    #[test]
    fn nothing_is_placed_where_access_was_revoked(
        offset in 0..1_u64 << 40, length in 1..500_usize, response: bool, remotely: bool, before in 0..3_usize,
    ) {
        let memory = Once(Cell::new(true));
        let mut rx = ordered();
        let range = Range { stag: Stag(9), offset, length: 2000 };
        rx.expect(0, range, false).unwrap();
        let segment = tagged(response, 9, offset, false, &vec![1; length]);
        for _ in 0..before {
            let place = rx.segment((), &segment[..14], segment.len(), &memory);
            assert!(matches!(place, Ok(Placement::Write(_) | Placement::Response { .. })));
            rx.placed();
        }
        if remotely {
            let revoking = untagged(invalidating(9), 1, 0, true, &[]);
            let place = rx.segment((), &revoking, revoking.len(), &memory);
            prop_assert_eq!(place, Ok(Placement::Nothing));
            rx.placed();
            let delivered = rx.deliver(&memory);
            assert!(matches!(delivered, Ok(Some(Delivery::Message { .. }))));
        } else {
            memory.0.set(false);
        }
        let place = rx.segment((), &segment[..14], segment.len(), &memory);
        let Err(Refusal::Fault(fault)) = place else { panic!("{place:?}") };
        prop_assert_eq!(code(fault), (1, 1, 0));
    }
}
