// SPDX-License-Identifier: GPL-2.0

//! Tests of sending to a peer that does not receive.

use super::fixture::accept;
use super::fixture::listen;
use super::fixture::pause;
use super::fixture::wait;
use super::fixture::Pair;
use super::fixture::Watch;
use super::fixture::LOOPBACK;
use crate::ConnState;
use crate::Event;
use crate::Net;
use crate::SendBuf;
use crate::Settings;
use crate::TcpConn;
use crate::Then;
use crate::MAX_PIECES;
use kernel::error::Error;
use kernel::prelude::*;

/// Sends until there is no space. Returns the number of octets that TCP took.
fn fill(pair: &mut Pair) -> Result<usize> {
    let octets = KVec::from_elem(0_u8, 65_536, GFP_KERNEL)?;
    let mut all = 0;
    loop {
        match pair
            .near
            .send([SendBuf::from(octets.as_slice())], Then::Push)
        {
            Ok(taken) => all += taken,
            Err(error) if error == EAGAIN => return Ok(all),
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn full_connection_wakes() -> Result<bool> {
    let (settings, watch) = (Settings::default(), Watch::new()?);
    let listener = listen(LOOPBACK, &settings)?;
    let remote = listener.local_address()?;
    let near = TcpConn::connect(&Net::init(), LOOPBACK, remote, &settings, watch.clone())?;
    let far = accept(&listener)?;
    let mut pair = Pair { near, far };
    let mut left = fill(&mut pair)?;
    // Octets that are still under way may free space.
    for _ in 0..20 {
        pause();
        left += fill(&mut pair)?;
    }
    let before = watch.count(Event::Writable);
    let drained = wait(|| {
        let all = pair.far.receive(|frames| frames.discard()).unwrap_or(0);
        left = left.saturating_sub(all);
        left == 0
    });
    Ok(drained && wait(|| watch.count(Event::Writable) > before) && fill(&mut pair)? > 0)
}

pub(super) fn peer_that_never_receives() -> Result<bool> {
    let mut pair = Pair::new(&Settings {
        user_timeout_ms: 1_000,
        ..Settings::default()
    })?;
    fill(&mut pair)?;
    // CAST: Error numbers are small.
    let timed_out = Error::from_errno(-(kernel::bindings::ETIMEDOUT as i32));
    Ok(wait(|| pair.near.state() == ConnState::Failed(timed_out)))
}

pub(super) fn too_many_pieces() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let octet = SendBuf::from([7].as_slice());
    let refused = pair
        .near
        .send(core::iter::repeat_n(octet, MAX_PIECES + 1), Then::Push);
    let sent = pair
        .near
        .send(core::iter::repeat_n(octet, MAX_PIECES), Then::Push)?;
    Ok(refused == Err(EINVAL)
        && sent == MAX_PIECES
        && pair.near.state() == ConnState::Open
        && wait(|| pair.far.receive(|frames| frames.available()) == MAX_PIECES))
}
