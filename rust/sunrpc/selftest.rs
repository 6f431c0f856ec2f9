// SPDX-License-Identifier: GPL-2.0

//! Tests that need the kernel: sunrpc's own decoder must find the replies that this crate copies to
//! an `xdr_buf`.

pub mod buffers;
pub mod callbacks;
pub mod calls;
mod echo;
pub mod svc_transports;

use crate::prelude::*;
use crate::{
    clnt::reply::{
        copy_inline,
        InlineReply, //
    },
    memory::Buffer,
    Weak, //
};
use core::ptr;
use kernel::{
    page::{
        Page,
        PAGE_SIZE, //
    },
    sync::Arc, //
};

/// Returns a weak reference to no transport.
pub fn empty_weak<X: Send + Sync + 'static>() -> Result<Weak<X>> {
    Weak::new()
}

/// A test. It returns whether it passed.
pub type Test = fn() -> Result<bool>;

/// The tests. The name of each is what it claims.
pub const TESTS: &[(&str, Test)] = &[
    ("inline reply is found", inline_reply_is_found),
    ("reduced reply is found", reduced_reply_is_found),
    (
        "short head does not shift the payload",
        short_head_does_not_shift_the_payload,
    ),
    (
        "results after the payload are found",
        results_after_the_payload_are_found,
    ),
    (
        "counted padding is no payload",
        counted_padding_is_no_payload,
    ),
    (
        "payload larger than the pages is refused",
        payload_larger_than_the_pages_is_refused,
    ),
    (
        "reply larger than its buffer is cut off",
        reply_larger_than_its_buffer_is_cut_off,
    ),
    ("missing page ends the copy", missing_page_ends_the_copy),
    // Shows S2.2.4.2-01.
    (
        "inline reply with any padding is found",
        inline_reply_with_any_padding_is_found,
    ),
    (
        "padding beside a reduced reply is passed over",
        padding_beside_a_reduced_reply_is_passed_over,
    ),
    (
        "reply in a Reply chunk without padding is found",
        reply_in_a_reply_chunk_without_padding_is_found,
    ),
];

const HEAD: usize = 96;
const TAIL: usize = 64;
const PAGES: usize = 3;

/// The memory that an upper layer has for a reply.
struct ReplyBuf {
    memory: Arc<Buffer>,
    _pages: [Page; PAGES],
    page_pointers: [*mut kernel::bindings::page; PAGES],
    page_base: usize,
    page_len: usize,
}

impl ReplyBuf {
    fn new(page_base: usize, page_len: usize) -> Result<Self> {
        let pages = [
            Page::alloc_page(GFP_KERNEL)?,
            Page::alloc_page(GFP_KERNEL)?,
            Page::alloc_page(GFP_KERNEL)?,
        ];
        let memory = Buffer::new(HEAD + TAIL, GFP_KERNEL)?;
        memory.copy_in(0, &[0xee; HEAD + TAIL])?;
        Ok(Self {
            memory,
            page_pointers: [pages[0].as_ptr(), pages[1].as_ptr(), pages[2].as_ptr()],
            _pages: pages,
            page_base,
            page_len,
        })
    }

    fn as_xdr_buf(&mut self) -> cbindings::xdr_buf {
        let base = self.memory.base().as_ptr();
        cbindings::xdr_buf {
            head: [cbindings::kvec {
                iov_base: base.cast(),
                iov_len: HEAD,
            }],
            tail: [cbindings::kvec {
                iov_base: base.wrapping_add(HEAD).cast(),
                iov_len: TAIL,
            }],
            pages: self.page_pointers.as_mut_ptr(),
            page_base: self.page_base as u32,
            page_len: self.page_len as u32,
            buflen: (HEAD + self.page_len + TAIL) as u32,
            ..Default::default()
        }
    }

    /// Receives a reply: the peer writes `written` to the pages, and the transport copies
    /// `message`.
    fn receive(&mut self, message: &[u8], written: &[u8]) -> Result<cbindings::xdr_buf> {
        let mut raw = self.as_xdr_buf();
        // SAFETY: `self` owns the memory, and outlives this function.
        let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
        buf.copy_in(HEAD, written);
        let inline_reply = copy_inline(&buf, message, Some(written.len() as u32))?;
        // SAFETY: It is a local variable.
        unsafe { shrink(&raw mut raw, &inline_reply) };
        Ok(raw)
    }
}

/// Gives `buf` the lengths of the reply in it, as sunrpc's decoder wants them.
///
/// # Safety
///
/// `buf` is valid, and nobody else accesses it.
unsafe fn shrink(buf: *mut cbindings::xdr_buf, reply: &InlineReply) {
    if let Some(lengths) = reply.lengths {
        // SAFETY: The caller vouches for it.
        unsafe { lengths.shrink(buf) };
    }
    // SAFETY: The caller vouches for `buf`.
    unsafe { (*buf).len = reply.len as u32 };
}

/// sunrpc's decoder.
struct Decoder<'a> {
    stream: cbindings::xdr_stream,
    buf: &'a mut cbindings::xdr_buf,
}

impl<'a> Decoder<'a> {
    fn new(buf: &'a mut cbindings::xdr_buf) -> Self {
        let mut stream = cbindings::xdr_stream::default();
        // SAFETY: The caller's `ReplyBuf` outlives the decoder.
        unsafe { cbindings::xdr_init_decode(&mut stream, buf, ptr::null_mut(), ptr::null_mut()) };
        Self { stream, buf }
    }

    /// Returns whether the next bytes are `expected`, without crossing from one part to another.
    fn inline_is(&mut self, expected: &[u8]) -> bool {
        // SAFETY: The stream is initialised, and the memory that it points to is allocated.
        let at = unsafe { cbindings::xdr_inline_decode(&mut self.stream, expected.len()) };
        if at.is_null() {
            return false;
        }
        // SAFETY: The decoder says that there are as many bytes.
        let found = unsafe { core::slice::from_raw_parts(at.cast::<u8>(), expected.len()) };
        found == expected
    }

    /// Returns whether the payload, by its length, is `expected`.
    fn payload_is(&mut self, expected: &[u8]) -> Result<bool> {
        // SAFETY: The stream is initialised, and the memory that it points to is allocated.
        let len = unsafe { cbindings::xdr_read_pages(&mut self.stream, expected.len() as u32) };
        let mut found = KVec::from_elem(0u8, expected.len(), GFP_KERNEL)?;
        // SAFETY: The caller's `ReplyBuf` owns the memory, and outlives the decoder.
        let buf = unsafe { XdrBuf::from_raw(&raw const *self.buf) };
        let copied = buf.copy_out(self.buf.head[0].iov_len, &mut found)?;
        Ok(len as usize == expected.len() && copied >= len as usize && *found == *expected)
    }

    fn is_at_end(&self) -> bool {
        self.stream.nwords == 0
    }
}

fn bytes(len: usize, seed: u8) -> Result<KVec<u8>> {
    let mut bytes = KVec::with_capacity(len, GFP_KERNEL)?;
    for i in 0..len {
        bytes.push(seed.wrapping_add((i % 251) as u8), GFP_KERNEL)?;
    }
    Ok(bytes)
}

fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// Returns payload lengths around every edge: word, page, and the end of the reply buffer.
fn lengths(page_base: usize, page_len: usize) -> impl Iterator<Item = usize> {
    let first = PAGE_SIZE - page_base;
    [
        1,
        2,
        3,
        4,
        5,
        first - 1,
        first,
        first + 1,
        first + PAGE_SIZE,
        page_len - 1,
        page_len,
    ]
    .into_iter()
    .filter(move |len| *len <= page_len)
}

fn page_ranges() -> impl Iterator<Item = (usize, usize)> {
    [
        (0, PAGE_SIZE),
        (0, 3 * PAGE_SIZE),
        (100, 2 * PAGE_SIZE),
        (4092, 5001),
        (13, 4099),
    ]
    .into_iter()
}

fn inline_reply_is_found() -> Result<bool> {
    for (page_base, page_len) in page_ranges() {
        // As for a reply from a socket, the pages are filled before the tail is.
        for len in [page_len - 4, page_len] {
            let mut message = bytes(HEAD, 1)?;
            let mut payload = bytes(len, 2)?;
            message.extend_from_slice(&payload, GFP_KERNEL)?;
            message.resize(HEAD + padded(len), 0, GFP_KERNEL)?;
            message.extend_from_slice(b"tail", GFP_KERNEL)?;
            let mut reply_buf = ReplyBuf::new(page_base, page_len)?;
            let mut raw = reply_buf.receive(&message, &[])?;
            if raw.len as usize != message.len() {
                return Ok(false);
            }
            let mut decoder = Decoder::new(&mut raw);
            payload.truncate(len);
            if !(decoder.inline_is(&message[..HEAD])
                && decoder.payload_is(&payload)?
                && decoder.inline_is(b"tail")
                && decoder.is_at_end())
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Tests replies with a head of `head` bytes, a written payload, and `after` bytes of other
/// results.
fn reduced_reply(head: usize, after: usize) -> Result<bool> {
    for (page_base, page_len) in page_ranges() {
        for len in lengths(page_base, page_len) {
            let payload = bytes(len, 3)?;
            let message = bytes(head + after, 4)?;
            let mut reply_buf = ReplyBuf::new(page_base, page_len)?;
            let mut raw = reply_buf.receive(&message, &payload)?;
            if raw.len as usize != head + padded(len) + after {
                return Ok(false);
            }
            let mut decoder = Decoder::new(&mut raw);
            if !(decoder.inline_is(&message[..head])
                && decoder.payload_is(&payload)?
                && (after == 0 || decoder.inline_is(&message[head..]))
                && decoder.is_at_end())
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn reduced_reply_is_found() -> Result<bool> {
    reduced_reply(HEAD, 0)
}

fn short_head_does_not_shift_the_payload() -> Result<bool> {
    Ok(reduced_reply(HEAD - 4, 0)? && reduced_reply(24, 0)?)
}

fn results_after_the_payload_are_found() -> Result<bool> {
    Ok(reduced_reply(HEAD, 4)? && reduced_reply(HEAD, 40)?)
}

fn counted_padding_is_no_payload() -> Result<bool> {
    let len = 4099;
    let mut payload = bytes(len, 5)?;
    let message = bytes(HEAD, 6)?;
    let mut reply_buf = ReplyBuf::new(0, len)?;
    let mut raw = reply_buf.as_xdr_buf();
    // SAFETY: `reply_buf` owns the memory, and lives until the end of this function.
    let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
    buf.copy_in(HEAD, &payload);
    let inline_reply = copy_inline(&buf, &message, Some(padded(len) as u32))?;
    // SAFETY: It is a local variable.
    unsafe { shrink(&raw mut raw, &inline_reply) };
    payload.truncate(len);
    let mut decoder = Decoder::new(&mut raw);
    Ok(decoder.inline_is(&message) && decoder.payload_is(&payload)? && decoder.is_at_end())
}

fn payload_larger_than_the_pages_is_refused() -> Result<bool> {
    let mut reply_buf = ReplyBuf::new(0, 4097)?;
    let raw = reply_buf.as_xdr_buf();
    // SAFETY: `reply_buf` owns the memory, and lives until the end of this function.
    let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
    let refused =
        |len| matches!(copy_inline(&buf, &[0; HEAD], Some(len)), Err(error) if error == EIO);
    Ok(!refused(4097) && !refused(4100) && refused(4101) && refused(u32::MAX))
}

fn reply_larger_than_its_buffer_is_cut_off() -> Result<bool> {
    let mut reply_buf = ReplyBuf::new(0, PAGE_SIZE)?;
    let raw = reply_buf.as_xdr_buf();
    // SAFETY: `reply_buf` owns the memory, and lives until the end of this function.
    let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
    let message = bytes(2 * PAGE_SIZE, 7)?;
    let inline = copy_inline(&buf, &message, None)?.len;
    let reduced = copy_inline(&buf, &message, Some(5))?.len;
    Ok(inline == HEAD + PAGE_SIZE + TAIL && reduced == HEAD + 8 + (TAIL - 4))
}

fn missing_page_ends_the_copy() -> Result<bool> {
    let mut reply_buf = ReplyBuf::new(0, 2 * PAGE_SIZE)?;
    reply_buf.page_pointers[1] = ptr::null_mut();
    let raw = reply_buf.as_xdr_buf();
    // SAFETY: `reply_buf` owns the memory, and lives until the end of this function.
    let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
    let message = bytes(HEAD + 2 * PAGE_SIZE, 8)?;
    let mut out = bytes(HEAD + 2 * PAGE_SIZE, 0)?;
    Ok(copy_inline(&buf, &message, None)?.len == HEAD + PAGE_SIZE
        && buf.copy_out(0, &mut out).is_err())
}

/// Returns an inline reply of a head and a payload, with `padding` bytes behind it.
fn with_padding(payload: &[u8], padding: usize) -> Result<KVec<u8>> {
    let mut message = bytes(HEAD, 1)?;
    message.extend_from_slice(payload, GFP_KERNEL)?;
    message.resize(HEAD + payload.len() + padding, 0xff, GFP_KERNEL)?;
    Ok(message)
}

fn inline_reply_with_any_padding_is_found() -> Result<bool> {
    for (page_base, page_len) in page_ranges() {
        for len in lengths(page_base, page_len) {
            let payload = bytes(len, 2)?;
            for padding in 0..4 {
                let message = with_padding(&payload, padding)?;
                let mut reply_buf = ReplyBuf::new(page_base, page_len)?;
                let mut raw = reply_buf.receive(&message, &[])?;
                if raw.len as usize != message.len().next_multiple_of(4) {
                    return Ok(false);
                }
                let mut decoder = Decoder::new(&mut raw);
                if !(decoder.inline_is(&message[..HEAD]) && decoder.payload_is(&payload)?) {
                    return Ok(false);
                }
            }
        }
    }
    // Three bytes of data and as many of padding, where there is room for one of these: what
    // nfs-ganesha replies to a READ of three bytes.
    let payload = bytes(3, 2)?;
    let message = with_padding(&payload, 3)?;
    let mut reply_buf = ReplyBuf::new(0, 3)?;
    let mut raw = reply_buf.as_xdr_buf();
    raw.tail[0].iov_len = 1;
    // SAFETY: `reply_buf` owns the memory, and lives until the end of this function.
    let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
    let inline_reply = copy_inline(&buf, &message, None)?;
    // SAFETY: It is a local variable.
    unsafe { shrink(&raw mut raw, &inline_reply) };
    let mut decoder = Decoder::new(&mut raw);
    Ok(inline_reply.len == HEAD + 4
        && decoder.inline_is(&message[..HEAD])
        && decoder.payload_is(&payload)?)
}

fn padding_beside_a_reduced_reply_is_passed_over() -> Result<bool> {
    for len in [4093, 4096] {
        let payload = bytes(len, 3)?;
        for padding in 0..4 {
            let message = with_padding(&[], padding)?;
            let mut reply_buf = ReplyBuf::new(0, len)?;
            let mut raw = reply_buf.receive(&message, &payload)?;
            let mut decoder = Decoder::new(&mut raw);
            if !(decoder.inline_is(&message[..HEAD])
                && decoder.payload_is(&payload)?
                && decoder.is_at_end())
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn reply_in_a_reply_chunk_without_padding_is_found() -> Result<bool> {
    for len in 4096..4100 {
        let payload = bytes(len, 2)?;
        let mut reply_buf = ReplyBuf::new(0, 2 * PAGE_SIZE)?;
        let mut raw = reply_buf.as_xdr_buf();
        // SAFETY: `reply_buf` owns the memory, and lives until the end of this turn.
        let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
        buf.copy_in(HEAD + len, &[0xff; 4]);
        let written = buf.copy_in(0, &with_padding(&payload, 0)?);
        raw.len = buf.pad_to_unit(written) as u32;
        let mut end = [0xee; 3];
        buf.copy_out(HEAD + len, &mut end)?;
        let mut decoder = Decoder::new(&mut raw);
        if !(padded(HEAD + len) == decoder.buf.len as usize
            && end[..padded(len) - len].iter().all(|byte| *byte == 0)
            && decoder.inline_is(&bytes(HEAD, 1)?)
            && decoder.payload_is(&payload)?)
        {
            return Ok(false);
        }
    }
    Ok(true)
}
