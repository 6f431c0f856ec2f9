// SPDX-License-Identifier: GPL-2.0

//! Memory that C, devices and Rust code share, and its owners.
//!
//! A Receive, a Send or a registered region names memory that the device accesses when no Rust code
//! runs. If a borrowed slice stood for such memory, each transport would have to prove that it
//! outlives the device's access. Instead a run of memory is a value, a [`Piece`], that owns a
//! reference: the folio's for a page of an `xdr_buf`, an [`Arc`]'s for a [`Buffer`]. As long as a
//! work request holds the value, the memory stays allocated, whatever happens to the RPC.
//!
//! Whether the *contents* may still change under a reader is the transport's affair (it completes
//! an RPC only after its rkeys are invalid); this module guarantees only that the memory is
//! allocated. C, a device or another thread may write to it while it is copied, so the copies are
//! made by C's `memcpy`: the result may be torn, but no access of Rust races with a write.
//!
//! `kernel::page::Page` does not serve for [`Page`] and [`Piece`]: it frees its page outright, and
//! can neither take over nor add a reference to a page that C uses, too.

use core::{
    alloc::Layout,
    ptr::NonNull, //
};
use kernel::{
    alloc::{
        allocator::Kmalloc,
        Allocator,
        Flags,
        NumaNode, //
    },
    bindings::page,
    prelude::*,
    sync::Arc, //
};

/// A physically contiguous `kmalloc` allocation that C and devices may read and write at any time.
///
/// Safe code therefore never sees a slice of it, only copies.
///
/// # Invariants
///
/// `ptr` is a live `kmalloc` allocation of `len` bytes, freed only in `drop`.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ext::memory::{
///     Buffer,
///     Piece, //
/// };
///
/// let buffer = Buffer::new(64, GFP_KERNEL)?;
/// buffer.copy_in(0, b"header, data")?;
///
/// // The piece keeps the buffer allocated.
/// let data = Piece::from_buffer(buffer, 8, 4)?;
/// assert_eq!(data.len(), 4);
/// # Ok::<(), Error>(())
/// ```
pub struct Buffer {
    ptr: NonNull<u8>,
    len: usize,
}

// SAFETY: The allocation belongs to no task or CPU, and may be freed in any.
unsafe impl Send for Buffer {}
// SAFETY: `&Buffer` gives access only by C's `memcpy` ([`copy`]), which may race.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates `len` bytes, at least one, all zero. Sleeps if `flags` allow it.
    pub fn new(len: usize, flags: Flags) -> Result<Arc<Self>> {
        Self::on_node(len, flags, NumaNode::NO_NODE)
    }

    /// Allocates as [`Self::new`] does, in the memory of `node` if there is some.
    pub fn on_node(len: usize, flags: Flags, node: NumaNode) -> Result<Arc<Self>> {
        let layout = Self::layout(len)?;
        // Zeroed, so that a copy never shows earlier contents.
        let ptr = Kmalloc::alloc(layout, flags | __GFP_ZERO, node)?.cast();
        // INVARIANT: `ptr` was just allocated with room for `len` bytes.
        let buffer = Self { ptr, len };
        Ok(Arc::new(buffer, flags)?)
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the requested length was zero.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address, which is valid as long as `self` is.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Copies `src` to `offset`. [`EINVAL`] if it does not fit.
    pub fn copy_in(&self, offset: usize, src: &[u8]) -> Result {
        let at = self.range(offset, src.len())?;
        // SAFETY: `range` found `src.len()` bytes from `at` within the allocation, which is live by
        // the type invariants. `src` is a slice of other memory: only `rdma`'s `Mapped` makes
        // slices of a `Buffer`, and shares it with nobody then.
        unsafe { copy(at, src.as_ptr(), src.len()) };
        Ok(())
    }

    /// Copies from `offset` to the whole of `dst`. [`EINVAL`] if there is less.
    pub fn copy_out(&self, offset: usize, dst: &mut [u8]) -> Result {
        let at = self.range(offset, dst.len())?;
        // SAFETY: `range` found `dst.len()` bytes from `at` within the allocation, which is live by
        // the type invariants. `dst` is a slice of other memory: only `rdma`'s `Mapped` makes
        // slices of a `Buffer`, and shares it with nobody then.
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
            // SAFETY: By the type invariants `ptr` is a live allocation of `Kmalloc`, made with
            // this layout; nobody can reach it after `drop`.
            unsafe { Kmalloc::free(self.ptr, layout) };
        }
    }
}

/// Copies bytes that others may access at the same time. Each byte of the result was there at some
/// time during the call.
///
/// # Safety
///
/// `src` is valid for reads, and `dst` for writes, of `len` bytes, and they do not overlap.
pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: The caller promises that both are valid for `len` bytes and do not overlap. The
    // helper is compiled apart: the compiler of this crate does not see into it, so it assumes
    // nothing about bytes that others write meanwhile.
    unsafe { cbindings::memcpy(dst.cast(), src.cast(), len) };
}

/// The sole owner of bytes that do not move when their owner does.
///
/// The bytes can be lent to C by keeping the value out of reach until C is done.
///
/// # Safety
///
/// [`Self::memory`] is valid for reads and writes, and the same each time, until the value is
/// dropped or given to a method that takes it; and only methods of the value use it.
pub unsafe trait Stable: Send + 'static {
    /// Returns the bytes.
    fn memory(&self) -> NonNull<[u8]>;
}

/// The owner of the memory of a [`Piece`].
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
/// The `len` bytes at `offset` from the start of `page` are contiguous, and part of the folio or
/// buffer that `owner` holds a reference to.
pub struct Piece {
    page: NonNull<page>,
    offset: u32,
    len: u32,
    owner: Owner,
}

// SAFETY: Pages and references to folios or buffers belong to no task or CPU.
unsafe impl Send for Piece {}
// SAFETY: `&Piece` gives access to numbers and a pointer only.
unsafe impl Sync for Piece {}

impl Piece {
    /// Returns `len` bytes of `buffer` from `offset`. [`EINVAL`] if it has less.
    pub fn from_buffer(buffer: Arc<Buffer>, offset: usize, len: usize) -> Result<Self> {
        let at = buffer.range(offset, len)?;
        // SAFETY: `at` points into (or, for an empty run, just behind) a live `kmalloc` allocation,
        // which `buffer` keeps and which is in the kernel's linear map.
        let page = unsafe { cbindings::virt_to_page(at.cast_const().cast()) };
        // INVARIANT: `kmalloc` memory is physically contiguous, `range` checked the bounds, and
        // the `Arc` moves into `owner`.
        Ok(Self {
            page: NonNull::new(page).ok_or(EINVAL)?,
            offset: u32::try_from(at.addr() % kernel::page::PAGE_SIZE)?,
            len: u32::try_from(len)?,
            owner: Owner::Buffer(buffer),
        })
    }

    /// Returns `len` bytes from `offset` of `page`, with a reference of their own to its folio.
    ///
    /// # Safety
    ///
    /// `page` is allocated now, is no slab page, and the run ends within its folio.
    pub unsafe fn from_page(page: NonNull<page>, offset: u32, len: u32) -> Self {
        // SAFETY: The caller promises that `page` is allocated and no slab page, so its folio
        // counts references.
        unsafe { cbindings::folio_get(page.as_ptr()) };
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
                // SAFETY: By the type invariants `self` holds a reference, so the folio is live.
                unsafe { cbindings::folio_get(self.page.as_ptr()) };
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

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the page that it starts in.
    #[inline]
    pub fn page(&self) -> NonNull<page> {
        self.page
    }

    /// Returns the offset in [`Self::page`] at which it starts. It may extend over the pages that
    /// follow.
    #[inline]
    pub fn offset(&self) -> u32 {
        self.offset
    }
}

impl Drop for Piece {
    #[inline]
    fn drop(&mut self) {
        if let Owner::Folio = self.owner {
            // SAFETY: By the type invariants the value owns a reference to the folio, which is put
            // only here.
            unsafe { cbindings::folio_put(self.page.as_ptr()) };
        }
    }
}

/// A page that C and devices may read and write at any time.
///
/// Safe code sees only copies of its contents.
///
/// # Invariants
///
/// `ptr` is an allocated page of order 0, and no slab page; the value owns a reference to it.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ext::memory::Page;
///
/// let page = Page::new(GFP_KERNEL)?;
/// page.copy_in(100, b"data")?;
///
/// // A reference of its own, which a work request can hold.
/// let piece = page.piece(100, 4)?;
/// assert_eq!(page.references(), 2);
///
/// drop(piece);
/// assert!(page.is_unique());
/// # Ok::<(), Error>(())
/// ```
pub struct Page {
    ptr: NonNull<page>,
}

// SAFETY: A page belongs to no task or CPU.
unsafe impl Send for Page {}
// SAFETY: `&Page` gives access only by C's `memcpy` ([`copy`]), as a `Buffer` does.
unsafe impl Sync for Page {}

impl Page {
    /// Allocates a page, zeroed so that a copy never shows earlier contents. Sleeps if `flags`
    /// allow it.
    pub fn new(flags: Flags) -> Result<Self> {
        let page = kernel::page::Page::alloc_page(flags | __GFP_ZERO)?;
        let page = core::mem::ManuallyDrop::new(page);
        // INVARIANT: The page was just allocated, and `ManuallyDrop` leaves its reference to the
        // value.
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
        // INVARIANT: The caller promises such a page, and gives up its reference.
        Self { ptr }
    }

    /// Takes another reference to a page that somebody keeps allocated.
    ///
    /// # Safety
    ///
    /// `ptr` is an allocated page of order 0 and no slab page.
    #[inline]
    pub unsafe fn share(ptr: NonNull<page>) -> Self {
        // SAFETY: The caller promises that `ptr` is allocated and no slab page, so its folio counts
        // references.
        unsafe { cbindings::folio_get(ptr.as_ptr()) };
        // INVARIANT: The caller promises a page of order 0, and the reference was just taken.
        Self { ptr }
    }

    /// Passes the reference to the caller.
    #[inline]
    pub fn into_raw(self) -> NonNull<page> {
        core::mem::ManuallyDrop::new(self).ptr
    }

    /// Returns the C page.
    #[inline]
    pub fn as_ptr(&self) -> *mut page {
        self.ptr.as_ptr()
    }

    /// Returns the number of references to the page, including this one.
    #[inline]
    pub fn references(&self) -> i32 {
        // SAFETY: By the type invariants the page is allocated.
        unsafe { cbindings::page_ref_count(self.ptr.as_ptr()) }
    }

    /// Returns whether there is no other reference.
    #[inline]
    pub fn is_unique(&self) -> bool {
        self.references() == 1
    }

    /// Returns a run of the page, with a reference of its own. [`EINVAL`] if it does not fit.
    pub fn piece(&self, offset: usize, len: usize) -> Result<Piece> {
        Self::check(offset, len)?;
        // SAFETY: By the type invariants the page is allocated and no slab page, and `check` found
        // the run within it.
        Ok(unsafe { Piece::from_page(self.ptr, u32::try_from(offset)?, u32::try_from(len)?) })
    }

    /// Copies `src` to `offset`. [`EINVAL`] if it does not fit.
    pub fn copy_in(&self, offset: usize, src: &[u8]) -> Result {
        Self::check(offset, src.len())?;
        self.with_address(|base| {
            // SAFETY: `check` found the run within the page, which is mapped at `base` during the
            // call, and `src` is other memory: there are no slices of a `Page`.
            unsafe { copy(base.add(offset), src.as_ptr(), src.len()) }
        });
        Ok(())
    }

    /// Copies from `offset` to the whole of `dst`. [`EINVAL`] if there is less.
    pub fn copy_out(&self, offset: usize, dst: &mut [u8]) -> Result {
        Self::check(offset, dst.len())?;
        self.with_address(|base| {
            // SAFETY: `check` found the run within the page, which is mapped at `base` during the
            // call, and `dst` is other memory: there are no slices of a `Page`.
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
        // SAFETY: By the type invariants the page is allocated.
        let mapped = unsafe { kernel::bindings::kmap_local_page(self.ptr.as_ptr()) };
        f(mapped.cast());
        // SAFETY: It is the latest mapping of this task that was not undone: `f` makes none that
        // stays.
        unsafe { kernel::bindings::kunmap_local(mapped) };
    }
}

impl Drop for Page {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariants the value owns a reference, which is put only here.
        unsafe { cbindings::folio_put(self.ptr.as_ptr()) };
    }
}
