// SPDX-License-Identifier: GPL-2.0

//! The memory that `rq_buffer` and `rq_rbuffer` of a request point to.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct
//! rpc_rqst`.

use crate::memory::{
    Buffer,
    Piece, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    alloc::Flags,
    prelude::*,
    sync::Arc, //
};

/// The buffers of a slot, which one RPC after another uses.
///
/// # Invariants
///
/// `call` and `reply` hold what `rq_buffer` and `rq_rbuffer` of the present RPC point to. They
/// change only in [`Self::alloc`].
pub(crate) struct RqstBuffers {
    call: UnsafeCell<Option<Arc<Buffer>>>,
    reply: UnsafeCell<Option<Arc<Buffer>>>,
}

impl RqstBuffers {
    pub(crate) fn new() -> Self {
        // INVARIANT: There is no RPC.
        Self {
            call: UnsafeCell::new(None),
            reply: UnsafeCell::new(None),
        }
    }

    /// Sets `rq_buffer` and `rq_rbuffer`. Returns the number of bytes that it had to allocate for
    /// them: none if the buffers of the slot's last RPC are large enough. Sleeps if `flags` allow
    /// it.
    ///
    /// # Safety
    ///
    /// `rqst` is the request in the slot of these buffers, and nobody else uses them, nor the words
    /// of it that are about them.
    pub(crate) unsafe fn alloc(&self, rqst: *mut raw::rpc_rqst, flags: Flags) -> Result<usize> {
        // SAFETY: The caller promises that nobody else uses the buffers; a `Piece` of an earlier
        // RPC has its own reference.
        let call = unsafe { &mut *self.call.get() };
        // SAFETY: The caller promises that nobody else uses the buffers; a `Piece` of an earlier
        // RPC has its own reference.
        let reply = unsafe { &mut *self.reply.get() };
        // SAFETY: The caller vouches for the request.
        let (call_len, reply_len) = unsafe { ((*rqst).rq_callsize, (*rqst).rq_rcvsize) };
        let mut allocated = 0;
        // Both pointers are set, or none: sunrpc takes the first for a sign that it has the second.
        let call = reuse_or_alloc(call, call_len, flags, &mut allocated)?;
        let reply = reuse_or_alloc(reply, reply_len, flags, &mut allocated)?;
        // SAFETY: The caller vouches for the request, and promises that nobody else uses these
        // words.
        unsafe { (*rqst).rq_buffer = call.cast() };
        // SAFETY: The caller vouches for the request, and promises that nobody else uses these
        // words.
        unsafe { (*rqst).rq_rbuffer = reply.cast() };
        Ok(allocated)
    }

    /// Returns the `len` bytes at `base`, with a reference to the buffer that they are in. Returns
    /// [`None`] if they are in neither.
    ///
    /// # Safety
    ///
    /// The request in the slot is not in [`Self::alloc`].
    pub(crate) unsafe fn piece(&self, base: NonNull<u8>, len: usize) -> Option<Result<Piece>> {
        for buffer in [&self.call, &self.reply] {
            // SAFETY: By the type invariants the buffers do not change now.
            let Some(buffer) = (unsafe { &*buffer.get() }) else {
                continue;
            };
            let offset = base.addr().get().checked_sub(buffer.base().addr().get());
            let Some(offset) = offset.filter(|at| *at < buffer.len()) else {
                continue;
            };
            return Some(Piece::from_buffer(buffer.clone(), offset, len));
        }
        None
    }
}

/// Makes `buffer` hold at least `len` bytes that nobody else uses. Returns their address, and adds
/// the number of bytes that it allocates to `allocated`.
fn reuse_or_alloc(
    buffer: &mut Option<Arc<Buffer>>,
    len: usize,
    flags: Flags,
    allocated: &mut usize,
) -> Result<*mut u8> {
    // A Send of the last RPC may not have completed yet, though that RPC is over: its reply came
    // first, or a signal did. Then the Send keeps the buffer.
    let reused = buffer
        .take()
        .filter(|buffer| buffer.len() >= len)
        .and_then(Arc::into_unique_or_drop)
        .map(Arc::from);
    let memory = match reused {
        Some(reused) => reused,
        None => {
            *allocated = allocated.saturating_add(len);
            Buffer::new(len, flags)?
        }
    };
    Ok(buffer.insert(memory).base().as_ptr())
}
