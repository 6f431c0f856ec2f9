// SPDX-License-Identifier: GPL-2.0

//! A call as it is put together, and a result as it is sent.
//!
//! C header: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h), `struct svc_rqst`.
//!
//! A service thread has two arrays of pages of its own, one for a call and one for its reply. A
//! call is copied to pages of the first, or its pages are exchanged for others, so that the thread
//! always has as many as before and none needs to be freed or allocated.
//!
//! Pages of the second are lost when a file system puts pages of its own in their place, and each
//! has to be allocated and cleared anew. [`Blanks`] brings them back.

use crate::{
    memory::{
        Page,
        Piece, //
    },
    pieces::{
        folio_piece,
        page_piece_at, //
    },
    xdr_buf::{
        Run,
        Runs,
        XdrBuf, //
    }, //
};
use core::{
    iter::Peekable,
    marker::PhantomData,
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    bindings::page,
    ffi::{
        c_uint,
        c_void, //
    },
    page::PAGE_SIZE,
    prelude::*, //
};

/// The pages that a service thread had for a result before it was made.
#[derive(Default)]
pub struct Blanks(KVec<Page>);

impl Blanks {
    /// Lets go of them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether the page of the thread, and of the array, is used by nobody else.
    fn is_free(page: &Page) -> bool {
        page.references() == 2
    }
}

/// The place of a call, in a service thread that waits for one.
pub struct SvcArgs<'a> {
    rqst: *mut raw::svc_rqst,
    _during_receive: PhantomData<&'a mut ()>,
}

impl SvcArgs<'_> {
    /// # Safety
    ///
    /// `rqst` is that of the calling thread, which is in `xpo_recvfrom` for `'a`: its pages are all
    /// there, and its own.
    pub(crate) unsafe fn new(rqst: *mut raw::svc_rqst) -> Self {
        Self {
            rqst,
            _during_receive: PhantomData,
        }
    }

    /// How many pages a call may have.
    pub fn max_pages(&self) -> usize {
        // SAFETY: See `new`.
        unsafe { (*self.rqst).rq_maxpages }
    }

    /// The call is `message`. [`E2BIG`] if it has no room.
    pub fn set_message(&mut self, message: &[u8]) -> Result {
        for (index, part) in message.chunks(PAGE_SIZE).enumerate() {
            self.write(index, part)?;
        }
        let head = message.len().min(PAGE_SIZE);
        self.set(0..head, 1, message.len() - head, 0)
    }

    /// The call is `message`, with `len` bytes of `pages` inserted at `position`. What the thread
    /// has for `pages` comes back in there. [`E2BIG`] if there is no room, or if `message` is longer
    /// than a page.
    pub fn set_reduced(
        &mut self,
        message: &[u8],
        position: usize,
        pages: &mut KVec<Page>,
        len: usize,
    ) -> Result {
        let tail = message.len().checked_sub(position).ok_or(EINVAL)?;
        if pages.len().saturating_mul(PAGE_SIZE) < len {
            return Err(EINVAL);
        }
        self.write(0, message)?;
        self.exchange(1, pages)?;
        self.set(0..position, 1, len, tail)
    }

    /// The call is the first `len` bytes of `pages`. What the thread has for them comes back in
    /// there. [`E2BIG`] if there is no room.
    pub fn set_pages(&mut self, pages: &mut KVec<Page>, len: usize) -> Result {
        if pages.len().saturating_mul(PAGE_SIZE) < len {
            return Err(EINVAL);
        }
        self.exchange(0, pages)?;
        let head = len.min(PAGE_SIZE);
        self.set(0..head, 1, len - head, 0)
    }

    /// Notes in `blanks` the first `count` pages that the thread has for the result, or all.
    pub fn note_blanks(&self, blanks: &mut Blanks, count: usize) -> Result {
        blanks.clear();
        for index in 0..count.min(self.max_pages()) {
            // SAFETY: See `new`. The array has that many entries.
            let page = unsafe { (*self.rqst).rq_respages.add(index).read() };
            let Some(page) = NonNull::new(page) else {
                break;
            };
            // SAFETY: The page is the thread's own, of order 0 and no slab page.
            blanks.0.push(unsafe { Page::share(page) }, GFP_KERNEL)?;
        }
        Ok(())
    }

    /// Length of the call.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: See `new`.
        unsafe { (*self.rqst).rq_arg.len as usize }
    }

    /// The place in the array for page `index`.
    fn entry(&self, index: usize) -> Result<*mut *mut page> {
        if index >= self.max_pages() {
            return Err(E2BIG);
        }
        // SAFETY: See `new`. The array has that many entries.
        Ok(unsafe { (*self.rqst).rq_pages.add(index) })
    }

    fn page(&self, index: usize) -> Result<NonNull<page>> {
        // SAFETY: The entry is in the array, which nobody else changes now.
        NonNull::new(unsafe { self.entry(index)?.read() }).ok_or(ENOMEM)
    }

    /// Copies `part` to the start of page `index`. [`E2BIG`] if it does not fit.
    fn write(&mut self, index: usize, part: &[u8]) -> Result {
        if part.len() > PAGE_SIZE {
            return Err(E2BIG);
        }
        let page = self.page(index)?;
        // SAFETY: The page is the thread's own, of order 0 and no slab page. The reference is taken
        // back below.
        let page = core::mem::ManuallyDrop::new(unsafe { Page::from_raw(page) });
        page.copy_in(0, part)
    }

    /// Exchanges `pages` for those of the thread from `index` on.
    fn exchange(&mut self, index: usize, pages: &mut KVec<Page>) -> Result {
        let end = index.checked_add(pages.len()).ok_or(E2BIG)?;
        for index in index..end {
            self.page(index)?;
        }
        for (index, place) in (index..end).zip(pages.iter_mut()) {
            let theirs = self.page(index)?;
            // SAFETY: The reference is the array's, which gives it up here.
            let theirs = unsafe { Page::from_raw(theirs) };
            let ours = core::mem::replace(place, theirs).into_raw();
            // SAFETY: The entry is in the array, and the reference becomes its own.
            unsafe { self.entry(index)?.write(ours.as_ptr()) };
        }
        Ok(())
    }

    /// The call is the bytes `head` of the first page, `pages` bytes in the pages from `first` on,
    /// and `tail` bytes that follow the head where it is.
    fn set(&mut self, head: Range<usize>, first: usize, pages: usize, tail: usize) -> Result {
        let base = self.page(0)?;
        let end = head.end.checked_add(tail).ok_or(E2BIG)?;
        if end > PAGE_SIZE || first.saturating_add(pages.div_ceil(PAGE_SIZE)) > self.max_pages() {
            return Err(E2BIG);
        }
        // SAFETY: The pages of a service thread are in the linear map.
        let base: *mut c_void = unsafe { raw::page_address(base.as_ptr()) };
        let len = c_uint::try_from(end.saturating_add(pages))?;
        // SAFETY: See `new`. `first` is at most the length of the array.
        let list = unsafe { (*self.rqst).rq_pages.add(first) };
        // SAFETY: See `new`.
        let arg = unsafe { &mut (*self.rqst).rq_arg };
        arg.head[0].iov_base = base;
        arg.head[0].iov_len = head.end;
        arg.pages = list;
        arg.page_base = 0;
        arg.page_len = c_uint::try_from(pages)?;
        arg.tail[0].iov_base = base.wrapping_byte_add(head.end);
        arg.tail[0].iov_len = tail;
        arg.buflen = len;
        arg.len = len;
        Ok(())
    }
}

/// The result of a call, in the service thread that is about to send it.
pub struct SvcResult<'a> {
    rqst: *mut raw::svc_rqst,
    buf: XdrBuf<'a>,
}

impl SvcResult<'_> {
    /// # Safety
    ///
    /// `rqst` is that of the calling thread, which is in `xpo_sendto` for `'a`.
    pub(crate) unsafe fn new(rqst: *mut raw::svc_rqst) -> Self {
        Self {
            rqst,
            // SAFETY: The thread keeps the pages that its result is in until it has been sent.
            buf: unsafe { XdrBuf::from_raw(&raw const (*rqst).rq_res) },
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.buf.total_len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where in it the data is that the thread has in pages.
    pub fn data(&self) -> Range<usize> {
        self.buf.page_range()
    }

    /// Copies bytes from `at` on to `dst`. Returns how many there were.
    pub fn copy_out(&self, at: usize, dst: &mut [u8]) -> Result<usize> {
        self.buf.copy_out(at, dst)
    }

    /// The memory of a part of it.
    pub fn pieces(&self, range: Range<usize>) -> SvcPieces<'_> {
        SvcPieces {
            runs: self.buf.runs(range).peekable(),
        }
    }

    /// Puts `blanks` back to where they were, so that the thread need not allocate others. What
    /// was put there meanwhile is let go.
    ///
    /// To be called when nothing is read from the result any more but through pieces of it. If some
    /// of those are of a page of the thread itself, all stays as it is.
    pub fn restore(&mut self, blanks: &mut Blanks) {
        // SAFETY: See `new`.
        let rqst = unsafe { &mut *self.rqst };
        let first = rqst.rq_respages;
        // SAFETY: Both point into the array.
        let used = unsafe { rqst.rq_next_page.offset_from(first) };
        let used = usize::try_from(used).unwrap_or(usize::MAX);
        let Some(ours) = blanks.0.get(..used) else {
            return;
        };
        // SAFETY: The index is below the number of pages that the result uses.
        let entry = |index| unsafe { first.add(index) };
        for (index, page) in ours.iter().enumerate() {
            // SAFETY: The entry is in the array, which only this thread changes.
            let replaced = unsafe { entry(index).read() } != page.as_ptr();
            if !replaced && !Blanks::is_free(page) {
                return;
            }
        }
        for (index, page) in blanks.0.drain_all().enumerate().take(used) {
            // SAFETY: As above. The reference becomes the array's.
            let theirs = unsafe { entry(index).replace(page.into_raw().as_ptr()) };
            if !theirs.is_null() {
                // SAFETY: The reference was the array's, which gave it up.
                unsafe { raw::folio_put(theirs) };
            }
        }
        rqst.rq_next_page = first;
    }
}

/// Pieces of memory of a result, in order; pages of one folio that follow each other are one.
///
/// Each has a reference to what it is part of. [`EFAULT`] for memory that cannot be had so.
pub struct SvcPieces<'a> {
    runs: Peekable<Runs<'a>>,
}

impl Iterator for SvcPieces<'_> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.runs.next()? {
            Ok(Run::Memory(base, len)) => page_piece_at(base, len),
            Ok(Run::Page(page, offset, len)) => folio_piece(&mut self.runs, page, offset, len),
            Err(error) => Err(error),
        })
    }
}
