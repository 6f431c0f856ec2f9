// SPDX-License-Identifier: GPL-2.0

//! Any bytes to a Responder: what it serves can be rebuilt and answered, what it refuses is
//! answered within bounds.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use proto::call::{parse, Call, Incoming, Part, Policy, Rejection};
use proto::chunk::Limits;
use proto::rdma_error::ErrorMessage;
use proto::reply_builder::{Placement, ReplyBuilder};
use proto::upper_layer_binding::Binding;

const POLICY: Policy = Policy {
    limits: Limits {
        read_segments: 64,
        write_chunks: 16,
        segments: 61,
    },
    max_read_bytes: 1 << 21,
    reverse: true,
};

fuzz_target!(|message: &[u8]| {
    let parsed = parse(message, &POLICY);
    assert_eq!(parsed, parse(message, &POLICY));
    match parsed {
        Ok(Incoming::Call(call)) => serve(message, &call),
        Ok(_) => {}
        Err(Rejection::Drop(_)) => {}
        Err(Rejection::Refuse(refusal, _)) => {
            assert_eq!(message[..8], emit(&refusal)[..8]);
        }
    }
});

fn emit(refusal: &ErrorMessage) -> Vec<u8> {
    let mut out = [0; ErrorMessage::MAX_LEN];
    let length = refusal.emit(1, &mut out).unwrap();
    out[..length].to_vec()
}

fn serve(message: &[u8], call: &Call<'_>) {
    // The payload is what follows the header, and the parts are the whole message, each byte once.
    assert!(message.ends_with(call.payload));
    let (mut at, mut taken) = (0, 0);
    for part in call.parts() {
        at += match part {
            Part::Payload { from, length } => {
                assert_eq!(from, taken);
                taken += length;
                length
            }
            Part::Chunk { position, length } => {
                assert_eq!(at, u64::from(position));
                length
            }
            Part::Padding(length) => length,
        };
    }
    assert_eq!(taken, call.payload_len());
    assert_eq!(at, call.message_len());
    let _ = call.check_message(message);
    let binding = Binding::of(message);
    let _ = call.check_arguments(|position, after| {
        binding.argument(message.get(..usize::try_from(position).ok()?)?, after)
    });
    let _ = proto::reply_builder::invalidated_handle(call);

    // Half of every chunk is used; the reply takes whatever form it can.
    let mut placement = Placement::new(call, true);
    let mut written = Vec::new();
    while let Some(chunk) = placement.skip() {
        written.push(chunk.total() / 2);
    }
    for payload in [24, 1000, 4096, 1 << 20] {
        let Ok(answer) = ReplyBuilder::new(call, &written, payload, 4096) else {
            continue;
        };
        let mut out = [0; 4096];
        let length = answer.emit(1, &mut out).unwrap();
        assert_eq!(length, answer.wire_len());
        let reply = proto::reply::parse(&out[..length]);
        if answer.body() == proto::header::Body::NoMsg {
            let Ok(proto::reply::Incoming::Reply(reply)) = reply else {
                panic!("{reply:?}");
            };
            let offered: Vec<Vec<_>> = call
                .lists
                .write
                .iter()
                .map(|c| c.iter().collect())
                .collect();
            let write: Vec<&[_]> = offered.iter().map(|chunk| &chunk[..]).collect();
            let chunk: Option<Vec<_>> = call.lists.reply.map(|chunk| chunk.iter().collect());
            let offer = proto::reply::Offer {
                write: &write,
                reply: chunk.as_deref(),
            };
            let outcome = reply.check(&offer).unwrap();
            assert_eq!(u64::try_from(outcome.reply_chunk_len), Ok(payload));
        }
    }
}
