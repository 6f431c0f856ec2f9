// SPDX-License-Identifier: GPL-2.0

//! Any octets in the rings that a process maps: what is decoded keeps the limits of the format.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use uabi::cqe::{Arm, Cqe, Status};
use uabi::ring::{Queue, Ring, Slots};
use uabi::rqe::Rqe;
use uabi::sg_list::SgList;
use uabi::sqe::{Operation, Payload, Sqe};

/// Takes words from the input, which goes on with zeros.
fn words<const N: usize>(input: &mut &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for word in &mut words {
        let (octets, rest) = input.split_at(input.len().min(8));
        *input = rest;
        let mut padded = [0; 8];
        padded[..octets.len()].copy_from_slice(octets);
        *word = u64::from_ne_bytes(padded);
    }
    words
}

fn check(list: &SgList) {
    assert!(list.as_slice().len() <= SgList::MAX_SGE);
    let mut sum = 0;
    for sge in list.as_slice() {
        sum += u64::from(sge.length);
        assert!(u128::from(sge.address) + u128::from(sge.length) <= 1 << 64 || sge.length == 0);
    }
    assert_eq!(sum, u64::from(list.len()));
}

fn send(words: &[u64; Sqe::WORDS]) -> Cqe {
    let sqe = Sqe::decode(words);
    let (status, length) = match sqe.operation {
        Err(refusal) => (refusal.status(), 0),
        Ok(Operation::Read { sink, .. }) => (Status::Success, sink.length),
        Ok(Operation::Send { payload, .. } | Operation::Write { payload, .. }) => {
            match &payload {
                Payload::List(list) => check(list),
                Payload::Inline(inline) => assert_eq!(inline.as_slice().len() as u32, inline.len()),
            }
            (Status::Success, payload.len())
        }
    };
    Cqe {
        id: sqe.id,
        opcode: sqe.opcode,
        status,
        length,
        invalidated: None,
        qp: 1,
    }
}

// The input is a number of slots, a number of entries, and entries of a Send Queue and of a Receive Queue.
fuzz_target!(|input: &[u8]| {
    let mut input = input;
    let [numbers] = words(&mut input);
    let Some(slots) = Slots::for_entries(numbers as u32 % 300, 256) else {
        return;
    };
    let mut rings =
        [Queue::Send, Queue::Receive, Queue::Completion].map(|queue| Ring::new(queue, slots));
    for _ in 0..numbers >> 32 & 0x3ff {
        for ring in &mut rings {
            ring.advance();
            assert!(ring.flags_offset() + 8 <= ring.mmap_len());
            // Where the limit of a shared Receive Queue is looked for.
            let ahead = ring.flags_offset_ahead(numbers as u32);
            assert!(ahead % 8 == 0 && ahead + 8 <= ring.mmap_len());
        }
    }
    while !input.is_empty() {
        let stores = send(&words(&mut input)).encode();
        assert!(!Cqe::is_free(stores.last.word));
        let [_, opcode, status, ..] = stores.last.word.to_ne_bytes();
        assert!(opcode <= 8 && status <= 9);
        if let Ok(list) = Rqe::decode(&words(&mut input)).list {
            check(&list);
        }
        let [control] = words(&mut input);
        let arm = Arm::of(control as u32);
        assert!(arm.is_due(true, Status::Success) == arm.is_due(false, Status::Flushed));
    }
});
