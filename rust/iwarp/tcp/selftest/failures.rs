// SPDX-License-Identifier: GPL-2.0

//! Tests of FPDUs that are wrong, and of what a consumer learns of them and of other failures.

use super::{
    next_fpdu,
    pause,
    write_of,
    Bench,
    SETTINGS,
    TIMEOUT_MS, //
};
use crate::prelude::*;
use crate::stream::StreamProgress;
use provider::{
    queue::QpEvent,
    selftest::{
        Target,
        TARGET_LEN, //
    }, //
};
use rdmap::header::Untagged;

pub(super) fn wrong_crc_places_nothing() -> Result<bool> {
    let mut bench = Bench::with_crc(&SETTINGS, None, true)?;
    let target = Target::new(&bench.shared.regions)?;
    let mut expected = [0; TARGET_LEN];
    expected[..4].copy_from_slice(b"good");
    bench.peer_sends(&write_of(target.stag(), 0, b"good")?)?;
    let placed = bench.run_for(TIMEOUT_MS, |_| target.octets() == Ok(expected))?;
    // One packet with an FPDU of which an octet has changed, and one that is correct.
    let mut both = [0; 48];
    both[..24].copy_from_slice(&write_of(target.stag(), 4, b"bad.")?);
    both[24..].copy_from_slice(&write_of(target.stag(), 8, b"late")?);
    both[19] ^= 1;
    bench.peer_sends(&both)?;
    let (mut over, mut code) = (false, None);
    for _ in 0..TIMEOUT_MS {
        over = over || matches!(bench.round(), StreamProgress::Over { graceful: true, .. });
        // An end before the Terminate is an error.
        code = bench.received_terminate()?;
        if code.is_some() {
            break;
        }
        pause();
    }
    let terminated = code == Some(Code::new(2, 0, 2));
    let counted = bench.shared.counters.get(Count::BadCrc) == 1;
    Ok(placed && over && terminated && counted && target.octets() == Ok(expected))
}

pub(super) fn crc_is_not_looked_at() -> Result<bool> {
    let mut bench = Bench::new(&SETTINGS, None)?;
    let target = Target::new(&bench.shared.regions)?;
    let mut expected = [0; TARGET_LEN];
    expected[..4].copy_from_slice(b"good");
    let mut write = write_of(target.stag(), 0, b"good")?;
    write[23] ^= 1;
    bench.peer_sends(&write)?;
    let placed = bench.run_for(TIMEOUT_MS, |_| target.octets() == Ok(expected))?;
    // The answer to a segment of another version, which is a Terminate.
    bench.peer_sends(&[0, 4, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0])?;
    let mut field = None;
    for _ in 0..TIMEOUT_MS {
        bench.round();
        field = bench.peer.receive(|frames| -> Result<Option<[u8; 4]>> {
            let Some(frame) = next_fpdu(frames)? else {
                return Ok(None);
            };
            let mut field = [0xff; 4];
            frame.copy_to_slice(frame.len() - 4, &mut field)?;
            Ok(Some(field))
        })?;
        if field.is_some() {
            break;
        }
        pause();
    }
    let counted = bench.shared.counters.get(Count::BadCrc) == 0;
    Ok(placed && counted && field == Some([0; 4]))
}

/// Returns the event of a stream that ends after its peer has done that.
fn event_after(
    with_crc: bool,
    peer_does: impl FnOnce(&mut Bench) -> Result,
) -> Result<Option<QpEvent>> {
    let mut bench = Bench::with_crc(&SETTINGS, None, with_crc)?;
    peer_does(&mut bench)?;
    for _ in 0..TIMEOUT_MS {
        if matches!(bench.round(), StreamProgress::Over { .. }) {
            let Bench {
                stream, consumer, ..
            } = bench;
            drop(KBox::into_inner(stream).end(&consumer.queues));
            return Ok(consumer.event());
        }
        pause();
    }
    Err(EAGAIN)
}

pub(super) fn failures_are_events() -> Result<bool> {
    let mut wrong_crc = write_of(1, 0, b"bad.")?;
    wrong_crc[19] ^= 1;
    let unknown_stag = write_of(0x1234_5678, 0, b"none")?;
    let (early_read, terminate) = ([0; 28], [0; 4]);
    let events = [
        event_after(true, |bench| bench.peer_sends(&wrong_crc))?,
        event_after(false, |bench| bench.peer_sends(&unknown_stag))?,
        event_after(false, |bench| {
            bench.peer_sends_untagged(Untagged::ReadRequest, 7, &early_read)
        })?,
        event_after(false, |bench| {
            bench.peer_sends_untagged(Untagged::Terminate, 1, &terminate)
        })?,
        event_after(false, |bench| {
            bench.peer.shutdown();
            Ok(())
        })?,
    ];
    let due = [
        Some(QpEvent::Fatal),
        Some(QpEvent::AccessError),
        Some(QpEvent::RequestError),
        Some(QpEvent::Fatal),
        None,
    ];
    Ok(events == due)
}
