// SPDX-License-Identifier: GPL-2.0

//! Head, pages and tail of a message, and their memory as pieces.
//!
//! C headers: [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h), `struct xdr_buf`;
//! [`include/linux/mm.h`](srctree/include/linux/mm.h),
//! [`include/linux/net.h`](srctree/include/linux/net.h).
//!
//! An `xdr_buf` is one sequence of bytes in up to three places: the head, bytes of an array of
//! pages, and the tail. [`IoVecs`] walks over its contiguous parts, none of which is larger than a
//! page of the array; all code here that copies or maps a message uses that walk. [`Pieces`] has
//! the same parts with a reference to the memory of each.

use crate::prelude::*;
use crate::{
    clnt::slots::RqstBuffers,
    memory::Piece, //
};
use core::iter::{
    FusedIterator,
    Peekable, //
};
use ext::memory::{
    copy,
    Page, //
};
use kernel::{
    bindings::page,
    page::PAGE_SHIFT, //
};

/// A copy of an `xdr_buf`.
///
/// It is a copy so that a bound that was checked once stays true whatever C does to the original.
///
/// # Invariants
///
/// The memory that it names may be read and written for `'a`, by this crate and by others.
pub(crate) struct XdrBuf<'a> {
    raw: cbindings::xdr_buf,
    _memory: PhantomData<&'a ()>,
}

/// Contiguous bytes of a message, as an `iov_iter` has them: by address, or by page.
#[derive(Clone, Copy)]
pub(crate) enum IoVec {
    /// Part of head or tail: address and length.
    Kvec(NonNull<u8>, usize),
    /// Part of one page of the array: page, offset and length.
    Bvec(NonNull<page>, usize, usize),
}

impl IoVec {
    fn len(&self) -> usize {
        match *self {
            IoVec::Kvec(_, len) | IoVec::Bvec(_, _, len) => len,
        }
    }

    /// Calls `f` with the address of the first byte.
    ///
    /// # Safety
    ///
    /// `self` comes from an [`XdrBuf`] whose `'a` is not over.
    unsafe fn with_address<R>(&self, f: impl FnOnce(*mut u8) -> R) -> R {
        match *self {
            IoVec::Kvec(base, _) => f(base.as_ptr()),
            IoVec::Bvec(page, offset, _) => {
                // SAFETY: By the caller's promise the page is allocated.
                let mapped = unsafe { kernel::bindings::kmap_local_page(page.as_ptr()) };
                let result = f(mapped.cast::<u8>().wrapping_add(offset));
                // SAFETY: It is the last mapping made by this task that is still there.
                unsafe { kernel::bindings::kunmap_local(mapped) };
                result
            }
        }
    }
}

impl<'a> XdrBuf<'a> {
    /// # Safety
    ///
    /// `raw` is a valid `xdr_buf`, and the memory that it names stays allocated for `'a`.
    pub(crate) unsafe fn from_raw(raw: *const cbindings::xdr_buf) -> Self {
        // INVARIANT: The caller promises it.
        Self {
            // SAFETY: The caller vouches for `raw`.
            raw: unsafe { raw.read() },
            _memory: PhantomData,
        }
    }

    /// Returns the number of bytes in the head.
    pub(crate) fn head_len(&self) -> usize {
        self.raw.head[0].iov_len
    }

    /// Returns the number of bytes in pages.
    pub(crate) fn page_len(&self) -> usize {
        self.raw.page_len as usize
    }

    /// Returns the number of bytes in the tail.
    pub(crate) fn tail_len(&self) -> usize {
        self.raw.tail[0].iov_len
    }

    /// Returns the number of bytes in all three: the length of a message to be sent, or the largest
    /// one that can be received.
    pub(crate) fn total_len(&self) -> usize {
        self.head_len() + self.page_len() + self.tail_len()
    }

    /// Returns the range of the message that is in pages.
    pub(crate) fn page_range(&self) -> Range<usize> {
        let start = self.head_len();
        start..start + self.page_len()
    }

    /// Returns whether one of `XDRBUF_*` is set.
    pub(crate) fn has_flag(&self, flag: u32) -> bool {
        self.raw.flags & flag != 0
    }

    /// Returns the contiguous parts of `range`, or of as much of it as there is.
    ///
    /// A page that is missing is [`EFAULT`] and ends the iteration.
    pub(crate) fn iovecs(&self, range: Range<usize>) -> IoVecs<'a> {
        IoVecs {
            buf: Self {
                raw: self.raw,
                _memory: PhantomData,
            },
            at: range.start,
            end: range.end.min(self.total_len()),
        }
    }

    /// Returns the contiguous part that begins at `at` and goes as far as `end`, which is not
    /// beyond the last byte.
    #[inline]
    fn iovec(&self, at: usize, end: usize) -> Option<Result<IoVec>> {
        if at >= end {
            return None;
        }
        let most = end - at;
        let pages = self.page_range();
        Some(if at < pages.start {
            Self::iovec_of_kvec(&self.raw.head[0], at, most)
        } else if at < pages.end {
            self.iovec_of_pages(at - pages.start, most)
        } else {
            Self::iovec_of_kvec(&self.raw.tail[0], at - pages.end, most)
        })
    }

    #[inline]
    fn iovec_of_kvec(kvec: &cbindings::kvec, offset: usize, most: usize) -> Result<IoVec> {
        let len = (kvec.iov_len - offset).min(most);
        let base = NonNull::new(kvec.iov_base.cast::<u8>().wrapping_add(offset)).ok_or(EFAULT)?;
        Ok(IoVec::Kvec(base, len))
    }

    #[inline]
    fn iovec_of_pages(&self, offset: usize, most: usize) -> Result<IoVec> {
        let at = self.raw.page_base as usize + offset;
        let within = at % PAGE_SIZE;
        let left = self.page_len() - offset;
        let len = (PAGE_SIZE - within).min(left).min(most);
        let entry = self.raw.pages.wrapping_add(at >> PAGE_SHIFT);
        // SAFETY: By the type invariant the array has an entry for each of its pages, and `offset`
        // is less than the number of bytes in them.
        let page = NonNull::new(unsafe { entry.read() }).ok_or(EFAULT)?;
        Ok(IoVec::Bvec(page, within, len))
    }

    /// Returns the end of the `len` bytes from `at` on, or of as many of them as there are.
    fn end(&self, at: usize, len: usize) -> usize {
        at.saturating_add(len).min(self.total_len())
    }

    /// Copies bytes from `at` on to `dst`. Returns the number of bytes copied.
    pub(crate) fn copy_out(&self, at: usize, dst: &mut [u8]) -> Result<usize> {
        let end = self.end(at, dst.len());
        let mut copied = 0;
        while let Some(iovec) = self.iovec(at + copied, end) {
            let iovec = iovec?;
            let Some(part) = dst.get_mut(copied..copied + iovec.len()) else {
                break;
            };
            // SAFETY: By the type invariant the memory may be read, `part` is as long, and it is
            // Rust's own memory, which no `xdr_buf` names.
            unsafe { iovec.with_address(|from| copy(part.as_mut_ptr(), from, part.len())) };
            copied += iovec.len();
        }
        Ok(copied)
    }

    /// Copies `src` to the bytes from `at` on. Returns the number of bytes that fitted.
    pub(crate) fn copy_in(&self, at: usize, src: &[u8]) -> usize {
        let end = self.end(at, src.len());
        let mut copied = 0;
        while let Some(Ok(iovec)) = self.iovec(at + copied, end) {
            let Some(part) = src.get(copied..copied + iovec.len()) else {
                break;
            };
            // SAFETY: By the type invariant the memory may be written, `part` is as long, and it is
            // Rust's own memory, which no `xdr_buf` names.
            unsafe { iovec.with_address(|to| copy(to, part.as_ptr(), part.len())) };
            copied += iovec.len();
        }
        copied
    }

    /// Completes the last XDR unit of the first `len` bytes: with zeros behind them, or, if these
    /// do not fit, by leaving out the rest of the last unit. Returns the number of bytes then.
    pub(crate) fn pad_to_unit(&self, len: usize) -> usize {
        const ZEROS: [u8; 3] = [0; 3];
        let (zeros, _) = ZEROS.split_at(len.wrapping_neg() & 3);
        (len + self.copy_in(len, zeros)) & !3
    }

    /// Allocates the pages that the array has entries for but does not name. Sleeps if `flags`
    /// allow it.
    ///
    /// # Safety
    ///
    /// Nobody else changes the array, and its owner frees what it finds in it.
    pub(crate) unsafe fn alloc_sparse_pages(&self, flags: Flags) -> Result {
        if self.page_len() == 0 {
            // There may be no array, then.
            return Ok(());
        }
        let start = self.raw.page_base as usize;
        let end = start + self.page_len();
        for index in start >> PAGE_SHIFT..end.div_ceil(PAGE_SIZE) {
            let entry = self.raw.pages.wrapping_add(index);
            // SAFETY: The array has an entry for each page that the `xdr_buf` counts.
            if !unsafe { entry.read() }.is_null() {
                continue;
            }
            // It is all zero, because a peer may claim to have written there and not have done so.
            let page = Page::new(flags)?.into_raw();
            // SAFETY: The array has an entry for each page that the `xdr_buf` counts; the caller
            // says that nobody else changes the entry.
            unsafe { entry.write(page.as_ptr()) };
        }
        Ok(())
    }
}

/// The contiguous parts of a range of an [`XdrBuf`], in order.
pub(crate) struct IoVecs<'a> {
    buf: XdrBuf<'a>,
    at: usize,
    end: usize,
}

impl Iterator for IoVecs<'_> {
    type Item = Result<IoVec>;

    fn next(&mut self) -> Option<Self::Item> {
        let iovec = self.buf.iovec(self.at, self.end)?;
        self.at = match &iovec {
            Ok(iovec) => self.at + iovec.len(),
            Err(_) => self.end,
        };
        Some(iovec)
    }
}

impl FusedIterator for IoVecs<'_> {}

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
    if !unsafe { cbindings::virt_addr_valid(address) } {
        return Err(EFAULT);
    }
    // SAFETY: The address is one of the linear map.
    NonNull::new(unsafe { cbindings::virt_to_page(address) }).ok_or(EFAULT)
}

fn same_folio(a: NonNull<page>, b: NonNull<page>) -> bool {
    // SAFETY: It is a page of a message that its owner keeps allocated.
    let a = unsafe { cbindings::page_folio(a.as_ptr()) };
    // SAFETY: It is a page of a message that its owner keeps allocated.
    let b = unsafe { cbindings::page_folio(b.as_ptr()) };
    ptr::eq(a, b)
}

/// Returns bytes of pages of one folio, with a reference to it.
fn page_piece(page: NonNull<page>, offset: usize, len: usize) -> Result<Piece> {
    // SAFETY: It is a page of a message that its owner keeps allocated.
    if !unsafe { cbindings::sendpage_ok(page.as_ptr()) } {
        return Err(EFAULT);
    }
    let (offset, len) = (u32::try_from(offset)?, u32::try_from(len)?);
    // SAFETY: Its owner keeps it allocated, it counts references and so is no slab page, and the
    // callers checked that the bytes are of one folio.
    Ok(unsafe { Piece::from_page(page, offset, len) })
}
