// SPDX-License-Identifier: GPL-2.0

//! Tests of frames: those that are found in the receive queue, and those that do not fit in the
//! receive buffer, also while memory is short.

use super::fixture::{
    copy_to,
    exchange,
    frame,
    length,
    pause,
    send_urgent,
    take,
    wait,
    Pair,
    Seen,
    Watch,
    HEAD, //
};
use crate::prelude::*;
use crate::{
    ConnState,
    Next,
    SendBuf,
    Settings,
    TcpConn,
    Then,
    MAX_FRAME,
    MAX_HEAD, //
};
use core::sync::atomic::AtomicU32;
use ext::errno::eproto;

/// Waits until so many octets are there.
fn arrived(connection: &mut TcpConn<Watch>, octets: usize) -> bool {
    wait(|| connection.receive(|frames| frames.available()) == octets)
}

fn send(connection: &mut TcpConn<Watch>, octets: &[u8]) -> Result<bool> {
    Ok(connection.send([SendBuf::from(octets)], Then::Push)? == octets.len())
}

pub(super) fn frame_is_whole_however_it_was_cut() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    for (number, (len, portion)) in [
        (HEAD, 1),
        (20, 1),
        (1_448, 7),
        (5_000, 100),
        (20_000, 1_448),
        (40_000, 40_000),
    ]
    .into_iter()
    .enumerate()
    {
        let whole = frame(len, number)?;
        let look = |far: &mut TcpConn<Watch>| take(far, &whole);
        if !exchange(&mut pair, &whole, portion, 1, look)? {
            return Ok(false);
        }
    }
    Ok(pair.far.receive(|frames| frames.available()) == 0)
}

pub(super) fn frame_that_was_not_taken_stays() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let (first, second) = (frame(100, 1)?, frame(50, 2)?);
    if !send(&mut pair.near, &first)? || !send(&mut pair.near, &second)? {
        return Ok(false);
    }
    if !arrived(&mut pair.far, 150) {
        return Ok(false);
    }
    let again = pair.far.receive(|frames| -> Result<bool> {
        for _ in 0..2 {
            match frames.next(HEAD, length)? {
                Next::Whole(frame) if frame.len() == 100 => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    })?;
    Ok(again
        && matches!(take(&mut pair.far, &first)?, Seen::Frame)
        && matches!(take(&mut pair.far, &second)?, Seen::Frame))
}

pub(super) fn what_leaves_a_frame_is_refused() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let whole = frame(100, 3)?;
    if !send(&mut pair.near, &whole)? || !send(&mut pair.near, &whole)? {
        return Ok(false);
    }
    if !arrived(&mut pair.far, 200) {
        return Ok(false);
    }
    pair.far.receive(|frames| {
        let Next::Whole(frame) = frames.next(HEAD, length)? else {
            return Ok(false);
        };
        // The octets behind it are there, too, but are of another frame.
        let mut to = [0; 2];
        Ok(frame.copy_to_slice(98, &mut to).is_ok()
            && frame.copy_to_slice(99, &mut to) == Err(EINVAL)
            && frame.copy_to_slice(usize::MAX, &mut to) == Err(EINVAL)
            && copy_to(&mut to, |to| frame.copy_to(99, to)) == Err(EINVAL)
            && frame.crc32c(!0, 50, 51) == Err(EINVAL)
            && frame.crc32c(!0, 100, 0) == Ok(!0))
    })
}

pub(super) fn nonsense_is_refused() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    if !send(&mut pair.near, &[0; 40])? || !arrived(&mut pair.far, 40) {
        return Ok(false);
    }
    pair.far.receive(|frames| {
        let refused = |result: Result<Next<'_, '_>>, expected| result.err() == Some(expected);
        let all = refused(frames.next(HEAD, |_| Ok(HEAD - 1)), eproto())
            && refused(frames.next(HEAD, |_| Ok(MAX_FRAME + 1)), eproto())
            && refused(frames.next(HEAD, |_| Err(E2BIG)), E2BIG)
            && refused(frames.next(0, length), EINVAL)
            && refused(frames.next(MAX_HEAD + 1, length), EINVAL);
        Ok(all && frames.available() == 40)
    })
}

pub(super) fn portions_are_bounded() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let (mut all, one) = (KVec::new(), frame(1_000, 4)?);
    for _ in 0..90 {
        all.extend_from_slice(&one, GFP_KERNEL)?;
    }
    if !send(&mut pair.near, &all)? || !arrived(&mut pair.far, all.len()) {
        return Ok(false);
    }
    let mut portion = || {
        pair.far.receive(|frames| -> Result<(usize, bool)> {
            let mut count = 0;
            loop {
                match frames.next(HEAD, length)? {
                    Next::Whole(frame) => frame.take()?,
                    Next::Budget => return Ok((count, true)),
                    _ => return Ok((count, false)),
                }
                count += 1;
            }
        })
    };
    Ok(portion()? == (66, true) && portion()? == (24, false))
}

/// The second urgent octet makes TCP skip the first.
pub(super) fn urgent_octets_stay() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let whole = frame(600, 5)?;
    for portion in whole.chunks(200) {
        if send_urgent(&pair.near, portion)? != portion.len() {
            return Ok(false);
        }
    }
    Ok(arrived(&mut pair.far, 600) && matches!(take(&mut pair.far, &whole)?, Seen::Frame))
}

pub(super) fn stream_ends_between_frames_or_within() -> Result<bool> {
    for (octets, expected) in [(100, false), (99, true), (2, true)] {
        let mut pair = Pair::new(&Settings::default())?;
        let whole = frame(100, 6)?;
        send(&mut pair.near, whole.get(..octets).ok_or(EINVAL)?)?;
        pair.near.shutdown();
        if !wait(|| pair.far.state() == ConnState::PeerClosed) {
            return Ok(false);
        }
        if octets == 100 && !matches!(take(&mut pair.far, &whole)?, Seen::Frame) {
            return Ok(false);
        }
        // The outcome is the same each time.
        for _ in 0..2 {
            let ended = pair.far.receive(|frames| {
                matches!(
                    frames.next(HEAD, length),
                    Ok(Next::End { within_frame }) if within_frame == expected
                )
            });
            if !ended {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

pub(super) fn part_has_an_age() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let whole = frame(100, 7)?;
    let (first, second) = whole.split_at_checked(60).ok_or(EINVAL)?;
    let none = pair.far.waiting_since().is_none();
    if !send(&mut pair.near, first)? || !arrived(&mut pair.far, 60) {
        return Ok(false);
    }
    let part = matches!(take(&mut pair.far, &whole)?, Seen::Other);
    for _ in 0..5 {
        pause();
    }
    // More octets do not make it younger.
    let (more, last) = second.split_at_checked(20).ok_or(EINVAL)?;
    if !send(&mut pair.near, more)? || !arrived(&mut pair.far, 80) {
        return Ok(false);
    }
    let still = matches!(take(&mut pair.far, &whole)?, Seen::Other)
        && pair
            .far
            .waiting_since()
            .is_some_and(|since| since.elapsed().as_millis() >= 5);
    if !send(&mut pair.near, last)? || !arrived(&mut pair.far, 100) {
        return Ok(false);
    }
    let taken = matches!(take(&mut pair.far, &whole)?, Seen::Frame);
    Ok(none && part && still && taken && pair.far.waiting_since().is_none())
}

/// A receive buffer that has no room for most frames.
const SMALL: Settings = Settings {
    user_timeout_ms: 0,
    receive_buffer: Some(4_096),
};

pub(super) fn larger_than_the_receive_buffer() -> Result<bool> {
    let mut pair = Pair::new(&SMALL)?;
    for (number, portion) in [1_448, 60_000, 333].into_iter().enumerate() {
        let whole = frame(60_000, number)?;
        let look = |far: &mut TcpConn<Watch>| take(far, &whole);
        if !exchange(&mut pair, &whole, portion, 1, look)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn frames_come_in_order() -> Result<bool> {
    let mut pair = Pair::new(&SMALL)?;
    let (mut all, mut lens) = (KVec::new(), KVec::new());
    for (number, len) in [10, 30_000, 10, 500, 20_000, 4, 9_000, 8]
        .into_iter()
        .enumerate()
    {
        all.extend_from_slice(&frame(len, number)?, GFP_KERNEL)?;
        lens.push(len, GFP_KERNEL)?;
    }
    let mut number = 0;
    let look = |far: &mut TcpConn<Watch>| {
        let expected = frame(*lens.get(number).ok_or(EINVAL)?, number)?;
        let seen = take(far, &expected)?;
        if let Seen::Frame = seen {
            number += 1;
        }
        Ok(seen)
    };
    exchange(&mut pair, &all, 5_000, 8, look)
}

pub(super) fn greatest_length_arrives() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    for number in 0..3 {
        let whole = frame(MAX_FRAME, number)?;
        let look = |far: &mut TcpConn<Watch>| take(far, &whole);
        if !exchange(&mut pair, &whole, MAX_FRAME, 1, look)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn shortage_loses_nothing() -> Result<bool> {
    let mut pair = Pair::new(&SMALL)?;
    let whole = frame(60_000, 0)?;
    let _shortage = Shortage::begin();
    let mut refused = 0;
    let look = |far: &mut TcpConn<Watch>| match take(far, &whole) {
        Err(error) if error == ENOMEM => {
            refused += 1;
            // The receiver polls as long as there is a part.
            far.waiting_since().map(|_| Seen::Other).ok_or(EINVAL)
        }
        seen => seen,
    };
    Ok(exchange(&mut pair, &whole, 60_000, 1, look)? && refused > 0)
}

pub(super) fn stream_ends_within() -> Result<bool> {
    let mut pair = Pair::new(&SMALL)?;
    let whole = frame(30_000, 0)?;
    let mut rest = whole.get(..20_000).ok_or(EINVAL)?;
    let sent = wait(|| {
        if let Ok(taken) = pair.near.send([SendBuf::from(rest)], Then::Push) {
            rest = rest.get(taken..).unwrap_or_default();
        }
        let looked = pair
            .far
            .receive(|frames| matches!(frames.next(HEAD, length), Ok(Next::Part | Next::Nothing)));
        looked && rest.is_empty()
    });
    pair.near.shutdown();
    Ok(sent
        && wait(|| {
            pair.far.receive(|frames| {
                matches!(
                    frames.next(HEAD, length),
                    Ok(Next::End { within_frame: true })
                )
            })
        })
        && pair.far.state() == ConnState::PeerClosed)
}

/// The number of allocations since the shortage began, from 1; 0 without one.
static ALLOCATIONS: AtomicU32 = AtomicU32::new(0);

/// A shortage of memory: as long as it is there, every other allocation for reassembly fails.
pub(crate) struct Shortage;

impl Shortage {
    pub(super) fn begin() -> Self {
        ALLOCATIONS.store(1, Ordering::Relaxed);
        Self
    }

    /// Fails every other time.
    pub(crate) fn strike() -> Result {
        match ALLOCATIONS.load(Ordering::Relaxed) {
            0 => Ok(()),
            number => {
                ALLOCATIONS.store(number.saturating_add(1), Ordering::Relaxed);
                match number % 2 {
                    0 => Ok(()),
                    _ => Err(ENOMEM),
                }
            }
        }
    }
}

impl Drop for Shortage {
    fn drop(&mut self) {
        ALLOCATIONS.store(0, Ordering::Relaxed);
    }
}
