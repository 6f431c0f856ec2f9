// SPDX-License-Identifier: GPL-2.0

//! The results of a call, as a service thread sends them, and the pages that the thread has for its
//! replies.
//!
//! C header: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h), `rq_res`,
//! `rq_respages` and `rq_next_page` of `struct svc_rqst`.
//!
//! A thread loses pages when a file system puts pages of its own in their place, and sunrpc has to
//! allocate and clear others. [`SavedReplyPages`] puts them back.

use crate::prelude::*;
use crate::{
    memory::Page,
    xdr_buf::Pieces, //
};
use core::ops::RangeInclusive;
use kernel::bindings::page;

/// The results of a call, in the service thread that is about to send them.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use sunrpc::{
///     memory::Piece,
///     SvcResult, //
/// };
///
/// /// Copies what precedes the data of a READ to `out`, and returns the data itself, in the pages
/// /// that it is in.
/// fn split(result: &SvcResult<'_>, out: &mut KVec<u8>) -> Result<KVec<Piece>> {
///     let data = result.data();
///     out.resize(data.start, 0, GFP_KERNEL)?;
///     if result.copy_out(0, out)? != data.start {
///         return Err(EINVAL);
///     }
///     let mut pieces = KVec::new();
///     for piece in result.pieces(data) {
///         pieces.push(piece?, GFP_KERNEL)?;
///     }
///     Ok(pieces)
/// }
/// ```
pub struct SvcResult<'a> {
    rqst: *mut cbindings::svc_rqst,
    buf: XdrBuf<'a>,
}

impl SvcResult<'_> {
    /// # Safety
    ///
    /// `rqst` is that of the calling thread, which is in `xpo_sendto` for `'a`.
    pub(crate) unsafe fn new(rqst: *mut cbindings::svc_rqst) -> Self {
        Self {
            rqst,
            // SAFETY: The thread keeps the pages that its results are in until they have been sent.
            buf: unsafe { XdrBuf::from_raw(&raw const (*rqst).rq_res) },
        }
    }

    /// Returns the transaction id of the call, in host order.
    pub fn xid(&self) -> u32 {
        // SAFETY: By the promise of the caller of `new` the `svc_rqst` is live and the thread's
        // own.
        u32::from_be(unsafe { (*self.rqst).rq_xid })
    }

    /// Returns their length in bytes.
    pub fn len(&self) -> usize {
        self.buf.total_len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the range of the bytes that the thread has in pages.
    pub fn data(&self) -> Range<usize> {
        self.buf.page_range()
    }

    /// Copies bytes from `at` on to `dst`. Returns the number of bytes copied.
    pub fn copy_out(&self, at: usize, dst: &mut [u8]) -> Result<usize> {
        self.buf.copy_out(at, dst)
    }

    /// Returns the memory of a part of them.
    pub fn pieces(&self, range: Range<usize>) -> Pieces<'_> {
        Pieces::of_pages(self.buf.iovecs(range))
    }

    /// Puts `saved_pages` back to their entries, so that the thread need not allocate others,
    /// unless that could change the data of a reply.
    ///
    /// The results are read no more after this, but through pieces of them.
    pub fn restore(self, saved_pages: &mut SavedReplyPages) {
        // SAFETY: By the promise of the caller of `new` the `svc_rqst` is the calling thread's,
        // which is in `xpo_sendto`; `self` is consumed.
        unsafe { saved_pages.restore(self.rqst) };
    }
}

/// The pages that a service thread had for a reply before the call was executed.
///
/// Nobody puts a page in the place of the first one, which has the head of the reply, so that needs
/// no reference. Each other one takes two atomic operations, and most replies need none of them: if
/// the caller does not know how many, as many are saved as replies to calls that used the same
/// value have lost lately. Who guesses wrong loses pages once.
pub struct SavedReplyPages {
    /// The first page. Only compared.
    first: *const page,
    /// Those behind it.
    pages: KVec<Page>,
    /// The thread's `svc_rqst`.
    rqst: *const cbindings::svc_rqst,
    /// The most pages that the caller expects the reply to use, and whether it may use fewer.
    most: usize,
    is_guess: bool,
    /// The number of pages that were in use when the last result was complete, which nfsd may take
    /// for unused later.
    in_use: usize,
    /// The number of pages that a reply needed lately, the first one included.
    needed: usize,
    /// The replies in a row that needed fewer.
    needed_fewer: u8,
}

// SAFETY: The pointers are only compared, and pages belong to no task.
unsafe impl Send for SavedReplyPages {}

impl Default for SavedReplyPages {
    fn default() -> Self {
        Self {
            first: ptr::null(),
            pages: KVec::new(),
            rqst: ptr::null(),
            most: 0,
            is_guess: false,
            in_use: 0,
            needed: 1,
            needed_fewer: 0,
        }
    }
}

impl SavedReplyPages {
    /// The number of pages that are saved without an allocation for each call.
    const MAX_KEPT: usize = 32;

    /// The number of replies in a row that need fewer pages, before fewer are saved.
    const LATELY: u8 = 16;

    /// Drops the references to the pages, and frees the list if it is long, as many of these are
    /// kept for later calls.
    pub fn clear(&mut self) {
        self.first = ptr::null();
        self.in_use = 0;
        self.pages.clear();
        if self.pages.capacity() > Self::MAX_KEPT {
            self.pages = KVec::new();
        }
    }

    /// Returns whether nobody but the thread's array and `self` uses the page.
    fn is_free(page: &Page) -> bool {
        page.references() == 2
    }

    /// Returns the number of pages that the thread of `rqst` has for a reply: not `rq_maxpages`, as
    /// a call and its reply may share an array.
    ///
    /// # Safety
    ///
    /// sunrpc set it up for a call.
    unsafe fn reply_pages(rqst: &cbindings::svc_rqst) -> usize {
        // SAFETY: Both point into the same array, by the caller's word.
        let count = unsafe { rqst.rq_page_end.offset_from(rqst.rq_respages) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Saves the first pages that the thread has for the reply, as many of `counts` as were needed
    /// lately, or those before the first page that is not the thread's alone: nfsd may leave it a
    /// page of a file. The thread has as many as the longest message of the service takes, so
    /// larger numbers cost no more.
    ///
    /// # Safety
    ///
    /// `rqst` is that of the calling thread, which is in `xpo_recvfrom`.
    pub(crate) unsafe fn save(
        &mut self,
        rqst: *mut cbindings::svc_rqst,
        counts: RangeInclusive<usize>,
    ) -> Result {
        self.clear();
        self.rqst = rqst;
        self.most = *counts.end();
        self.is_guess = *counts.start() < self.most;
        let count = self.needed.max(*counts.start()).min(self.most);
        // SAFETY: The caller promises that it is the thread's.
        let count = count.min(unsafe { Self::reply_pages(&*rqst) });
        self.pages.reserve(count.saturating_sub(1), GFP_KERNEL)?;
        for index in 0..count {
            // SAFETY: The caller promises that it is the thread's. The array has that many entries.
            let page = unsafe { (*rqst).rq_respages.add(index).read() };
            let Some(page) = NonNull::new(page) else {
                break;
            };
            // SAFETY: The array has a reference to the page.
            if unsafe { cbindings::page_ref_count(page.as_ptr()) } != 1 {
                break;
            }
            if index == 0 {
                self.first = page.as_ptr();
                continue;
            }
            // SAFETY: The array's reference was the only one, so it is the thread's own page, of
            // order 0.
            let page = unsafe { Page::share(page) };
            if self.pages.push_within_capacity(page).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Notes that the reply has results in the first `pages` pages of the thread: whoever takes
    /// them for unused later is wrong.
    pub fn note_in_use(&mut self, pages: usize) {
        self.in_use = self.in_use.max(pages);
    }

    /// Notes how many pages a reply has needed.
    fn note_needed(&mut self, pages: usize) {
        self.needed_fewer = match pages < self.needed {
            true => self.needed_fewer.saturating_add(1),
            false => Self::LATELY,
        };
        if self.needed_fewer >= Self::LATELY {
            self.needed = pages.max(1);
            self.needed_fewer = 0;
        }
    }

    /// Puts the pages back to their entries, so that the thread need not allocate others, and drops
    /// the pages that replaced them.
    ///
    /// If data of the reply is in a page of the thread itself, all stays as it is: the device may
    /// still read the page, and nfsd may send what a reused page holds. (Of two READs in a COMPOUND
    /// the `xdr_buf` does not say where the data of the second one is.)
    ///
    /// # Safety
    ///
    /// `rqst` is that of the calling thread, which is in `xpo_sendto`, and reads nothing from the
    /// reply any more but through pieces of it.
    pub(crate) unsafe fn restore(&mut self, rqst: *mut cbindings::svc_rqst) {
        // SAFETY: The caller promises that it is the thread's.
        let rqst = unsafe { &mut *rqst };
        // If another thread saved the pages, or the call was deferred since, they may be in the
        // reply to another call by now, and each client would see data of the other's reply.
        let is_own = rqst.rq_deferred.is_null() && ptr::eq(self.rqst, rqst);
        let (saved, saved_end) = match is_own && !self.first.is_null() {
            true => (self.pages.as_slice(), self.pages.len().saturating_add(1)),
            false => (&[][..], 0),
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
        // SAFETY: The array has a reference to each page in it.
        let is_alone = |page: *mut page| unsafe { cbindings::page_ref_count(page) } == 1;
        // Only the bytes of the head that were written are sent, so nothing else of the page is.
        let reuses_first = saved_end > 0 && ptr::eq(page_at(0), self.first) && is_alone(page_at(0));
        if used == 0 && saved_end > 0 && !reuses_first {
            used = 1;
        }
        // SAFETY: sunrpc set it up for this call.
        let count = unsafe { Self::reply_pages(rqst) };
        used = used.max(self.in_use.min(count));
        // When a COMPOUND has no room for the operation after a READ, nfsd may take the READ's
        // pages for unused, and write the next reply to them. They may be pages of the file, or of
        // a Send that has not completed.
        for (index, page) in (1_usize..).zip(saved) {
            if index >= used && (is_replaced(index, page) || !SavedReplyPages::is_free(page)) {
                used = index.saturating_add(1);
            }
        }
        // A page of the file may have left the page cache since, in front of others.
        for index in used.max(saved_end)..count {
            let page = page_at(index);
            if page.is_null() {
                break;
            }
            match is_alone(page) {
                false => used = index.saturating_add(1),
                true if index >= self.most => break,
                true => (),
            }
        }
        rqst.rq_next_page = entry(used);
        let replaced = saved.get(..used.saturating_sub(1));
        let is_restored = used <= saved_end
            && (used == 0 || reuses_first)
            && replaced.is_some_and(|pages| {
                let mut pages = (1_usize..).zip(pages);
                pages.all(|(index, page)| is_replaced(index, page))
            });
        if self.is_guess && is_own {
            let is_lost = |index: usize| match index.checked_sub(1).and_then(|at| saved.get(at)) {
                Some(page) => is_replaced(index, page),
                None => page_at(index).is_null() || !is_alone(page_at(index)),
            };
            let needed = match (1..used).all(is_lost) {
                true => used,
                // What stays is not put back, so a reference has no use.
                false => 1,
            };
            self.note_needed(needed);
        }
        if !is_restored {
            return;
        }
        for (page, index) in self.pages.drain_all().zip(1_usize..used) {
            // SAFETY: The index is below the number of entries. Only this thread changes the array,
            // which owns the reference from now on.
            let replaced = unsafe { entry(index).replace(page.into_raw().as_ptr()) };
            if !replaced.is_null() {
                // SAFETY: The array owned the reference, and has the page no more.
                unsafe { cbindings::folio_put(replaced) };
            }
        }
        rqst.rq_next_page = first;
    }
}
