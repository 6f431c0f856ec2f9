// SPDX-License-Identifier: GPL-2.0

//! RPC tasks: the status that a transport ends or wakes one with, and how the current one may
//! allocate.
//!
//! C header: [`include/linux/sunrpc/sched.h`](srctree/include/linux/sunrpc/sched.h)

use crate::prelude::*;
use ext::trace::TaskId;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// The status of a request for which there is no connection.
pub(crate) const ENOTCONN: c_int = errno(kernel::bindings::ENOTCONN);
/// The status of a request that has no credit.
pub(crate) const EBADSLT: c_int = errno(kernel::bindings::EBADSLT);
/// The status of a request for which there is no memory now. sunrpc tries again after a while.
pub(crate) const ENOBUFS: c_int = errno(kernel::bindings::ENOBUFS);

/// Returns the status for the calls that wait for a connection, after the attempt to connect failed
/// with `error`.
///
/// sunrpc tries again after the errors that it knows from sockets, and fails the calls with all
/// others, even on a hard mount. A device has more errors that are temporary. `EOPNOTSUPP` stays as
/// it is: a device that lacks a feature that the transport needs will never have it.
pub(crate) fn connect_status(error: Error) -> c_int {
    use kernel::bindings as c;
    const KNOWN: [c_int; 13] = [
        errno(c::ENETDOWN),
        errno(c::ENETUNREACH),
        errno(c::ECONNREFUSED),
        errno(c::ECONNRESET),
        errno(c::ECONNABORTED),
        errno(c::EHOSTUNREACH),
        errno(c::EPIPE),
        errno(c::EPROTO),
        errno(c::EADDRINUSE),
        ENOTCONN,
        errno(c::EAGAIN),
        errno(c::ETIMEDOUT),
        errno(c::EOPNOTSUPP),
    ];
    if error == ENOMEM {
        return ENOBUFS;
    }
    let code = error.to_errno();
    if KNOWN.contains(&code) {
        code
    } else {
        errno(c::ECONNABORTED)
    }
}

const fn errno(code: u32) -> c_int {
    // CAST: The numbers are below 4096.
    -(code as c_int)
}

/// Makes `task` end with `status` in its next step, whichever that is.
///
/// # Safety
///
/// The task is live, and has started.
pub(crate) unsafe fn set_rpc_status(task: *mut cbindings::rpc_task, status: c_int) {
    // SAFETY: The caller vouches for the task. sunrpc changes the word by atomic operations once a
    // task has started.
    let rpc_status = unsafe { Atomic::from_ptr(&raw mut (*task).tk_rpc_status) };
    // The first status that is set is the one that counts.
    let _ = rpc_status.cmpxchg(0, status, Relaxed);
}

/// Makes `task`, which waits for the reply to a request that was sent, or is about to wait, end
/// with `status` when it is woken.
///
/// # Safety
///
/// The task is live.
pub(crate) unsafe fn fail_task(task: *mut cbindings::rpc_task, status: c_int) {
    // A task that waits already reads this word.
    // SAFETY: The caller vouches for the task; sunrpc changes the word as a whole.
    unsafe { (&raw mut (*task).tk_status).write_volatile(status) };
    // The state machine of a task that does not wait yet overwrites `tk_status`.
    // SAFETY: The caller vouches for the task, which has started, as its request was sent.
    unsafe { set_rpc_status(task, status) };
}

/// Returns the identification of `task`, for traces.
///
/// # Safety
///
/// The task is live.
pub(crate) unsafe fn task_id(task: *const cbindings::rpc_task) -> TaskId {
    // SAFETY: The caller vouches for the task, which has a reference to its client. The reply to a
    // callback has none.
    unsafe {
        TaskId {
            task: (*task).tk_pid.into(),
            client: (*task)
                .tk_client
                .as_ref()
                .map_or(u32::MAX, |client| client.cl_clid),
        }
    }
}

/// Returns how the current task may allocate. A worker, on which write-back may depend, does not
/// try hard.
pub(crate) fn gfp_flags() -> Flags {
    const { assert!(size_of::<Flags>() == size_of::<u32>()) };
    // SAFETY: The function only looks at the current task.
    let mask: u32 = unsafe { cbindings::rpc_task_gfp_mask() };
    // `kernel` has no name for one of the flags, `__GFP_NORETRY`, and no other way to make a value.
    // SAFETY: Both have the same size, by the assertion, and all bits of that size stand for a
    // mask. That `Flags` is the mask itself is what the `kernel` crate of the supported kernels
    // has; it promises no layout.
    unsafe { core::mem::transmute::<u32, Flags>(mask) }
}
