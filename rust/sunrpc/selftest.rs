// SPDX-License-Identifier: GPL-2.0

//! Tests that need the kernel: what is put in an `xdr_buf` here, sunrpc's own decoder must find.

pub mod buffers;
pub mod calls;

use crate::{
    memory::Buffer,
    xdr_buf::XdrBuf, //
};
use core::ptr;
use kernel::{
    page::{
        Page,
        PAGE_SIZE, //
    },
    prelude::*,
    sync::Arc, //
};

/// True if it passed.
pub type Test = fn() -> Result<bool>;

/// Each with its name, which is what it claims.
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
        "payload larger than its place is refused",
        payload_larger_than_its_place_is_refused,
    ),
    (
        "reply larger than its place is cut off",
        reply_larger_than_its_place_is_cut_off,
    ),
    ("missing page ends the copy", missing_page_ends_the_copy),
];

const HEAD: usize = 96;
const TAIL: usize = 64;
const PAGES: usize = 3;

/// The place of a reply, as the upper layer prepares it.
struct Place {
    memory: Arc<Buffer>,
    _pages: [Page; PAGES],
    page_pointers: [*mut kernel::bindings::page; PAGES],
    page_base: usize,
    page_len: usize,
}

impl Place {
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

    fn as_xdr_buf(&mut self) -> raw::xdr_buf {
        let base = self.memory.base().as_ptr();
        raw::xdr_buf {
            head: [raw::kvec {
                iov_base: base.cast(),
                iov_len: HEAD,
            }],
            tail: [raw::kvec {
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

    /// Does what the peer and the transport do.
    fn receive(&mut self, message: &[u8], written: &[u8]) -> Result<raw::xdr_buf> {
        let mut raw = self.as_xdr_buf();
        // SAFETY: `self` has the memory, for longer than this function.
        let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
        buf.copy_in(HEAD, written);
        let placed = buf.place(message, Some(written.len() as u32))?;
        if let Some(form) = placed.form {
            // SAFETY: It is a local variable.
            unsafe { form.apply(&raw mut raw) };
        }
        raw.len = placed.len as u32;
        Ok(raw)
    }
}

/// sunrpc's decoder at work.
struct Decoder<'a> {
    stream: raw::xdr_stream,
    buf: &'a mut raw::xdr_buf,
}

impl<'a> Decoder<'a> {
    fn new(buf: &'a mut raw::xdr_buf) -> Self {
        let mut stream = raw::xdr_stream::default();
        // SAFETY: The caller's `Place` outlives the decoder.
        unsafe { raw::xdr_init_decode(&mut stream, buf, ptr::null_mut(), ptr::null_mut()) };
        Self { stream, buf }
    }

    /// Whether the next bytes are `expected`, without crossing from one part to another.
    fn inline_is(&mut self, expected: &[u8]) -> bool {
        // SAFETY: The stream is initialised, and what it points to there.
        let at = unsafe { raw::xdr_inline_decode(&mut self.stream, expected.len()) };
        if at.is_null() {
            return false;
        }
        // SAFETY: The decoder says that there are as many bytes.
        let found = unsafe { core::slice::from_raw_parts(at.cast::<u8>(), expected.len()) };
        found == expected
    }

    /// Whether the payload, by its length, is `expected`.
    fn payload_is(&mut self, expected: &[u8]) -> Result<bool> {
        // SAFETY: As above.
        let len = unsafe { raw::xdr_read_pages(&mut self.stream, expected.len() as u32) };
        let mut found = KVec::from_elem(0u8, expected.len(), GFP_KERNEL)?;
        // SAFETY: As above.
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

/// Payload lengths around every edge: word, page, and the end of the place.
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

fn places() -> impl Iterator<Item = (usize, usize)> {
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
    for (page_base, page_len) in places() {
        // As from a socket: the pages are filled before the tail is.
        for len in [page_len - 4, page_len] {
            let mut message = bytes(HEAD, 1)?;
            let mut payload = bytes(len, 2)?;
            message.extend_from_slice(&payload, GFP_KERNEL)?;
            message.resize(HEAD + padded(len), 0, GFP_KERNEL)?;
            message.extend_from_slice(b"tail", GFP_KERNEL)?;
            let mut place = Place::new(page_base, page_len)?;
            let mut raw = place.receive(&message, &[])?;
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

/// Head of `head` bytes, a written payload, and `after` bytes of other results.
fn reduced_reply(head: usize, after: usize) -> Result<bool> {
    for (page_base, page_len) in places() {
        for len in lengths(page_base, page_len) {
            let payload = bytes(len, 3)?;
            let message = bytes(head + after, 4)?;
            let mut place = Place::new(page_base, page_len)?;
            let mut raw = place.receive(&message, &payload)?;
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
    let mut place = Place::new(0, len)?;
    let mut raw = place.as_xdr_buf();
    // SAFETY: `place` has the memory, for longer than this function.
    let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
    buf.copy_in(HEAD, &payload);
    let placed = buf.place(&message, Some(padded(len) as u32))?;
    if let Some(form) = placed.form {
        // SAFETY: It is a local variable.
        unsafe { form.apply(&raw mut raw) };
    }
    raw.len = placed.len as u32;
    payload.truncate(len);
    let mut decoder = Decoder::new(&mut raw);
    Ok(decoder.inline_is(&message) && decoder.payload_is(&payload)? && decoder.is_at_end())
}

fn payload_larger_than_its_place_is_refused() -> Result<bool> {
    let mut place = Place::new(0, 4097)?;
    let raw = place.as_xdr_buf();
    // SAFETY: `place` has the memory, for longer than this function.
    let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
    let refused = |len| matches!(buf.place(&[0; HEAD], Some(len)), Err(error) if error == EIO);
    Ok(!refused(4097) && !refused(4100) && refused(4101) && refused(u32::MAX))
}

fn reply_larger_than_its_place_is_cut_off() -> Result<bool> {
    let mut place = Place::new(0, PAGE_SIZE)?;
    let raw = place.as_xdr_buf();
    // SAFETY: `place` has the memory, for longer than this function.
    let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
    let message = bytes(2 * PAGE_SIZE, 7)?;
    let inline = buf.place(&message, None)?.len;
    let reduced = buf.place(&message, Some(5))?.len;
    Ok(inline == HEAD + PAGE_SIZE + TAIL && reduced == HEAD + 8 + (TAIL - 3))
}

fn missing_page_ends_the_copy() -> Result<bool> {
    let mut place = Place::new(0, 2 * PAGE_SIZE)?;
    place.page_pointers[1] = ptr::null_mut();
    let raw = place.as_xdr_buf();
    // SAFETY: `place` has the memory, for longer than this function.
    let buf = unsafe { XdrBuf::from_raw(&raw const raw) };
    let message = bytes(HEAD + 2 * PAGE_SIZE, 8)?;
    let mut out = bytes(HEAD + 2 * PAGE_SIZE, 0)?;
    Ok(buf.place(&message, None)?.len == HEAD + PAGE_SIZE && buf.copy_out(0, &mut out).is_err())
}
