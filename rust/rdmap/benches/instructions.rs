// SPDX-License-Identifier: GPL-2.0

//! Runs one operation once, for a tool that counts instructions: `cargo bench -p rdmap -- NAME`.
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
use rdmap::order::InOrder;
use rdmap::sctp::window::{RxWindow, WORDS};

fn main() {
    let mut tx = tx_half::<InOrder>();
    let mut ordered = rx_half(InOrder::new());
    let mut reordered = rx_half(RxWindow::new(Box::new([0; WORDS])));
    let (a_send, a_write) = (header(SEND), header(WRITE));
    let name = std::env::args().nth(1).unwrap_or_default();
    let done = match name.as_str() {
        "send/a_send" => send(black_box(&mut tx), black_box(SEND)),
        "send/a_write" => send(black_box(&mut tx), black_box(WRITE)),
        "receive/a_send" => receive(black_box(&mut ordered), (), black_box(&a_send)),
        "receive/a_write" => receive(black_box(&mut ordered), (), black_box(&a_write)),
        "receive/a_send_over_sctp" => receive(black_box(&mut reordered), 0, black_box(&a_send)),
        _ => panic!("no operation {name:?}"),
    };
    assert!(done, "{name} failed");
}
