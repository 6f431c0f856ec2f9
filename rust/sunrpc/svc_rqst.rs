// SPDX-License-Identifier: GPL-2.0

//! A call as it is put together, and a result as it is sent.
//!
//! C header: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h), `struct svc_rqst`.
//!
//! A service thread has two arrays of pages of its own, one for a call and one for its reply. A
//! call stays in the message that it came in, which is lent to the thread until the reply is made;
//! what came otherwise is exchanged for pages of the first, so that the thread always has as many
//! as before and none needs to be freed or allocated.
//!
//! Pages of the second are lost when a file system puts pages of its own in their place, and each
//! has to be allocated and cleared anew. [`SavedReplyPages`] brings them back.

use crate::{
    memory::{
        Page,
        Piece,
        Stable, //
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
    ptr::{
        self,
        NonNull, //
    },
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
pub struct SavedReplyPages {
    pages: KVec<Page>,
    /// That thread.
    rqst: *const raw::svc_rqst,
}

// SAFETY: The pointer is compared only, and pages belong to no task.
unsafe impl Send for SavedReplyPages {}

impl Default for SavedReplyPages {
    fn default() -> Self {
        Self {
            pages: KVec::new(),
            rqst: ptr::null(),
        }
    }
}

impl SavedReplyPages {
    /// Lets go of them.
    pub fn clear(&mut self) {
        self.pages.clear();
    }

    /// Whether the page of the thread, and of the array, is used by nobody else.
    fn is_free(page: &Page) -> bool {
        page.references() == 2
    }
}

/// The place of a call, in a service thread that waits for one. Calls come in messages `M`.
pub struct SvcArgs<'a, M> {
    rqst: *mut raw::svc_rqst,
    message: Option<M>,
    _during_receive: PhantomData<&'a mut ()>,
}

impl<M: Stable> SvcArgs<'_, M> {
    /// # Safety
    ///
    /// `rqst` is that of the calling thread, which is in `xpo_recvfrom` for `'a`: its pages are all
    /// there, and its own.
    pub(crate) unsafe fn new(rqst: *mut raw::svc_rqst) -> Self {
        Self {
            rqst,
            message: None,
            _during_receive: PhantomData,
        }
    }

    /// How many pages a call may have.
    pub fn max_pages(&self) -> usize {
        // SAFETY: See `new`.
        unsafe { (*self.rqst).rq_maxpages }
    }

    /// The call is `rpc` of `message`, which comes back if there is no such part.
    pub fn set_message(&mut self, message: M, rpc: Range<usize>) -> Result<(), M> {
        let part = part(&message, rpc);
        let set = part.and_then(|rpc| self.set(rpc, rpc.len(), 0, 0));
        self.keep(message, set)
    }

    /// The call is `rpc` of `message`, with `len` bytes of `pages` inserted at `position`. What the
    /// thread has for `pages` comes back in there. If there is no such part or no room, the message
    /// comes back.
    pub fn set_reduced(
        &mut self,
        message: M,
        rpc: Range<usize>,
        position: usize,
        pages: &mut KVec<Page>,
        len: usize,
    ) -> Result<(), M> {
        let part = part(&message, rpc);
        let set = part.and_then(|rpc| {
            self.exchange(pages, len)?;
            self.set(rpc, position, 0, len)
        });
        self.keep(message, set)
    }

    /// The call is the first `len` bytes of `pages`; it came in `message`. What the thread has for
    /// `pages` comes back in there. If there is no room, the message comes back.
    pub fn set_pages(&mut self, message: M, pages: &mut KVec<Page>, len: usize) -> Result<(), M> {
        let set = self.exchange(pages, len).and_then(|()| {
            let head = len.min(PAGE_SIZE);
            // SAFETY: The pages of a service thread are in the linear map.
            let base = unsafe { raw::page_address(self.page(0)?.as_ptr()) };
            let base = NonNull::new(base.cast()).ok_or(EINVAL)?;
            let head = NonNull::slice_from_raw_parts(base, head);
            self.set(head, head.len(), 1, len - head.len())
        });
        self.keep(message, set)
    }

    /// The message again: there is no call.
    pub fn take_message(&mut self) -> Option<M> {
        self.message.take()
    }

    fn keep(&mut self, message: M, set: Result) -> Result<(), M> {
        match set {
            Ok(()) => self.message = Some(message),
            Err(_) => return Err(message),
        }
        Ok(())
    }

    /// CallContext in `saved_pages` the first `count` pages that the thread has for the result, or those before the
    /// first one that is not the thread's alone: nfsd may leave it a page of a file.
    pub fn save_reply_pages(&self, saved_pages: &mut SavedReplyPages, count: usize) -> Result {
        saved_pages.clear();
        saved_pages.rqst = self.rqst;
        let count = count.min(self.max_pages());
        saved_pages.pages.reserve(count, GFP_KERNEL)?;
        for index in 0..count {
            // SAFETY: See `new`. The array has that many entries.
            let page = unsafe { (*self.rqst).rq_respages.add(index).read() };
            let Some(page) = NonNull::new(page) else {
                break;
            };
            // SAFETY: The array has a reference.
            if unsafe { raw::page_ref_count(page.as_ptr()) } != 1 {
                break;
            }
            // SAFETY: The reference was the only one, so it is the thread's own page, of order 0.
            let page = unsafe { Page::share(page) };
            if saved_pages.pages.push_within_capacity(page).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the thread receives from `xprt`, to which it has a reference then.
    pub(crate) fn are_of(&self, xprt: *const raw::svc_xprt) -> bool {
        // SAFETY: See `new`.
        ptr::eq(unsafe { (*self.rqst).rq_xprt }, xprt)
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

    /// Exchanges `pages`, which have to hold `len` bytes, for the first of the thread.
    fn exchange(&mut self, pages: &mut KVec<Page>, len: usize) -> Result {
        if pages.len().saturating_mul(PAGE_SIZE) < len {
            return Err(EINVAL);
        }
        for index in 0..pages.len() {
            self.page(index)?;
        }
        for (index, place) in pages.iter_mut().enumerate() {
            let theirs = self.page(index)?;
            // SAFETY: The reference is the array's, which gives it up here.
            let theirs = unsafe { Page::from_raw(theirs) };
            let ours = core::mem::replace(place, theirs).into_raw();
            // SAFETY: The entry is in the array, and the reference becomes its own.
            unsafe { self.entry(index)?.write(ours.as_ptr()) };
        }
        Ok(())
    }

    /// The call is the first `head` bytes of `memory`, `pages` bytes in the pages from `first` on,
    /// and the rest of `memory`.
    fn set(&mut self, memory: NonNull<[u8]>, head: usize, first: usize, pages: usize) -> Result {
        let tail = memory.len().checked_sub(head).ok_or(EINVAL)?;
        if first.saturating_add(pages.div_ceil(PAGE_SIZE)) > self.max_pages() {
            return Err(E2BIG);
        }
        let base: *mut c_void = memory.as_ptr().cast();
        let len = c_uint::try_from(memory.len().saturating_add(pages))?;
        // SAFETY: See `new`. `first` is at most the length of the array.
        let list = unsafe { (*self.rqst).rq_pages.add(first) };
        // SAFETY: See `new`.
        let arg = unsafe { &mut (*self.rqst).rq_arg };
        arg.head[0].iov_base = base;
        arg.head[0].iov_len = head;
        arg.pages = list;
        arg.page_base = 0;
        arg.page_len = c_uint::try_from(pages)?;
        arg.tail[0].iov_base = base.wrapping_byte_add(head);
        arg.tail[0].iov_len = tail;
        arg.buflen = len;
        arg.len = len;
        Ok(())
    }
}

/// The bytes `range` of `message`.
fn part<M: Stable>(message: &M, range: Range<usize>) -> Result<NonNull<[u8]>> {
    let memory = message.memory();
    let len = range.end.checked_sub(range.start).ok_or(EINVAL)?;
    if range.end > memory.len() {
        return Err(EINVAL);
    }
    // SAFETY: The range is within the memory.
    let base = unsafe { memory.cast::<u8>().add(range.start) };
    Ok(NonNull::slice_from_raw_parts(base, len))
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

    /// Puts `saved_pages` back to where they were, so that the thread need not allocate others. What
    /// was put there meanwhile is let go.
    ///
    /// Nothing is read from the result any more but through pieces of it. If data of the result is in a
    /// page of the thread itself, all stays as it is. It may be read from there still, and nfsd may send
    /// what a reused page holds: of two READs in a COMPOUND the second one's data is not where it says.
    pub fn restore(self, saved_pages: &mut SavedReplyPages) {
        // SAFETY: See `new`.
        let rqst = unsafe { &mut *self.rqst };
        // If the call was put off when they were noted, then whichever thread had them, they may be in the reply
        // to another call since, and a page in two replies shows each what is the other's.
        let noted = match rqst.rq_deferred.is_null() && ptr::eq(saved_pages.rqst, rqst) {
            true => saved_pages.pages.as_slice(),
            false => &[],
        };
        let first = rqst.rq_respages;
        // SAFETY: Both point into the array.
        let Ok(mut used) = usize::try_from(unsafe { rqst.rq_next_page.offset_from(first) }) else {
            return;
        };
        // SAFETY: The index is at most the number of pages in the array, which has one entry more.
        let entry = |index| unsafe { first.add(index) };
        // SAFETY: The index is below that number. Only this thread changes the array.
        let page_at = |index| unsafe { entry(index).read() };
        let is_replaced = |index, page: &Page| page_at(index) != page.as_ptr();
        // When a COMPOUND has no room for what follows a READ, nfsd may take that one's pages for unused, and
        // write the next result to them. They may be the file's, or on their way to the client.
        for (index, page) in (used..).zip(noted.get(used..).unwrap_or_default()) {
            if is_replaced(index, page) || !SavedReplyPages::is_free(page) {
                used = index.saturating_add(1);
            }
        }
        for index in used.max(noted.len())..rqst.rq_maxpages {
            let page = page_at(index);
            // SAFETY: The array has a reference to the page.
            if page.is_null() || unsafe { raw::page_ref_count(page) } == 1 {
                break;
            }
            used = index.saturating_add(1);
        }
        rqst.rq_next_page = entry(used);
        let Some(ours) = noted.get(..used) else {
            return;
        };
        for (index, page) in ours.iter().enumerate() {
            // The first has the head, of which only what was written is sent.
            let reusable =
                is_replaced(index, page) || (index == 0 && SavedReplyPages::is_free(page));
            if !reusable {
                return;
            }
        }
        for (index, page) in saved_pages.pages.drain_all().enumerate().take(used) {
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
