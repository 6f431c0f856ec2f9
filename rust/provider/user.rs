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
pub(crate) mod quota;
pub(crate) mod region;
pub(crate) mod rings;
pub(crate) mod shared;

use crate::{
    device,
    driver::Driver,
    errno,
    user::quota::QuotaShare, //
};
use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    alloc::Flags,
    error::to_result,
    ffi,
    prelude::*,
    sync::aref::ARef,
    task::Task, //
};

/// Returns whether processes may use devices.
pub(crate) fn is_offered() -> bool {
    // SAFETY: The function reads a parameter that does not change.
    unsafe { cbindings::user() }
}

/// Returns how the memory of an object is allocated: a process pays for its own.
pub(crate) fn memory_flags(is_of_process: bool) -> Flags {
    match is_of_process {
        true => GFP_KERNEL_ACCOUNT,
        false => GFP_KERNEL,
    }
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

/// An `ib_ucontext` with the data of this crate, as the core allocates it.
#[repr(C)]
pub(crate) struct IbContext {
    ib: cbindings::ib_ucontext,
    share: MaybeUninit<QuotaShare>,
}

/// `alloc_ucontext`.
///
/// # Safety
///
/// For the core only: `context` is a zeroed [`IbContext`], whose device is set, and `udata` is of
/// the call.
pub(crate) unsafe extern "C" fn alloc_context<D: Driver>(
    context: *mut cbindings::ib_ucontext,
    udata: *mut cbindings::ib_udata,
) -> ffi::c_int {
    errno(|| {
        // SAFETY: The core passes data of the call. The context is not asked for.
        let call = unsafe { Call::new(udata) }.ok_or(EINVAL)?;
        // SAFETY: The core has set the device, which is registered.
        let data = unsafe { device::data_of::<D>((*context).device) };
        let share = data.quotas.contexts.take()?;
        call.respond(&uabi::response::CONTEXT)?;
        // SAFETY: The core passes memory of the size of an `IbContext`, which nobody uses yet, and
        // calls `dealloc_context` before it frees that, as this succeeds.
        unsafe { (*context.cast::<IbContext>()).share.write(share) };
        Ok(())
    })
}

/// `dealloc_ucontext`: all objects of the process are gone.
///
/// # Safety
///
/// For the core only: `context` was made by [`alloc_context`].
pub(crate) unsafe extern "C" fn dealloc_context(context: *mut cbindings::ib_ucontext) {
    // SAFETY: The core frees a context that it allocated, once.
    drop(unsafe { (*context.cast::<IbContext>()).share.assume_init_read() });
}

/// `disassociate_ucontext`: the device goes, and the process keeps its file and its mappings. Those
/// are pages that have references of their own. Without this function the device would wait for the
/// process. A device that processes may not use has it as well: the core moves only those that have
/// it to another network namespace.
///
/// # Safety
///
/// For the core only.
pub(crate) unsafe extern "C" fn disassociate(_: *mut cbindings::ib_ucontext) {}
