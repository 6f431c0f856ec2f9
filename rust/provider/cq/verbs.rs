// SPDX-License-Identifier: GPL-2.0

//! The verbs of completion queues.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use super::{
    Armed,
    CompletionQueue, //
};
use crate::{
    device,
    driver::Driver,
    errno,
    user::{
        mapping::Mapping,
        quota::QuotaShare,
        rings::{
            self,
            CompletionRing, //
        },
        Call, //
    }, //
};
use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};
use ext::errno::eopnotsupp;
use kernel::{
    ffi,
    prelude::*,
    sync::Arc, //
};
use uabi::{
    response::{
        completion_queue,
        MappedRing, //
    },
    ring::{
        Queue,
        Slots, //
    }, //
};

/// An `ib_cq` with the data of this crate, as the core allocates it.
#[repr(C)]
pub(crate) struct IbCq {
    ib: cbindings::ib_cq,
    queue: MaybeUninit<Arc<CompletionQueue>>,
    user: MaybeUninit<Option<UserData>>,
}

impl CompletionQueue {
    /// Returns the completion queue of `cq`.
    ///
    /// # Safety
    ///
    /// `cq` is one of a device of this crate, and not destroyed.
    pub(crate) unsafe fn of(cq: *mut cbindings::ib_cq) -> Arc<Self> {
        // SAFETY: The caller promises an [`IbCq`] whose `create_cq` succeeded, which has written
        // the field.
        unsafe { (*cq.cast::<IbCq>()).queue.assume_init_ref() }.clone()
    }
}

/// The part of a queue that only those of processes have.
struct UserData {
    _mapping: Mapping,
    _share: QuotaShare,
}

/// `create_cq` of `struct ib_device_ops`.
///
/// # Safety
///
/// For the core only: `cq` is a zeroed [`IbCq`], whose device is set.
pub(crate) unsafe extern "C" fn create<D: Driver>(
    cq: *mut cbindings::ib_cq,
    attributes: *const cbindings::ib_cq_init_attr,
    call: *mut cbindings::uverbs_attr_bundle,
) -> ffi::c_int {
    errno(|| {
        // SAFETY: The core passes valid attributes.
        let (wanted, flags) = unsafe { ((*attributes).cqe, (*attributes).flags) };
        let found = NonNull::new(cq).ok_or(EINVAL)?;
        // SAFETY: The core passes the attributes of a call of a process, or null.
        let (queue, size, user) = match unsafe { Call::of(call) } {
            None => {
                let queue = CompletionQueue::new(found, usize::try_from(wanted.max(1))?)?;
                (queue, wanted, None)
            }
            Some(_) if flags != 0 => return Err(eopnotsupp()),
            Some(call) => {
                let slots = Slots::for_entries(wanted, Slots::MAX).ok_or(EINVAL)?;
                // SAFETY: The core has set the device, which is registered.
                let data = unsafe { device::data_of::<D>((*cq).device) };
                let share = data.quotas.completion_queues.take()?;
                let memory = rings::memory(Queue::Completion, slots)?;
                let ring = CompletionRing::new(memory.clone(), slots);
                let queue = CompletionQueue::of_process(found, ring)?;
                // SAFETY: `destroy` drops it, and so do the errors here. The core destroys the
                // queue before the context.
                let mapping = unsafe { Mapping::new(call, memory)? };
                let mapped = MappedRing {
                    slots,
                    offset: mapping.offset()?,
                };
                call.respond(&completion_queue(0, mapped))?;
                let user = UserData {
                    _mapping: mapping,
                    _share: share,
                };
                (queue, slots.count(), Some(user))
            }
        };
        // SAFETY: The core passes zeroed memory of the size of an `IbCq`, which nobody uses yet.
        unsafe {
            (*cq).cqe = i32::try_from(size)?;
            (*cq.cast::<IbCq>()).queue.write(queue);
            (*cq.cast::<IbCq>()).user.write(user);
        }
        Ok(())
    })
}

/// `destroy_cq`: its queue pairs are destroyed.
///
/// # Safety
///
/// For the core only: `cq` was made by [`create`].
pub(crate) unsafe extern "C" fn destroy(
    cq: *mut cbindings::ib_cq,
    _: *mut cbindings::ib_udata,
) -> ffi::c_int {
    // SAFETY: The core destroys a queue that it created, once.
    let (queue, user) = unsafe {
        let cq = cq.cast::<IbCq>();
        (
            (*cq).queue.assume_init_read(),
            (*cq).user.assume_init_read(),
        )
    };
    drop(user);
    // Other holders of the queue do not notify any more.
    queue.detach();
    0
}

/// `poll_cq`.
///
/// # Safety
///
/// For the core only: `cq` was made by [`create`], `wc` has room for `count`.
pub(crate) unsafe extern "C" fn poll(
    cq: *mut cbindings::ib_cq,
    count: ffi::c_int,
    wc: *mut cbindings::ib_wc,
) -> ffi::c_int {
    // SAFETY: The consumer polls a queue that is not destroyed, so `create` has written the field.
    let queue = unsafe { (*cq.cast::<IbCq>()).queue.assume_init_ref() };
    let mut polled = 0;
    while polled < count {
        let Some(entry) = queue.pop() else {
            break;
        };
        let mut out = cbindings::ib_wc {
            status: entry.status.code(),
            opcode: entry.opcode,
            byte_len: entry.length,
            qp: core::ptr::with_exposed_provenance_mut(entry.qp),
            port_num: 1,
            ..Default::default()
        };
        out.__bindgen_anon_1.wr_id = entry.id;
        if let Some(key) = entry.invalidated {
            out.ex.invalidate_rkey = key;
            // CAST: A flag.
            out.wc_flags = cbindings::ib_wc_flags_IB_WC_WITH_INVALIDATE as ffi::c_int;
        }
        if let Some(data) = entry.immediate {
            out.ex.imm_data = u32::from_ne_bytes(data);
            // CAST: A flag.
            out.wc_flags = cbindings::ib_wc_flags_IB_WC_WITH_IMM as ffi::c_int;
        }
        // SAFETY: The consumer has room for `count` completions, of which this is one.
        unsafe { wc.offset(polled as isize).write(out) };
        polled += 1;
    }
    polled
}

/// `req_notify_cq`.
///
/// # Safety
///
/// For the core only: `cq` was made by [`create`].
pub(crate) unsafe extern "C" fn arm(
    cq: *mut cbindings::ib_cq,
    flags: cbindings::ib_cq_notify_flags,
) -> ffi::c_int {
    // SAFETY: The consumer arms a queue that is not destroyed, so `create` has written the field.
    let queue = unsafe { (*cq.cast::<IbCq>()).queue.assume_init_ref() };
    let wanted = match flags & cbindings::ib_cq_notify_flags_IB_CQ_SOLICITED_MASK {
        cbindings::ib_cq_notify_flags_IB_CQ_SOLICITED => Armed::Solicited,
        _ => Armed::NextCompletion,
    };
    let missed = flags & cbindings::ib_cq_notify_flags_IB_CQ_REPORT_MISSED_EVENTS != 0;
    match queue.arm(wanted) {
        Ok(left) => ffi::c_int::from(missed && left > 0),
        Err(error) => error.to_errno(),
    }
}
