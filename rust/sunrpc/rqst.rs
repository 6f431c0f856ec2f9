// SPDX-License-Identifier: GPL-2.0

//! Requests: what a transport may know of an RPC, and do to it.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! rpc_rqst`.
//!
//! # What keeps a request alive
//!
//! The memory of a [`Rqst`] is a slot and lives as long as the transport. What it *says* belongs to
//! one RPC task at a time: the task owns the message buffers, the reference to the credential and
//! to the transport, and it gives them up in `xprt_release`. A `&Rqst` therefore exists only
//! where that cannot happen:
//!
//! * in [`Transport::send`], because sunrpc pinned the request before it called;
//! * in [`Transport::release`], which `xprt_release` itself calls;
//! * behind a [`PinnedRqst`], because it is one of those pins.
//!
//! `xprt_release` and the encoding of a call wait until a request is not pinned. The task, its
//! buffers, and through the task's reference the transport itself thus outlive the pin.

use crate::{
    memory::{
        Buffer,
        Piece, //
    },
    xdr_buf::{
        Run,
        Runs,
        XdrBuf, //
    },
    xprt::lock,
    Transport, //
};
use core::{
    cell::UnsafeCell,
    iter::Peekable,
    mem::ManuallyDrop,
    ops::{
        Deref,
        Range, //
    },
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicBool,
        Ordering, //
    },
};
use kernel::{
    alloc::Flags,
    bindings::page,
    ffi::{
        c_int,
        c_uint, //
    },
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// A request in its slot.
///
/// # Invariants
///
/// * `rqst` is a `struct rpc_rqst`, zero or in use by one RPC task.
/// * `call` and `reply` hold what `rq_buffer` and `rq_rbuffer` point to. They change only in
///   [`Self::provide`], before the request is on any queue.
/// * `answering` is true as long as there is a [`PinnedRqst`] of it; it changes under
///   `queue_lock`.
#[repr(C)]
#[pin_data]
pub struct Rqst<T: Transport> {
    #[pin]
    rqst: Opaque<raw::rpc_rqst>,
    call: UnsafeCell<Option<Arc<Buffer>>>,
    reply: UnsafeCell<Option<Arc<Buffer>>>,
    answering: AtomicBool,
    #[pin]
    slot: T::Slot,
}

// SAFETY: Nothing in it belongs to a task or CPU; `T::Slot` is `Send`.
unsafe impl<T: Transport> Send for Rqst<T> {}
// SAFETY: By the type invariants the buffers do not change while there are references to share;
// `T::Slot` is `Sync`; of `rqst`, sunrpc and we touch only what the state of the RPC allows.
unsafe impl<T: Transport> Sync for Rqst<T> {}

/// Which part of a reply's place to name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyPart {
    /// Head, pages and tail.
    All,
    /// The pages alone.
    Pages,
}

impl<T: Transport> Rqst<T> {
    /// A free slot.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        // INVARIANT: Zero, no buffers, not being answered.
        try_pin_init!(Self {
            rqst: Opaque::zeroed(),
            call: UnsafeCell::new(None),
            reply: UnsafeCell::new(None),
            answering: AtomicBool::new(false),
            slot <- T::new_slot(),
        })
    }

    /// # Safety
    ///
    /// `rqst` points to the `rqst` of a live `Rqst<T>`, for which one of the reasons in the
    /// module's documentation holds for `'a`.
    pub(crate) unsafe fn from_raw<'a>(rqst: *mut raw::rpc_rqst) -> &'a Self {
        // CAST: `rqst` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*rqst.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut raw::rpc_rqst {
        self.rqst.get()
    }

    /// The transport's private state of this slot.
    #[inline]
    pub fn slot(&self) -> &T::Slot {
        &self.slot
    }

    /// The transaction id, in host order.
    #[inline]
    pub fn xid(&self) -> u32 {
        // SAFETY: Set before the request is on a queue, and not changed while it is.
        u32::from_be(unsafe { (*self.as_raw()).rq_xid })
    }

    /// Length of the call in bytes.
    #[inline]
    pub fn call_len(&self) -> usize {
        self.call_buf().total_len()
    }

    /// Where in the call the bytes are that the peer may fetch by itself, if the upper layer says
    /// so.
    pub fn call_payload(&self) -> Option<Range<usize>> {
        let buf = self.call_buf();
        let range = buf.page_range();
        (buf.has_flag(raw::XDRBUF_WRITE) && !range.is_empty()).then_some(range)
    }

    /// How many bytes the reply has room for in pages that the peer may fill by itself, if the
    /// upper layer says so.
    pub fn reply_payload(&self) -> Option<usize> {
        let buf = self.reply_buf();
        let len = buf.page_len();
        (buf.has_flag(raw::XDRBUF_READ) && len != 0).then_some(len)
    }

    /// The largest reply that the upper layer has room for, in bytes.
    #[inline]
    pub fn reply_max(&self) -> usize {
        self.reply_buf().total_len()
    }

    /// Whether payload may travel apart from its message. Not if the security flavour signs or
    /// seals the message as a whole.
    pub fn reduction_allowed(&self) -> bool {
        // SAFETY: The task holds a reference to the credential, and that one to its flavour, until
        // it gives up the request.
        let flags = unsafe { (*(*(*self.as_raw()).rq_cred).cr_auth).au_flags };
        flags & (1 << raw::RPCAUTH_AUTH_DATATOUCH) == 0
    }

    /// Whether there will be a reply.
    pub fn reply_expected(&self) -> bool {
        // SAFETY: The task gives up the request after this.
        unsafe { raw::rpc_reply_expected(self.task()) != 0 }
    }

    /// Copies the call from its byte `from` on to `dst`. Returns how many bytes there were.
    pub fn copy_call(&self, from: usize, dst: &mut [u8]) -> Result<usize> {
        self.call_buf().copy_out(from, dst)
    }

    /// The memory of a part of the call.
    pub fn call_pieces(&self, range: Range<usize>) -> Pieces<'_, T> {
        Pieces::new(self, self.call_buf().runs(range))
    }

    /// The memory where the reply, or a part of it, shall go.
    pub fn reply_pieces(&self, part: ReplyPart) -> Pieces<'_, T> {
        let buf = self.reply_buf();
        let range = match part {
            ReplyPart::All => 0..buf.total_len(),
            ReplyPart::Pages => buf.page_range(),
        };
        Pieces::new(self, buf.runs(range))
    }

    /// Supplies `rq_buffer` and `rq_rbuffer`. Sleeps if `flags` allow it.
    ///
    /// # Safety
    ///
    /// Called by the request's task, before the request is on any queue.
    pub(crate) unsafe fn provide(&self, flags: Flags) -> Result {
        // SAFETY: The caller is the only one who uses the request.
        let rqst = unsafe { &mut *self.as_raw() };
        // SAFETY: As above; a `Piece` of an earlier RPC has its own reference.
        let call = unsafe { &mut *self.call.get() };
        // SAFETY: As above.
        let reply = unsafe { &mut *self.reply.get() };
        rqst.rq_buffer = provide(call, rqst.rq_callsize, flags)?.cast();
        rqst.rq_rbuffer = provide(reply, rqst.rq_rcvsize, flags)?.cast();
        Ok(())
    }

    /// Allocates pages of the reply that the upper layer left to the transport. Does not sleep.
    ///
    /// # Safety
    ///
    /// The caller holds `XPRT_LOCKED`.
    pub(crate) unsafe fn fill_reply_pages(&self) -> Result {
        let buf = self.reply_buf();
        if !buf.has_flag(raw::XDRBUF_SPARSE_PAGES) {
            return Ok(());
        }
        // SAFETY: The flag says that the upper layer expects it, and it does not look before the
        // request is answered; the lock excludes another sender.
        unsafe { buf.fill_pages() }
    }

    /// Forgets a credit that the request held. A request without one is left alone.
    ///
    /// # Safety
    ///
    /// The caller holds `transport_lock` and `XPRT_LOCKED`.
    pub(crate) unsafe fn forget_credit(&self) {
        // SAFETY: The field changes under the two locks only, except that `rqst` is zeroed while
        // the slot is free, which writes the same.
        unsafe { (&raw mut (*self.as_raw()).rq_cong).write_volatile(0) };
    }

    fn task(&self) -> *mut raw::rpc_task {
        // SAFETY: Set when the task got the slot, and not changed while it has it.
        unsafe { (*self.as_raw()).rq_task }
    }

    fn call_buf(&self) -> XdrBuf<'_> {
        // SAFETY: The task keeps the buffers as long as there is a `&self`.
        unsafe { XdrBuf::from_raw(&raw const (*self.as_raw()).rq_snd_buf) }
    }

    fn reply_buf(&self) -> XdrBuf<'_> {
        // SAFETY: As above.
        unsafe { XdrBuf::from_raw(&raw const (*self.as_raw()).rq_rcv_buf) }
    }

    /// The memory at `base`, with what keeps it allocated.
    fn memory_piece(&self, base: NonNull<u8>, len: usize) -> Result<Piece> {
        for buffer in [&self.call, &self.reply] {
            // SAFETY: By the type invariants the buffers do not change now.
            let Some(buffer) = (unsafe { &*buffer.get() }) else {
                continue;
            };
            let offset = base.addr().get().checked_sub(buffer.as_ptr().addr());
            let Some(offset) = offset.filter(|at| *at < buffer.len()) else {
                continue;
            };
            return Piece::from_buffer(buffer.clone(), offset, len);
        }
        page_piece_at(base, len)
    }
}

/// Makes `buffer` hold at least `len` bytes that nobody else uses, and says where they are.
fn provide(buffer: &mut Option<Arc<Buffer>>, len: usize, flags: Flags) -> Result<*mut u8> {
    // A Send of the last RPC may still be under way, though that RPC is over: its reply came
    // first, or a signal did. Then the buffer is left to it.
    let reused = buffer
        .take()
        .filter(|buffer| buffer.len() >= len)
        .and_then(Arc::into_unique_or_drop)
        .map(Arc::from);
    let provided = match reused {
        Some(reused) => reused,
        None => Buffer::new(len, flags)?,
    };
    Ok(buffer.insert(provided).as_ptr())
}

/// Memory of head or tail that is none of our buffers: a page that a security flavour put there.
fn page_piece_at(base: NonNull<u8>, len: usize) -> Result<Piece> {
    let first = page_at(base.as_ptr())?;
    let last = page_at(base.as_ptr().wrapping_add(len.saturating_sub(1)))?;
    if !same_folio(first, last) {
        return Err(EFAULT);
    }
    page_piece(first, base.addr().get() % PAGE_SIZE, len)
}

fn page_at(address: *mut u8) -> Result<NonNull<page>> {
    let address = address.cast_const().cast();
    // SAFETY: Any address may be asked about.
    if !unsafe { raw::virt_addr_valid(address) } {
        return Err(EFAULT);
    }
    // SAFETY: The address is one of the linear map.
    NonNull::new(unsafe { raw::virt_to_page(address) }).ok_or(EFAULT)
}

fn same_folio(a: NonNull<page>, b: NonNull<page>) -> bool {
    // SAFETY: Both are pages of a message that its owner keeps allocated.
    let a = unsafe { raw::page_folio(a.as_ptr()) };
    // SAFETY: As above.
    let b = unsafe { raw::page_folio(b.as_ptr()) };
    ptr::eq(a, b)
}

/// A run of pages of one folio, with a reference to it.
fn page_piece(page: NonNull<page>, offset: usize, len: usize) -> Result<Piece> {
    // SAFETY: It is a page of a message that its owner keeps allocated.
    if !unsafe { raw::sendpage_ok(page.as_ptr()) } {
        return Err(EFAULT);
    }
    let (offset, len) = (u32::try_from(offset)?, u32::try_from(len)?);
    // SAFETY: Its owner keeps it allocated, it counts references and so is no slab page, and the
    // callers checked that the run is of one folio.
    Ok(unsafe { Piece::from_page(page, offset, len) })
}

/// Pieces of memory of a message, in order; pages of one folio that follow each other are one.
///
/// Each has a reference to what it is part of. [`EFAULT`] for memory that cannot be had so.
pub struct Pieces<'a, T: Transport> {
    rqst: &'a Rqst<T>,
    runs: Peekable<Runs<'a>>,
}

impl<'a, T: Transport> Pieces<'a, T> {
    fn new(rqst: &'a Rqst<T>, runs: Runs<'a>) -> Self {
        Self {
            rqst,
            runs: runs.peekable(),
        }
    }

    /// Takes what follows `page` without a gap, in the same folio.
    fn extend(&mut self, page: NonNull<page>, end: usize) -> Option<usize> {
        let follows = |run: &Result<Run>| match run {
            Ok(Run::Page(next, 0, _)) => {
                end % PAGE_SIZE == 0
                    && ptr::eq(next.as_ptr(), page.as_ptr().wrapping_add(end / PAGE_SIZE))
                    && same_folio(page, *next)
            }
            _ => false,
        };
        match self.runs.next_if(follows)? {
            Ok(Run::Page(_, _, len)) => Some(len),
            _ => None,
        }
    }
}

impl<T: Transport> Iterator for Pieces<'_, T> {
    type Item = Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.runs.next()? {
            Ok(Run::Memory(base, len)) => self.rqst.memory_piece(base, len),
            Ok(Run::Page(page, offset, mut len)) => {
                while let Some(more) = self.extend(page, offset + len) {
                    len += more;
                }
                page_piece(page, offset, len)
            }
            Err(error) => Err(error),
        })
    }
}

/// A request that waits for its reply and is being answered.
///
/// There is at most one for a request: a second reply with the same transaction id finds nothing.
/// Dropping it leaves the request waiting; it will be sent again over the next connection.
///
/// # Invariants
///
/// The request is pinned, and this value owns the pin.
pub struct PinnedRqst<T: Transport>(NonNull<Rqst<T>>);

// SAFETY: A pin belongs to no task, and `Rqst<T>` is `Sync`.
unsafe impl<T: Transport> Send for PinnedRqst<T> {}
// SAFETY: `&PinnedRqst` gives `&Rqst` and what is done under `queue_lock`.
unsafe impl<T: Transport> Sync for PinnedRqst<T> {}

impl<T: Transport> PinnedRqst<T> {
    /// Pins a request, unless it is being answered already.
    ///
    /// # Safety
    ///
    /// The caller holds `queue_lock`, and `rqst` is of a `Rqst<T>` on the receive queue.
    pub(crate) unsafe fn pin(rqst: NonNull<raw::rpc_rqst>) -> Option<Self> {
        let this = rqst.cast::<Rqst<T>>();
        // SAFETY: What is on the receive queue is in use, and under the lock it stays there.
        if unsafe { this.as_ref() }
            .answering
            .swap(true, Ordering::Relaxed)
        {
            return None;
        }
        // SAFETY: The lock is held since the request was found.
        unsafe { raw::xprt_pin_rqst(rqst.as_ptr()) };
        // INVARIANT: Just pinned.
        Some(Self(this))
    }

    /// Puts an inline reply where the upper layer expects it.
    ///
    /// `reduced` is the length of a payload that the peer has already written to the pages, and
    /// that `message` therefore lacks. The reply must be completed afterwards, by
    /// [`Self::complete`] with the returned number of bytes: its place now has the form of this
    /// reply.
    ///
    /// What there is no room for is cut off, as in a reply from a socket; the upper layer finds
    /// the reply too short. [`EIO`] if the payload is larger than its place.
    pub fn scatter(&self, message: &[u8], reduced: Option<u32>) -> Result<usize> {
        let buf = self.reply_buf();
        let Some(payload) = reduced.filter(|len| *len != 0) else {
            return Ok(buf.copy_in(0, message));
        };
        let payload = payload as usize;
        if payload > buf.page_len().next_multiple_of(4) {
            return Err(EIO);
        }
        // A peer may count the padding, too.
        let payload = payload.min(buf.page_len());
        let pad = payload.next_multiple_of(4) - payload;

        // The upper layer made the head as long as it expects what precedes the payload to be.
        let (before, after) = message.split_at(message.len().min(buf.head_len()));
        let before = buf.copy_in(0, before);
        let tail = buf.page_range().end;
        let after = buf.copy_in(tail + pad, after);

        // Where the head ends, the decoder looks for the payload in the pages; where the payload
        // ends, it skips the padding at the start of the tail. Bytes of the head or of the pages
        // that are not part of this reply would be taken for it, and shift the rest.
        self.set_reply_form(before, payload);
        Ok(before + payload + pad + after)
    }

    /// Wakes the request's task with a reply of `copied` bytes. The peer has no access to its
    /// place any more.
    pub fn complete(self, copied: usize) {
        self.finish(None, c_int::try_from(copied).unwrap_or(c_int::MAX));
    }

    /// Wakes the request's task with an error.
    pub fn fail(self, error: Error) {
        self.finish(Some(error.to_errno()), 0);
    }

    fn finish(self, status: Option<c_int>, copied: c_int) {
        let this = ManuallyDrop::new(self);
        let task = this.task();
        let _guard = this.queue_lock();
        if let Some(status) = status {
            // SAFETY: The task waits for the reply; it reads the status after it was woken.
            unsafe { (*task).tk_status = status };
        }
        // SAFETY: The request is pinned and `queue_lock` held.
        unsafe { raw::xprt_complete_rqst(task, copied) };
        // SAFETY: The lock is held, and `ManuallyDrop` keeps this from happening again.
        unsafe { this.unpin() };
    }

    /// Gives up the pin.
    ///
    /// # Safety
    ///
    /// The caller holds `queue_lock`, does this once, and does not touch the request afterwards.
    unsafe fn unpin(&self) {
        self.answering.store(false, Ordering::Relaxed);
        // SAFETY: The pin is ours by the type invariant, and the lock held.
        unsafe { raw::xprt_unpin_rqst(self.as_raw()) };
    }

    /// Cuts the place of the reply to `head` bytes before and `pages` bytes in the pages.
    fn set_reply_form(&self, head: usize, pages: usize) {
        let rqst = self.as_raw();
        for buf in [
            // SAFETY: The request is in use.
            unsafe { &raw mut (*rqst).rq_rcv_buf },
            // SAFETY: As above. The decoder insists that the two are equal.
            unsafe { &raw mut (*rqst).rq_private_buf },
        ] {
            // SAFETY: The task uses them before the request is sent and after it is answered, and
            // we are the only one who answers it.
            let mut form = unsafe { buf.read() };
            let cut = (form.head[0].iov_len - head) + (form.page_len as usize - pages);
            form.head[0].iov_len = head;
            form.page_len = pages as c_uint;
            form.buflen = form.buflen.saturating_sub(cut as c_uint);
            // SAFETY: As above.
            unsafe { buf.write(form) };
        }
    }

    fn queue_lock(&self) -> impl Drop {
        // SAFETY: The request is in use, so its `rq_xprt` is set and stays.
        let xprt = unsafe { (*self.as_raw()).rq_xprt };
        // SAFETY: The task has a reference to the transport. The lock is released before the pin
        // is of no effect any more, and that within an RCU read-side section, as preemption is
        // off; the memory of a transport is freed after a grace period.
        unsafe { lock(&raw mut (*xprt).queue_lock) }
    }
}

impl<T: Transport> Deref for PinnedRqst<T> {
    type Target = Rqst<T>;

    fn deref(&self) -> &Rqst<T> {
        // SAFETY: By the type invariant it is pinned.
        unsafe { self.0.as_ref() }
    }
}

impl<T: Transport> Drop for PinnedRqst<T> {
    fn drop(&mut self) {
        let _guard = self.queue_lock();
        // SAFETY: The lock is held, and this is `drop`.
        unsafe { self.unpin() };
    }
}
