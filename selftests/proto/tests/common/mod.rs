// SPDX-License-Identifier: GPL-2.0

//! What several tests need: words to bytes, RPC messages, a Responder with a policy.

#![allow(dead_code)] // Each test program uses its own part.

pub mod golden;

use proto::call;
use proto::call::Call;
use proto::call::Incoming;
use proto::call::Policy;
use proto::call::Rejection;
use proto::chunk::Limits;
use proto::chunk::ReadSegment;
use proto::chunk::Segment;
use proto::refusal::Refusal;

/// The transaction of most messages.
pub const XID: u32 = 0xa1b2_c3d4;

/// What the Responder of these tests grants.
pub const GRANT: u32 = 16;

/// A Responder with a back channel in use.
pub const POLICY: Policy = Policy {
    limits: Limits {
        read_segments: 64,
        write_chunks: 128,
        segments: 61,
    },
    max_pull: 1024 * 1024 + 4096,
    reverse: true,
};

/// A Responder without Calls of its own.
pub const FORWARD_ONLY: Policy = Policy {
    reverse: false,
    ..POLICY
};

/// The bytes of big-endian words.
pub fn words(words: impl AsRef<[u32]>) -> Vec<u8> {
    let words = words.as_ref().iter();
    words.flat_map(|word| word.to_be_bytes()).collect()
}

/// The bytes written as hexadecimal digits.
pub fn hex(digits: &str) -> Vec<u8> {
    let words = digits.split_whitespace();
    words
        .flat_map(|word| u32::from_str_radix(word, 16).unwrap().to_be_bytes())
        .collect()
}

/// `segment(handle, length)` at an offset that its handle tells.
pub fn segment(handle: u32, length: u32) -> Segment {
    Segment {
        handle,
        length,
        offset: u64::from(handle) << 32,
    }
}

/// A read segment at `position`.
pub fn read(position: u32, handle: u32, length: u32) -> ReadSegment {
    ReadSegment {
        position,
        segment: segment(handle, length),
    }
}

/// The four words of [`segment`].
pub fn hloo(handle: u32, length: u32) -> [u32; 4] {
    [handle, length, handle, 0]
}

/// An NFSv3 NULL Call, 40 bytes.
pub fn null_call(xid: u32) -> Vec<u8> {
    words([xid, 0, 2, 100_003, 3, 0, 0, 0, 0, 0])
}

/// An NFSv3 WRITE Call without its data: 96 bytes, AUTH_NONE, a file handle of 32 bytes.
pub fn write_call(xid: u32, count: u32) -> Vec<u8> {
    let mut call = words([xid, 0, 2, 100_003, 3, 7, 0, 0, 0, 0]);
    call.extend(words([32]));
    call.extend([0xF4; 32]);
    call.extend(words([0, 0, count, 2, count]));
    call
}

/// An accepted reply with `words` as its result.
pub fn reply(xid: u32, result: &[u32]) -> Vec<u8> {
    let mut reply = words([xid, 1, 0, 0, 0, 0]);
    reply.extend(words(result));
    reply
}

/// A version-1 header with these words behind the fixed ones, followed by `payload`.
pub fn message(procedure: u32, rest: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut message = words([XID, 1, 32, procedure]);
    message.extend(words(rest));
    message.extend(payload);
    message
}

/// What a Responder makes of a message.
#[derive(Debug, PartialEq)]
pub enum Served<'a> {
    /// It is dropped.
    Drop,
    /// This is sent back at once.
    Answer(Vec<u8>),
    /// It goes to the RPC layer.
    Call(Call<'a>),
    /// It goes to the Requester of the reverse direction.
    Reverse(Incoming<'a>),
}

/// Hands a message to a Responder.
pub fn serve<'a>(message: &'a [u8], policy: &Policy) -> Served<'a> {
    match call::parse(message, policy) {
        Ok(Incoming::Call(call)) => Served::Call(call),
        Ok(incoming) => Served::Reverse(incoming),
        Err(Rejection::Drop(_)) => Served::Drop,
        Err(Rejection::Refuse(refusal, _)) => Served::Answer(error(&refusal)),
    }
}

/// The bytes of an RDMA_ERROR.
pub fn error(refusal: &Refusal) -> Vec<u8> {
    let mut out = [0xA5; Refusal::MAX_LEN];
    let length = refusal.emit(GRANT, &mut out).unwrap();
    assert!(out[length..].iter().all(|byte| *byte == 0xA5));
    out[..length].to_vec()
}

/// The ERR_CHUNK that refuses [`XID`].
pub fn err_chunk<'a>() -> Served<'a> {
    Served::Answer(words([XID, 1, GRANT, 4, 2]))
}

/// The Call that a message is.
#[track_caller]
pub fn served<'a>(message: &'a [u8]) -> Call<'a> {
    match serve(message, &POLICY) {
        Served::Call(call) => call,
        other => panic!("not served: {other:x?}"),
    }
}
