// SPDX-License-Identifier: GPL-2.0

//! Helpers of several tests: bytes, cases, a Responder with a policy.

pub mod golden;
pub mod hostile;
pub mod hostile_replies;
pub mod line;
pub mod wire;

use proto::call::{self, Call, Incoming, Policy, Rejection};
use proto::chunk::{Limits, ReadSegment, Segment};
use proto::rdma_error::ErrorMessage;
pub use wire::*;

/// A Responder with a back channel in use.
pub const POLICY: Policy = Policy {
    limits: Limits {
        read_segments: 64,
        write_chunks: 128,
        segments: 61,
    },
    max_read_bytes: 1024 * 1024 + 4096,
    reverse: true,
};

/// A Responder without Calls of its own.
pub const FORWARD_ONLY: Policy = Policy {
    reverse: false,
    ..POLICY
};

/// Returns a segment at an offset that is derived from its handle.
pub fn segment(handle: u32, length: u32) -> Segment {
    Segment {
        handle,
        length,
        offset: u64::from(handle) << 32,
    }
}

/// Returns a read segment at `position`.
pub fn read(position: u32, handle: u32, length: u32) -> ReadSegment {
    ReadSegment {
        position,
        segment: segment(handle, length),
    }
}

/// The treatment of a message by a Responder.
#[derive(Debug, PartialEq)]
pub enum Served<'a> {
    /// The message is dropped.
    Drop,
    /// The Responder sends this back at once.
    ReplyBuilder(Vec<u8>),
    /// The message goes to the RPC layer.
    Call(Call<'a>),
    /// The message goes to the Requester of the reverse direction.
    Reverse(Incoming<'a>),
}

/// Passes a message to a Responder.
pub fn serve<'a>(message: &'a [u8], policy: &Policy) -> Served<'a> {
    match call::parse(message, policy) {
        Ok(Incoming::Call(call)) => {
            assert_eq!(call.outline().call(message), Some(call));
            Served::Call(call)
        }
        Ok(incoming) => Served::Reverse(incoming),
        Err(Rejection::Drop(_)) => Served::Drop,
        Err(Rejection::Refuse(refusal, _)) => Served::ReplyBuilder(error(&refusal)),
    }
}

/// Returns the bytes of an RDMA_ERROR.
pub fn error(refusal: &ErrorMessage) -> Vec<u8> {
    let mut out = [0xA5; ErrorMessage::MAX_LEN];
    let length = refusal.emit(GRANT, &mut out).unwrap();
    assert!(out[length..].iter().all(|byte| *byte == 0xA5));
    out[..length].to_vec()
}

/// Returns the ERR_CHUNK that refuses [`XID`].
pub fn err_chunk<'a>() -> Served<'a> {
    Served::ReplyBuilder(words([XID, 1, GRANT, 4, 2]))
}

/// Returns the Call in a message.
#[track_caller]
pub fn served<'a>(message: &'a [u8]) -> Call<'a> {
    match serve(message, &POLICY) {
        Served::Call(call) => call,
        other => panic!("not served: {other:x?}"),
    }
}
