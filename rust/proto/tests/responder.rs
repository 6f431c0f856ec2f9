// SPDX-License-Identifier: GPL-2.0

//! The messages that a Responder returns.

use proto::call::{self, Call, Policy, Reason, Rejection};
use proto::chunk::Segment;
use proto::error::Misuse;
use proto::header::{self, Body};
use proto::rdma_error::{ErrorMessage, RdmaError};
use proto::reply::{self, Incoming, Offer};
use proto::reply_builder::{can_reply, Destination, Placement, ReplyBuilder, Unreturnable};

use crate::common;
use crate::common::*;

/// Returns a NULL Call that offers these chunks.
fn offer(write: &[&[Segment]], reply: Option<&[Segment]>) -> Vec<u8> {
    let header = header::Call {
        xid: XID,
        credits: 1,
        body: Body::Msg,
        read: &[],
        write,
        reply,
    };
    let mut message = vec![0; header.wire_len()];
    header.emit(&mut message).unwrap();
    message.extend(null_call(XID));
    message
}

fn index(place: Result<Destination<'_>, Unreturnable>) -> Option<usize> {
    match place.unwrap() {
        Destination::Inline => None,
        Destination::Chunk { index, .. } => Some(index),
    }
}

/// Returns the form of a reply of `payload` bytes to a Call with this Reply chunk (DT-4).
fn body(call: &Call<'_>, payload: u64) -> Result<Body, Unreturnable> {
    ReplyBuilder::new(call, &[], payload, 1024).map(|answer| answer.body())
}

// Shows S3.5.3-06, S3.5.3-07, S4.3.2.3-05, S4.3.3-03.
#[test]
fn form_of_the_reply_follows_from_what_was_offered() {
    let plain = offer(&[], None);
    let plain = served(&plain);
    assert_eq!(body(&plain, 996), Ok(Body::Msg));
    let room = 0;
    assert_eq!(
        body(&plain, 1000),
        Err(Unreturnable::Message { length: 1000, room })
    );

    // With a Reply chunk of 4096 bytes the header has 48.
    let chunk = [segment(1, 4096)];
    let offered = offer(&[], Some(&chunk));
    let offered = served(&offered);
    assert_eq!(body(&offered, 976), Ok(Body::Msg));
    assert_eq!(body(&offered, 980), Ok(Body::NoMsg));
    assert_eq!(body(&offered, 4096), Ok(Body::NoMsg));
    let room = 4096;
    assert_eq!(
        body(&offered, 4100),
        Err(Unreturnable::Message { length: 4100, room })
    );

    // For a Requester that wants the chunk to be used: as long as the reply fits there.
    let preferred = |call: &Call<'_>, payload| {
        let answer = ReplyBuilder::new(call, &[], payload, 1024)?;
        Ok::<_, Unreturnable>(answer.prefer_reply_chunk().body())
    };
    assert_eq!(preferred(&plain, 996), Ok(Body::Msg));
    assert_eq!(preferred(&offered, 24), Ok(Body::NoMsg));
    assert_eq!(preferred(&offered, 4096), Ok(Body::NoMsg));
    let small = offer(&[], Some(&[segment(1, 64)]));
    let small = served(&small);
    assert_eq!(preferred(&small, 64), Ok(Body::NoMsg));
    assert_eq!(preferred(&small, 68), Ok(Body::Msg));
    let empty = offer(&[], Some(&[]));
    assert_eq!(preferred(&served(&empty), 24), Ok(Body::Msg));

    // The header alone.
    let chunk = [segment(1, 4096); 61];
    let offered = offer(&[], Some(&chunk));
    let offered = served(&offered);
    assert!(ReplyBuilder::new(&offered, &[], 24, 28 + 4 + 61 * 16 + 24).is_ok());
    let length = 28 + 4 + 61 * 16;
    assert_eq!(body(&offered, 40), Ok(Body::NoMsg));
    assert!(can_reply(&offered, length));
    assert!(!can_reply(&offered, length - 1));
    // A message without its verifier is the shortest.
    let short = offer(&[], Some(&[segment(1, 19)]));
    assert!(!can_reply(&served(&short), 28 + 4 + 16 + 19));
    assert!(can_reply(&served(&short), 28 + 4 + 16 + 20));
    assert_eq!(
        ReplyBuilder::new(&offered, &[], 24, length - 1).map(|answer| answer.body()),
        Err(Unreturnable::Header { length })
    );
    assert_eq!(
        ReplyBuilder::new(&offered, &[], 24, length).map(|answer| answer.body()),
        Ok(Body::NoMsg)
    );
}

// Shows S3.5.3-09.
#[test]
fn numbers_that_make_no_sense_are_refused() {
    let message = offer(&[], None);
    let call = served(&message);
    let misuse = Unreturnable::Misuse(Misuse::Sizes);
    // A message has all its fill, and there is no chunk to have written to.
    assert_eq!(body(&call, 41), Err(misuse));
    assert_eq!(
        ReplyBuilder::new(&call, &[0], 40, 1024).map(|answer| answer.body()),
        Err(misuse)
    );
}

// Shows S4.3.2-02, S4.3.2.1-02, S4.3.2.2-01, N-08, N-09, N-10, N-21.
#[test]
fn results_take_chunks_in_order() {
    let a = [segment(1, 100)];
    let b = [segment(2, 200)];
    let message = offer(&[&a, &[], &b], None);
    let call = served(&message);
    let mut placement = Placement::new(&call, true);
    assert_eq!(index(placement.place(100)), Some(0));
    assert_eq!(
        index(placement.place(100)),
        None,
        "an empty chunk means inline"
    );
    assert_eq!(index(placement.place(200)), Some(2));
    assert_eq!(index(placement.place(100)), None, "no chunk is left");

    // NFS: the chunk of an operation without data stays unused.
    let mut placement = Placement::new(&call, true);
    assert!(placement.skip().is_some());
    assert_eq!(index(placement.place(100)), None);
    assert_eq!(index(placement.place(200)), Some(2));
    assert_eq!(placement.skip(), None);

    // A result of no length takes its chunk.
    let mut placement = Placement::new(&call, true);
    assert_eq!(index(placement.place(0)), Some(0));
    assert_eq!(index(placement.place(1)), None);

    // Too long is too long, not inline.
    let mut placement = Placement::new(&call, true);
    let too_long = Unreturnable::Result {
        length: 101,
        room: 100,
    };
    assert_eq!(placement.place(101), Err(too_long));
}

// Shows S3.4.6-07, S4.3.2.2-04.
#[test]
fn empty_chunk_is_not_an_unused_one() {
    let chunk = [segment(1, 0), segment(2, 100)];
    let message = offer(&[&[], &chunk], None);
    let call = served(&message);
    let chunks: Vec<_> = call.lists.write.iter().collect();
    assert!(chunks[0].is_empty());
    assert!(!chunks[1].is_empty());
    let answer = ReplyBuilder::new(&call, &[], 24, 1024).unwrap();
    let mut out = vec![0; answer.wire_len()];
    answer.emit(GRANT, &mut out).unwrap();
    let [a, b, c, d] = hloo(1, 0);
    let [e, f, g, h] = hloo(2, 0);
    let expected = [
        XID, 1, GRANT, 0, 0, 1, 0, 1, 2, a, b, c, d, e, f, g, h, 0, 0,
    ];
    assert_eq!(out, words(expected));
}

// Shows S3.4.6.2-02, S3.4.6.2-04.
#[test]
fn result_of_five_bytes_leaves_no_fill_behind() {
    let chunk = [segment(1, 8)];
    let write: &[&[Segment]] = &[&chunk];
    let message = offer(write, None);
    let call = served(&message);
    // Its count word, and at once the next operation.
    let payload = reply(XID, &[5, 9, 8]);
    let answer =
        ReplyBuilder::new(&call, &[5], u64::try_from(payload.len()).unwrap(), 1024).unwrap();
    let mut sent = vec![0; answer.wire_len()];
    answer.emit(GRANT, &mut sent).unwrap();
    sent.extend(&payload);
    let Ok(Incoming::Reply(back)) = reply::parse(&sent) else {
        panic!();
    };
    let outcome = back.check(&Offer { write, reply: None }).unwrap();
    assert_eq!(outcome.written_len, 5);
    assert_eq!(outcome.inline[24..], words([5, 9, 8]));
}

// Shows S4.3.1-04.
#[test]
fn reply_has_no_read_list() {
    let list = [read(96, 1, 4096)];
    let header = header::Call {
        xid: XID,
        credits: 1,
        body: Body::Msg,
        read: &list,
        write: &[],
        reply: None,
    };
    let mut message = vec![0; header.wire_len()];
    header.emit(&mut message).unwrap();
    message.extend(write_call(XID, 4096));
    let answer = ReplyBuilder::new(&served(&message), &[], 24, 1024).unwrap();
    let mut out = [0xA5; 28];
    assert_eq!(answer.emit(GRANT, &mut out), Ok(28));
    assert_eq!(out[..], words([XID, 1, GRANT, 0, 0, 0, 0]));
}

#[test]
fn call_without_chunks_is_answered_by_its_xid() {
    let message = offer(&[], None);
    for (length, threshold) in [(24, 1024), (996, 1024), (1000, 1024), (24, 20)] {
        let emitted = |call: &Call<'_>| {
            let answer = ReplyBuilder::new(call, &[], length, threshold)?;
            let mut out = [0xA5; 64];
            let length = answer.emit(GRANT, &mut out)?;
            Ok::<_, Unreturnable>((answer.body(), length, out))
        };
        assert_eq!(
            emitted(&Call::without_chunks(XID)),
            emitted(&served(&message))
        );
    }
    assert_eq!(
        Call::without_chunks(XID).refuse(),
        served(&message).refuse()
    );
}

// Shows S4.3.3-04.
#[test]
fn reply_without_the_offered_reply_chunk_is_tolerated() {
    let chunk = [segment(1, 4096)];
    let message = message(0, &[0, 0, 0], &reply(XID, &[]));
    let Ok(Incoming::Reply(back)) = reply::parse(&message) else {
        panic!();
    };
    let offer = Offer {
        write: &[],
        reply: Some(&chunk),
    };
    let outcome = back.check(&offer).unwrap();
    assert_eq!(outcome.reply_chunk_len, 0);
    assert_eq!(outcome.inline.len(), 24);
}

// Shows S3.3.1-02, S3.3.1-04, S4.5-05, S4.5-06.
#[test]
fn refusal_repeats_transaction_and_version() {
    for number in (0..1000u32).map(|number| number.wrapping_mul(0x9e37_79b9)) {
        let refusal = ErrorMessage {
            xid: number,
            version: !number,
            error: RdmaError::Chunk,
        };
        assert_eq!(error(&refusal), words([number, !number, GRANT, 4, 2]));
    }
    let refusal = ErrorMessage {
        xid: 1,
        version: 1,
        error: RdmaError::UNKNOWN_VERSION,
    };
    let mut out = [0; 28];
    assert_eq!(refusal.emit(0, &mut out), Err(Misuse::ZeroCredits));
    let short = Misuse::Buffer {
        needed: 28,
        room: 27,
    };
    assert_eq!(refusal.emit(1, &mut out[..27]), Err(short));
}

// Shows S4.2.4-07.
#[test]
fn bytes_behind_an_error_are_ignored() {
    for extra in [0, 4, 100] {
        for (rest, kind) in [
            (&[2][..], RdmaError::Chunk),
            (&[1, 1, 1], RdmaError::Version { low: 1, high: 1 }),
        ] {
            let message = message(4, rest, &vec![0xEE; extra]);
            let error = Incoming::Error {
                xid: XID,
                credits: 32,
                kind,
            };
            assert_eq!(reply::parse(&message), Ok(error));
        }
    }
}

// Shows S4.1.2-03.
#[test]
fn lists_of_many_lengths() {
    for count in [0, 1, 2, 40] {
        let list: Vec<_> = (0..count).map(|_| read(96, 1, 8)).collect();
        let chunks: Vec<&[Segment]> = vec![&[]; list.len()];
        let header = header::Call {
            xid: XID,
            credits: 1,
            body: Body::Msg,
            read: &list,
            write: &chunks,
            reply: None,
        };
        let mut message = vec![0; header.wire_len()];
        header.emit(&mut message).unwrap();
        // Without the words that end the lists there is no end.
        assert!(!matches!(
            serve(&message[..message.len() - 12], &POLICY),
            Served::Call(_)
        ));
        message.extend(write_call(XID, 8));
        let call = served(&message);
        assert_eq!(call.lists.read.len(), list.len());
        assert_eq!(call.lists.write.len(), list.len());
    }
}

// Shows S4.1.2-05.
#[test]
fn longest_list_of_the_smallest_chunks() {
    // 64 KiB of empty Write chunks: one pass, no recursion, nothing allocated.
    let mut rest = vec![0];
    rest.extend([1, 0].repeat(8000));
    rest.extend([0, 0]);
    let message = message(0, &rest, &null_call(XID));
    assert_eq!(serve(&message, &POLICY), err_chunk());
    let generous = proto::call::Policy {
        limits: proto::chunk::Limits::UNLIMITED,
        ..POLICY
    };
    let Served::Call(call) = serve(&message, &generous) else {
        panic!();
    };
    assert_eq!(call.lists.write.iter().count(), 8000);
}

// Shows N-12.
#[test]
fn nfs_binding_limits_are_served() {
    // RFC 8267: a Position-Zero chunk, another Read chunk, a Write chunk, 16 segments each.
    let mut list: Vec<_> = (0..16).map(|handle| read(0, handle, 6)).collect();
    list.extend((16..32).map(|handle| read(96, handle, 65_536)));
    let chunk: Vec<_> = (32..48).map(|handle| segment(handle, 65_536)).collect();
    let header = header::Call {
        xid: XID,
        credits: 1,
        body: Body::NoMsg,
        read: &list,
        write: &[&chunk],
        reply: Some(&chunk),
    };
    let mut message = vec![0; header.wire_len()];
    header.emit(&mut message).unwrap();
    let call = served(&message);
    assert_eq!(call.message_len(), 96 + 16 * 65_536);
}

// Shows S8.2.2-01, S8.2.2.3-01.
#[test]
fn protected_arguments_never_leave_the_message() {
    let credential = |procedure, service| {
        let mut call = words([XID, 0, 2, 100_003, 3, 7, 6, 20]);
        call.extend(words([1, procedure, 9, service, 0xF00D]));
        call.extend(words([0, 0, 4096]));
        call
    };
    // RPCSEC_GSS: data without protection; with integrity; with privacy; a context being made.
    for (procedure, service, served) in [(0, 1, true), (0, 2, false), (0, 3, false), (1, 1, false)]
    {
        let call = credential(procedure, service);
        let position = u32::try_from(call.len()).unwrap();
        let mut lists = vec![1, position];
        lists.extend(hloo(1, 4096));
        lists.extend([0, 0, 0]);
        let chunked = message(0, &lists, &call);
        match call::parse(&chunked, &POLICY) {
            Ok(_) => assert!(served),
            Err(Rejection::Refuse(_, reason)) => {
                assert!(!served);
                assert_eq!(reason, Reason::Position(position));
            }
            other => panic!("{other:?}"),
        }
        // Inline there is nothing to say against it.
        common::served(&message(0, &[0, 0, 0], &call));
    }
}

#[test]
fn chunk_may_begin_where_the_rpc_header_ends() {
    let mut lists = vec![1, 40];
    lists.extend(hloo(1, 4096));
    lists.extend([0, 0, 0]);
    served(&message(0, &lists, &null_call(XID)));
    lists[1] = 36;
    assert_eq!(
        serve(&message(0, &lists, &null_call(XID)), &POLICY),
        err_chunk()
    );
}

// Shows P-09.
#[test]
fn invalidated_handle_is_one_of_the_call() {
    let write = [segment(1, 100)];
    let reply_chunk = [segment(2, 100)];
    let both = offer(&[&[], &write], Some(&reply_chunk));
    assert_eq!(
        proto::reply_builder::invalidated_handle(&served(&both)),
        Some(1)
    );
    let one = offer(&[&[]], Some(&reply_chunk));
    assert_eq!(
        proto::reply_builder::invalidated_handle(&served(&one)),
        Some(2)
    );
    // Nobody reads or writes by the handle of an empty segment, which may be no handle at all.
    let empty = offer(&[&[segment(9, 0), segment(1, 100)]], None);
    assert_eq!(
        proto::reply_builder::invalidated_handle(&served(&empty)),
        Some(1)
    );
    let mut lists = vec![1, 96];
    lists.extend(hloo(3, 8));
    lists.extend([0, 0, 0]);
    let argument = message(0, &lists, &write_call(XID, 8));
    assert_eq!(
        proto::reply_builder::invalidated_handle(&served(&argument)),
        Some(3)
    );
}

/// Returns the reason to refuse this message.
fn reason(message: &[u8], policy: &Policy) -> Option<Reason> {
    match call::parse(message, policy) {
        Ok(_) => None,
        Err(Rejection::Refuse(_, reason)) => Some(reason),
        Err(Rejection::Drop(dropped)) => panic!("{dropped:?}"),
    }
}

#[test]
fn smallest_call_ends_with_its_procedure_number() {
    let call = null_call(XID);
    let inline = |length| message(0, &[0, 0, 0], &call[..length]);
    assert_eq!(reason(&inline(24), &POLICY), None);
    assert_eq!(reason(&inline(20), &POLICY), Some(Reason::Payload(20)));
    let long = |length| {
        let mut lists = vec![1, 0];
        lists.extend(hloo(1, length));
        lists.extend([0, 0, 0]);
        message(1, &lists, &[])
    };
    assert_eq!(reason(&long(24), &POLICY), None);
    assert_eq!(reason(&long(20), &POLICY), Some(Reason::Payload(20)));
}

#[test]
fn no_more_is_pulled_than_the_policy_says() {
    let policy = Policy {
        max_read_bytes: 4096,
        ..POLICY
    };
    let two = |second| {
        let mut lists = vec![1, 40];
        lists.extend(hloo(1, 96));
        lists.extend([1, 40]);
        lists.extend(hloo(2, second));
        lists.extend([0, 0, 0]);
        message(0, &lists, &null_call(XID))
    };
    assert_eq!(reason(&two(4000), &policy), None);
    assert_eq!(reason(&two(4001), &policy), Some(Reason::TooLong(4097)));
}
