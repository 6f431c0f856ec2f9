// SPDX-License-Identifier: GPL-2.0

//! Tests of sending from pages, without a copy.

use super::fixture::frame;
use super::fixture::pause;
use super::fixture::take;
use super::fixture::wait;
use super::fixture::Pair;
use super::fixture::Seen;
use crate::Pages;
use crate::Settings;
use kernel::prelude::*;

/// The length of a frame that begins on one page and ends on another.
const LEN: usize = 6_000;

/// The size of the pages of a test in octets.
const ALL: usize = 16_384;

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

/// Says whether the far end receives this frame next.
fn arrives(pair: &mut Pair, frame: &[u8]) -> bool {
    wait(|| matches!(take(&mut pair.far, frame), Ok(Seen::Frame)))
}

pub(super) fn pages_are_lent() -> Result<bool> {
    let mut pair = Pair::new(&Settings::default())?;
    let mut pages = Pages::new(ALL / 4_096)?;
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
    let mut pages = Pages::new(ALL / 4_096)?;
    let frame = splice(&mut pair, &mut pages, 3)?;
    drop(pages);
    // If the pages were free, these would be among them.
    let mut others = KVec::new();
    for _ in 0..16 {
        let mut other = Pages::new(ALL / 4_096)?;
        other.free_space().fill(0xa5);
        others.push(other, GFP_KERNEL)?;
    }
    Ok(arrives(&mut pair, &frame))
}
