// SPDX-License-Identifier: GPL-2.0

//! Head, pages and tail of a message.
//!
//! C header: [`include/linux/sunrpc/xdr.h`](srctree/include/linux/sunrpc/xdr.h), `struct xdr_buf`.
//!
//! An `xdr_buf` is one sequence of bytes in up to three places: the head, a run of bytes across an
//! array of pages, and the tail. Here it is cut into [`Run`]s, each contiguous and none larger
//! than a page of the array; whatever copies or maps a message walks over those.

use core::{
    iter::FusedIterator,
    marker::PhantomData,
    ops::Range,
    ptr::NonNull, //
};
use kernel::{
    bindings::page,
    ffi::c_uint,
    page::{
        PAGE_SHIFT,
        PAGE_SIZE, //
    },
    prelude::*, //
};

/// What an `xdr_buf` said when it was looked at.
///
/// It is a copy, so that bounds checked once stay true whatever C does to the original.
///
/// # Invariants
///
/// The memory that it names may be read and written for `'a`, by us as by others.
pub(crate) struct XdrBuf<'a> {
    raw: raw::xdr_buf,
    _memory: PhantomData<&'a ()>,
}

/// A reply in its place.
pub(crate) struct Placed {
    /// How long it is, XDR padding included.
    pub(crate) len: usize,
    /// What the `xdr_buf` has to say for the upper layer to find it.
    pub(crate) form: Option<Form>,
}

/// How much of head and pages a reply takes.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    head: usize,
    pages: usize,
}

impl Form {
    /// Cuts `buf` down to this form.
    ///
    /// # Safety
    ///
    /// `buf` is valid, at least as large, and nobody else accesses it.
    pub(crate) unsafe fn apply(self, buf: *mut raw::xdr_buf) {
        // SAFETY: The caller vouches for it.
        let buf = unsafe { &mut *buf };
        let head = buf.head[0].iov_len.saturating_sub(self.head);
        let pages = (buf.page_len as usize).saturating_sub(self.pages);
        buf.head[0].iov_len -= head;
        // CAST: What is taken away is no more than there was.
        buf.page_len -= pages as c_uint;
        buf.buflen = buf.buflen.saturating_sub((head + pages) as c_uint);
    }
}

/// Contiguous bytes of a message.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Part of head or tail.
    Memory(NonNull<u8>, usize),
    /// Part of one page of the array: offset and length.
    Page(NonNull<page>, usize, usize),
}

impl Run {
    fn len(&self) -> usize {
        match *self {
            Run::Memory(_, len) | Run::Page(_, _, len) => len,
        }
    }

    /// Calls `f` with the address of the first byte.
    ///
    /// # Safety
    ///
    /// The run comes from an [`XdrBuf`] whose `'a` is not over.
    unsafe fn with_address<R>(&self, f: impl FnOnce(*mut u8) -> R) -> R {
        match *self {
            Run::Memory(base, _) => f(base.as_ptr()),
            Run::Page(page, offset, _) => {
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
    pub(crate) unsafe fn from_raw(raw: *const raw::xdr_buf) -> Self {
        // INVARIANT: The caller promises it.
        Self {
            // SAFETY: The caller vouches for `raw`.
            raw: unsafe { raw.read() },
            _memory: PhantomData,
        }
    }

    /// Bytes of the head.
    pub(crate) fn head_len(&self) -> usize {
        self.raw.head[0].iov_len
    }

    /// Bytes in pages.
    pub(crate) fn page_len(&self) -> usize {
        self.raw.page_len as usize
    }

    /// Bytes of the tail.
    pub(crate) fn tail_len(&self) -> usize {
        self.raw.tail[0].iov_len
    }

    /// All of them: the message's length if it is to be sent, its bound if it is to come.
    pub(crate) fn total_len(&self) -> usize {
        self.head_len() + self.page_len() + self.tail_len()
    }

    /// Where in the message the pages are.
    pub(crate) fn page_range(&self) -> Range<usize> {
        let start = self.head_len();
        start..start + self.page_len()
    }

    /// Whether one of `XDRBUF_*` is set.
    pub(crate) fn has_flag(&self, flag: u32) -> bool {
        self.raw.flags & flag != 0
    }

    /// The runs of `range`, or of as much of it as there is.
    ///
    /// A page that is missing is [`EFAULT`] and ends the iteration.
    pub(crate) fn runs(&self, range: Range<usize>) -> Runs<'a> {
        Runs {
            buf: Self {
                raw: self.raw,
                _memory: PhantomData,
            },
            at: range.start,
            end: range.end.min(self.total_len()),
        }
    }

    /// The run from `at` on, as far as `end`, which is not beyond the last byte.
    #[inline]
    fn run(&self, at: usize, end: usize) -> Option<Result<Run>> {
        if at >= end {
            return None;
        }
        let most = end - at;
        let pages = self.page_range();
        Some(if at < pages.start {
            Self::run_of_memory(&self.raw.head[0], at, most)
        } else if at < pages.end {
            self.run_of_pages(at - pages.start, most)
        } else {
            Self::run_of_memory(&self.raw.tail[0], at - pages.end, most)
        })
    }

    #[inline]
    fn run_of_memory(kvec: &raw::kvec, offset: usize, most: usize) -> Result<Run> {
        let len = (kvec.iov_len - offset).min(most);
        let base = NonNull::new(kvec.iov_base.cast::<u8>().wrapping_add(offset)).ok_or(EFAULT)?;
        Ok(Run::Memory(base, len))
    }

    #[inline]
    fn run_of_pages(&self, offset: usize, most: usize) -> Result<Run> {
        let at = self.raw.page_base as usize + offset;
        let within = at % PAGE_SIZE;
        let left = self.page_len() - offset;
        let len = (PAGE_SIZE - within).min(left).min(most);
        let entry = self.raw.pages.wrapping_add(at >> PAGE_SHIFT);
        // SAFETY: By the type invariant the array has an entry for each of its pages, and `offset` is
        // less than the number of bytes in them.
        let page = NonNull::new(unsafe { entry.read() }).ok_or(EFAULT)?;
        Ok(Run::Page(page, within, len))
    }

    /// Where the part from `at` on ends that has `len` bytes, or as many of them as there are.
    fn end(&self, at: usize, len: usize) -> usize {
        at.saturating_add(len).min(self.total_len())
    }

    /// Copies bytes from `at` on to `dst`. Returns how many there were.
    pub(crate) fn copy_out(&self, at: usize, dst: &mut [u8]) -> Result<usize> {
        let end = self.end(at, dst.len());
        let mut copied = 0;
        while let Some(run) = self.run(at + copied, end) {
            let run = run?;
            let Some(part) = dst.get_mut(copied..copied + run.len()) else {
                break;
            };
            // SAFETY: The memory of the run is ours to read by the type invariant, `part` is as
            // long, and it is Rust's own memory, which no `xdr_buf` names.
            unsafe {
                run.with_address(|from| from.copy_to_nonoverlapping(part.as_mut_ptr(), part.len()))
            };
            copied += run.len();
        }
        Ok(copied)
    }

    /// Copies `src` to the place from `at` on. Returns how much of it found room.
    pub(crate) fn copy_in(&self, at: usize, src: &[u8]) -> usize {
        let end = self.end(at, src.len());
        let mut copied = 0;
        while let Some(Ok(run)) = self.run(at + copied, end) {
            let Some(part) = src.get(copied..copied + run.len()) else {
                break;
            };
            // SAFETY: As in `copy_out`, the other way.
            unsafe {
                run.with_address(|to| to.copy_from_nonoverlapping(part.as_ptr(), part.len()))
            };
            copied += run.len();
        }
        copied
    }

    /// Puts an inline reply where the upper layer expects it. `reduced` is the length of a payload
    /// that is in the pages already, and that `message` lacks.
    ///
    /// What there is no room for is cut off, as in a reply from a socket; the upper layer finds
    /// the reply too short. [`EIO`] if the payload is larger than its place.
    pub(crate) fn place(&self, message: &[u8], reduced: Option<u32>) -> Result<Placed> {
        let Some(payload) = reduced.filter(|len| *len != 0) else {
            return Ok(Placed {
                len: self.copy_in(0, message),
                form: None,
            });
        };
        let payload = payload as usize;
        if payload > self.page_len().next_multiple_of(4) {
            return Err(EIO);
        }
        // A peer may count the padding, too.
        let payload = payload.min(self.page_len());
        let pad = payload.next_multiple_of(4) - payload;

        // The upper layer made the head as long as it expects what precedes the payload to be.
        let (before, after) = message.split_at(message.len().min(self.head_len()));
        let before = self.copy_in(0, before);
        let after = self.copy_in(self.page_range().end + pad, after);

        // Where the head ends, the decoder looks for the payload in the pages; where the payload
        // ends, it skips the padding at the start of the tail. Bytes of the head or of the pages
        // that are not part of this reply would be taken for it, and shift the rest.
        Ok(Placed {
            len: before + payload + pad + after,
            form: Some(Form {
                head: before,
                pages: payload,
            }),
        })
    }

    /// Allocates the pages that the array has room for but does not name. Does not sleep.
    ///
    /// # Safety
    ///
    /// Nobody else changes the array, and its owner frees what it finds in it.
    pub(crate) unsafe fn fill_pages(&self) -> Result {
        if self.page_len() == 0 {
            // There may be no array, then.
            return Ok(());
        }
        let start = self.raw.page_base as usize;
        let end = start + self.page_len();
        // Zeroed: a peer that says it wrote there may not have done so.
        let flags = raw::GFP_NOWAIT_NOWARN_ZERO;
        for index in start >> PAGE_SHIFT..end.div_ceil(PAGE_SIZE) {
            let entry = self.raw.pages.wrapping_add(index);
            // SAFETY: The array has an entry for each page that the `xdr_buf` counts.
            if !unsafe { entry.read() }.is_null() {
                continue;
            }
            // SAFETY: Allocating has no other precondition than the context, and these flags never
            // sleep.
            let page = unsafe { kernel::bindings::alloc_pages(flags, 0) };
            if page.is_null() {
                return Err(ENOMEM);
            }
            // SAFETY: As above; the caller says that the entry is ours to write.
            unsafe { entry.write(page) };
        }
        Ok(())
    }
}

/// The runs of a part of an [`XdrBuf`], in order.
pub(crate) struct Runs<'a> {
    buf: XdrBuf<'a>,
    at: usize,
    end: usize,
}

impl Iterator for Runs<'_> {
    type Item = Result<Run>;

    fn next(&mut self) -> Option<Self::Item> {
        let run = self.buf.run(self.at, self.end)?;
        self.at = match &run {
            Ok(run) => self.at + run.len(),
            Err(_) => self.end,
        };
        Some(run)
    }
}

impl FusedIterator for Runs<'_> {}
