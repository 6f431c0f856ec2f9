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
//! * in [`Transport::prepare`], which the task itself calls;
//! * in [`Transport::send`], because sunrpc pinned the request before it called;
//! * in [`Transport::release`], which `xprt_release` itself calls;
//! * behind a [`PendingReply`](crate::PendingReply), because it is one of those pins.
//!
//! `xprt_release` and the encoding of a call wait until a request is not pinned. The task, its
//! buffers, and through the task's reference the transport itself thus outlive the pin.

use crate::{
    memory::{
        Buffer,
        Piece, //
    },
    pieces::page_piece_at,
    xdr_buf::XdrBuf,
    Pieces,
    Transport, //
};
use core::{
    cell::UnsafeCell,
    ops::Range,
    ptr::NonNull,
    sync::atomic::{
        AtomicBool,
        Ordering, //
    },
};
use kernel::{
    alloc::Flags,
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
/// * `answering` is true as long as there is a [`PendingReply`](crate::PendingReply) of it; it changes under
///   `queue_lock`.
#[repr(C)]
#[pin_data]
pub struct Rqst<T: Transport> {
    #[pin]
    rqst: Opaque<raw::rpc_rqst>,
    call: UnsafeCell<Option<Arc<Buffer>>>,
    reply: UnsafeCell<Option<Arc<Buffer>>>,
    answering: AtomicBool,
    /// Sent over the present connection, and not answered.
    unanswered: AtomicBool,
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
            unanswered: AtomicBool::new(false),
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

    /// Where in the call the bytes are that the upper layer has in pages.
    pub fn call_data(&self) -> Range<usize> {
        self.call_buf().page_range()
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

    /// How much of a reply can stand before a [payload](Self::reply_payload), in bytes.
    pub fn reply_head(&self) -> usize {
        self.reply_buf().head_len()
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

    /// Supplies `rq_buffer` and `rq_rbuffer`. Returns how many bytes it had to allocate for them: none
    /// if the buffers of the slot's last RPC will do. Sleeps if `flags` allow it.
    ///
    /// # Safety
    ///
    /// Called by the request's task, before the request is on any queue.
    pub(crate) unsafe fn provide(&self, flags: Flags) -> Result<usize> {
        // SAFETY: The caller is the only one who uses the request.
        let rqst = unsafe { &mut *self.as_raw() };
        // SAFETY: As above; a `Piece` of an earlier RPC has its own reference.
        let call = unsafe { &mut *self.call.get() };
        // SAFETY: As above.
        let reply = unsafe { &mut *self.reply.get() };
        let mut allocated = 0;
        // Both or none: sunrpc takes the first for a sign that it has the second.
        let call = provide(call, rqst.rq_callsize, flags, &mut allocated)?;
        let reply = provide(reply, rqst.rq_rcvsize, flags, &mut allocated)?;
        rqst.rq_buffer = call.cast();
        rqst.rq_rbuffer = reply.cast();
        Ok(allocated)
    }

    /// Allocates pages of the reply that the upper layer left to the transport. Does not sleep.
    ///
    /// # Safety
    ///
    /// The caller holds `XPRT_LOCKED`, or is the request's task, which has not queued it to be sent.
    pub(crate) unsafe fn fill_reply_pages(&self) -> Result {
        let buf = self.reply_buf();
        if !buf.has_flag(raw::XDRBUF_SPARSE_PAGES) {
            return Ok(());
        }
        // SAFETY: The flag says that the upper layer expects it, and it does not look before the
        // request is answered; nobody else sends it now.
        unsafe { buf.fill_pages() }
    }

    /// Forgets a credit that the request held. A request without one is left alone.
    ///
    /// # Safety
    ///
    /// The caller holds `transport_lock`, and either `XPRT_LOCKED` or the request, which is on no queue
    /// any more.
    pub(crate) unsafe fn forget_credit(&self) {
        self.take_unanswered();
        // SAFETY: A request that is queued gets a credit under both locks and loses it under
        // `transport_lock`; while the slot is free, `rqst` is zeroed, which writes the same.
        unsafe { (&raw mut (*self.as_raw()).rq_cong).write_volatile(0) };
    }

    /// CallContext whether the peer owes a reply.
    pub(crate) fn set_unanswered(&self, unanswered: bool) {
        self.unanswered.store(unanswered, Ordering::Relaxed);
    }

    /// Whether the peer owed a reply. From now on it does not.
    pub(crate) fn take_unanswered(&self) -> bool {
        let unanswered = self.unanswered.load(Ordering::Relaxed);
        self.set_unanswered(false);
        unanswered
    }

    pub(crate) fn task(&self) -> *mut raw::rpc_task {
        // SAFETY: Set when the task got the slot, and not changed while it has it.
        unsafe { (*self.as_raw()).rq_task }
    }

    fn call_buf(&self) -> XdrBuf<'_> {
        // SAFETY: The task keeps the buffers as long as there is a `&self`.
        unsafe { XdrBuf::from_raw(&raw const (*self.as_raw()).rq_snd_buf) }
    }

    pub(crate) fn reply_buf(&self) -> XdrBuf<'_> {
        // SAFETY: As above.
        unsafe { XdrBuf::from_raw(&raw const (*self.as_raw()).rq_rcv_buf) }
    }

    /// CallContext whether there is a [`PendingReply`](crate::PendingReply). Returns whether there was one.
    pub(crate) fn set_answering(&self, answering: bool) -> bool {
        self.answering.swap(answering, Ordering::Relaxed)
    }

    /// The memory at `base`, with what keeps it allocated.
    pub(crate) fn memory_piece(&self, base: NonNull<u8>, len: usize) -> Result<Piece> {
        for buffer in [&self.call, &self.reply] {
            // SAFETY: By the type invariants the buffers do not change now.
            let Some(buffer) = (unsafe { &*buffer.get() }) else {
                continue;
            };
            let offset = base.addr().get().checked_sub(buffer.base().addr().get());
            let Some(offset) = offset.filter(|at| *at < buffer.len()) else {
                continue;
            };
            return Piece::from_buffer(buffer.clone(), offset, len);
        }
        page_piece_at(base, len)
    }
}

/// Makes `buffer` hold at least `len` bytes that nobody else uses, and says where they are. Adds what
/// it allocates to `allocated`.
fn provide(
    buffer: &mut Option<Arc<Buffer>>,
    len: usize,
    flags: Flags,
    allocated: &mut usize,
) -> Result<*mut u8> {
    // A Send of the last RPC may still be under way, though that RPC is over: its reply came
    // first, or a signal did. Then the buffer is left to it.
    let reused = buffer
        .take()
        .filter(|buffer| buffer.len() >= len)
        .and_then(Arc::into_unique_or_drop)
        .map(Arc::from);
    let provided = match reused {
        Some(reused) => reused,
        None => {
            *allocated = allocated.saturating_add(len);
            Buffer::new(len, flags)?
        }
    };
    Ok(buffer.insert(provided).base().as_ptr())
}
