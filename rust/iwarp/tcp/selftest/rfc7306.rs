// SPDX-License-Identifier: GPL-2.0

//! Tests of immediate data and of atomic operations (RFC 7306).

use super::{
    pause,
    write_of,
    Bench,
    SETTINGS,
    TIMEOUT_MS, //
};
use crate::prelude::*;
use provider::selftest::{
    Target,
    TARGET_LEN, //
};
use rdmap::{
    atomic::{
        Atomic,
        AtomicRequest,
        AtomicResponse, //
    },
    header::{
        Header,
        Model,
        Untagged, //
    },
    terminate::Terminate, //
};

pub(super) fn immediate_data_is_received() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let target = Target::new(&bench.shared.regions)?;
    for id in 1..=2 {
        bench.consumer.receive(id)?;
    }
    let message = Untagged::Immediate { solicited: true };
    bench.peer_sends(&write_of(target.stag(), 8, b"data")?)?;
    bench.peer_sends_untagged(message, 1, b"\x01\x02\x03\x04....")?;
    bench.peer_sends_untagged(message, 2, &[5; 8])?;
    let mut found = [None; 2];
    for found in &mut found {
        for _ in 0..TIMEOUT_MS {
            bench.round();
            *found = bench.consumer.immediate();
            if found.is_some() {
                break;
            }
            pause();
        }
    }
    let placed = target.octets()?.get(8..12) == Some(b"data");
    let due = [Some((1, [1, 2, 3, 4], 4)), Some((2, [5; 4], 0))];
    Ok(placed && found == due)
}

pub(super) fn immediate_data_is_sent() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    bench
        .consumer
        .write_immediate(1, [0xde, 0xad, 0xbe, 0xef])?;
    let (write, write_len) = bench.next_segment()?;
    let (immediate, immediate_len) = bench.next_segment()?;
    let lengths = (write_len, immediate_len) == (14, 26);
    let opcodes = (write[0], write[1], immediate[0], immediate[1]) == (0xc1, 0x40, 0x41, 0x48);
    let data = immediate[18..26] == [0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0];
    let once = bench.consumer.completion() == Some((1, true));
    Ok(lengths && opcodes && data && once && bench.consumer.completion().is_none())
}

/// Returns an Atomic Request that adds five.
fn add_five(stag: u32, offset: u64) -> AtomicRequest {
    AtomicRequest {
        identifier: 77,
        stag: Stag(stag),
        offset,
        operation: Atomic::FetchAdd { add: 5, mask: 0 },
    }
}

pub(super) fn atomic_operation_is_answered() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let target = Target::new(&bench.shared.regions)?;
    bench.consumer.receive(1)?;
    let add = add_five(target.stag(), 16);
    let swap = |compare| AtomicRequest {
        operation: Atomic::CmpSwap {
            swap: 15,
            swap_mask: u64::MAX,
            compare,
            compare_mask: u64::MAX,
        },
        ..add
    };
    let mut answered = true;
    let requests = [(add, 0), (add, 5), (swap(11), 10), (swap(10), 10)];
    for (msn, (request, original)) in (1..).zip(requests) {
        let request = request.emit();
        bench.peer_sends_untagged(Untagged::AtomicRequest, msn, request.as_slice())?;
        let (segment, length) = bench.next_segment()?;
        let (header, payload) = Header::parse(&segment[..length]).map_err(|_| EINVAL)?;
        let model = Model::Untagged {
            message: Untagged::AtomicResponse,
            msn,
            offset: 0,
        };
        let due = AtomicResponse {
            identifier: 77,
            original,
        };
        answered &= header == Header { last: true, model };
        answered &= AtomicResponse::parse(payload, 12) == Ok(due);
    }
    let mut due = [0; TARGET_LEN];
    due[16..24].copy_from_slice(&15_u64.to_ne_bytes());
    let unheard = bench.consumer.completion().is_none();
    // The Receive is that of the first message that has one.
    let message = Untagged::Immediate { solicited: false };
    bench.peer_sends_untagged(message, 1, &[7; 8])?;
    let mut heard = None;
    for _ in 0..TIMEOUT_MS {
        bench.round();
        heard = bench.consumer.immediate();
        if heard.is_some() {
            break;
        }
        pause();
    }
    let heard = heard == Some((1, [7; 4], 0));
    Ok(answered && target.octets()? == due && unheard && heard)
}

pub(super) fn misaligned_operation_is_refused() -> Result<bool> {
    let mut refused = true;
    for offset in [1, 4, 7] {
        let mut bench = Bench::new(&SETTINGS, None)?;
        let target = Target::new(&bench.shared.regions)?;
        let request = add_five(target.stag(), offset).emit();
        bench.peer_sends_untagged(Untagged::AtomicRequest, 1, request.as_slice())?;
        let (segment, _) = bench.next_segment()?;
        let terminate = Terminate::parse(&segment[18..]).ok_or(EINVAL)?;
        refused &= segment[1] == 0x47 && terminate.code == Code::new(0, 2, 7);
        refused &= target.octets()? == [0; TARGET_LEN];
    }
    Ok(refused)
}

pub(super) fn atomic_operation_completes() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let result = Target::new(&bench.shared.regions)?;
    bench
        .consumer
        .fetch_add(9, 0x1234_5678, 0x1000, 5, result.stag())?;
    let (segment, length) = bench.next_segment()?;
    let request = AtomicRequest::parse(&segment[18..], 52).map_err(|_| EINVAL)?;
    let due = AtomicRequest {
        identifier: request.identifier,
        offset: 0x1000,
        ..add_five(0x1234_5678, 0)
    };
    let asked = length == 70 && segment[1] == 0x4a && request == due;
    let early = bench.consumer.completion().is_none();
    let response = AtomicResponse {
        identifier: request.identifier,
        original: 0x0102_0304_0506_0708,
    };
    let response = response.emit();
    bench.peer_sends_untagged(Untagged::AtomicResponse, 1, response.as_slice())?;
    let mut completion = None;
    for _ in 0..TIMEOUT_MS {
        bench.round();
        completion = bench.consumer.completion();
        if completion.is_some() {
            break;
        }
        pause();
    }
    let stored = result.octets()?[..8] == 0x0102_0304_0506_0708_u64.to_ne_bytes();
    Ok(asked && early && completion == Some((9, true)) && stored)
}

pub(super) fn result_has_memory() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let result = Target::new(&bench.shared.regions)?;
    let stag = result.stag();
    drop(result);
    bench.consumer.fetch_add(9, 0x1234_5678, 0x1000, 5, stag)?;
    let (segment, length) = bench.next_segment()?;
    let terminate = Terminate::parse(&segment[18..length]).ok_or(EINVAL)?;
    let code = terminate.code;
    let told = segment[1] == 0x47 && (code.layer, code.etype) == (0, 0);
    Ok(told && bench.consumer.failed() == Some(9))
}
