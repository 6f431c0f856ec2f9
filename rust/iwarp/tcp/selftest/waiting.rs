// SPDX-License-Identifier: GPL-2.0

//! Tests of what waits: for the first FPDU of the peer, for room, and for octets to be taken.

use super::{
    pause,
    Bench,
    SETTINGS,
    TIMEOUT_MS, //
};
use crate::prelude::*;
use crate::{
    llp::HalfClosed as _,
    stream::StreamProgress, //
};
use provider::selftest::{
    Consumer,
    MAX_LEN, //
};
use socket::{
    ConnState,
    Settings, //
};

/// An RDMA Write of no octets, and a Read Request that lacks the STag of its source and the octets
/// behind it.
const WRITE: [u8; 20] = *b"\x00\x0e\xc1\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const READ: [u8; 36] =
    *b"\x00\x2e\x41\x41\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\x04\0\0";

/// The length of the Read in octets, and in pages.
const READ_LEN: usize = 0x40000;
const READ_PAGES: usize = 64;

pub(super) fn passive_side_waits() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, Some(b"Reply"))?;
    bench.consumer.send(1, 5)?;
    // Two octets of length, a header, the payload, padding and a CRC.
    let (reply, fpdu) = (5, 2 + 18 + 5 + 3 + 4);
    let early = bench.run_for(100, |bench| bench.received > reply)?;
    let replied = bench.received == reply && bench.consumer.completion().is_none();
    bench.peer_sends(&WRITE)?;
    let late = bench.run_for(TIMEOUT_MS, |bench| bench.received >= reply + fpdu)?;
    Ok(!early && replied && late && bench.consumer.completion() == Some((1, true)))
}

/// Creates a stream that was given Sends until there was no space: the peer does not receive.
/// Returns the number of complete ones, too.
fn full() -> Result<(Bench, u64)> {
    let narrow = Settings {
        receive_buffer: Some(16_384),
        ..SETTINGS
    };
    let mut bench = Bench::new(&narrow, None)?;
    let (mut complete, mut waits) = (0, 0);
    bench.consumer.send(0, MAX_LEN)?;
    while waits < 200 {
        bench.round();
        match bench.consumer.completion() {
            Some((id, true)) if id == complete => {
                complete += 1;
                waits = 0;
                bench.consumer.send(complete, MAX_LEN)?;
            }
            None => {
                waits += 1;
                pause();
            }
            Some(_) => return Err(EINVAL),
        }
    }
    Ok((bench, complete))
}

pub(super) fn wait_for_room_has_an_end() -> Result<bool> {
    let mut idle = Bench::new(&SETTINGS, None)?;
    let mut nothing_waits = false;
    for _ in 0..TIMEOUT_MS {
        // Until the memory that began the connection was given back.
        nothing_waits =
            idle.round() == StreamProgress::Idle && idle.stream.poll_after_ms().is_none();
        if nothing_waits {
            break;
        }
        pause();
    }
    let (mut bench, _) = full()?;
    let waits = bench.round() == StreamProgress::Idle;
    Ok(nothing_waits && waits && bench.stream.poll_after_ms().is_some())
}

pub(super) fn complete_sends_arrive() -> Result<bool> {
    let (bench, complete) = full()?;
    let Bench {
        stream,
        consumer,
        mut peer,
        ..
    } = bench;
    let open = KBox::into_inner(stream).end(&consumer.queues);
    let flushed = consumer.completion() == Some((complete, false));
    let waited = !open.is_empty();
    // TCP delivers the octets that it has.
    drop(open);
    let mut received = 0;
    for _ in 0..TIMEOUT_MS {
        received += peer.receive(|frames| frames.discard())?;
        if peer.state() != ConnState::Open {
            break;
        }
        pause();
    }
    received += peer.receive(|frames| frames.discard())?;
    // Each with a header, its length and a CRC, at least.
    let expected = usize::try_from(complete * u64::from(MAX_LEN + 2 + 18 + 4))?;
    Ok(waited && flushed && complete > 0 && received >= expected)
}

pub(super) fn reads_are_answered_behind_the_end() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let stag = Consumer::register(&bench.shared.regions, READ_PAGES)?;
    bench.peer_sends(&READ)?;
    // The STag, the offset 0, no padding, and the CRC.
    let mut rest = [0; 16];
    let (to, _) = rest.split_first_chunk_mut().ok_or(EINVAL)?;
    *to = stag.to_be_bytes();
    bench.peer_sends(&rest)?;
    bench.peer.shutdown();
    let mut over = false;
    for _ in 0..TIMEOUT_MS {
        over = matches!(bench.round(), StreamProgress::Over { graceful: true, .. });
        if over {
            break;
        }
        bench.peer_receives()?;
        pause();
    }
    let Bench {
        stream,
        consumer,
        mut peer,
        mut received,
        ..
    } = bench;
    let mut last = KBox::into_inner(stream).end(&consumer.queues).half_close();
    for _ in 0..TIMEOUT_MS {
        last.step();
        received += peer.receive(|frames| frames.discard())?;
        if peer.state() == ConnState::Closed {
            break;
        }
        pause();
    }
    Ok(over && received > READ_LEN)
}
