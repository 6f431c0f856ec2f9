// SPDX-License-Identifier: GPL-2.0

//! The memory of a message, as pieces that each own a reference to it.
//!
//! C headers: [`include/linux/mm.h`](srctree/include/linux/mm.h),
//! [`include/linux/net.h`](srctree/include/linux/net.h).

use crate::{
    memory::Piece,
    rqst_buffers::RqstBuffers,
    xdr_buf::{
        IoVec,
        IoVecs, //
    }, //
};
use core::{
    iter::Peekable,
    ptr::{
        self,
        NonNull, //
    }, //
};
use kernel::{
    bindings::page,
    page::PAGE_SIZE,
    prelude::*, //
};

/// Pieces of memory of a message, in order. Pages of one folio that follow each other are one
/// piece.
///
/// Each has a reference to the buffer or folio that it is part of. Memory that has no such
/// reference to take is [`EFAULT`].
///
/// # Invariants
///
/// For `'a` the request whose `buffers` these are does not allocate others.
pub struct Pieces<'a> {
    buffers: Option<&'a RqstBuffers>,
    iovecs: Peekable<IoVecs<'a>>,
}

impl<'a> Pieces<'a> {
    /// Returns the pieces of a message that is in pages only.
    pub(crate) fn of_pages(iovecs: IoVecs<'a>) -> Self {
        // INVARIANT: There are no buffers.
        Self {
            buffers: None,
            iovecs: iovecs.peekable(),
        }
    }

    /// Returns the pieces of a message whose head and tail are in `buffers`, or in a page of a
    /// security flavour.
    ///
    /// # Safety
    ///
    /// For `'a` the request whose `buffers` these are does not allocate others.
    pub(crate) unsafe fn of_rqst(buffers: &'a RqstBuffers, iovecs: IoVecs<'a>) -> Self {
        // INVARIANT: The caller promises it.
        Self {
            buffers: Some(buffers),
            iovecs: iovecs.peekable(),
        }
    }

    fn kvec_piece(&self, base: NonNull<u8>, len: usize) -> Result<Piece> {
        let of_buffer = |buffers: &RqstBuffers| {
            // SAFETY: By the type invariants the request does not allocate other buffers.
            unsafe { buffers.piece(base, len) }
        };
        self.buffers
            .and_then(of_buffer)
            .unwrap_or_else(|| page_piece_at(base, len))
    }

    /// Returns the `len` bytes from `offset` of `page`, and the pages that follow without a gap in
    /// the same folio.
    fn folio_piece(&mut self, page: NonNull<page>, offset: usize, mut len: usize) -> Result<Piece> {
        loop {
            let end = offset + len;
            let follows = |iovec: &Result<IoVec>| match iovec {
                Ok(IoVec::Bvec(next, 0, _)) => {
                    end % PAGE_SIZE == 0
                        && ptr::eq(next.as_ptr(), page.as_ptr().wrapping_add(end / PAGE_SIZE))
                        && same_folio(page, *next)
                }
                _ => false,
            };
            match self.iovecs.next_if(follows) {
                Some(Ok(IoVec::Bvec(_, _, more))) => len += more,
                _ => return page_piece(page, offset, len),
            }
        }
    }
}

impl Iterator for Pieces<'_> {
    type Item = Result<Piece>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.iovecs.next()? {
            Ok(IoVec::Kvec(base, len)) => self.kvec_piece(base, len),
            Ok(IoVec::Bvec(page, offset, len)) => self.folio_piece(page, offset, len),
            Err(error) => Err(error),
        })
    }
}

/// Returns a part of head or tail that is in none of the slot's buffers: in a page that a security
/// flavour put there.
fn page_piece_at(base: NonNull<u8>, len: usize) -> Result<Piece> {
    let first = page_at(base.as_ptr())?;
    let last = page_at(base.as_ptr().wrapping_add(len.saturating_sub(1)))?;
    if !same_folio(first, last) {
        return Err(EFAULT);
    }
    page_piece(first, base.addr().get() % PAGE_SIZE, len)
}

fn page_at(address: *mut u8) -> Result<NonNull<page>> {
    let address = address.cast_const().cast();
    // SAFETY: The function takes any address.
    if !unsafe { raw::virt_addr_valid(address) } {
        return Err(EFAULT);
    }
    // SAFETY: The address is one of the linear map.
    NonNull::new(unsafe { raw::virt_to_page(address) }).ok_or(EFAULT)
}

fn same_folio(a: NonNull<page>, b: NonNull<page>) -> bool {
    // SAFETY: It is a page of a message that its owner keeps allocated.
    let a = unsafe { raw::page_folio(a.as_ptr()) };
    // SAFETY: It is a page of a message that its owner keeps allocated.
    let b = unsafe { raw::page_folio(b.as_ptr()) };
    ptr::eq(a, b)
}

/// Returns bytes of pages of one folio, with a reference to it.
fn page_piece(page: NonNull<page>, offset: usize, len: usize) -> Result<Piece> {
    // SAFETY: It is a page of a message that its owner keeps allocated.
    if !unsafe { raw::sendpage_ok(page.as_ptr()) } {
        return Err(EFAULT);
    }
    let (offset, len) = (u32::try_from(offset)?, u32::try_from(len)?);
    // SAFETY: Its owner keeps it allocated, it counts references and so is no slab page, and the
    // callers checked that the bytes are of one folio.
    Ok(unsafe { Piece::from_page(page, offset, len) })
}
