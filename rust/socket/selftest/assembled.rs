// SPDX-License-Identifier: GPL-2.0

//! Frames that do not fit in the receive buffer.

use super::fixture::exchange;
use super::fixture::frame;
use super::fixture::length;
use super::fixture::take;
use super::fixture::wait;
use super::fixture::Pair;
use super::fixture::Seen;
use super::fixture::Watch;
use super::fixture::HEAD;
use super::shortage::Shortage;
use crate::ConnState;
use crate::Next;
use crate::SendBuf;
use crate::Settings;
use crate::TcpConn;
use crate::Then;
use crate::MAX_FRAME;
use kernel::prelude::*;

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
