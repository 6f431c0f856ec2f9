// SPDX-License-Identifier: GPL-2.0

//! Memory that C, the device and we share, and what keeps it allocated.
//!
//! A Receive, a Send or a registered region names memory that the device touches
//! when no Rust code runs. If a borrowed slice stood for such memory, each
//! transport would have to prove that it outlives the device's use. Instead a
//! run of memory is a value, a [`Piece`], that owns a reference: the folio's for a
//! page of an `xdr_buf`, an [`Arc`]'s for a [`Buffer`]. As long as a work
//! request holds the value, the memory stays, whatever became of the RPC.
//!
//! Whether the *contents* may still change under a reader is the transport's
//! affair (it completes an RPC only after its rkeys are invalid); that the
//! memory is ours is settled here. C, a device or another thread may write to it while it is
//! copied, so the copies are made by C's `memcpy`: what they read may be torn, but no access of Rust
//! races with that.
//!
//! `kernel::page::Page` does not serve for [`Page`] and [`Piece`]: it frees its page outright, and can neither
//! take over nor add a reference to one that C has, too.

use core::{
    alloc::Layout,
    ptr::NonNull, //
};
use kernel::{
    alloc::{
        allocator::Kmalloc,
        flags::__GFP_ZERO,
        Allocator,
        Flags,
        NumaNode, //
    },
    bindings::page,
    error::{
        code::{
            EINVAL,
            ENOMEM, //
        },
        Result, //
    },
    sync::Arc, //
};

/// Bytes from `kmalloc`, physically contiguous, that C and devices may read and
/// write at any time.
///
/// Safe code therefore never sees a slice of them, only copies.
///
/// # Invariants
///
/// `ptr` is a live `kmalloc` allocation of `len` bytes, freed only in `drop`.
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: The allocation belongs to no task or CPU.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` gives access only by C's `memcpy` ([`copy`]), which may race.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates `len` bytes, at least one, all zero. Sleeps if `flags` allow it.
    pub fn new(len: usize, flags: Flags) -> Result<Arc<Self>> {
        Self::on_node(len, flags, NumaNode::NO_NODE)
    }

    /// As [`Self::new`], in the memory of `node` as long as there is some.
    pub fn on_node(len: usize, flags: Flags, node: NumaNode) -> Result<Arc<Self>> {
        let layout = Self::layout(len)?;
        // Zeroed, so that a copy out never shows what was there before.
        let ptr = Kmalloc::alloc(layout, flags | __GFP_ZERO, node)?.cast();
        // INVARIANT: `ptr` was just allocated with room for `len` bytes.
        let buffer = Self { ptr, len };
        Ok(Arc::new(buffer, flags)?)
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it was asked for with no length.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its address, valid as long as `self` is.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Copies `src` to `offset`. [`EINVAL`] if it does not fit.
    pub fn copy_in(&self, offset: usize, src: &[u8]) -> Result {
        let at = self.range(offset, src.len())?;
        // SAFETY: `range` found `src.len()` bytes behind `at` within the allocation; `src` is a
        // slice of other memory: whoever makes slices of a `Buffer` keeps it to himself (`rdma`'s `Mapped`).
        unsafe { copy(at, src.as_ptr(), src.len()) };
        Ok(())
    }

    /// Copies from `offset` to the whole of `dst`. [`EINVAL`] if there is less.
    pub fn copy_out(&self, offset: usize, dst: &mut [u8]) -> Result {
        let at = self.range(offset, dst.len())?;
        // SAFETY: As in `copy_in`, the other way.
        unsafe { copy(dst.as_mut_ptr(), at, dst.len()) };
        Ok(())
    }

    fn range(&self, offset: usize, len: usize) -> Result<*mut u8> {
        match offset.checked_add(len) {
            // SAFETY: `offset` is at most `self.len`, the size of the allocation.
            Some(end) if end <= self.len => Ok(unsafe { self.ptr.as_ptr().add(offset) }),
            _ => Err(EINVAL),
        }
    }

    fn layout(len: usize) -> Result<Layout> {
        Layout::from_size_align(len.max(1), core::mem::align_of::<u64>()).map_err(|_| EINVAL)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Ok(layout) = Self::layout(self.len) {
            // SAFETY: By the type invariant `ptr` is a live allocation of `Kmalloc`, made with this
            // layout; nobody can reach it after `drop`.
            unsafe { Kmalloc::free(self.ptr, layout) };
        }
    }
}

/// Copies bytes that others may write or read meanwhile. No more may be said of them than that they were
/// there, byte by byte, at some time during the call.
///
/// # Safety
///
/// `src` is valid for reads, and `dst` for writes, of `len` bytes, and they do not overlap.
pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: The caller vouches for both. The compiler does not see into C's `memcpy`, so it assumes nothing of
    // bytes that others write meanwhile; the `kernel` crate copies from I/O memory in the same way.
    unsafe { kernel::bindings::memcpy(dst.cast(), src.cast(), len) };
}

/// The sole owner of bytes that stay where they are when their owner is moved.
///
/// It can be lent to C by keeping the value out of reach until C is done.
///
/// # Safety
///
/// [`Self::memory`] is valid for reads and writes, and the same each time, until the value is
/// dropped or given to a method that takes it; and only methods of the value use it.
pub unsafe trait Stable: Send + 'static {
    /// The bytes.
    fn memory(&self) -> NonNull<[u8]>;
}

/// What keeps a [`Piece`] allocated.
enum Owner {
    /// A reference to the folio that holds the piece's page.
    Folio,
    /// A reference to the buffer that holds the piece.
    Buffer(Arc<Buffer>),
}

/// A physically contiguous run of memory that stays allocated as long as the
/// value lives.
///
/// # Invariants
///
/// The `len` bytes at `offset` from the start of `page` are contiguous and
/// belong to what `owner` holds a reference to.
pub struct Piece {
    page: NonNull<page>,
    offset: u32,
    len: u32,
    owner: Owner,
}

// SAFETY: Pages and references to folios or buffers belong to no task or CPU.
unsafe impl Send for Piece {}
// SAFETY: `&Piece` shows numbers only.
unsafe impl Sync for Piece {}

impl Piece {
    /// `len` bytes of `buffer` from `offset`. [`EINVAL`] if it has less.
    pub fn from_buffer(buffer: Arc<Buffer>, offset: usize, len: usize) -> Result<Self> {
        let at = buffer.range(offset, len)?;
        // SAFETY: `at` points into (or, for an empty run, just behind) a live `kmalloc`
        // allocation, all of which is in the kernel's linear map.
        let page = unsafe { raw::virt_to_page(at.cast_const().cast()) };
        // INVARIANT: `kmalloc` memory is physically contiguous, `range` checked the bounds, and
        // the `Arc` moves into `owner`.
        Ok(Self {
            page: NonNull::new(page).ok_or(EINVAL)?,
            offset: u32::try_from(at.addr() % kernel::page::PAGE_SIZE)?,
            len: u32::try_from(len)?,
            owner: Owner::Buffer(buffer),
        })
    }

    /// `len` bytes from `offset` of `page`, with a reference of their own to its folio.
    ///
    /// # Safety
    ///
    /// `page` is allocated now, is no slab page, and the run ends within its folio.
    pub unsafe fn from_page(page: NonNull<page>, offset: u32, len: u32) -> Self {
        // SAFETY: The caller vouches for `page`.
        unsafe { raw::folio_get(page.as_ptr()) };
        // INVARIANT: A folio is contiguous; the reference was just taken.
        Self {
            page,
            offset,
            len,
            owner: Owner::Folio,
        }
    }

    /// Cuts off the first `len` bytes, with a reference of their own. [`None`] if there are fewer.
    pub fn split_front(&mut self, len: u32) -> Option<Self> {
        let rest = self.len.checked_sub(len)?;
        let end = self.offset.checked_add(len)?;
        let owner = match &self.owner {
            Owner::Folio => {
                // SAFETY: `self` holds a reference, so the folio is live.
                unsafe { raw::folio_get(self.page.as_ptr()) };
                Owner::Folio
            }
            Owner::Buffer(buffer) => Owner::Buffer(buffer.clone()),
        };
        // INVARIANT: Part of a contiguous run, with a reference just taken.
        let front = Self {
            page: self.page,
            offset: self.offset,
            len,
            owner,
        };
        // INVARIANT: The rest of the run starts `len` bytes further on.
        self.offset = end;
        self.len = rest;
        Some(front)
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The page it starts in.
    #[inline]
    pub fn page(&self) -> NonNull<page> {
        self.page
    }

    /// Where in [`Self::page`] it starts. It may run on over the pages that follow.
    #[inline]
    pub fn offset(&self) -> u32 {
        self.offset
    }
}

impl Drop for Piece {
    #[inline]
    fn drop(&mut self) {
        if let Owner::Folio = self.owner {
            // SAFETY: By the type invariant the reference is ours; it is given back once.
            unsafe { raw::folio_put(self.page.as_ptr()) };
        }
    }
}

/// A page of its own, which C and devices may read and write as well.
///
/// Safe code sees copies of its contents only.
///
/// # Invariants
///
/// `ptr` is an allocated page of order 0, and no slab page; the value owns a reference to it.
pub struct Page {
    ptr: NonNull<page>,
}

// SAFETY: A page belongs to no task or CPU.
unsafe impl Send for Page {}
// SAFETY: `&Page` gives access only by C's `memcpy` ([`copy`]), as a `Buffer` does.
unsafe impl Sync for Page {}

impl Page {
    /// Allocates a page of zeroes: what it held before is nobody's business. Sleeps if `flags` allow it.
    pub fn new(flags: Flags) -> Result<Self> {
        let page = kernel::page::Page::alloc_page(flags | __GFP_ZERO)?;
        let page = core::mem::ManuallyDrop::new(page);
        // INVARIANT: Just allocated; the reference is ours now.
        NonNull::new(page.as_ptr())
            .map(|ptr| Self { ptr })
            .ok_or(ENOMEM)
    }

    /// Takes over a reference to a page.
    ///
    /// # Safety
    ///
    /// `ptr` is an allocated page of order 0 and no slab page, and the caller gives up a reference.
    #[inline]
    pub unsafe fn from_raw(ptr: NonNull<page>) -> Self {
        // INVARIANT: The caller promises it.
        Self { ptr }
    }

    /// Another reference to a page that somebody keeps allocated.
    ///
    /// # Safety
    ///
    /// `ptr` is an allocated page of order 0 and no slab page.
    #[inline]
    pub unsafe fn share(ptr: NonNull<page>) -> Self {
        // SAFETY: The caller promises a page that counts references.
        unsafe { raw::folio_get(ptr.as_ptr()) };
        // INVARIANT: The caller promises the rest, and the reference was just taken.
        Self { ptr }
    }

    /// Gives the reference to the caller.
    #[inline]
    pub fn into_raw(self) -> NonNull<page> {
        core::mem::ManuallyDrop::new(self).ptr
    }

    /// The page, as C knows it.
    #[inline]
    pub fn as_ptr(&self) -> *mut page {
        self.ptr.as_ptr()
    }

    /// How many references there are to it, this one included.
    #[inline]
    pub fn references(&self) -> i32 {
        // SAFETY: The page is allocated by the type invariants.
        unsafe { raw::page_ref_count(self.ptr.as_ptr()) }
    }

    /// Whether nobody else has a reference.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.references() == 1
    }

    /// A run of it, with a reference of its own. [`EINVAL`] if it does not fit.
    pub fn piece(&self, offset: usize, len: usize) -> Result<Piece> {
        Self::check(offset, len)?;
        // SAFETY: The page is allocated by the type invariants, and the run within it.
        Ok(unsafe { Piece::from_page(self.ptr, u32::try_from(offset)?, u32::try_from(len)?) })
    }

    /// Copies `src` to `offset`. [`EINVAL`] if it does not fit.
    pub fn copy_in(&self, offset: usize, src: &[u8]) -> Result {
        Self::check(offset, src.len())?;
        self.with_address(|base| {
            // SAFETY: The run was checked, and `src` is Rust's own memory.
            unsafe { copy(base.add(offset), src.as_ptr(), src.len()) }
        });
        Ok(())
    }

    /// Copies from `offset` to the whole of `dst`. [`EINVAL`] if there is less.
    pub fn copy_out(&self, offset: usize, dst: &mut [u8]) -> Result {
        Self::check(offset, dst.len())?;
        self.with_address(|base| {
            // SAFETY: As in `copy_in`, the other way.
            unsafe { copy(dst.as_mut_ptr(), base.add(offset), dst.len()) }
        });
        Ok(())
    }

    fn check(offset: usize, len: usize) -> Result {
        match offset.checked_add(len) {
            Some(end) if end <= kernel::page::PAGE_SIZE => Ok(()),
            _ => Err(EINVAL),
        }
    }

    fn with_address(&self, f: impl FnOnce(*mut u8)) {
        // SAFETY: The page is allocated by the type invariants.
        let mapped = unsafe { kernel::bindings::kmap_local_page(self.ptr.as_ptr()) };
        f(mapped.cast());
        // SAFETY: It is the last mapping made by this task that is still there.
        unsafe { kernel::bindings::kunmap_local(mapped) };
    }
}

impl Drop for Page {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants the reference is ours; it is given back once.
        unsafe { raw::folio_put(self.ptr.as_ptr()) };
    }
}
