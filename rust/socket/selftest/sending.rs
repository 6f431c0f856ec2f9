// SPDX-License-Identifier: GPL-2.0

//! Tests of sending: to a peer that does not receive, and from pages, without a copy.

use super::fixture::{
    accept,
    frame,
    listen,
    pause,
    take,
    wait,
    Pair,
    Seen,
    Watch,
    LOOPBACK, //
};
use crate::prelude::*;
use crate::{
    ConnState,
    Event,
    Net,
    Pages,
    SendBuf,
    Settings,
    TcpConn,
    Then,
    MAX_PIECES, //
};

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

/// The length of a frame that begins on one page of 4 KiB and ends on another.
const LEN: usize = 6_000;

/// The size of the pages of a test in octets.
const ALL: usize = 65_536;

/// Writes the `number`th frame to the free space of `pages`, and lends it to TCP.
fn splice(pair: &mut Pair, pages: &mut Pages, number: usize) -> Result<KVec<u8>> {
    let frame = frame(LEN, number)?;
    let room = pages.free_space().get_mut(..LEN).ok_or(EINVAL)?;
    room.copy_from_slice(&frame);
    let mut rest = LEN;
    for _ in 0..10_000 {
        match pages.splice(&mut pair.near, rest) {
            Ok(taken) => rest -= taken,
            Err(error) if error == EAGAIN => pause(),
            Err(error) => return Err(error),
        }
        if rest == 0 {
            return Ok(frame);
        }
    }
    Err(EAGAIN)
}

/// Returns whether the far end receives this frame next.
fn arrives(pair: &mut Pair, frame: &[u8]) -> bool {
    wait(|| matches!(take(&mut pair.far, frame), Ok(Seen::Frame)))
}

pub(super) fn pages_are_lent() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let mut pages = Pages::new(ALL)?;
    let first = splice(&mut pair, &mut pages, 1)?;
    // The far end has not read them, so TCP has references still.
    let lent =
        !pages.reclaim() && pages.left() == ALL - LEN && pages.free_space().len() == ALL - LEN;
    let second = splice(&mut pair, &mut pages, 2)?;
    Ok(lent
        && arrives(&mut pair, &first)
        && !pages.reclaim()
        && arrives(&mut pair, &second)
        && wait(|| pages.reclaim())
        && pages.left() == ALL)
}

pub(super) fn pages_outlive_their_owner() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let mut pages = Pages::new(ALL)?;
    let frame = splice(&mut pair, &mut pages, 3)?;
    drop(pages);
    // If the pages were free, these would be among them.
    let mut others = KVec::new();
    for _ in 0..16 {
        let mut other = Pages::new(ALL)?;
        other.free_space().fill(0xa5);
        others.push(other, GFP_KERNEL)?;
    }
    Ok(arrives(&mut pair, &frame))
}

pub(super) fn memory_is_given_back() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let has_page = |pair: &Pair| {
        let sk = pair.near.socket().sk();
        // SAFETY: `near` owns the socket, and nobody else sends.
        let page = unsafe { (&raw const (*sk).sk_frag.page).read() };
        !page.is_null()
    };
    for number in 1..4 {
        let frame = frame(5_000, number)?;
        let taken = pair
            .near
            .send([SendBuf::from(frame.as_slice())], Then::Push)?;
        let had = has_page(&pair);
        // What is under way arrives.
        pair.near.give_back();
        if taken != frame.len() || !had || has_page(&pair) || !arrives(&mut pair, &frame) {
            return Ok(false);
        }
        pair.near.give_back();
    }
    Ok(true)
}
