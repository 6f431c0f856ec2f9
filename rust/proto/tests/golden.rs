// SPDX-License-Identifier: GPL-2.0

//! The golden vectors, encoded and decoded byte for byte.

use proto::chunk::{Limits, Lists, ReadSegment, Segment};
use proto::header::{Body, Call, Prefix};
use proto::rdma_error::{ErrorMessage, RdmaError};
use proto::reply::{self, Incoming, Offer};
use proto::reply_builder::ReplyBuilder;
use proto::xdr::Reader;

use crate::common::golden::*;
use crate::common::*;

const A: Segment = Segment {
    handle: 0x1101,
    length: 4096,
    offset: 0x1_0000_0000,
};
const B: Segment = Segment {
    handle: 0x1202,
    length: 100,
    offset: 0x2_0000_0010,
};
const C: Segment = Segment {
    handle: 0x1303,
    length: 3,
    offset: 0x3_0000_00ff,
};
const PLAIN: Call<'_> = Call {
    xid: XID,
    credits: 32,
    body: Body::Msg,
    read: &[],
    write: &[],
    reply: None,
};

fn at(position: u32, segment: Segment) -> ReadSegment {
    ReadSegment { position, segment }
}

#[track_caller]
fn encodes(call: &Call<'_>, vector: &str) {
    let mut out = [0xA5; 200];
    let length = call.emit(&mut out).unwrap();
    assert_eq!(out[..length], hex(vector));
    assert_eq!(length, call.wire_len());
    assert!(out[length..].iter().all(|byte| *byte == 0xA5));
}

fn lists(message: &[u8]) -> Lists<'_> {
    let mut reader = Reader::new(message);
    Prefix::parse(&mut reader).unwrap();
    Lists::parse(&mut reader, &Limits::UNLIMITED).unwrap()
}

// Shows GV-01, S2.2.4-01, S3.2-01, S4-01, S4.1.2-01, S4.2.2-01, S4.3-01.
#[test]
fn gv01_message_without_chunks() {
    encodes(&PLAIN, GV01);
    let message = hex(GV01);
    assert_eq!(message.len(), 28);
    assert!(lists(&message).is_empty());
}

// Shows GV-02, S2.2.4-01, S2.3.2-01, S3.4.3-01, S4-01, S4.1.2-01, S4.2.2-01.
#[test]
fn gv02_plain_segment() {
    let reply = &[A];
    let mut out = [0; 48];
    let call = Call {
        reply: Some(reply),
        ..PLAIN
    };
    call.emit(&mut out).unwrap();
    assert_eq!(out[32..], hex(GV02));
    let chunk = lists(&out).reply.unwrap();
    assert_eq!(chunk.iter().collect::<Vec<_>>(), [A]);
}

// Shows GV-03, S2.2.4-01, S3.4.5-01, S3.4.5-03, S4-01, S4.1.2-01, S4.2.2-01, S4.7-01.
#[test]
fn gv03_read_chunk_of_two_segments() {
    let read = [at(96, A), at(96, B)];
    encodes(
        &Call {
            read: &read,
            ..PLAIN
        },
        GV03,
    );
    let message = hex(GV03);
    let lists = lists(&message);
    assert_eq!(lists.read.len(), 2);
    assert!(lists.read.iter().eq(read));
    assert!(lists.read.chunk(96).eq([A, B]));
}

// Shows GV-04, S2.2.4-01, S3.4.6-01, S4-01, S4.1.2-01, S4.2.2-01, S4.7-01.
#[test]
fn gv04_two_write_chunks() {
    encodes(
        &Call {
            write: &[&[A, B, C], &[B, C]],
            ..PLAIN
        },
        GV04,
    );
    let message = hex(GV04);
    let chunks: Vec<Vec<_>> = lists(&message)
        .write
        .iter()
        .map(|c| c.iter().collect())
        .collect();
    assert_eq!(chunks, [vec![A, B, C], vec![B, C]]);
}

// Shows GV-05, S2.2.4-01, S4-01, S4.1.2-01, S4.2.2-01, S4.7-01.
#[test]
fn gv05_reply_chunk() {
    encodes(
        &Call {
            reply: Some(&[A, B]),
            ..PLAIN
        },
        GV05,
    );
    let message = hex(GV05);
    assert!(lists(&message).reply.unwrap().iter().eq([A, B]));
}

// Shows GV-06, S2.2.4-01, S3.4.6-01, S3.4.6-07, S4-01, S4.1.2-01, S4.2.2-01, S4.3.2.3-02, S4.7-01.
#[test]
fn gv06_empty_write_chunk_is_a_chunk() {
    encodes(
        &Call {
            write: &[&[], &[B]],
            ..PLAIN
        },
        GV06,
    );
    let message = hex(GV06);
    let write = lists(&message).write;
    assert_eq!(write.len(), 2);
    assert_eq!(
        write.iter().map(|chunk| chunk.len()).collect::<Vec<_>>(),
        [0, 1]
    );
}

// Shows GV-07, S2.2.4-01, S3.5.3-02, S3.5.3-03, S4-01, S4.1.2-01, S4.2.2-01, S4.2.4-03.
#[test]
fn gv07_long_call() {
    encodes(
        &Call {
            body: Body::NoMsg,
            read: &[at(0, A)],
            reply: Some(&[B]),
            ..PLAIN
        },
        GV07,
    );
    let message = hex(GV07);
    let call = served(&message);
    assert_eq!(call.body, Body::NoMsg);
    assert_eq!(call.message_len(), 4096);
    assert!(call.lists.read.chunk(0).eq([A]));
}

// Shows GV-08, S2.2.4-01, S4-01, S4.1.2-01, S4.2.2-01, S4.3.3-04.
#[test]
fn gv08_long_reply() {
    let offered = hex(GV07);
    let call = served(&offered);
    // 8 bytes of threshold less than the message needs inline.
    let answer = ReplyBuilder::new(&call, &[], 64, 48 + 56).unwrap();
    let mut out = [0xA5; 60];
    assert_eq!(answer.emit(GRANT, &mut out), Ok(48));
    assert_eq!(out[..48], hex(GV08));
    assert_eq!(out[48..], [0xA5; 12]);

    let message = hex(GV08);
    let Ok(Incoming::Reply(reply)) = reply::parse(&message) else {
        panic!();
    };
    let offer = Offer {
        write: &[],
        reply: Some(&[B]),
    };
    assert_eq!(reply.check(&offer).unwrap().reply_chunk_len, 64);
}

// Shows GV-09, S2.2.4-01, S4-01, S4.1.2-07, S4.5-07, S4.5-08, S4.5.1-01.
#[test]
fn gv09_unknown_version() {
    let mut request = hex(GV11);
    request[7] = 7;
    assert_eq!(serve(&request, &POLICY), Served::ReplyBuilder(hex(GV09)));
}

// Shows GV-10, S2.2.4-01, S4-01, S4.1.2-07, S4.5-07, S4.5-08.
#[test]
fn gv10_err_chunk_has_twenty_bytes() {
    let refusal = ErrorMessage {
        xid: XID,
        version: 1,
        error: RdmaError::Chunk,
    };
    assert_eq!(error(&refusal), hex(GV10));
    let message = hex(GV10);
    assert_eq!(message.len(), 20);
    assert_eq!(
        reply::parse(&message),
        Ok(Incoming::Error {
            xid: XID,
            credits: 16,
            kind: RdmaError::Chunk
        })
    );
}

// Shows GV-11, S3.2-01, S3.2-02, S4-01, S4.2.1-01.
#[test]
fn gv11_short_call() {
    let message = hex(GV11);
    let mut sent = [0; 68];
    let length = PLAIN.emit(&mut sent).unwrap();
    sent[length..].copy_from_slice(&null_call(XID));
    assert_eq!(sent[..], message);
    let call = served(&message);
    assert_eq!(call.payload, null_call(XID));
    assert_eq!(call.credits, 32);
    assert_eq!(call.message_len(), 40);
}

// Shows GV-12, S4-01, S4.3.3-04, S4.3.3-05.
#[test]
fn gv12_short_reply_repeats_the_reply_chunk() {
    let message = hex(GV12);
    let offered = {
        let mut call = hex(GV05);
        // One segment instead of two.
        call.drain(32..48);
        call[31] = 1;
        call.extend(null_call(XID));
        call
    };
    let call = served(&offered);
    let answer = ReplyBuilder::new(&call, &[], 24, 1024).unwrap();
    let mut out = [0; 48];
    answer.emit(GRANT, &mut out).unwrap();
    assert_eq!(out[..], message[..48]);

    let Ok(Incoming::Reply(reply)) = reply::parse(&message) else {
        panic!();
    };
    let offer = Offer {
        write: &[],
        reply: Some(&[B]),
    };
    let outcome = reply.check(&offer).unwrap();
    assert_eq!(outcome.inline, &message[48..]);
    assert_eq!(outcome.reply_chunk_len, 0);
}

// Shows S4.2-01, S7-02.
#[test]
fn version_agnostic_words_stay_in_place() {
    for version in [0, 1, 2, 7, u32::MAX] {
        let message = words([1, version, 3, 4]);
        assert_eq!(
            Prefix::parse(&mut Reader::new(&message)),
            Ok(Prefix {
                xid: 1,
                version,
                credits: 3,
                procedure: 4
            })
        );
    }
}
