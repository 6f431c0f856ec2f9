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
pub struct SavedReplyPages {
    pages: KVec<Page>,
    /// The thread's `svc_rqst`.
    rqst: *const cbindings::svc_rqst,
}

// SAFETY: The pointer is only compared, and pages belong to no task.
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
    /// The number of pages that are saved without an allocation for each call.
    const MAX_KEPT: usize = 32;

    /// Drops the references to the pages, and frees the list if it is long, as many of these are
    /// kept for later calls.
    pub fn clear(&mut self) {
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

    /// Saves the first `count` pages that the thread has for the reply, or those before the first
    /// page that is not the thread's alone: nfsd may leave it a page of a file. The thread has as
    /// many as the longest message of the service takes, so a larger `count` costs no more.
    ///
    /// # Safety
    ///
    /// `rqst` is that of the calling thread, which is in `xpo_recvfrom`.
    pub(crate) unsafe fn save(&mut self, rqst: *mut cbindings::svc_rqst, count: usize) -> Result {
        self.clear();
        self.rqst = rqst;
        // SAFETY: The caller promises that it is the thread's.
        let count = count.min(unsafe { Self::reply_pages(&*rqst) });
        self.pages.reserve(count, GFP_KERNEL)?;
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
            // SAFETY: The array's reference was the only one, so it is the thread's own page, of
            // order 0.
            let page = unsafe { Page::share(page) };
            if self.pages.push_within_capacity(page).is_err() {
                break;
            }
        }
        Ok(())
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
        let saved = if rqst.rq_deferred.is_null() && ptr::eq(self.rqst, rqst) {
            self.pages.as_slice()
        } else {
            &[]
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
        // When a COMPOUND has no room for the operation after a READ, nfsd may take the READ's
        // pages for unused, and write the next reply to them. They may be pages of the file, or of
        // a Send that has not completed.
        for (index, page) in (used..).zip(saved.get(used..).unwrap_or_default()) {
            if is_replaced(index, page) || !SavedReplyPages::is_free(page) {
                used = index.saturating_add(1);
            }
        }
        // SAFETY: sunrpc set it up for this call.
        let count = unsafe { Self::reply_pages(rqst) };
        for index in used.max(saved.len())..count {
            let page = page_at(index);
            // SAFETY: The array has a reference to the page.
            if page.is_null() || unsafe { cbindings::page_ref_count(page) } == 1 {
                break;
            }
            used = index.saturating_add(1);
        }
        rqst.rq_next_page = entry(used);
        let Some(used_pages) = saved.get(..used) else {
            return;
        };
        for (index, page) in used_pages.iter().enumerate() {
            // The first page has the head, of which only the bytes that were written are sent.
            let reusable =
                is_replaced(index, page) || (index == 0 && SavedReplyPages::is_free(page));
            if !reusable {
                return;
            }
        }
        for (index, page) in self.pages.drain_all().enumerate().take(used) {
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
