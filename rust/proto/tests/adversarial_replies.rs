// SPDX-License-Identifier: GPL-2.0

//! Hostile messages to the Requester. A dropped one leaves everything as it was.
//!
//! A test `advNN_...` is case NN of the conformance table.

use proptest::prelude::*;
use proto::chunk::Segment;
use proto::credit::Window;
use proto::error::{DecodeError, Fault, Violation};
use proto::reply::{self, check_result, Discard, Incoming, Offer, Outcome, RdmaError};

use crate::common::golden;
use crate::common::hostile_replies::*;
use crate::common::*;

/// The treatment of a message that answers a Call with this offer.
#[derive(Debug, PartialEq)]
enum Received {
    Discard(Discard),
    Violation(Violation),
    Unknown,
    ReverseCall,
    /// The RPC has failed for good.
    Failed(RdmaError),
    /// Lengths of the inline message, of the data in Write chunks, of the Reply chunk.
    Completed(usize, usize, usize),
}

/// A Requester with one Call in flight.
struct Requester<'a> {
    pending: bool,
    offer: Offer<'a>,
    window: Window,
}

impl<'a> Requester<'a> {
    fn new(offer: Offer<'a>) -> Self {
        Self {
            pending: true,
            offer,
            window: Window::new(32),
        }
    }

    fn receive(&mut self, message: &[u8]) -> Received {
        let (xid, credits, end) = match reply::parse(message) {
            Err(discard) => return Received::Discard(discard),
            Ok(Incoming::ReverseCall(_)) => return Received::ReverseCall,
            Ok(Incoming::Error { xid, credits, kind }) => (xid, credits, Received::Failed(kind)),
            Ok(Incoming::Reply(reply)) if !self.is_pending(reply.xid) => return Received::Unknown,
            Ok(Incoming::Reply(reply)) => match reply.check(&self.offer) {
                Err(violation) => return Received::Violation(violation),
                Ok(outcome) => (reply.xid, reply.credits, completed(&outcome)),
            },
        };
        if !self.is_pending(xid) {
            return Received::Unknown;
        }
        self.pending = false;
        self.window.on_reply(credits);
        end
    }

    fn is_pending(&self, xid: u32) -> bool {
        self.pending && xid == XID
    }
}

fn completed(outcome: &Outcome<'_>) -> Received {
    Received::Completed(
        outcome.inline.len(),
        outcome.written_len,
        outcome.reply_chunk_len,
    )
}

const A: Segment = Segment {
    handle: 1,
    length: 100,
    offset: 1 << 32,
};
const B: Segment = Segment {
    handle: 2,
    length: 200,
    offset: 2 << 32,
};
const NOTHING: Offer<'_> = Offer {
    write: &[],
    reply: None,
};
const WRITE: Offer<'_> = Offer {
    write: &[&[A, B]],
    reply: None,
};
const REPLY: Offer<'_> = Offer {
    write: &[],
    reply: Some(&[A, B]),
};

/// Checks that the message is dropped, and that the RPC can still be answered.
#[track_caller]
fn dropped(offer: Offer<'_>, message: &[u8]) -> Received {
    let mut requester = Requester::new(offer);
    let before = requester.window;
    let received = requester.receive(message);
    assert!(requester.pending, "{received:?}");
    assert_eq!(requester.window, before);
    received
}

#[track_caller]
fn violates(offer: Offer<'_>, message: &[u8], violation: Violation) {
    assert_eq!(dropped(offer, message), Received::Violation(violation));
}

#[track_caller]
fn discarded(message: &[u8], discard: Discard) {
    assert_eq!(dropped(NOTHING, message), Received::Discard(discard));
}

/// Checks that the messages of case `number` are dropped, each for its reason.
#[track_caller]
fn all_dropped(number: u32, reasons: impl IntoIterator<Item = Received>) {
    let messages = replies(number);
    let received: Vec<_> = messages.iter().map(|m| dropped(NOTHING, m)).collect();
    assert_eq!(received, reasons.into_iter().collect::<Vec<_>>());
    assert_ne!(received.len(), 0);
}

/// Checks that the messages of case `number` are dropped before their Call is looked up, each for
/// its reason.
#[track_caller]
fn all_discarded(number: u32, reasons: impl IntoIterator<Item = Discard>) {
    all_dropped(number, reasons.into_iter().map(Received::Discard));
}

#[track_caller]
fn completes(offer: Offer<'_>, message: &[u8]) -> Received {
    let mut requester = Requester::new(offer);
    let received = requester.receive(message);
    assert!(!requester.pending, "{received:?}");
    received
}

/// Returns an inline reply of 24 bytes whose Write list has one chunk with these segments.
fn written(segments: &[[u32; 4]]) -> Vec<u8> {
    written_beside(segments, &reply(XID, &[]))
}

/// Returns an inline reply with this payload whose Write list has one chunk with these segments.
fn written_beside(segments: &[[u32; 4]], payload: &[u8]) -> Vec<u8> {
    let mut lists = vec![0, 1, u32::try_from(segments.len()).unwrap()];
    lists.extend(segments.iter().flatten());
    lists.extend([0, 0]);
    message(0, &lists, payload)
}

/// Checks a READ whose result counts `count` bytes, with `written` of them in its chunk and
/// `inline` behind its count word. Returns how many bytes of the chunk are the result.
fn read(count: u32, written: u32, inline: &[u8]) -> Result<usize, Violation> {
    let before = reply(XID, &[0, 0, count, 1, count]);
    let payload = [&before, inline].concat();
    let message = written_beside(&[hloo(1, written), hloo(2, 0)], &payload);
    match reply::parse(&message) {
        Ok(Incoming::Reply(reply)) => reply.check(&WRITE)?.check_last_result(),
        other => panic!("{other:?}"),
    }
}

// Shows S3.4.6-05, S4.5-04, SEC-25, ADV-48.
#[test]
fn adv48_longer_than_offered() {
    let message = written(&[hloo(1, 101), hloo(2, 0)]);
    let violation = Violation::LongSegment {
        offered: 100,
        returned: 101,
    };
    violates(WRITE, &message, violation);
    let message = written(&[hloo(1, 100), hloo(2, 200)]);
    assert_eq!(completes(WRITE, &message), Received::Completed(24, 300, 0));
}

// Shows S3.4.6-04, ADV-49.
#[test]
fn adv49_more_segments_than_offered() {
    let violation = Violation::SegmentCount {
        offered: 2,
        returned: 3,
    };
    let segments = [hloo(1, 100), hloo(2, 0), hloo(3, 0)];
    violates(WRITE, &written(&segments), violation);
    violates(REPLY, &in_reply_chunk(1, &segments, &[]), violation);
}

/// Some peers leave out the segments that they did not use.
// Shows ADV-49.
#[test]
fn adv49_missing_segments_are_unused() {
    for (segments, length) in [
        (&[hloo(1, 100)][..], 100),
        (&[hloo(1, 60)], 60),
        (&[hloo(1, 0)], 0),
        (&[], 0),
    ] {
        let received = completes(WRITE, &written(segments));
        assert_eq!(received, Received::Completed(24, length, 0));
    }
    let message = in_reply_chunk(1, &[hloo(1, 60)], &[]);
    assert_eq!(completes(REPLY, &message), Received::Completed(0, 0, 60));
    // What is there is compared all the same.
    let violation = Violation::ForeignSegment { handle: 2 };
    violates(WRITE, &written(&[hloo(2, 100)]), violation);
    let violation = Violation::LongSegment {
        offered: 100,
        returned: 101,
    };
    violates(WRITE, &written(&[hloo(1, 101)]), violation);
}

// Shows S3.1-01, S3.4.3-03, S3.4.6-04, ADV-50.
#[test]
fn adv50_other_memory() {
    let violation = Violation::ForeignSegment { handle: 3 };
    let [_, l, o, p] = hloo(2, 0);
    violates(WRITE, &written(&[hloo(1, 100), [3, l, o, p]]), violation);
    let violation = Violation::ForeignSegment { handle: 2 };
    violates(WRITE, &written(&[hloo(1, 100), [2, l, o, 1]]), violation);
    violates(
        WRITE,
        &written(&[hloo(1, 100), [2, l, o + 1, p]]),
        violation,
    );
}

// Shows S3.4.6-04, ADV-51.
#[test]
fn adv51_chunk_that_was_not_offered() {
    let [h, l, o, p] = hloo(1, 100);
    let [i, m, q, r] = hloo(2, 0);
    let lists = [0, 1, 2, h, l, o, p, i, m, q, r, 1, 1, h, l, o, p, 0, 0];
    let message = message(0, &lists, &reply(XID, &[]));
    let violation = |offered, returned| Violation::ChunkCount { offered, returned };
    violates(WRITE, &message, violation(1, 2));
    violates(NOTHING, &written(&[hloo(1, 100)]), violation(0, 1));
}

/// Some peers leave out the chunks that they did not use.
// Shows ADV-52.
#[test]
fn adv52_write_list_missing() {
    assert_eq!(completes(WRITE, &plain()), Received::Completed(24, 0, 0));
}

// Shows S4.3.1-01, S4.3.1-04, S4.5-04, ADV-53.
#[test]
fn adv53_read_list_in_a_reply() {
    all_discarded(53, [Discard::ReadList]);
}

// Shows SEC-25, ADV-54.
#[test]
fn adv54_gap() {
    let message = written(&[hloo(1, 50), hloo(2, 50)]);
    violates(WRITE, &message, Violation::Gap { handle: 2 });
    let message = written(&[hloo(1, 50), hloo(2, 0)]);
    assert_eq!(completes(WRITE, &message), Received::Completed(24, 50, 0));
}

// Shows S4.3.3-05, ADV-55.
#[test]
fn adv55_inline_reply_that_used_the_reply_chunk() {
    let message = in_reply_chunk(0, &[hloo(1, 24), hloo(2, 0)], &reply(XID, &[]));
    violates(REPLY, &message, Violation::TwoPayloads { length: 24 });
    let message = in_reply_chunk(0, &[hloo(1, 0), hloo(2, 0)], &reply(XID, &[]));
    assert_eq!(completes(REPLY, &message), Received::Completed(24, 0, 0));
}

// Shows S4.2.4-06, S4.3.3-06, ADV-56.
#[test]
fn adv56_long_reply_without_a_payload() {
    let discard = Received::Discard(Discard::Payload(0));
    assert_eq!(dropped(REPLY, &message(1, &[0, 0, 0], &[])), discard);
    let unused = in_reply_chunk(1, &[hloo(1, 0), hloo(2, 0)], &[]);
    assert_eq!(dropped(REPLY, &unused), discard);
    // The smallest reply has 20 bytes.
    let short = in_reply_chunk(1, &[hloo(1, 16), hloo(2, 0)], &[]);
    let discard = Received::Discard(Discard::Payload(16));
    assert_eq!(dropped(REPLY, &short), discard);
    let denied = in_reply_chunk(1, &[hloo(1, 20), hloo(2, 0)], &[]);
    assert_eq!(completes(REPLY, &denied), Received::Completed(0, 0, 20));
}

// Shows S3.5.3-09, S4.3.3-06, ADV-57.
#[test]
fn adv57_long_reply_without_fill() {
    let message = in_reply_chunk(1, &[hloo(1, 100), hloo(2, 1)], &[]);
    assert_eq!(completes(REPLY, &message), Received::Completed(0, 0, 101));
    // Without it the reply is as long as the shortest, and with it longer.
    let message = in_reply_chunk(1, &[hloo(1, 19), hloo(2, 0)], &[]);
    let discard = Received::Discard(Discard::Payload(19));
    assert_eq!(dropped(REPLY, &message), discard);
}

// Shows ADV-58.
#[test]
fn adv58_long_reply_longer_than_offered() {
    let message = in_reply_chunk(1, &[hloo(1, 100), hloo(2, 204)], &[]);
    let violation = Violation::LongSegment {
        offered: 200,
        returned: 204,
    };
    violates(REPLY, &message, violation);
}

// Shows S3.1-01, ADV-59.
#[test]
fn adv59_reply_chunk_that_was_not_offered() {
    let violation = Violation::UnofferedReplyChunk;
    all_dropped(59, [violation; 2].map(Received::Violation));
}

// Shows S4.2.4-02, ADV-60.
#[test]
fn adv60_short_payloads() {
    all_discarded(60, [0, 4, 16, 19].map(Discard::Payload));
    let denied = message(0, &[0, 0, 0], &reply(XID, &[])[..20]);
    assert_eq!(completes(NOTHING, &denied), Received::Completed(20, 0, 0));
}

// Shows S4.2.3-01, SEC-30, ADV-61.
#[test]
fn adv61_unknown_transaction() {
    all_dropped(61, [Received::Unknown]);
}

// Shows S2.2.2-03, SEC-30, ADV-62.
#[test]
fn adv62_second_reply() {
    let mut requester = Requester::new(NOTHING);
    assert_eq!(requester.receive(&plain()), Received::Completed(24, 0, 0));
    let window = requester.window;
    let mut second = plain();
    second[8..12].fill(0);
    assert_eq!(requester.receive(&second), Received::Unknown);
    assert_eq!(requester.window, window);
}

// Shows S4.5-04, ADV-63.
#[test]
fn adv63_unknown_versions() {
    all_discarded(63, [0, 2].map(Discard::Version));
}

// Shows S4.1.2-06, S4.2.4-12, S4.5-04, S4.6.1-03, S4.6.2-02, ADV-64.
#[test]
fn adv64_retired_and_unknown_procedures() {
    all_discarded(64, [2, 3, 5].map(Discard::Procedure));
}

// Shows S4.1.2-07, S4.5-10, ADV-65.
#[test]
fn adv65_unknown_error_codes() {
    all_discarded(65, [0, 3, u32::MAX].map(Discard::ErrorCode));
}

// Shows S4.5-10, ADV-66.
#[test]
fn adv66_version_error_cut_off() {
    let reasons = [Discard::Runt(20), Discard::Runt(24), Discard::Version(7)];
    all_discarded(66, reasons);
}

// Shows S3.3.3-05, S4.5-09, ADV-67.
#[test]
fn adv67_err_chunk_ends_the_rpc() {
    let message = hex(golden::GV10);
    let mut requester = Requester::new(WRITE);
    assert_eq!(
        requester.receive(&message),
        Received::Failed(RdmaError::Chunk)
    );
    assert!(!requester.pending);
    assert_eq!(requester.window.window(), 16);
}

// Shows S4.5-10, ADV-68.
#[test]
fn adv68_err_chunk_cut_off() {
    all_discarded(68, [16, 19].map(Discard::Runt));
}

// Shows ADV-69.
#[test]
fn adv69_error_for_an_unknown_transaction() {
    all_dropped(69, [Received::Unknown]);
}

// Shows ADV-70.
#[test]
fn adv70_error_of_another_version() {
    all_discarded(70, [Discard::Version(9)]);
}

// Shows S4.5-09, S4.5.1-03, S7-03, ADV-71.
#[test]
fn adv71_version_errors_end_the_rpc() {
    for (low, high) in [(1, 1), (5, 2)] {
        let message = message(4, &[1, low, high], &[]);
        let failed = Received::Failed(RdmaError::Version { low, high });
        assert_eq!(completes(NOTHING, &message), failed);
    }
}

// Shows S3.3.1-05, S3.3.1-06, ADV-72.
#[test]
fn adv72_grants_of_nothing_and_of_everything() {
    for (grant, window) in [(0, 1), (u32::MAX, 32)] {
        let mut message = plain();
        message[8..12].copy_from_slice(&u32::to_be_bytes(grant));
        let mut requester = Requester::new(NOTHING);
        assert_eq!(requester.receive(&message), Received::Completed(24, 0, 0));
        assert_eq!(requester.window.window(), window);
    }
}

// Shows S4.2.1-02, ADV-73.
#[test]
fn adv73_transaction_numbers_differ() {
    let discard = Discard::Xid {
        header: XID,
        payload: 7,
    };
    all_discarded(73, [discard]);
}

// Shows S6.1-08, ADV-74.
#[test]
fn adv74_result_by_chunk_that_may_not_leave() {
    let violation = Violation::ResultNotEligible { written: 100 };
    assert_eq!(check_result(100, None), Err(violation));
}

// Shows S6.1-09, ADV-75.
#[test]
fn adv75_result_inline_despite_its_chunk() {
    // The data are there, so nothing keeps the RPC from its end.
    assert_eq!(check_result(0, Some(100)), Ok(0));
    assert_eq!(read(9, 0, &[7; 12]), Ok(0));
    // Nothing to return.
    assert_eq!(check_result(0, Some(0)), Ok(0));
    assert_eq!(read(0, 0, &[]), Ok(0));
}

// Shows S3.4.6.2-03, SEC-25, ADV-76.
#[test]
fn adv76_result_of_another_length() {
    for written in [1, 99, 104, 200] {
        let violation = Violation::ResultLength {
            expected: 100,
            written,
        };
        assert_eq!(check_result(written, Some(100)), Err(violation));
    }
    assert_eq!(check_result(100, Some(100)), Ok(100));

    for (count, written) in [(100, 96), (96, 100), (0, 4), (99, 98), (101, 100)] {
        let violation = Violation::ResultLength {
            expected: count as usize,
            written: written as usize,
        };
        assert_eq!(read(count, written, &[]), Err(violation));
    }
    assert_eq!(read(99, 99, &[]), Ok(99));
}

/// Some peers write padding: in the chunk, or where the result would be inline.
// Shows S3.4.6.2-02.
#[test]
fn fill_of_a_reduced_result_does_no_harm() {
    assert_eq!(check_result(100, Some(97)), Ok(97));
    assert_eq!(read(97, 100, &[]), Ok(97));
    assert_eq!(read(97, 97, &[0; 3]), Ok(97));
}

/// The server of nfs-ganesha adds as many bytes as the length is more than a multiple of four.
// Shows S3.4.6.2-02.
#[test]
fn wrong_fill_of_a_reduced_result_does_no_harm() {
    for length in 0..=97 {
        assert_eq!(read(length, length + length % 4, &[]), Ok(length as usize));
    }
    for fill in 0..=3 {
        assert_eq!(check_result(100 + fill, Some(100)), Ok(100));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    // Shows S3.4.6.2-03.
    #[test]
    fn result_is_what_the_count_word_says(written in 0..200_usize, count in 0..200_usize) {
        match check_result(written, Some(count)) {
            Ok(0) if written == 0 => (),
            Ok(result) => {
                prop_assert_eq!(result, count);
                prop_assert!(count <= written && written <= count + 3);
            }
            Err(violation) => {
                prop_assert_eq!(violation, Violation::ResultLength { expected: count, written });
                prop_assert!(written != 0 && !(count..=count + 3).contains(&written));
            }
        }
    }
}

#[test]
fn failed_read_has_no_count_word() {
    let failed = |written| {
        let payload = reply(XID, &[5, 0]);
        let message = written_beside(&[hloo(1, written), hloo(2, 0)], &payload);
        match reply::parse(&message) {
            Ok(Incoming::Reply(reply)) => reply.check(&WRITE)?.check_last_result(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(failed(0), Ok(0));
    let violation = Violation::ResultLength {
        expected: 0,
        written: 100,
    };
    assert_eq!(failed(100), Err(violation));
}

// Shows S4.3.2.2-06, ADV-77.
#[test]
fn adv77_unused_chunk_says_nothing_about_its_memory() {
    let message = written(&[hloo(1, 0), hloo(2, 0)]);
    assert_eq!(completes(WRITE, &message), Received::Completed(24, 0, 0));
    assert_eq!(check_result(0, None), Ok(0));
}

// Shows S2.2.2-01, S4.2.3-01, B-04, B-13, ADV-78.
#[test]
fn adv78_call_to_the_client() {
    let message = message(0, &[0, 0, 0], &null_call(XID));
    assert_eq!(dropped(NOTHING, &message), Received::ReverseCall);
    let chunks = in_reply_chunk(0, &[hloo(1, 100)], &null_call(XID));
    discarded(&chunks, Discard::ReverseChunks);
}

// Shows B-07, ADV-79.
#[test]
fn adv79_call_with_the_number_of_a_pending_one() {
    let mut requester = Requester::new(NOTHING);
    let call = message(0, &[0, 0, 0], &null_call(XID));
    assert_eq!(requester.receive(&call), Received::ReverseCall);
    assert_eq!(requester.receive(&plain()), Received::Completed(24, 0, 0));
}

// Shows S4.5-02, ADV-80.
#[test]
fn adv80_runts() {
    all_discarded(80, (16..28).chain(16..28).map(Discard::Runt));
}

// Shows S4.1.2-04, ADV-81.
#[test]
fn adv81_counts_that_wrap_when_multiplied() {
    let counts = [u32::MAX, 0x1000_0000, 0x1000_0001];
    let reasons = counts.into_iter().flat_map(|count| {
        let fault = Fault::Count(count);
        [24, 28].map(|at| Discard::Lists(DecodeError { fault, at }))
    });
    all_discarded(81, reasons);
}
