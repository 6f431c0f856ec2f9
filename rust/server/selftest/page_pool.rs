// SPDX-License-Identifier: GPL-2.0

//! Tests of the page pool for RDMA Reads when memory is short.

use super::super::rdma_read::PagePool;
use kernel::prelude::*;

pub(super) fn idle_pages_go_back() -> Result<bool> {
    let pool = PagePool::new()?;
    let pages = pool.take(10)?;
    // The shrinker does not count pages that a call uses.
    let in_use = pool.reclaim(1)? == (0, 0);
    pool.keep(pages);
    let some = pool.reclaim(4)? == (10, 4);
    let taken = pool.take(1)?.len() == 1;
    let rest = pool.reclaim(128)? == (5, 5);
    let none = pool.reclaim(128)? == (0, 0);
    Ok(in_use && some && taken && rest && none && pool.take(10)?.len() == 10)
}

pub(super) fn pool_keeps_so_many_pages() -> Result<bool> {
    let pool = PagePool::new()?;
    for _ in 0..3 {
        pool.keep(pool.take(PagePool::MAX - 1)?);
        // Pages of another pool, so that these are more than there were.
        let more = PagePool::new()?.take(2)?;
        pool.keep(more);
    }
    let (idle, freed) = pool.reclaim(usize::MAX)?;
    Ok(idle == PagePool::MAX && freed == idle)
}

pub(super) fn page_of_somebody_else_is_not_kept() -> Result<bool> {
    let pool = PagePool::new()?;
    let pages = pool.take(2)?;
    let piece = pages.first().ok_or(EINVAL)?.piece(0, 1)?;
    pool.keep(pages);
    drop(piece);
    Ok(pool.reclaim(128)? == (1, 1))
}
