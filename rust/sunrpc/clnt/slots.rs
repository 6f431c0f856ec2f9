// SPDX-License-Identifier: GPL-2.0

//! The request slots of a transport, and their allocation to tasks.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `alloc_slot`,
//! `free_slot` and `buf_alloc` of `struct rpc_xprt_ops`, `rq_buffer` and `rq_rbuffer` of `struct
//! rpc_rqst`.
//!
//! Each [`Rqst`] is allocated with the transport and serves one RPC after another. The free ones
//! are on a stack under `reserve_lock`, so that the one used last, whose memory is still in the
//! CPU's caches, is used next.
//!
//! `reserve_lock` is held across the calls that put a task on the backlog queue and that take one
//! from it, as sunrpc's own slot table does. A slot thus cannot become free between the look at the
//! table and the moment the task is on the queue, which would leave the task asleep beside a free
//! slot.

use crate::prelude::*;
use crate::{
    memory::Piece,
    task::gfp_flags, //
};
use core::cell::UnsafeCell;

/// All slots of a transport, and which of them are free.
///
/// # Invariants
///
/// * `free` has capacity for all of `all`, and each of its entries points into `all`.
/// * A slot that is not in `free` belongs to one RPC task.
/// * `free` is accessed under the `reserve_lock` of the transport.
pub(crate) struct SlotTable<T: HasSlot> {
    free: UnsafeCell<KVVec<NonNull<Rqst<T>>>>,
    all: KVVec<Pin<KBox<Rqst<T>>>>,
}

// SAFETY: The slots are `Send` and `Sync`, and a lock guards `free` by the type invariants.
unsafe impl<T: HasSlot> Send for SlotTable<T> {}
// SAFETY: `&SlotTable` gives `&Rqst`, which is `Sync`, and a lock guards `free` by the type
// invariants.
unsafe impl<T: HasSlot> Sync for SlotTable<T> {}

impl<T: HasSlot> SlotTable<T> {
    /// Allocates `count` slots.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let mut all = KVVec::with_capacity(count, GFP_KERNEL)?;
        let mut free = KVVec::with_capacity(count, GFP_KERNEL)?;
        for _ in 0..count {
            let slot = KBox::pin_init(Rqst::new(), GFP_KERNEL)?;
            free.push(NonNull::from(&*slot), GFP_KERNEL)?;
            all.push(slot, GFP_KERNEL)?;
        }
        // INVARIANT: All are free, `free` has room for as many, and no other thread knows of them
        // yet.
        Ok(Self {
            free: UnsafeCell::new(free),
            all,
        })
    }

    /// Returns all slots, free or not.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rqst<T>> {
        self.all.iter().map(|slot| &**slot)
    }

    /// Takes a free slot.
    ///
    /// # Safety
    ///
    /// The caller holds `reserve_lock`.
    pub(crate) unsafe fn take(&self) -> Option<NonNull<Rqst<T>>> {
        // SAFETY: The lock gives exclusive access.
        unsafe { &mut *self.free.get() }.pop()
    }

    /// Puts a slot back.
    ///
    /// # Safety
    ///
    /// The caller holds `reserve_lock`, and `slot` is one that [`Self::take`] gave and nobody uses
    /// any more.
    pub(crate) unsafe fn put(&self, slot: NonNull<Rqst<T>>) {
        // SAFETY: The lock gives exclusive access.
        let free = unsafe { &mut *self.free.get() };
        // INVARIANT: `slot` is one of `all` and was not in `free`, which therefore has room.
        let pushed = free.push_within_capacity(slot);
        debug_assert!(pushed.is_ok());
    }

    /// Returns the number of slots that are taken.
    ///
    /// # Safety
    ///
    /// The caller holds `reserve_lock`.
    pub(crate) unsafe fn taken(&self) -> usize {
        // SAFETY: The lock gives exclusive access.
        self.all.len() - unsafe { &*self.free.get() }.len()
    }
}

impl<T: HasSlot> Xprt<T> {
    /// Gives `task` a slot. If none is free, the task waits on the backlog queue.
    ///
    /// # Safety
    ///
    /// `task` is the caller, and on no queue.
    pub(crate) unsafe fn alloc_slot(&self, task: *mut cbindings::rpc_task) {
        let _guard = self.reserve_lock();
        let slots = &self.parts.slots;
        // SAFETY: The task is the caller, and on no queue yet.
        let (tk_rqstp, tk_status) =
            unsafe { (&raw mut (*task).tk_rqstp, &raw mut (*task).tk_status) };
        // SAFETY: The guard holds `reserve_lock`.
        let Some(slot) = (unsafe { slots.take() }) else {
            // The status is set first, because whoever wakes the task may change it.
            // SAFETY: The task is the caller, and on no queue yet.
            unsafe { tk_status.write(EAGAIN.to_errno()) };
            // SAFETY: The guard holds the lock, as in sunrpc's own slot table.
            unsafe { cbindings::xprt_add_backlog(self.as_raw(), task) };
            return;
        };
        // SAFETY: The task is the caller, and on no queue. The slot lives as long as the transport.
        unsafe { tk_rqstp.write(slot.as_ref().as_raw()) };
        // SAFETY: The task is the caller, and on no queue.
        unsafe { tk_status.write(0) };
        // SAFETY: The guard holds `reserve_lock`.
        let taken = unsafe { slots.taken() } as c_ulong;
        // SAFETY: The transport is live.
        let max_slots = unsafe { &raw mut (*self.as_raw()).stat.max_slots };
        // SAFETY: The guard holds `reserve_lock`, under which alone the word is written. Others
        // read it as a whole.
        unsafe { max_slots.write_volatile(taken.max(max_slots.read_volatile())) };
    }

    /// Gives a slot to the first task of the backlog queue, or puts it back in the table.
    ///
    /// # Safety
    ///
    /// [`Self::alloc_slot`] gave out `rqst`, and sunrpc has finished with it.
    pub(crate) unsafe fn free_slot(&self, rqst: *mut cbindings::rpc_rqst) {
        let _guard = self.reserve_lock();
        // SAFETY: The caller gives up the request. If a task waits, sunrpc zeroes the slot and
        // gives it to that task.
        if unsafe { cbindings::xprt_wake_up_backlog(self.as_raw(), rqst) } {
            return;
        }
        // SAFETY: The caller gives up the request, which has given back its credit, and no task has
        // got it.
        unsafe { Rqst::<T>::from_raw(rqst).clear() };
        // SAFETY: `rqst` is not null.
        let slot = unsafe { NonNull::new_unchecked(rqst) };
        // SAFETY: The guard holds `reserve_lock`, and `alloc_slot` took the slot.
        unsafe { self.parts.slots.put(slot.cast::<Rqst<T>>()) };
    }

    /// Allocates the buffers of `rqst`. Returns zero or an error number.
    ///
    /// # Safety
    ///
    /// The request's task is the caller, and the request is on no queue yet.
    pub(crate) unsafe fn alloc_buffers(&self, rqst: &Rqst<T>) -> c_int {
        // SAFETY: The caller promises it.
        let Ok(allocated) = (unsafe { rqst.alloc_buffers(gfp_flags()) }) else {
            // After this error, and no other, sunrpc tries again.
            return ENOMEM.to_errno();
        };
        if allocated != 0 {
            self.parts
                .allocated
                .fetch_add(allocated as u64, Ordering::Relaxed);
        }
        0
    }
}

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
    pub(crate) unsafe fn alloc(
        &self,
        rqst: *mut cbindings::rpc_rqst,
        flags: Flags,
    ) -> Result<usize> {
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
