// SPDX-License-Identifier: GPL-2.0

//! Allocation of a slot and its buffers for a task.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `alloc_slot`,
//! `free_slot` and `buf_alloc` of `struct rpc_xprt_ops`.
//!
//! `reserve_lock` is held across the calls that put a task on the backlog queue and that take one
//! from it, as sunrpc's own slot table does. A slot thus cannot become free between the look at the
//! table and the moment the task is on the queue, which would leave the task asleep beside a free
//! slot.

use crate::{
    rqst::{
        HasSlot,
        Rqst, //
    },
    task::gfp_flags,
    xprt::Xprt, //
};
use core::{
    ptr::NonNull,
    sync::atomic::Ordering, //
};
use kernel::{
    ffi::{
        c_int,
        c_ulong, //
    },
    prelude::*, //
};

impl<T: HasSlot> Xprt<T> {
    /// Gives `task` a slot. If none is free, the task waits on the backlog queue.
    ///
    /// # Safety
    ///
    /// `task` is the caller, and on no queue.
    pub(crate) unsafe fn alloc_slot(&self, task: *mut raw::rpc_task) {
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
            unsafe { raw::xprt_add_backlog(self.as_raw(), task) };
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
    pub(crate) unsafe fn free_slot(&self, rqst: *mut raw::rpc_rqst) {
        let _guard = self.reserve_lock();
        // SAFETY: The caller gives up the request. If a task waits, sunrpc zeroes the slot and
        // gives it to that task.
        if unsafe { raw::xprt_wake_up_backlog(self.as_raw(), rqst) } {
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
