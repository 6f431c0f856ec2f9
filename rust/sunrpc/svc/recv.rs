// SPDX-License-Identifier: GPL-2.0

//! The receipt of a call in a service thread, and the arguments of the call.
//!
//! C headers: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h),
//! `xpo_recvfrom` of `struct svc_xprt_ops`;
//! [`include/linux/sunrpc/svc.h`](srctree/include/linux/sunrpc/svc.h), `rq_arg` and `rq_pages` of
//! `struct svc_rqst`.
//!
//! A service thread has two arrays of pages of its own, one for a call and one for its reply. A
//! call stays in the message that it came in, which is lent to the thread until the reply is made.
//! Payload that did not come in the message is in pages, which are exchanged for pages of the first
//! array. The thread thus always has the same number of pages, and none needs to be freed or
//! allocated.

use crate::prelude::*;
use crate::{
    memory::{
        Page,
        Stable, //
    },
    svc::reply::SavedReplyPages, //
};
use core::ops::RangeInclusive;
use kernel::bindings::page;

impl<C: SvcConnection> SvcXprt<C> {
    /// Receives a call in the thread of `rqstp`. Returns its length, or zero if there is none. May
    /// sleep.
    ///
    /// # Safety
    ///
    /// `xpo_recvfrom` is the caller, and `rqstp` its argument.
    pub(crate) unsafe fn recv(&self, rqstp: *mut cbindings::svc_rqst) -> c_int {
        // SAFETY: The caller promises that it is the thread's, which is the only one to change
        // these fields.
        let rqst = unsafe { &mut *rqstp };
        // No page of the reply is in use yet.
        rqst.rq_next_page = rqst.rq_respages;
        rqst.rq_xprt_ctxt = ptr::null_mut();
        let work = C::next(self, self);
        // SAFETY: sunrpc set `XPT_BUSY` for this thread, which accesses nothing that it guards any
        // more.
        unsafe { cbindings::svc_xprt_received(self.as_raw()) };
        let Some(work) = work else {
            return 0;
        };
        // SAFETY: `xpo_recvfrom` is the caller.
        let mut args = unsafe { SvcArgs::new(rqstp) };
        let Some(mut call) = C::receive(self, self, work, &mut args) else {
            return 0;
        };
        let len = c_int::try_from(args.len()).unwrap_or(0);
        match args.take_message() {
            Some(message) => call.set_message(message),
            // `receive` has set no call.
            None => {
                C::release(self, call);
                return 0;
            }
        }
        // SAFETY: The caller promises that it is the thread's, which is the only one to change
        // these fields.
        let rqst = unsafe { &mut *rqstp };
        rqst.rq_xprt_ctxt = KBox::into_raw(call).cast();
        // This value tells sunrpc that the transport is one for RPC-over-RDMA.
        rqst.rq_prot = cbindings::IPPROTO_MAX;
        // SAFETY: Both are live.
        unsafe { cbindings::svc_xprt_copy_addrs(rqstp, self.as_raw()) };
        // No port of such a transport is reserved for root.
        // SAFETY: The `svc_rqst` is the thread's.
        unsafe { set_rqst_flag(rqstp, cbindings::RQ_SECURE, true) };
        // SAFETY: The `svc_rqst` is the thread's.
        unsafe { set_rqst_flag(rqstp, cbindings::RQ_LOCAL, self.is_local()) };
        len
    }
}

/// Sets or clears a flag of `rqst`. The flags are the thread's, and those of its last call remain
/// until they are changed, so most often there is nothing to do.
///
/// # Safety
///
/// `rqst` is that of the calling thread.
unsafe fn set_rqst_flag(rqst: *mut cbindings::svc_rqst, flag: u32, is_set: bool) {
    // SAFETY: The caller promises a live `svc_rqst`. The flags change by atomic operations only.
    let flags = unsafe { &raw mut (*rqst).rq_flags };
    // SAFETY: As above. Only the thread changes this one.
    let was_set = unsafe { flags.read_volatile() } & (1 << flag) != 0;
    match (was_set, is_set) {
        // SAFETY: As above.
        (false, true) => unsafe { cbindings::set_bit(flag, flags) },
        // SAFETY: As above.
        (true, false) => unsafe { cbindings::clear_bit(flag, flags) },
        (true, true) | (false, false) => (),
    }
}

/// The arguments of the call that a service thread is receiving, in a message `M`.
pub struct SvcArgs<'a, M> {
    rqst: *mut cbindings::svc_rqst,
    message: Option<M>,
    _during_receive: PhantomData<&'a mut ()>,
}

impl<M: Stable> SvcArgs<'_, M> {
    /// # Safety
    ///
    /// `rqst` is that of the calling thread, which is in `xpo_recvfrom` for `'a`: the thread has
    /// all of its pages, and nobody else uses them.
    pub(crate) unsafe fn new(rqst: *mut cbindings::svc_rqst) -> Self {
        Self {
            rqst,
            message: None,
            _during_receive: PhantomData,
        }
    }

    /// Returns the number of pages that a call may have.
    pub fn max_pages(&self) -> usize {
        // SAFETY: By the promise of the caller of `new` the `svc_rqst` is live and the thread's
        // own.
        unsafe { (*self.rqst).rq_maxpages }
    }

    /// Sets the call to the bytes `rpc` of `message`. Returns the message if it has no such part.
    pub fn set_message(&mut self, message: M, rpc: Range<usize>) -> Result<(), M> {
        let part = part(&message, rpc);
        let set = part.and_then(|rpc| self.set(rpc, rpc.len(), 0, 0));
        self.keep(message, set)
    }

    /// Sets the call to the bytes `rpc` of `message`, with `len` bytes of `pages` inserted at
    /// `position`. Exchanges `pages` for pages of the thread. Returns the message if it has no such
    /// part, or the thread has too few pages.
    pub fn set_reduced(
        &mut self,
        message: M,
        rpc: Range<usize>,
        position: usize,
        pages: &mut KVec<Page>,
        len: usize,
    ) -> Result<(), M> {
        let part = part(&message, rpc);
        let set = part.and_then(|rpc| {
            self.exchange(pages, len)?;
            self.set(rpc, position, 0, len)
        });
        self.keep(message, set)
    }

    /// Sets the call, which came in `message`, to the first `len` bytes of `pages`. Exchanges
    /// `pages` for pages of the thread. Returns the message if the thread has too few pages.
    pub fn set_pages(&mut self, message: M, pages: &mut KVec<Page>, len: usize) -> Result<(), M> {
        let set = self.exchange(pages, len).and_then(|()| {
            let head = len.min(PAGE_SIZE);
            // SAFETY: The pages of a service thread are in the linear map.
            let base = unsafe { cbindings::page_address(self.page(0)?.as_ptr()) };
            let base = NonNull::new(base.cast()).ok_or(EINVAL)?;
            let head = NonNull::slice_from_raw_parts(base, head);
            self.set(head, head.len(), 1, len - head.len())
        });
        self.keep(message, set)
    }

    /// Takes the message back, so that there is no call.
    pub fn take_message(&mut self) -> Option<M> {
        self.message.take()
    }

    fn keep(&mut self, message: M, set: Result) -> Result<(), M> {
        match set {
            Ok(()) => self.message = Some(message),
            Err(_) => return Err(message),
        }
        Ok(())
    }

    /// Saves in `saved_pages` the first pages that the thread has for the reply, as many of
    /// `counts` as were needed lately, or those before the first page that is not the thread's
    /// alone.
    pub fn save_reply_pages(
        &self,
        saved_pages: &mut SavedReplyPages,
        counts: RangeInclusive<usize>,
    ) -> Result {
        // SAFETY: By the promise of the caller of `new` the `svc_rqst` is the calling thread's,
        // which is in `xpo_recvfrom`.
        unsafe { saved_pages.save(self.rqst, counts) }
    }

    /// Returns whether the thread receives from `xprt`. If so, it has a reference to that.
    pub(crate) fn receive_from(&self, xprt: *const cbindings::svc_xprt) -> bool {
        // SAFETY: By the promise of the caller of `new` the `svc_rqst` is live and the thread's
        // own.
        ptr::eq(unsafe { (*self.rqst).rq_xprt }, xprt)
    }

    /// Returns the length of the call.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: By the promise of the caller of `new` the `svc_rqst` is live and the thread's
        // own.
        unsafe { (*self.rqst).rq_arg.len as usize }
    }

    /// Returns the entry of the array for page `index`.
    fn entry(&self, index: usize) -> Result<*mut *mut page> {
        if index >= self.max_pages() {
            return Err(E2BIG);
        }
        // SAFETY: By the promise of the caller of `new` the `svc_rqst` is live and the thread's
        // own. The array has that many entries.
        Ok(unsafe { (*self.rqst).rq_pages.add(index) })
    }

    fn page(&self, index: usize) -> Result<NonNull<page>> {
        // SAFETY: The entry is in the array, which nobody else changes now.
        NonNull::new(unsafe { self.entry(index)?.read() }).ok_or(ENOMEM)
    }

    /// Exchanges `pages`, which must be large enough for `len` bytes, for the first pages of the
    /// thread.
    fn exchange(&mut self, pages: &mut KVec<Page>, len: usize) -> Result {
        if pages.len().saturating_mul(PAGE_SIZE) < len {
            return Err(EINVAL);
        }
        for index in 0..pages.len() {
            self.page(index)?;
        }
        for (index, place) in pages.iter_mut().enumerate() {
            let theirs = self.page(index)?;
            // SAFETY: The array owned the reference, and the entry is overwritten below.
            let theirs = unsafe { Page::from_raw(theirs) };
            let ours = core::mem::replace(place, theirs).into_raw();
            // SAFETY: The entry is in the array, which now owns the reference.
            unsafe { self.entry(index)?.write(ours.as_ptr()) };
        }
        Ok(())
    }

    /// Sets the call to the first `head` bytes of `memory`, `pages` bytes in the pages from `first`
    /// on, and the rest of `memory`.
    fn set(&mut self, memory: NonNull<[u8]>, head: usize, first: usize, pages: usize) -> Result {
        let tail = memory.len().checked_sub(head).ok_or(EINVAL)?;
        if first.saturating_add(pages.div_ceil(PAGE_SIZE)) > self.max_pages() {
            return Err(E2BIG);
        }
        let base: *mut c_void = memory.as_ptr().cast();
        let len = c_uint::try_from(memory.len().saturating_add(pages))?;
        // SAFETY: By the promise of the caller of `new` the `svc_rqst` is live and the thread's
        // own. `first` is at most the length of the array.
        let list = unsafe { (*self.rqst).rq_pages.add(first) };
        // SAFETY: By the promise of the caller of `new` nobody else uses the `svc_rqst`.
        let arg = unsafe { &mut (*self.rqst).rq_arg };
        arg.head[0].iov_base = base;
        arg.head[0].iov_len = head;
        arg.pages = list;
        arg.page_base = 0;
        arg.page_len = c_uint::try_from(pages)?;
        arg.tail[0].iov_base = base.wrapping_byte_add(head);
        arg.tail[0].iov_len = tail;
        arg.buflen = len;
        arg.len = len;
        Ok(())
    }
}

/// Makes the call empty, as its message is reused from now on. A later read finds the end of the
/// call.
///
/// # Safety
///
/// `rqst` is that of the calling thread, which is in `xpo_sendto`, and has decoded the call.
pub(crate) unsafe fn clear(rqst: *mut cbindings::svc_rqst) {
    // SAFETY: The caller says that nobody else uses these.
    let rqst = unsafe { &mut *rqst };
    rqst.rq_arg = cbindings::xdr_buf::default();
    // SAFETY: Both are live, and the buffer is empty.
    unsafe {
        cbindings::xdr_init_decode(
            &mut rqst.rq_arg_stream,
            &mut rqst.rq_arg,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
}

/// Returns the bytes `range` of `message`.
fn part<M: Stable>(message: &M, range: Range<usize>) -> Result<NonNull<[u8]>> {
    let memory = message.memory();
    let len = range.end.checked_sub(range.start).ok_or(EINVAL)?;
    if range.end > memory.len() {
        return Err(EINVAL);
    }
    // SAFETY: The range is within the memory.
    let base = unsafe { memory.cast::<u8>().add(range.start) };
    Ok(NonNull::slice_from_raw_parts(base, len))
}
