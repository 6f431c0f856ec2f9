// SPDX-License-Identifier: GPL-2.0

//! Access to the pages of a call that is read by RDMA Reads, as consecutive bytes.

use kernel::{
    page::PAGE_SIZE,
    prelude::*, //
};
use sunrpc::memory::Page;

/// Fills `out` with the bytes of `pages` that begin at `at`.
pub(super) fn copy_out(pages: &KVec<Page>, at: usize, out: &mut [u8]) -> Result {
    let end = at.checked_add(out.len()).ok_or(EINVAL)?;
    let mut done = 0_usize;
    for_each_run(pages, at, end, |page, offset, len| {
        let to = done.saturating_add(len);
        page.copy_out(offset, out.get_mut(done..to).ok_or(EINVAL)?)?;
        done = to;
        Ok(())
    })
}

/// Copies `bytes` to `pages`, beginning at byte `at`.
pub(super) fn copy_in(pages: &KVec<Page>, at: usize, mut bytes: &[u8]) -> Result {
    let end = at.checked_add(bytes.len()).ok_or(EINVAL)?;
    for_each_run(pages, at, end, |page, offset, len| {
        let (part, rest) = bytes.split_at_checked(len).ok_or(EINVAL)?;
        bytes = rest;
        page.copy_in(offset, part)
    })
}

/// Zeroes the XDR padding from `at` to `end`, at most three bytes.
pub(super) fn zero_padding(pages: &KVec<Page>, at: usize, end: usize) -> Result {
    for_each_run(pages, at, end, |page, offset, len| {
        page.copy_in(offset, [0; 4].get(..len).ok_or(EINVAL)?)
    })
}

/// Calls `f` for each page that holds some of the bytes from `at` to `end`, with the offset and
/// length of these bytes in the page.
pub(super) fn for_each_run(
    pages: &KVec<Page>,
    mut at: usize,
    end: usize,
    mut f: impl FnMut(&Page, usize, usize) -> Result,
) -> Result {
    while at < end {
        let page = pages.get(at / PAGE_SIZE).ok_or(EINVAL)?;
        let offset = at % PAGE_SIZE;
        let len = (PAGE_SIZE - offset).min(end - at);
        f(page, offset, len)?;
        at = at.saturating_add(len);
    }
    Ok(())
}
