// SPDX-License-Identifier: GPL-2.0

//! The results of a call, as a service thread sends them.
//!
//! C header: [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h), `rq_res` of
//! `struct svc_rqst`.

use crate::{
    pieces::Pieces,
    svc_reply_pages::SavedReplyPages,
    xdr_buf::XdrBuf, //
};
use core::ops::Range;
use kernel::prelude::*;

/// The results of a call, in the service thread that is about to send them.
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
