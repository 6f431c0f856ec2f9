// SPDX-License-Identifier: GPL-2.0

//! The memory of a message, as owned pieces.
//!
//! C headers: [`include/linux/mm.h`](srctree/include/linux/mm.h),
//! [`include/linux/net.h`](srctree/include/linux/net.h).

use crate::{
    memory::Piece,
    xdr_buf::{
        Run,
        Runs, //
    },
    Rqst,
    Transport, //
};
use core::{
    iter::Peekable,
    ptr::{
        self,
        NonNull, //
    },
};
use kernel::{
    bindings::page,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Pieces of memory of a message, in order; pages of one folio that follow each other are one.
///
/// Each has a reference to what it is part of. [`EFAULT`] for memory that cannot be had so.
pub struct Pieces<'a, T: Transport> {
    rqst: &'a Rqst<T>,
    runs: Peekable<Runs<'a>>,
}

impl<'a, T: Transport> Pieces<'a, T> {
    pub(crate) fn new(rqst: &'a Rqst<T>, runs: Runs<'a>) -> Self {
        Self {
            rqst,
            runs: runs.peekable(),
        }
    }
}

impl<T: Transport> Iterator for Pieces<'_, T> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.runs.next()? {
            Ok(Run::Memory(base, len)) => self.rqst.memory_piece(base, len),
            Ok(Run::Page(page, offset, len)) => folio_piece(&mut self.runs, page, offset, len),
            Err(error) => Err(error),
        })
    }
}

/// The run of `len` bytes from `offset` of `page`, and what follows it in `runs` without a gap, in
/// the same folio.
pub(crate) fn folio_piece(
    runs: &mut Peekable<Runs<'_>>,
    page: NonNull<page>,
    offset: usize,
    mut len: usize,
) -> Result<Piece> {
    loop {
        let end = offset + len;
        let follows = |run: &Result<Run>| match run {
            Ok(Run::Page(next, 0, _)) => {
                end % PAGE_SIZE == 0
                    && ptr::eq(next.as_ptr(), page.as_ptr().wrapping_add(end / PAGE_SIZE))
                    && same_folio(page, *next)
            }
            _ => false,
        };
        match runs.next_if(follows) {
            Some(Ok(Run::Page(_, _, more))) => len += more,
            _ => return page_piece(page, offset, len),
        }
    }
}

/// Memory of head or tail that is none of our buffers: a page that a security flavour put there.
pub(crate) fn page_piece_at(base: NonNull<u8>, len: usize) -> Result<Piece> {
    let first = page_at(base.as_ptr())?;
    let last = page_at(base.as_ptr().wrapping_add(len.saturating_sub(1)))?;
    if !same_folio(first, last) {
        return Err(EFAULT);
    }
    page_piece(first, base.addr().get() % PAGE_SIZE, len)
}

fn page_at(address: *mut u8) -> Result<NonNull<page>> {
    let address = address.cast_const().cast();
    // SAFETY: Any address may be asked about.
    if !unsafe { raw::virt_addr_valid(address) } {
        return Err(EFAULT);
    }
    // SAFETY: The address is one of the linear map.
    NonNull::new(unsafe { raw::virt_to_page(address) }).ok_or(EFAULT)
}

fn same_folio(a: NonNull<page>, b: NonNull<page>) -> bool {
    // SAFETY: Both are pages of a message that its owner keeps allocated.
    let a = unsafe { raw::page_folio(a.as_ptr()) };
    // SAFETY: As above.
    let b = unsafe { raw::page_folio(b.as_ptr()) };
    ptr::eq(a, b)
}

/// A run of pages of one folio, with a reference to it.
fn page_piece(page: NonNull<page>, offset: usize, len: usize) -> Result<Piece> {
    // SAFETY: It is a page of a message that its owner keeps allocated.
    if !unsafe { raw::sendpage_ok(page.as_ptr()) } {
        return Err(EFAULT);
    }
    let (offset, len) = (u32::try_from(offset)?, u32::try_from(len)?);
    // SAFETY: Its owner keeps it allocated, it counts references and so is no slab page, and the
    // callers checked that the run is of one folio.
    Ok(unsafe { Piece::from_page(page, offset, len) })
}
