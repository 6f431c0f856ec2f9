// SPDX-License-Identifier: GPL-2.0

//! Processes that use a device: their contexts, and what they map and are told.
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/uverbs_ioctl.h`](srctree/include/rdma/uverbs_ioctl.h)
//!
//! A device has these operations unless the module's parameter `user` is 0. Without them it has no
//! character device, and consumers in the kernel use it all the same. The connections are the
//! kernel's: what firewalls, cgroups and security modules do not see of them is written in
//! `docs/security.md`, at programs on a device.
// Argues for T22.
//!
//! A process maps a ring for each of its queues ([`mapping`], [`shared`]), and the crate `uabi`
//! knows what is in it ([`rings`]). A process can write all of a ring at any time, so each access
//! is of one word, and what is decided is decided on copies.

pub(crate) mod charge;
pub(crate) mod mapping;
pub(crate) mod region;
pub(crate) mod rings;
pub(crate) mod shared;

use crate::errno;
use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicU32,
        Ordering, //
    }, //
};
use kernel::{
    error::to_result,
    ffi,
    prelude::*,
    sync::{
        aref::ARef,
        Arc, //
    },
    task::Task, //
};

/// Returns whether processes may use devices.
pub(crate) fn is_offered() -> bool {
    // SAFETY: The function reads a parameter that does not change.
    unsafe { cbindings::user() }
}

/// A call of a process.
///
/// # Invariants
///
/// It is the `ib_udata` of a call that lasts as long as the value, with a context.
#[derive(Clone, Copy)]
pub(crate) struct Call(NonNull<cbindings::ib_udata>);

impl Call {
    /// Takes the data of a call. [`None`] if it is a consumer of the kernel who calls.
    ///
    /// # Safety
    ///
    /// `udata` is null, or of a call that lasts as long as the value, with a context.
    pub(crate) unsafe fn new(udata: *mut cbindings::ib_udata) -> Option<Self> {
        // INVARIANT: The caller promises it.
        NonNull::new(udata).map(Self)
    }

    /// Takes the data of a call with these attributes, as [`Self::new`] does.
    ///
    /// # Safety
    ///
    /// `attrs` is null, or of a call that lasts as long as the value, with a context.
    pub(crate) unsafe fn of(attrs: *mut cbindings::uverbs_attr_bundle) -> Option<Self> {
        let attrs = NonNull::new(attrs)?;
        // SAFETY: The caller promises valid attributes.
        let udata = unsafe { cbindings::uverbs_attr_bundle_to_udata(attrs.as_ptr()) };
        // SAFETY: The caller promises that their call lasts.
        unsafe { Self::new(udata) }
    }

    /// Returns the context of the process.
    pub(crate) fn context(self) -> *mut cbindings::ib_ucontext {
        // SAFETY: By the type invariants it is data of a call with a context.
        unsafe { cbindings::rdma_udata_to_ucontext(self.0.as_ptr()) }
    }

    /// Answers, with as much as the process has room for. Sleeps.
    pub(crate) fn respond(self, octets: &[u8]) -> Result {
        // SAFETY: By the type invariants it is data of a call; `octets` has that many.
        to_result(unsafe {
            cbindings::_ib_respond_udata(self.0.as_ptr(), octets.as_ptr().cast(), octets.len())
        })
    }
}

/// The number of objects of one kind that processes may have on a device. It is far below the
/// number that there are, so that random ones are found for consumers in the kernel as well.
pub(crate) const MAX_OBJECTS: u32 = 1 << 20;

/// How many objects of one kind processes have on a device.
pub(crate) struct Quota(Arc<AtomicU32>);

impl Quota {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(Arc::new(AtomicU32::new(0), GFP_KERNEL)?))
    }

    /// Begins with a number of objects, which stay.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn with(objects: u32) -> Result<Self> {
        Ok(Self(Arc::new(AtomicU32::new(objects), GFP_KERNEL)?))
    }

    /// Counts one more, until the result is dropped. `ENOMEM` if there are too many.
    pub(crate) fn take(&self) -> Result<QuotaShare> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        // If it is one too many, the drop gives it back.
        let share = QuotaShare(self.0.clone());
        match before < MAX_OBJECTS {
            true => Ok(share),
            false => Err(ENOMEM),
        }
    }
}

/// An object that is counted.
pub(crate) struct QuotaShare(Arc<AtomicU32>);

impl Drop for QuotaShare {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The process that made an object.
pub(crate) struct Owner(ARef<Task>);

impl Owner {
    /// Returns the process that calls.
    pub(crate) fn current() -> Self {
        let current = current!();
        let task: &Task = current;
        Self(task.into())
    }

    /// Returns the first process, which does nothing.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn first() -> Self {
        // SAFETY: The kernel has it as long as it runs, and `Task` is transparent.
        let first = unsafe { &*(&raw const kernel::bindings::init_task).cast::<Task>() };
        Self(first.into())
    }

    /// Returns whether that process calls now.
    pub(crate) fn is_current(&self) -> bool {
        // SAFETY: Both tasks are there: the reference keeps one, and the other one runs.
        unsafe { cbindings::same_thread_group(current!().as_ptr(), self.0.as_ptr()) }
    }
}

/// `alloc_ucontext`.
///
/// # Safety
///
/// For the core only: `udata` is of the call.
pub(crate) unsafe extern "C" fn alloc_context(
    _: *mut cbindings::ib_ucontext,
    udata: *mut cbindings::ib_udata,
) -> ffi::c_int {
    errno(|| {
        // SAFETY: The core passes data of the call. The context is not asked for.
        let call = unsafe { Call::new(udata) }.ok_or(EINVAL)?;
        call.respond(&uabi::response::CONTEXT)
    })
}

/// `dealloc_ucontext`: all objects of the process are gone, and a context has no data here.
///
/// # Safety
///
/// For the core only.
pub(crate) unsafe extern "C" fn dealloc_context(_: *mut cbindings::ib_ucontext) {}

/// `disassociate_ucontext`: the device goes, and the process keeps its file and its mappings. Those
/// are pages that have references of their own. Without this function the device would wait for the
/// process. A device that processes may not use has it as well: the core moves only those that have
/// it to another network namespace.
///
/// # Safety
///
/// For the core only.
pub(crate) unsafe extern "C" fn disassociate(_: *mut cbindings::ib_ucontext) {}
