// SPDX-License-Identifier: GPL-2.0

//! The work item in which a transport allocates resources for more calls in parallel.
//!
//! It is on a queue of the system, not on one of sunrpc: what frees memory may wait for those, but
//! nothing waits for this item but the end of its transport. It does not wait for input or output,
//! which may go over this very transport.

use crate::{
    task::gfp_flags,
    transport::Transport,
    xprt::Xprt, //
};
use core::mem::offset_of;
use kernel::{
    bindings::{
        work_struct,
        wq_misc_consts_WORK_CPU_UNBOUND as WORK_CPU_UNBOUND, //
    },
    ffi::c_int, //
};

impl<T: Transport> Xprt<T> {
    /// Schedules a call of [`Transport::grow`]. Does not sleep.
    pub fn schedule_growth(&self) {
        // SAFETY: The queue is the system's and is always there.
        let queue = unsafe { kernel::bindings::system_long_wq };
        // SAFETY: `create` initialised the work item, and `destroy` disables it before it is freed.
        unsafe {
            raw::queue_delayed_work_on(WORK_CPU_UNBOUND as c_int, queue, self.growth.get(), 0)
        };
    }
}

/// The function of the work item.
///
/// # Safety
///
/// `work` is that of the `growth` of a live `Xprt<T>`.
pub(crate) unsafe extern "C" fn worker<T: Transport>(work: *mut work_struct) {
    let offset = offset_of!(Xprt<T>, growth) + offset_of!(raw::delayed_work, work);
    // SAFETY: The caller says which structure contains `work`; `destroy` waits until this function
    // has returned.
    let xprt = unsafe { &*work.byte_sub(offset).cast::<Xprt<T>>() };
    // What a device's driver allocates, too, must not wait for what goes over the transport.
    // SAFETY: Any task may call this.
    let flags = unsafe { raw::memalloc_noio_save() };
    T::grow(xprt, xprt, gfp_flags());
    // SAFETY: `flags` come from the call above.
    unsafe { raw::memalloc_noio_restore(flags) };
}
