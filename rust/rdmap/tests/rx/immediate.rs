// SPDX-License-Identifier: GPL-2.0

//! Immediate Data (RFC 7306, section 6): a message with a Receive, beside Sends.

use rdmap::header::Untagged;
use rdmap::rx::{Delivery, Placement};
use rdmap::terminate::Terminate;

use crate::rx::{
    arrive, code, deliver, immediate, ordered, read_of, refused, reordered, request, send, tagged,
    undeliverable, untagged, ADD_ONE,
};

const DATA: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn delivered(receive: u64, written: u32, solicited: bool) -> Option<Delivery> {
    Some(Delivery::Immediate {
        receive,
        data: DATA,
        written,
        solicited,
    })
}

// Shows X6.3-2, X6.3-3, X6.4-1.
#[test]
fn immediate_data_takes_a_receive_in_the_order_of_sends() {
    let mut rx = ordered();
    rx.post_receive(0).unwrap();
    for segment in [
        immediate(1, false, &DATA),
        send(2, 0, true, &[1]),
        immediate(3, true, &DATA),
    ] {
        arrive(&mut rx, (), &segment).unwrap();
    }
    assert_eq!(deliver(&mut rx), delivered(0, 0, false));
    let message = deliver(&mut rx);
    assert!(matches!(
        message,
        Some(Delivery::Message { receive: 1, .. })
    ));
    // It has room for no octets.
    assert_eq!(deliver(&mut rx), delivered(2, 0, true));
    assert_eq!(deliver(&mut rx), None);
    assert_eq!(
        refused(&[
            immediate(1, true, &DATA),
            immediate(2, true, &DATA),
            immediate(3, true, &DATA),
        ]),
        (1, 2, 2)
    );
}

// Shows X6.3-1, X6.3-5.
#[test]
fn immediate_data_has_eight_octets() {
    let whole = immediate(1, false, &DATA);
    assert_eq!(whole.len(), 26);
    assert_eq!(arrive(&mut ordered(), (), &whole), Ok(Placement::Nothing));
    for length in [0, 1, 7] {
        let short = immediate(1, false, &DATA[..length]);
        assert_eq!(refused(&[short]), (0, 2, 0xff));
    }
    for length in [9, 16, 100, 1400] {
        let long = immediate(1, false, &vec![1; length]);
        assert_eq!(refused(&[long]), (1, 2, 5));
    }
    let kind = Untagged::Immediate { solicited: false };
    let more = untagged(kind, 1, 0, false, &DATA);
    assert_eq!(refused(&[more]), (1, 2, 5));
    let late = untagged(kind, 1, 8, true, &DATA);
    assert_eq!(refused(&[late]), (1, 2, 4));
}

/// One number, and two messages.
// Shows X6.3-2.
#[test]
fn immediate_data_shares_its_number_with_nothing() {
    let data = || immediate(1, false, &DATA);
    assert_eq!(refused(&[data(), data()]), (1, 2, 3));
    assert_eq!(refused(&[data(), send(1, 0, true, &[1])]), (1, 2, 3));
    assert_eq!(refused(&[data(), send(1, 0, false, &[])]), (1, 2, 3));
    assert_eq!(refused(&[send(1, 0, false, &[1]), data()]), (1, 2, 3));
    assert_eq!(refused(&[send(1, 0, true, &[]), data()]), (1, 2, 3));
    assert_eq!(refused(&[immediate(0, false, &DATA)]), (1, 2, 3));
}

// Shows X7-2.
#[test]
fn length_is_that_of_the_write_that_ended_just_before() {
    let write = |offset, last, length| tagged(false, 9, offset, last, &vec![1; length]);
    let cases = [
        (vec![], 0),
        (vec![write(0, true, 30)], 30),
        (vec![write(0, true, 0)], 0),
        (vec![write(0, false, 30), write(30, true, 12)], 42),
        (vec![write(0, true, 30), write(90, true, 5)], 5),
        // The segments are of no one run of memory.
        (vec![write(0, false, 30), write(500, true, 12)], 0),
        (
            vec![
                write(0, false, 30),
                write(0, false, 30),
                write(30, true, 12),
            ],
            0,
        ),
        (
            vec![
                write(0, false, 30),
                tagged(false, 10, 30, true, &[1; 12]),
                write(0, true, 7),
            ],
            7,
        ),
        (
            vec![write(0, false, 30), tagged(false, 10, 30, true, &[1; 12])],
            0,
        ),
        // Another message came between, or the Write has not ended.
        (vec![write(0, true, 30), request(1, read_of(9, 1))], 0),
        (vec![write(0, false, 30)], 0),
    ];
    for (before, written) in cases {
        let mut rx = ordered();
        for segment in &before {
            arrive(&mut rx, (), segment).unwrap();
        }
        arrive(&mut rx, (), &immediate(1, false, &DATA)).unwrap();
        let found = std::iter::from_fn(|| deliver(&mut rx)).last();
        assert_eq!(found, delivered(0, written, false));
    }
    // Whose segments come in any order, that is not known.
    let mut rx = reordered();
    arrive(&mut rx, 0, &write(0, true, 30)).unwrap();
    arrive(&mut rx, 1, &immediate(1, false, &DATA)).unwrap();
    assert_eq!(deliver(&mut rx), delivered(0, 0, false));
}

// Shows X6.3-3, X7-2.
#[test]
fn immediate_data_waits_for_what_was_sent_before() {
    let mut rx = reordered();
    let (write, last) = (
        tagged(false, 9, 0, false, &[1; 10]),
        tagged(false, 9, 10, true, &[2; 10]),
    );
    arrive(&mut rx, 3, &immediate(2, false, &DATA)).unwrap();
    arrive(&mut rx, 2, &last).unwrap();
    arrive(&mut rx, 0, &immediate(1, false, &DATA)).unwrap();
    assert_eq!(deliver(&mut rx), delivered(0, 0, false));
    assert_eq!(deliver(&mut rx), None);
    arrive(&mut rx, 1, &write).unwrap();
    assert_eq!(deliver(&mut rx), delivered(1, 0, false));
}

/// The peer gives the later number to what it sent first.
// Shows X6.3-3.
#[test]
fn immediate_data_whose_numbers_contradict_its_order_is_refused() {
    let mut rx = reordered();
    arrive(&mut rx, 0, &immediate(2, false, &DATA)).unwrap();
    arrive(&mut rx, 1, &immediate(1, false, &DATA)).unwrap();
    assert_eq!(deliver(&mut rx), delivered(0, 0, false));
    let fault = rx.deliver(&crate::rx::ByStag).unwrap_err();
    assert_eq!(code(fault), (1, 2, 3));
}

/// Without the header of an RDMAP message: only a Read Request has one.
// Shows X8.1-2.
#[test]
fn terminate_for_a_message_of_rfc_7306_has_no_rdma_header() {
    let at = |stag| rdmap::atomic::AtomicRequest {
        stag: rdmap::stag::Stag(stag),
        ..ADD_ONE
    };
    for stag in [0, 1, 2, 3, 4] {
        let segment = crate::rx::atomic_request(1, &at(stag));
        let fault = undeliverable(std::slice::from_ref(&segment));
        let told = Terminate::new(&fault);
        assert_eq!(told.segment_length, Some(70));
        assert_eq!(told.header.unwrap().as_slice(), &segment[..18]);
        assert_eq!(told.read, None);
        // D is set and R is not.
        assert_eq!(told.emit().as_slice()[2], 0xc0);
    }
}
