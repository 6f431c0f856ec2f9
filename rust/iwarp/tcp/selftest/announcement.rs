// SPDX-License-Identifier: GPL-2.0

//! Tests of the length of FPDUs, which depends on what the peer announces.

use super::{
    connected,
    established,
    next_fpdu,
    pause,
    Bench,
    ONE_READ,
    SETTINGS,
    TIMEOUT_MS, //
};
use crate::prelude::*;
use crate::tcp::established::Mulpdu;
use provider::selftest::Consumer;
use rdmap::{
    header::Header,
    mpa::announcement, //
};
use socket::Settings;

/// An announcement of 64,000 octets.
const ANNOUNCEMENT: [u8; 20] = *b"\x00\x0e\xc1\x40\0\0\0\0mulpdu\xfa\0\0\0\0\0";

/// A Write of no octets that is none.
const WRITE: [u8; 20] = *b"\x00\x0e\xc1\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// The length of a Send in octets: more than a segment of TCP has to a peer with a narrow window.
const LONG: u32 = 12_000;

fn bench(reply: Option<&[u8]>, mulpdu: Mulpdu) -> Result<Bench> {
    let narrow = Settings {
        receive_buffer: Some(16_384),
        ..SETTINGS
    };
    Bench::with_mulpdu(&narrow, reply, false, ONE_READ, Consumer::new()?, mulpdu)
}

/// Returns the length in octets of the next FPDU that the peer gets.
fn next_len(bench: &mut Bench) -> Result<usize> {
    for _ in 0..TIMEOUT_MS {
        bench.round();
        let found = bench.peer.receive(|frames| -> Result<_> {
            let Some(frame) = next_fpdu(frames)? else {
                return Ok(None);
            };
            let len = frame.len();
            frame.take()?;
            Ok(Some(len))
        })?;
        if let Some(len) = found {
            return Ok(len);
        }
        pause();
    }
    Err(EAGAIN)
}

/// Returns whether a long Send is one FPDU, to a peer that sends this first.
fn is_sent_whole(bench: &mut Bench, first: &[u8]) -> Result<bool> {
    bench.peer_sends(first)?;
    bench.run_for(20, |_| false)?;
    bench.consumer.send(1, LONG)?;
    // Two octets of length, a header, the payload and a CRC.
    let whole = 2 + Header::UNTAGGED_LEN + usize::try_from(LONG)? + 4;
    Ok(next_len(bench)? == whole)
}

pub(super) fn active_side_announces() -> Result<bool> {
    let mut bench = bench(None, Mulpdu::Announced)?;
    let (segment, len) = bench.next_segment()?;
    let announced = segment.get(..len).and_then(announcement::parse);
    Ok(announced.is_some() && is_sent_whole(&mut bench, &ANNOUNCEMENT)?)
}

pub(super) fn passive_side_answers() -> Result<bool> {
    let mut answering = bench(Some(b"Reply"), Mulpdu::Announced)?;
    answering.peer_sends(&ANNOUNCEMENT)?;
    let answered = answering.run_for(TIMEOUT_MS, |bench| bench.received >= 25)?;
    // Once.
    answering.peer_sends(&ANNOUNCEMENT)?;
    let again = answering.run_for(100, |bench| bench.received > 25)?;
    let mut silent = bench(Some(b"Reply"), Mulpdu::Announced)?;
    silent.peer_sends(&WRITE)?;
    let answers_a_write = silent.run_for(100, |bench| bench.received > 5)?;
    Ok(answered && !again && !answers_a_write && silent.received == 5)
}

pub(super) fn others_get_what_fits() -> Result<bool> {
    let mut unannounced = bench(None, Mulpdu::Announced)?;
    unannounced.next_segment()?;
    if is_sent_whole(&mut unannounced, &WRITE)? {
        return Ok(false);
    }
    // An administrator has decided.
    let mut fixed = bench(None, Mulpdu::Fixed(1))?;
    if is_sent_whole(&mut fixed, &ANNOUNCEMENT)? {
        return Ok(false);
    }
    let mut long = bench(None, Mulpdu::Fixed(64_768))?;
    is_sent_whole(&mut long, &WRITE)
}

pub(super) fn short_messages_go_together() -> Result<bool> {
    let (connection, _peer) = connected(&SETTINGS)?;
    let fixed = Mulpdu::Fixed(64_768);
    let mut open = established(connection, None, false, ONE_READ, fixed)?;
    let mut count = 0;
    // The buffer that a connection has from the beginning.
    while count < 100 && open.has_space() {
        let added = open.add(&[0; Header::UNTAGGED_LEN], 0, |_| Ok(()));
        added.map_err(|_| EINVAL)?;
        count += 1;
    }
    Ok(count == 100)
}
