// SPDX-License-Identifier: GPL-2.0

//! The driver's side of ib_core and iw_cm for an iWARP device, as safe traits.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/iw_cm.h`](srctree/include/rdma/iw_cm.h)
//!
//! Nothing here knows a protocol or a socket. A [`Driver`] implements the devices of a link type; a
//! [`RdmaLinkType`] registers it, so that `rdma link add` creates a device on a network device. The
//! core calls the functions of this crate, and they call the driver.
//!
//! Posted requests stay here ([`queue::Queues`]) until the driver takes them, and come back here
//! when they are complete. Regions are implemented here ([`region::Region`]): the driver looks them
//! up by STag.
//!
//! # Who is trusted
//!
//! Consumers that are parts of the kernel trust each other and may access all memory, and ib_core
//! with this crate makes what they ask for: that is all of what RFC 5040, section 8.1.2, calls a
//! privileged resource manager.
//!
//! A process is not trusted. It has a device if the module's parameter `user` says so, and all that
//! it does goes through ib_core, which checks handles, and then through this crate:
//!
//! - What it writes into a ring is decided on a copy ([`queue::Queues`]). It names memory by
//!   regions of the protection domain of its queue pair only, and no other request of it is taken.
//! - A region that it registered without the right to write is written by nobody, on no way
//!   ([`region::Access::Write`]): its pages may be of a file that the process cannot write.
//! - Only the process that created a queue pair can connect it, and only by a connection is it
//!   ready to send.
//! - What it can make this crate do at a time is bounded by the sizes of its queues, whose memory
//!   is charged to it. If it does not take its completions, its own queue pairs end.
//! - It learns no address of the kernel, and no octet that was not meant for it.
// Argues for P8.1-1, P8.1.2-1, P8.1.2-2, P8.1.2-3, P8.1.2-4, P8.1.2-0.
//!
//! Nothing that a peer can use up is shared by queue pairs of different owners: each has its own
//! queue of the peer's Read Requests, and Receives and completion queues, of a bounded size, are
//! shared only by the queue pairs that their consumer, or process, makes for them.
// Argues for P8.1.1-9, P8.1.2-5, P8.1.2-6, P8.1.2-7, P8.1.2-8.

// Kbuild passes this to rustc. rustdoc drops it when it extracts examples.
#![cfg_attr(doctest, no_std)]
#![deny(unsafe_op_in_unsafe_fn)]

pub mod cm;
mod cq;
mod device;
pub mod driver;
mod fifo;
pub mod netdev;
mod port;
mod qp;
pub mod queue;
pub mod region;
mod registry;
#[cfg(RPCRDMA_SELFTEST)]
pub mod selftest;
mod srq;
pub mod table;
mod user;
mod work_queue;
pub mod wr;

pub use device::RdmaLinkType;
pub use driver::Driver;
pub use ext::{
    borrowed,
    errno,
    lock,
    net,
    new_irq_lock,
    new_worker,
    per_cpu,
    rate_limit,
    work,
    zeroed, //
};
pub use user::charge::MemoryCharge;

use core::ptr::without_provenance_mut;
use kernel::{
    ffi,
    prelude::*, //
};

/// The prefix of lines in the log.
const __LOG_PREFIX: &[u8] = b"iwarp\0";

/// Returns a random number.
pub fn random() -> u64 {
    // SAFETY: The function has no preconditions.
    let half = || u64::from(unsafe { cbindings::get_random_u32() });
    half() << 32 | half()
}

/// Runs a function for C. Returns 0, or its error code.
fn errno(f: impl FnOnce() -> Result) -> ffi::c_int {
    match f() {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}

/// Runs a function for C. Returns its pointer, or its error code as one.
fn errno_ptr<T>(f: impl FnOnce() -> Result<*mut T>) -> *mut T {
    // CAST: The highest addresses stand for errors.
    f().unwrap_or_else(|error| without_provenance_mut(error.to_errno() as usize))
}
