// SPDX-License-Identifier: GPL-2.0

//! Hostile messages to the Responder, with the exact answer to each.
//!
//! A test `advNN_...` is case NN of the conformance table.

use proto::call::{Dropped, Incoming, Reason, Rejection};
use proto::error::Misuse;
use proto::reply_builder::{Destination, Placement, ReplyBuilder, Unreturnable};

use crate::common::golden;
use crate::common::hostile::*;
use crate::common::*;

/// Returns the reasons to refuse the messages of case `number`.
#[track_caller]
pub(crate) fn reasons(number: u32) -> Vec<Reason> {
    let cases = cases().into_iter().filter(|case| case.number == number);
    cases
        .map(|case| match proto::call::parse(&case.message, &POLICY) {
            Err(Rejection::Refuse(_, reason)) => reason,
            other => panic!("{other:x?}"),
        })
        .collect()
}

#[track_caller]
pub(crate) fn refused(message: &[u8]) {
    assert_eq!(serve(message, &POLICY), err_chunk(), "{message:x?}");
    // Nothing about one Call changes how the next is served.
    served(&hex(golden::GV11));
}

/// Checks that each message of case `number` gets its exact answer.
#[track_caller]
pub(crate) fn answered(number: u32) {
    let cases = cases().into_iter().filter(|case| case.number == number);
    let count = cases
        .map(|case| match case.answer {
            None => assert_eq!(serve(&case.message, &FORWARD_ONLY), Served::Drop),
            Some(answer) => {
                assert_eq!(serve(&case.message, &POLICY), Served::ReplyBuilder(answer));
                served(&hex(golden::GV11));
            }
        })
        .count();
    assert_ne!(count, 0);
}

#[test]
fn what_the_first_words_drop_is_dropped_by_all_of_them() {
    let cut = |message: Vec<u8>| (0..=message.len()).map(move |len| message[..len].to_vec());
    let done = words([7, 1, 32, 3, 0, 0, 0]);
    let error = words([7, 1, 32, 4, 2]);
    let other_version = words([7, 2, 32, 3, 0, 0, 0]);
    let messages = cases().into_iter().map(|case| case.message);
    let mut dropped = 0;
    for message in messages.chain([done, error, other_version]).flat_map(cut) {
        let by_all = proto::call::parse(&message, &POLICY);
        if let Some(reason) = proto::call::dropped(&message) {
            assert_eq!(by_all, Err(Rejection::Drop(reason)), "{message:x?}");
            dropped += 1;
        } else if let Err(Rejection::Drop(reason @ (Dropped::Runt(_) | Dropped::Done))) = by_all {
            panic!("{reason:?} is not seen: {message:x?}");
        }
    }
    assert_ne!(dropped, 0);
}

// Shows S4.5-02, SEC-22, ADV-01.
#[test]
fn adv01_nothing() {
    answered(1);
}

// Shows S4.5-02, SEC-22, ADV-02.
#[test]
fn adv02_runt_behind_stale_bytes_is_not_echoed() {
    answered(2);
}

// Shows S4.5-02, ADV-03.
#[test]
fn adv03_fixed_words_only() {
    answered(3);
}

// Shows S4.5-02, ADV-04.
#[test]
fn adv04_lists_cut_off() {
    answered(4);
}

// Shows S4.5-02, ADV-05.
#[test]
fn adv05_one_byte_less_than_a_header() {
    answered(5);
}

// Shows S4.2.4-02, ADV-06.
#[test]
fn adv06_header_without_payload() {
    answered(6);
    assert_eq!(reasons(6), [Reason::Payload(0)]);
}

// Shows S4.2.2-01, S4.5-06, S4.5.1-01, ADV-07.
#[test]
fn adv07_unknown_versions() {
    answered(7);
}

// Shows S2.2.4-01, S4.5.1-01, ADV-08.
#[test]
fn adv08_little_endian_version() {
    answered(8);
}

// Shows S4.5.1-02, ADV-09.
#[test]
fn adv09_unknown_version_hides_the_rest() {
    answered(9);
}

// Shows S4.1.2-06, S4.5-03, S4.5.2-01, S4.5.2-02, ADV-10.
#[test]
fn adv10_unknown_procedures() {
    answered(10);
    let expected = [5, 0x8000_0000, u32::MAX].map(Reason::Procedure);
    assert_eq!(reasons(10), expected);
}

// Shows S4.1.2-08, S4.2.4-12, S4.5-03, S4.6.1-02, ADV-11.
#[test]
fn adv11_padded_message() {
    answered(11);
    assert_eq!(reasons(11), [Reason::Procedure(2)]);
}

// Shows S4.1.2-09, S4.2.4-12, S4.6.2-02, ADV-12.
#[test]
fn adv12_done() {
    answered(12);
}

// Shows S4.2.4-09, ADV-13.
#[test]
fn adv13_errors_are_never_answered() {
    answered(13);
}

// Shows S4.2.4-10, ADV-14.
#[test]
fn adv14_error_of_another_version_is_not_answered_either() {
    answered(14);
    let message = words([XID, 2, 32, 4, 2, 0, 0]);
    assert_eq!(serve(&message, &POLICY), Served::Drop);
}

// Shows S3.3.1-01, S3.3.1-02, S3.3.1-04, ADV-15.
#[test]
fn adv15_request_of_no_credits_is_served() {
    let mut message = hex(golden::GV11);
    message[8..12].fill(0);
    assert_eq!(served(&message).credits, 0);
    let call = served(&message);
    let mut out = [0; 28];
    let answer = ReplyBuilder::new(&call, &[], 24, 1024).unwrap();
    assert_eq!(answer.emit(0, &mut out), Err(Misuse::ZeroCredits));
    assert_eq!(answer.emit(1, &mut out), Ok(28));
    assert_eq!(out[8..12], [0, 0, 0, 1]);
}

// Shows ADV-16.
#[test]
fn adv16_request_of_all_credits_is_served() {
    let mut message = hex(golden::GV11);
    message[8..12].fill(0xFF);
    served(&message);
    // What is granted is ours to say: it follows from Calls and a limit, not from requests.
    assert_eq!(proto::credit::raised_grant(8, 8, 16, 16), Some(16));
    assert_eq!(
        proto::credit::raised_grant(16, u32::MAX, u32::MAX, 16),
        None
    );
}

// Shows S4.2.1-01, S4.2.1-02, S4.5.2-02, ADV-24.
#[test]
fn adv24_transaction_numbers_differ() {
    answered(24);
    let expected = Reason::Xid {
        header: XID,
        payload: 7,
    };
    assert_eq!(reasons(24), [expected]);
}

// Shows S4.2.4-05, S4.5.2-02, ADV-25.
#[test]
fn adv25_long_message_without_chunks() {
    answered(25);
}

// Shows S4.2.4-06, ADV-26.
#[test]
fn adv26_long_message_without_position_zero() {
    answered(26);
}

// Shows S3.5.3-02, S4.2.4-03, ADV-27.
#[test]
fn adv27_bytes_behind_a_long_message() {
    answered(27);
    assert_eq!(reasons(27), [Reason::Trailing(40)]);
}

// Shows S4.2.1-02, ADV-40.
#[test]
fn adv40_pulled_message_of_another_transaction() {
    let message = nomsg(&[(0, 1, 40)]);
    let call = served(&message);
    assert_eq!(call.check_message(&null_call(XID)), Ok(()));
    let expected = Reason::Xid {
        header: XID,
        payload: 7,
    };
    assert_eq!(call.check_message(&null_call(7)), Err(expected));
    assert_eq!(error(&call.refuse()), hex(golden::GV10));
}

// Shows S4.5.3-03, ADV-88.
#[test]
fn adv88_result_longer_than_its_chunk() {
    let message = msg(&write_list(&[&[(1, 1000)]], None));
    let call = served(&message);
    let (length, room) = (1001, 1000);
    let result = Unreturnable::Result { length, room };
    assert_eq!(Placement::new(&call, true).place(length), Err(result));
    let answer = ReplyBuilder::new(&call, &[1001], 24, 1024);
    assert_eq!(answer.err(), Some(result));
    assert_eq!(error(&call.refuse()), hex(golden::GV10));
}

// Shows S4.5.3-03, ADV-89.
#[test]
fn adv89_reply_longer_than_its_chunk() {
    let message = msg(&write_list(&[], Some(&[(1, 64)])));
    let call = served(&message);
    let (length, room) = (4096, 64);
    let message = Unreturnable::Message { length, room };
    assert_eq!(
        ReplyBuilder::new(&call, &[], 4096, 1024).err(),
        Some(message)
    );
    assert_eq!(error(&call.refuse()), hex(golden::GV10));
}

// Shows S4.5.3-03, P-13, ADV-90.
#[test]
fn adv90_reply_longer_than_a_send() {
    let message = hex(golden::GV11);
    let call = served(&message);
    assert!(ReplyBuilder::new(&call, &[], 996, 1024).is_ok());
    let (length, room) = (1000, 0);
    let message = Unreturnable::Message { length, room };
    assert_eq!(
        ReplyBuilder::new(&call, &[], 1000, 1024).err(),
        Some(message)
    );
    assert_eq!(error(&call.refuse()), hex(golden::GV10));
}

// Shows ADV-100.
#[test]
fn adv100_one_handle_in_two_lists() {
    let mut lists = vec![1, 96];
    lists.extend(hloo(7, 512));
    lists.extend([0, 1, 1]);
    lists.extend(hloo(7, 512));
    lists.extend([0, 0]);
    let message = message(0, &lists, &write_call(XID, 512));
    let call = served(&message);
    assert_eq!(proto::reply_builder::invalidated_handle(&call), Some(7));
}

// Shows S4.3.2.2-04, S8.2.2.3-06, ADV-101.
#[test]
fn adv101_write_list_with_protected_results() {
    let message = msg(&write_list(&[&[(1, 4096)]], Some(&[(2, 8192)])));
    let call = served(&message);
    let mut placement = Placement::new(&call, false);
    assert_eq!(placement.place(4096), Ok(Destination::Inline));
    let answer = ReplyBuilder::new(&call, &[], 4096 + 64, 1024).unwrap();
    let mut out = [0; 72];
    answer.emit(GRANT, &mut out).unwrap();
    let mut expected = vec![XID, 1, GRANT, 1, 0, 1, 1];
    expected.extend(hloo(1, 0));
    expected.extend([0, 1, 1]);
    expected.extend(hloo(2, 4160));
    assert_eq!(out[..], words(expected));
}

// Shows S2.2.2-01, S4.2.3-01, B-04, ADV-106.
#[test]
fn adv106_reply_without_a_call() {
    answered(106);
    let message = message(0, &[0, 0, 0], &reply(XID, &[]));
    let Served::Reverse(Incoming::ReverseReply(reply)) = serve(&message, &POLICY) else {
        panic!();
    };
    assert_eq!(reply.xid, XID);
}

// Shows S2.2.2-01, ADV-107.
#[test]
fn adv107_neither_call_nor_reply() {
    answered(107);
    assert_eq!(reasons(107), [2, u32::MAX].map(Reason::Direction));
}
