// SPDX-License-Identifier: GPL-2.0

//! Copying of an inline reply to head, pages and tail of the `xdr_buf` that the upper layer has for
//! it.

use crate::xdr_buf::XdrBuf;
use kernel::{
    ffi::c_uint,
    prelude::*, //
};

/// A reply whose bytes are where the upper layer expects them.
pub(crate) struct InlineReply {
    /// The length of the reply, XDR padding included.
    pub(crate) len: usize,
    /// The lengths to shorten head and pages of the `xdr_buf` to, so that the decoder finds the
    /// reply.
    pub(crate) lengths: Option<ReplyLengths>,
}

/// The number of bytes of head and pages that a reply takes.
#[derive(Clone, Copy)]
pub(crate) struct ReplyLengths {
    head: usize,
    pages: usize,
}

impl ReplyLengths {
    /// Shortens head and pages of `buf` to these lengths.
    ///
    /// # Safety
    ///
    /// `buf` is valid, at least as long, and nobody else accesses it.
    pub(crate) unsafe fn shrink(self, buf: *mut raw::xdr_buf) {
        // SAFETY: The caller vouches for it.
        let buf = unsafe { &mut *buf };
        let head = buf.head[0].iov_len.saturating_sub(self.head);
        let pages = (buf.page_len as usize).saturating_sub(self.pages);
        buf.head[0].iov_len -= head;
        // CAST: The difference is not larger than `page_len`.
        buf.page_len -= pages as c_uint;
        buf.buflen = buf.buflen.saturating_sub((head + pages) as c_uint);
    }
}

/// Copies the inline reply `message` to `buf`. `reduced` is the length of a payload that is in the
/// pages already, and that `message` lacks.
///
/// Bytes beyond the end of the buffer are cut off, as in a reply from a socket; the upper layer
/// then finds that the reply is too short. Fails with [`EIO`] if the payload is larger than the
/// pages.
///
/// sunrpc takes no reply that does not consist of whole XDR units. Some servers forget the padding
/// at the end, or send too much of it, and the count before it tells all the same where the data
/// end.
pub(crate) fn copy_inline(
    buf: &XdrBuf<'_>,
    message: &[u8],
    reduced: Option<u32>,
) -> Result<InlineReply> {
    let Some(payload) = reduced.filter(|len| *len != 0) else {
        return Ok(InlineReply {
            len: buf.pad_to_unit(buf.copy_in(0, message)),
            lengths: None,
        });
    };
    // Less than a unit at the end is padding of the payload, which stayed here when that was taken
    // out.
    let (message, _) = message.split_at(message.len() & !3);
    let payload = payload as usize;
    if payload > buf.page_len().next_multiple_of(4) {
        return Err(EIO);
    }
    // Some peers count the XDR padding, too.
    let payload = payload.min(buf.page_len());
    let pad = payload.next_multiple_of(4) - payload;

    // The upper layer made the head as long as it expects the results before the payload to be.
    let (before, after) = message.split_at(message.len().min(buf.head_len()));
    let before = buf.copy_in(0, before);
    let after = buf.copy_in(buf.page_range().end + pad, after);

    // The decoder looks for the payload where the head ends, and skips the padding at the start of
    // the tail. It would take bytes of head or pages that are not part of this reply for results,
    // and would read all that follows at the wrong offset.
    Ok(InlineReply {
        len: (before + payload + pad + after) & !3,
        lengths: Some(ReplyLengths {
            head: before,
            pages: payload,
        }),
    })
}
