// SPDX-License-Identifier: GPL-2.0

//! Runs one operation once, for a tool that counts instructions: `cargo bench -p proto -- NAME`.
//! `selftests/measure/instructions.sh` does the counting.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a measurement that panics has failed"
)]

mod operations;

use std::hint::black_box;

use operations::*;

fn main() {
    let mut out = [0; 256];
    let one_chunk = send(&ONE_CHUNK);
    let two_reads = send(&TWO_READS);
    let reply = reply_to(&one_chunk);
    let call = parsed(&one_chunk);
    let name = std::env::args().nth(1).unwrap_or_default();
    let done = match name.as_str() {
        "encode_call/one_chunk" => encode_call(black_box(&ONE_CHUNK), &mut out) == 52,
        "encode_call/two_reads" => encode_call(black_box(&TWO_READS), &mut out) == 76,
        "decode_lists/one_chunk" => decode_lists(black_box(&one_chunk)) == 1,
        "decode_lists/two_reads" => decode_lists(black_box(&two_reads)) == 0,
        "decode_call/one_chunk" => decode_call(black_box(&one_chunk)),
        "decode_call/two_reads" => decode_call(black_box(&two_reads)),
        "encode_reply/one_chunk" => encode_reply(black_box(&call), &[4096], &mut out) == 52,
        "decode_reply/one_chunk" => decode_reply(black_box(&reply), black_box(&OFFER)) == 4096,
        _ => panic!("no operation {name:?}"),
    };
    assert!(done, "{name} failed");
}
