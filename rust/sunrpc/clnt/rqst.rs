// SPDX-License-Identifier: GPL-2.0

//! Requests: what a transport may read of an RPC, and do to it.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! rpc_rqst`.
//!
//! # What keeps a request alive
//!
//! The memory of a [`Rqst`] is a slot and lives as long as the transport. Its contents belong to
//! one RPC task at a time: the task owns the message buffers, the reference to the credential and
//! to the transport, and it gives them up in `xprt_release`. A `&Rqst` therefore exists only
//! where that cannot happen:
//!
//! * in `Transport::prepare`, which the task itself calls;
//! * in `Transport::send`, because sunrpc pinned the request before it called;
//! * in `Transport::release`, which `xprt_release` itself calls;
//! * behind a `PendingReply`, because it is one of those pins.
//!
//! `xprt_release` and the encoding of a call wait until a request is not pinned. The task, its
//! buffers, and through the task's reference the transport itself thus outlive the pin.

use crate::prelude::*;
use crate::{
    clnt::slots::RqstBuffers,
    memory::Piece,
    task::task_id,
    xdr_buf::Pieces, //
};
use ext::trace::TaskId;

/// A transport that keeps private state in each of its request slots.
pub trait HasSlot: Sized + Send + Sync + 'static {
    /// Private state of a request slot. It lives as long as the transport and is shared by
    /// reference; sunrpc reuses the slot for one RPC after another.
    type Slot: Send + Sync;

    /// Makes the private state of one slot. May sleep.
    fn new_slot() -> impl PinInit<Self::Slot, Error>;
}

/// A request in its slot.
///
/// # Invariants
///
/// * `rqst` is a `struct rpc_rqst`, zero or in use by one RPC task.
/// * `buffers` are those of `rqst`. Their `alloc` is called only in [`Self::alloc_buffers`], before
///   the request is on any queue.
/// * `has_pending_reply` is true as long as there is a `PendingReply` of it; it changes under
///   `queue_lock`.
#[repr(C)]
#[pin_data]
pub struct Rqst<T: HasSlot> {
    #[pin]
    rqst: Opaque<cbindings::rpc_rqst>,
    buffers: RqstBuffers,
    has_pending_reply: AtomicBool,
    /// The call was sent over the present connection, and no reply has come.
    awaits_reply: AtomicBool,
    #[pin]
    slot: T::Slot,
}

// SAFETY: Nothing in it belongs to a task or CPU; `T::Slot` is `Send`.
unsafe impl<T: HasSlot> Send for Rqst<T> {}
// SAFETY: By the type invariants the buffers do not change while there are references to share;
// `T::Slot` is `Sync`; sunrpc and this crate access only those fields of `rqst` that the RPC's
// state allows.
unsafe impl<T: HasSlot> Sync for Rqst<T> {}

/// A part of the `xdr_buf` that an upper layer has for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyPart {
    /// Head, pages and tail.
    All,
    /// The pages alone.
    Pages,
}

impl<T: HasSlot> Rqst<T> {
    /// Returns an initialiser of a free slot.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        // INVARIANT: Zero, and there is neither an RPC nor a reply.
        try_pin_init!(Self {
            rqst: Opaque::zeroed(),
            buffers: RqstBuffers::new(),
            has_pending_reply: AtomicBool::new(false),
            awaits_reply: AtomicBool::new(false),
            slot <- T::new_slot(),
        })
    }

    /// # Safety
    ///
    /// `rqst` points to the `rqst` of a live `Rqst<T>`, for which one of the reasons in the
    /// module's documentation holds for `'a`.
    pub(crate) unsafe fn from_raw<'a>(rqst: *mut cbindings::rpc_rqst) -> &'a Self {
        // CAST: `rqst` is the first field of `Self`, which is `repr(C)`.
        // SAFETY: The caller vouches for it.
        unsafe { &*rqst.cast() }
    }

    pub(crate) fn as_raw(&self) -> *mut cbindings::rpc_rqst {
        self.rqst.get()
    }

    /// Returns the transport's private state of this slot.
    #[inline]
    pub fn slot(&self) -> &T::Slot {
        &self.slot
    }

    /// Returns the transaction id, in host order.
    #[inline]
    pub fn xid(&self) -> u32 {
        // SAFETY: sunrpc sets it before the request is on a queue, and does not change it while it
        // is.
        u32::from_be(unsafe { (*self.as_raw()).rq_xid })
    }

    /// Returns the identification of the RPC, for traces.
    pub fn task_id(&self) -> TaskId {
        // SAFETY: The task has the request as long as there is a `&self`.
        unsafe { task_id(self.task()) }
    }

    /// Returns the length of the call in bytes.
    #[inline]
    pub fn call_len(&self) -> usize {
        self.call_buf().total_len()
    }

    /// Returns the range of the call that is DDP-eligible (RFC 8166), if the upper layer marks one.
    pub fn call_payload(&self) -> Option<Range<usize>> {
        let buf = self.call_buf();
        let range = buf.page_range();
        (buf.has_flag(cbindings::XDRBUF_WRITE) && !range.is_empty()).then_some(range)
    }

    /// Returns the lengths of the head, the pages and the tail of the call.
    pub fn call_lens(&self) -> [usize; 3] {
        let buf = self.call_buf();
        [buf.head_len(), buf.page_len(), buf.tail_len()]
    }

    /// Returns the range of the call that the upper layer has in pages.
    pub fn call_data(&self) -> Range<usize> {
        self.call_buf().page_range()
    }

    /// Returns the number of bytes of the reply, in the pages of its `xdr_buf`, that are
    /// DDP-eligible, if the upper layer marks them.
    pub fn reply_payload(&self) -> Option<usize> {
        let buf = self.reply_buf();
        let len = buf.page_len();
        (buf.has_flag(cbindings::XDRBUF_READ) && len != 0).then_some(len)
    }

    /// Returns the length of the largest reply that the upper layer has a buffer for.
    #[inline]
    pub fn reply_max(&self) -> usize {
        self.reply_buf().total_len()
    }

    /// Returns whether DDP-eligible data may be reduced, that is, travel apart from its message. It
    /// may not if the security flavour signs or encrypts the message as a whole.
    pub fn reduction_allowed(&self) -> bool {
        // SAFETY: The task holds a reference to the credential, and the credential one to its
        // flavour, until the task gives up the request.
        let (flags, flavor) = unsafe {
            let auth = (*(*self.as_raw()).rq_cred).cr_auth;
            (
                (&raw const (*auth).au_flags).read_volatile(),
                (*auth).au_flavor,
            )
        };
        // RPCSEC_GSS does not clear the flags of a new flavour before it sets some, so what was in
        // that memory before can set others. krb5 does not have this one.
        flags & (1 << cbindings::RPCAUTH_AUTH_DATATOUCH) == 0
            || flavor == cbindings::rpc_auth_flavors_RPC_AUTH_GSS_KRB5
    }

    /// Returns whether there will be a reply.
    pub fn reply_expected(&self) -> bool {
        // SAFETY: The task gives up the request after this.
        unsafe { cbindings::rpc_reply_expected(self.task()) != 0 }
    }

    /// Copies the call from its byte `from` on to `dst`. Returns how many bytes were copied.
    pub fn copy_call(&self, from: usize, dst: &mut [u8]) -> Result<usize> {
        self.call_buf().copy_out(from, dst)
    }

    /// Returns a copy of the call, in one piece. Sleeps if `flags` allow it.
    pub fn call_in_one_piece(&self, flags: Flags) -> Result<Piece> {
        let len = self.call_len();
        let copy = Buffer::new(len, flags)?;
        let mut part = [0; 256];
        let mut at = 0;
        while at < len {
            let copied = self.copy_call(at, &mut part)?;
            let part = part.get(..copied).filter(|part| !part.is_empty());
            copy.copy_in(at, part.ok_or(EIO)?)?;
            at += copied;
        }
        Piece::from_buffer(copy, 0, len)
    }

    /// Returns the memory of a part of the call.
    pub fn call_pieces(&self, range: Range<usize>) -> Pieces<'_> {
        self.pieces(&self.call_buf(), range)
    }

    /// Returns the memory that the upper layer has for a reply, or for a part of it.
    pub fn reply_pieces(&self, part: ReplyPart) -> Pieces<'_> {
        let buf = self.reply_buf();
        let range = match part {
            ReplyPart::All => 0..buf.total_len(),
            ReplyPart::Pages => buf.page_range(),
        };
        self.pieces(&buf, range)
    }

    fn pieces<'a>(&'a self, buf: &XdrBuf<'a>, range: Range<usize>) -> Pieces<'a> {
        // SAFETY: By the type invariants the buffers do not change while there is a `&self`.
        unsafe { Pieces::of_rqst(&self.buffers, buf.iovecs(range)) }
    }

    /// Sets `rq_buffer` and `rq_rbuffer`. Returns the number of bytes that it had to allocate for
    /// them. Sleeps if `flags` allow it.
    ///
    /// # Safety
    ///
    /// The request's task is the caller, and the request is on no queue yet.
    pub(crate) unsafe fn alloc_buffers(&self, flags: Flags) -> Result<usize> {
        // SAFETY: The caller is the only one that uses the buffers, which are those of the request
        // by the type invariants.
        unsafe { self.buffers.alloc(self.as_raw(), flags) }
    }

    /// Allocates the pages of the reply that the upper layer leaves to the transport. Sleeps if
    /// `flags` allow it.
    ///
    /// # Safety
    ///
    /// The caller owns `XPRT_LOCKED`, or is the request's task, which has not queued it to be sent.
    pub(crate) unsafe fn alloc_sparse_pages(&self, flags: Flags) -> Result {
        let buf = self.reply_buf();
        if !buf.has_flag(cbindings::XDRBUF_SPARSE_PAGES) {
            return Ok(());
        }
        // SAFETY: The flag says that the upper layer expects it, and that does not look before the
        // reply has come; by the caller's promise nobody else sends the request now.
        unsafe { buf.alloc_sparse_pages(flags) }
    }

    /// Clears `rq_cong`, so that sunrpc does not return a credit with the request.
    ///
    /// # Safety
    ///
    /// The caller holds `transport_lock`, and either owns `XPRT_LOCKED` or has the request, which
    /// is on no queue any more.
    pub(crate) unsafe fn clear_cong(&self) {
        self.take_awaits_reply();
        // SAFETY: The slot is live, and those who write the word write it as a whole.
        let cong = unsafe { &raw mut (*self.as_raw()).rq_cong };
        // sunrpc zeroes a slot that it hands from one task to the next, under `reserve_lock`
        // (`__xprt_set_rq`). The word is zero already then: the task before gave its credit back.
        // So it is written only if it is not.
        // SAFETY: The word may be read at any time: whoever writes it at the same time writes the
        // zero that is there.
        if unsafe { cong.read_volatile() } != 0 {
            // SAFETY: The request has a credit. It got that under both locks. sunrpc hands the slot
            // over only after the credit was given back, under `transport_lock`, which the caller
            // holds.
            unsafe { cong.write_volatile(0) };
        }
    }

    /// Zeroes the request, but for `rq_cong`, which is zero: [`Self::clear_cong`] may read that at
    /// the same time.
    ///
    /// # Safety
    ///
    /// No task has the request, and it gave back its credit.
    pub(crate) unsafe fn clear(&self) {
        const CONG: usize = offset_of!(cbindings::rpc_rqst, rq_cong);
        const BEHIND: usize = CONG + size_of::<c_uint>();
        let bytes = self.as_raw().cast::<u8>();
        // SAFETY: The field is part of the request, which the caller has alone, but for the field.
        unsafe { bytes.write_bytes(0, CONG) };
        // SAFETY: The rest of the request follows the field.
        let behind = unsafe { bytes.add(BEHIND) };
        // SAFETY: The rest is part of the request, which the caller has alone.
        unsafe { behind.write_bytes(0, size_of::<cbindings::rpc_rqst>() - BEHIND) };
    }

    /// Sets whether the peer owes a reply.
    pub(crate) fn set_awaits_reply(&self, awaits_reply: bool) {
        self.awaits_reply.store(awaits_reply, Ordering::Relaxed);
    }

    /// Returns whether the peer owes a reply to the call.
    pub(crate) fn awaits_reply(&self) -> bool {
        self.awaits_reply.load(Ordering::Relaxed)
    }

    /// Returns the transport's `connect_cookie` when the call was last sent, or no present one.
    #[inline]
    pub(crate) fn connect_cookie(&self) -> u32 {
        // SAFETY: The request is in use. sunrpc writes the word as a whole.
        unsafe { (&raw const (*self.as_raw()).rq_connect_cookie).read_volatile() }
    }

    /// Returns the time when the call was last sent.
    pub(crate) fn time_sent(&self) -> cbindings::ktime_t {
        // SAFETY: The request is in use. sunrpc and this crate write the word as a whole.
        unsafe { (&raw const (*self.as_raw()).rq_xtime).read_volatile() }
    }

    /// Returns whether the peer owes a reply, and sets that it does not.
    pub(crate) fn take_awaits_reply(&self) -> bool {
        let awaits_reply = self.awaits_reply();
        self.set_awaits_reply(false);
        awaits_reply
    }

    pub(crate) fn task(&self) -> *mut cbindings::rpc_task {
        // SAFETY: sunrpc sets it when the task gets the slot, and does not change it while the task
        // has that.
        unsafe { (*self.as_raw()).rq_task }
    }

    fn call_buf(&self) -> XdrBuf<'_> {
        // SAFETY: The task keeps the buffers as long as there is a `&self`.
        unsafe { XdrBuf::from_raw(&raw const (*self.as_raw()).rq_snd_buf) }
    }

    pub(crate) fn reply_buf(&self) -> XdrBuf<'_> {
        // SAFETY: The task keeps the buffers as long as there is a `&self`.
        unsafe { XdrBuf::from_raw(&raw const (*self.as_raw()).rq_rcv_buf) }
    }

    /// Sets whether there is a `PendingReply`. Returns whether there was one.
    ///
    /// # Safety
    ///
    /// The caller holds `queue_lock`.
    pub(crate) unsafe fn set_has_pending_reply(&self, has_pending_reply: bool) -> bool {
        // Nothing else writes it meanwhile, by the type invariants.
        let had_one = self.has_pending_reply.load(Ordering::Relaxed);
        self.has_pending_reply
            .store(has_pending_reply, Ordering::Relaxed);
        had_one
    }
}
