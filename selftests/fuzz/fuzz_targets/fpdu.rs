// SPDX-License-Identifier: GPL-2.0

//! Any octets of a TCP stream: start-up frames, then FPDUs, with markers and without. What is read comes back when it is
//! written.

#![no_main]
#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "the fuzzer reports a target that panics"
)]

use libfuzzer_sys::fuzz_target;
use rdmap::mpa::frame::Layout;
use rdmap::mpa::marker::Position;
use rdmap::mpa::startup::{Frame, Kind};

fuzz_target!(|input: &[u8]| {
    let Some((first, input)) = input.split_first() else {
        return;
    };
    for kind in [Kind::Request, Kind::Reply] {
        if let Ok(Some((frame, length))) = Frame::parse(kind, input) {
            let mut out = [0; Frame::MAX_LEN];
            assert_eq!(frame.emit(&mut out), Ok(length));
            assert_eq!(
                Frame::parse(kind, &out[..length]),
                Ok(Some((frame, length)))
            );
        }
    }
    let (with_crc, markers) = (first & 1 != 0, first & 2 != 0);
    let mut at = match markers {
        true => Position::behind_start(usize::from(first >> 2) * 4),
        false => Position::NO_MARKERS,
    };
    let mut rest = input;
    while let Some(layout) = Layout::of(rest, at) {
        let Some(Ok(())) = layout.verify(rest, with_crc) else {
            break;
        };
        let pieces: Vec<&[u8]> = layout.ulpdu(rest).collect();
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert_eq!(length, usize::from(layout.ulpdu_len()));
        let mut out = vec![0; layout.wire_len()];
        assert_eq!(layout.emit(&pieces, with_crc, &mut out), Some(out.len()));
        assert_eq!(layout.verify(&out, with_crc), Some(Ok(())));
        assert!(layout
            .ulpdu(&out)
            .flatten()
            .eq(pieces.iter().copied().flatten()));
        rest = &rest[layout.wire_len()..];
        at = layout.next();
    }
});
