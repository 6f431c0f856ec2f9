// SPDX-License-Identifier: GPL-2.0

//! Measures encoding and decoding. `cargo bench --bench headers`

use std::hint::black_box;

use criterion::Criterion;

use proto_bench::*;

fn headers(criterion: &mut Criterion) {
    let mut out = [0; 256];
    for (name, call) in [("one chunk", ONE_CHUNK), ("two reads", TWO_READS)] {
        let message = send(&call);
        let mut bench = |what: &str, run: &mut dyn FnMut()| {
            criterion.bench_function(&format!("{what}, {name}"), |bencher| {
                bencher.iter(&mut *run)
            });
        };
        bench("encode call", &mut || {
            black_box(encode_call(black_box(&call), &mut out));
        });
        bench("decode lists", &mut || {
            black_box(decode_lists(black_box(&message)));
        });
        bench("decode call", &mut || {
            black_box(decode_call(black_box(&message)));
        });
    }
    let message = send(&ONE_CHUNK);
    let call = parsed(&message);
    let reply = reply_to(&message);
    criterion.bench_function("encode reply", |bencher| {
        bencher.iter(|| encode_reply(black_box(&call), &[4096], &mut out));
    });
    criterion.bench_function("decode reply", |bencher| {
        bencher.iter(|| decode_reply(black_box(&reply), black_box(&OFFER)));
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    headers(&mut criterion);
    criterion.final_summary();
}
