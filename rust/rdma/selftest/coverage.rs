// SPDX-License-Identifier: GPL-2.0

//! A test of what one region covers.

use super::fixture::{
    Fixture,
    PORT, //
};
use crate::mr::{
    Access,
    Coverage,
    Idle,
    Prepared, //
};
use crate::prelude::*;
use ext::memory::Page;
use kernel::page::PAGE_SIZE;

/// The pages of a region, as many as the memory below touches.
const PAGES: u32 = 3;

pub(super) fn region_covers_what_the_device_takes() -> Result<bool> {
    let end = Fixture::alone(PORT)?;
    let pd = end.queue.pd();
    // As a message in an `xdr_buf`: its head and its tail are somewhere in their pages.
    let (head, page, tail) = (
        Page::new(GFP_KERNEL)?,
        Page::new(GFP_KERNEL)?,
        Page::new(GFP_KERNEL)?,
    );
    let memory = [
        head.piece(100, 200),
        page.piece(0, PAGE_SIZE),
        tail.piece(0, 50),
    ];
    let mut memory = memory.into_iter().peekable();
    let mut idle = Idle::new();
    for _ in 0..PAGES {
        idle.allocate(pd, PAGES, GFP_KERNEL)?;
    }
    let (mut regions, mut covered) = (Prepared::new(), 0);
    while memory.peek().is_some() {
        let segment = regions.map(&mut idle, &mut memory, Access::Write, 0)?;
        covered += usize::try_from(segment.len)?;
    }
    let needed = match pd.coverage() {
        Coverage::AnyPieces => 1,
        Coverage::WithoutGaps => 2,
        Coverage::WholePages => 3,
    };
    let count = regions.len();
    drop(regions.cancel());
    Ok(count == needed && covered == 200 + PAGE_SIZE + 50)
}
