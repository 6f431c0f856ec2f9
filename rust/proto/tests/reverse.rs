// SPDX-License-Identifier: GPL-2.0

//! The reverse direction: the server calls the client.

use proto::call::{self, Dropped, Rejection};
use proto::error::Misuse;
use proto::rdma_error::RdmaError;
use proto::reply::{self, Discard, Incoming};
use proto::reverse::{Header, Message};

use crate::common::*;

/// Returns a message of this length without chunks, whose payload has this direction.
fn plain(direction: u32, length: usize) -> Vec<u8> {
    let payload = words([XID, direction, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut message = message(0, &[0, 0, 0], &payload);
    message.truncate(length);
    message
}

// Shows B-10, N-14.
#[test]
fn header_is_twenty_eight_bytes() {
    let header = Header {
        xid: XID,
        credits: 2,
    };
    let mut out = [0xA5; 32];
    assert_eq!(header.emit(&mut out), Ok(28));
    assert_eq!(out[..28], words([XID, 1, 2, 0, 0, 0, 0]));
    assert_eq!(out[28..], [0xA5; 4]);
    assert!(header.emit(&mut out[..27]).is_err());
    let none = Header {
        credits: 0,
        ..header
    };
    assert_eq!(none.emit(&mut out), Err(Misuse::ZeroCredits));
}

// Shows S2.2.2-01, B-11.
#[test]
fn client_tells_calls_by_a_direction_word_that_is_there() {
    for length in 28..52 {
        let short = Discard::Payload(u64::try_from(length - 28).unwrap());
        assert_eq!(reply::parse(&plain(0, length)), Err(short));
    }
    let message = plain(0, 52);
    let call = Message {
        xid: XID,
        credits: 32,
        payload: &message[28..],
    };
    assert_eq!(reply::parse(&message), Ok(Incoming::ReverseCall(call)));
    assert_eq!(reply::parse(&plain(2, 68)), Err(Discard::Direction(2)));
}

// Shows B-10.
#[test]
fn client_refuses_nothing_and_follows_no_chunks_of_a_call() {
    let calls = [
        &[1, 0, 1, 100, 0, 0, 0, 0, 0][..],
        &[1, 96, 1, 100, 0, 0, 0, 0, 0],
        &[0, 1, 0, 0, 0],
        &[0, 0, 1, 0],
    ];
    for lists in calls {
        let message = message(0, lists, &null_call(XID));
        assert_eq!(reply::parse(&message), Err(Discard::ReverseChunks));
    }
}

// Shows B-12.
#[test]
fn server_tells_replies_by_a_direction_word_that_is_there() {
    // Too short to have the word: a Call without a payload.
    for length in 28..36 {
        assert_eq!(serve(&plain(1, length), &POLICY), err_chunk());
    }
    let dropped = Err(Rejection::Drop(Dropped::Reply));
    for length in 36..48 {
        assert_eq!(call::parse(&plain(1, length), &POLICY), dropped);
    }
    let message = plain(1, 48);
    let reply = Message {
        xid: XID,
        credits: 32,
        payload: &message[28..],
    };
    let expected = Ok(call::Incoming::ReverseReply(reply));
    assert_eq!(call::parse(&message, &POLICY), expected);
    assert_eq!(call::parse(&message, &FORWARD_ONLY), dropped);
}

#[test]
fn server_drops_replies_that_are_not_plain() {
    let dropped = Err(Rejection::Drop(Dropped::Reply));
    for lists in [&[0, 1, 0, 0, 0][..], &[0, 0, 1, 0]] {
        let message = message(0, lists, &reply(XID, &[]));
        assert_eq!(call::parse(&message, &POLICY), dropped);
    }
    let message = message(0, &[0, 0, 0], &reply(7, &[]));
    assert_eq!(call::parse(&message, &POLICY), dropped);
}

#[test]
fn long_message_has_no_direction() {
    // What stands behind a header that has its payload elsewhere is nobody's reply.
    let mut rest = vec![1, 0];
    rest.extend(hloo(1, 64));
    rest.extend([0, 0, 0]);
    let message = message(1, &rest, &reply(XID, &[]));
    assert_eq!(serve(&message, &POLICY), err_chunk());
}

// Shows B-09.
#[test]
fn server_takes_errors_only_if_it_has_called() {
    for (rest, kind) in [
        (&[2][..], RdmaError::Chunk),
        (&[1, 1, 3], RdmaError::Version { low: 1, high: 3 }),
    ] {
        let message = message(4, rest, &[]);
        let error = call::Incoming::ReverseError {
            xid: XID,
            credits: 32,
            kind,
        };
        assert_eq!(call::parse(&message, &POLICY), Ok(error));
        let dropped = Err(Rejection::Drop(Dropped::Error));
        assert_eq!(call::parse(&message, &FORWARD_ONLY), dropped);
    }
    for rest in [&[][..], &[1], &[1, 1], &[3, 0, 0]] {
        assert_eq!(serve(&message(4, rest, &[]), &POLICY), Served::Drop);
    }
}
