// SPDX-License-Identifier: GPL-2.0

//! Shared receive queues: Receives for the messages of many queue pairs.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! A queue pair takes a Receive only when a message needs one, and completes it in its own
//! completion queue. So the Receives that its peer holds are those of messages which have begun to
//! arrive, and over an LLP that reorders also those of all messages before them; the driver limits
//! their number. If there are fewer than a message needs, it takes none. The consumer, or the
//! process, learns from a completion which queue pair took its Receive, and from an event that
//! fewer than a limit are left. With both it can tell a peer that takes more than its share (RFC
//! 5040, section 8.1.2).
// Argues for P8.1.2-8.

use crate::{
    cq::Polled,
    device,
    driver::Driver,
    errno,
    region::ProtectionDomain,
    user::{
        memory_flags,
        quota::QuotaShare,
        rings::{
            RequestRing,
            UserRing, //
        },
        Call, //
    },
    work_queue::{
        decoded,
        post,
        WorkQueue, //
    },
    wr::ReceiveRequest, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::atomic::{
        AtomicU32,
        Ordering, //
    }, //
};
use ext::{
    errno::eopnotsupp,
    lock::IrqLock,
    new_irq_lock, //
};
use iwtrace::QpId;
use kernel::{
    ffi,
    prelude::*,
    sync::Arc, //
};
use uabi::{
    response::shared_receive_queue,
    ring::{
        Queue,
        Slots, //
    }, //
};

/// The sizes of a shared receive queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedSizes {
    /// Requests.
    pub(crate) receives: u32,
    /// SGEs of a request.
    pub(crate) max_sge: u32,
}

/// A shared receive queue.
#[pin_data]
pub(crate) struct SharedReceives {
    #[pin]
    receives: IrqLock<WorkQueue<ReceiveRequest>>,
    // It marks the requests of this queue.
    owner: usize,
    // The number of its device; 0 until it has one.
    device: AtomicU32,
    pd: ProtectionDomain,
    sizes: SharedSizes,
    is_of_process: bool,
    // INVARIANT: A queue that is not destroyed. The lock is held during a notification, so that it
    // stays.
    #[pin]
    ib_srq: IrqLock<Option<NonNull<cbindings::ib_srq>>>,
}

// SAFETY: The pointer to `ib_srq` is used under a lock only; everything else may be sent.
unsafe impl Send for SharedReceives {}
// SAFETY: The pointer to `ib_srq` is used under a lock only; everything else may be shared.
unsafe impl Sync for SharedReceives {}

impl SharedReceives {
    /// Creates a queue, whose requests are marked by `owner`. Sleeps.
    pub(crate) fn new(
        owner: usize,
        pd: ProtectionDomain,
        sizes: SharedSizes,
        ring: Option<RequestRing>,
    ) -> Result<Arc<Self>> {
        let is_of_process = ring.is_some();
        let receives = WorkQueue::new(
            owner,
            usize::try_from(sizes.receives)?,
            usize::try_from(sizes.max_sge)?,
            ring,
        )?;
        Arc::pin_init(
            pin_init!(Self {
                receives <- new_irq_lock!(receives),
                owner,
                device: AtomicU32::new(0),
                pd,
                sizes,
                is_of_process,
                ib_srq <- new_irq_lock!(None),
            }),
            memory_flags(is_of_process),
        )
    }

    /// Returns the queue of `srq`.
    ///
    /// # Safety
    ///
    /// `srq` is one of a device of this crate, and not destroyed.
    pub(crate) unsafe fn of(srq: NonNull<cbindings::ib_srq>) -> Arc<Self> {
        // SAFETY: The caller promises an [`IbSrq`] whose `create_srq` succeeded, which has written
        // the field.
        unsafe { (*srq.cast::<IbSrq>().as_ptr()).receives.assume_init_ref() }.clone()
    }

    /// Returns the protection domain of its Receives.
    pub(crate) fn pd(&self) -> ProtectionDomain {
        self.pd
    }

    /// Returns the number of Receives that there is room for.
    pub(crate) fn size(&self) -> u32 {
        self.sizes.receives
    }

    /// Returns whether a process posts the Receives.
    pub(crate) fn is_of_process(&self) -> bool {
        self.is_of_process
    }

    /// Returns the numbers for traces: it has none of a queue pair.
    fn id(&self) -> QpId {
        QpId {
            device: self.device.load(Ordering::Relaxed),
            number: 0,
        }
    }

    /// Posts a chain of Receives. May be called in any context.
    ///
    /// # Safety
    ///
    /// As for [`post`].
    pub(crate) unsafe fn post(
        &self,
        raw: *const cbindings::ib_recv_wr,
        bad: *mut *const cbindings::ib_recv_wr,
    ) -> Result {
        // SAFETY: The caller promises what `post` requires.
        unsafe { post(&self.receives, raw, bad, false, || self.id()) }
    }

    /// Takes the oldest Receive, if at least `wanted` are there, of which there is one at least. If
    /// fewer than the limit are left, or were before, the owner gets an event, once.
    pub(crate) fn take(&self, wanted: u32) -> Option<KBox<ReceiveRequest>> {
        let (taken, is_low) = self.receives.with(|receives| {
            let taken = match receives.can_take(wanted) {
                true => receives.take(),
                false => None,
            };
            (taken, receives.take_event())
        });
        if is_low {
            self.report_limit();
        }
        taken.map(|(request, copy)| decoded(request, copy))
    }

    /// Returns the number of completions of its Receives that were polled.
    pub(crate) fn polled(&self) -> Arc<Polled> {
        self.receives.with(|receives| receives.polled().clone())
    }

    /// Takes back a Receive that is complete.
    pub(crate) fn give_back(&self, request: KBox<ReceiveRequest>) {
        let keeps_place = !self.is_of_process;
        self.receives
            .with(|receives| receives.give_back(request, keeps_place));
    }

    /// Returns whether a request is one of this queue.
    pub(crate) fn owns(&self, request: &ReceiveRequest) -> bool {
        request.owner == self.owner
    }

    /// Wants an event when fewer than `limit` Receives are left, or none if that is 0. The owner
    /// gets it now if that is so already. `EINVAL` if there is no room for so many.
    pub(crate) fn arm(&self, limit: u32) -> Result {
        if limit > self.sizes.receives {
            return Err(EINVAL);
        }
        let is_low = self.receives.with(|receives| {
            receives.set_limit(limit);
            receives.take_event()
        });
        if is_low {
            self.report_limit();
        }
        Ok(())
    }

    /// Returns the limit, or 0 if no event is wanted.
    pub(crate) fn limit(&self) -> u32 {
        self.receives.with(|receives| receives.limit())
    }

    /// Sets the queue that gets events.
    ///
    /// # Safety
    ///
    /// It is not destroyed before [`Self::detach`] was called.
    unsafe fn attach(&self, srq: NonNull<cbindings::ib_srq>) {
        // SAFETY: The core has set the device, which the queue keeps.
        let device = unsafe { (*(*srq.as_ptr()).device).index };
        self.device.store(device, Ordering::Relaxed);
        // INVARIANT: The caller promises it.
        self.ib_srq.with(|ib_srq| *ib_srq = Some(srq));
    }

    /// Ends the events.
    fn detach(&self) {
        self.ib_srq.with(|ib_srq| *ib_srq = None);
    }

    /// Reports that fewer Receives than the limit are left. May be called in any context.
    fn report_limit(&self) {
        self.ib_srq.with(|srq| {
            let Some(srq) = *srq else { return };
            // SAFETY: By the invariant of `ib_srq`, whose lock is held, the queue is not destroyed;
            // the core has set these fields.
            let (handler, context, device) = unsafe {
                let srq = srq.as_ptr();
                ((*srq).event_handler, (*srq).srq_context, (*srq).device)
            };
            let mut event = cbindings::ib_event {
                device,
                event: cbindings::ib_event_type_IB_EVENT_SRQ_LIMIT_REACHED,
                ..Default::default()
            };
            event.element.srq = srq.as_ptr();
            if let Some(handler) = handler {
                // SAFETY: The handler of the consumer takes an event, which it does not keep, and
                // its context, in any context.
                unsafe { handler(&mut event, context) };
            }
        });
    }
}

/// An `ib_srq` with the data of this crate, as the core allocates it.
#[repr(C)]
pub(crate) struct IbSrq {
    ib: cbindings::ib_srq,
    receives: MaybeUninit<Arc<SharedReceives>>,
    user: MaybeUninit<Option<UserData>>,
}

/// The part of a queue that only those of processes have.
struct UserData {
    ring: UserRing,
    _share: QuotaShare,
}

/// The operations of shared receive queues of a device of `D`.
pub(crate) struct Operations<D>(PhantomData<D>);

impl<D: Driver> Operations<D> {
    /// `create_srq`.
    ///
    /// # Safety
    ///
    /// For the core only: `srq` is a zeroed [`IbSrq`], whose fields the core has set.
    pub(crate) unsafe extern "C" fn create(
        srq: *mut cbindings::ib_srq,
        attributes: *mut cbindings::ib_srq_init_attr,
        udata: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        errno(|| {
            let found = NonNull::new(srq).ok_or(EINVAL)?;
            // SAFETY: The core passes valid attributes.
            let attributes = unsafe { &mut *attributes };
            if attributes.srq_type != cbindings::ib_srq_type_IB_SRQT_BASIC {
                return Err(eopnotsupp());
            }
            let wanted = attributes.attr;
            if wanted.max_wr == 0
                || wanted.max_wr > D::LIMITS.max_wr
                || wanted.max_sge > D::LIMITS.max_receive_sge
                || wanted.srq_limit > wanted.max_wr
            {
                return Err(EINVAL);
            }
            // SAFETY: The core has set the device, which is registered, and the domain.
            let (device_data, pd) = unsafe {
                (
                    device::data_of::<D>((*srq).device),
                    ProtectionDomain((*srq).pd.addr()),
                )
            };
            let mut sizes = SharedSizes {
                receives: wanted.max_wr,
                max_sge: wanted.max_sge.max(1),
            };
            // SAFETY: The core passes data of the call of a process, or null.
            let (user, ring) = match unsafe { Call::new(udata) } {
                None => (None, None),
                Some(call) => {
                    let share = device_data.quotas.shared_receives.take()?;
                    let slots = Slots::for_entries(wanted.max_wr, D::LIMITS.max_wr);
                    let slots = slots.ok_or(EINVAL)?;
                    sizes = SharedSizes {
                        receives: slots.count(),
                        // An entry of the ring has room for all.
                        max_sge: D::LIMITS.max_receive_sge,
                    };
                    // SAFETY: `destroy` drops it, and so do the errors here. The core destroys the
                    // queue before the context.
                    let (mapped, ring) = unsafe { UserRing::new(call, Queue::Receive, slots)? };
                    let user = UserData {
                        ring: mapped,
                        _share: share,
                    };
                    (Some((call, user)), Some(ring))
                }
            };
            let receives = SharedReceives::new(srq.expose_provenance(), pd, sizes, ring)?;
            // Nothing is posted yet, which is no event.
            let limit = wanted.srq_limit;
            receives.receives.with(|queue| queue.set_limit(limit));
            let user = match user {
                None => None,
                Some((call, user)) => {
                    call.respond(&shared_receive_queue(user.ring.mapped()?))?;
                    Some(user)
                }
            };
            attributes.attr.max_wr = sizes.receives;
            attributes.attr.max_sge = sizes.max_sge;
            // SAFETY: The core passes zeroed memory of the size of an `IbSrq`, which nobody uses
            // yet, and calls `destroy` before it frees that, as this succeeds.
            unsafe {
                receives.attach(found);
                (*srq.cast::<IbSrq>()).receives.write(receives);
                (*srq.cast::<IbSrq>()).user.write(user);
            }
            Ok(())
        })
    }

    /// `modify_srq`: the limit. The size stays. The handler of events may run meanwhile, and does
    /// not call this.
    ///
    /// # Safety
    ///
    /// For the core only: `srq` was made by [`Self::create`].
    pub(crate) unsafe extern "C" fn modify(
        srq: *mut cbindings::ib_srq,
        attributes: *mut cbindings::ib_srq_attr,
        mask: cbindings::ib_srq_attr_mask,
        _: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        errno(|| {
            let found = NonNull::new(srq).ok_or(EINVAL)?;
            // SAFETY: The core passes a queue that is not destroyed.
            let receives = unsafe { SharedReceives::of(found) };
            if mask & !cbindings::ib_srq_attr_mask_IB_SRQ_LIMIT != 0 {
                return Err(eopnotsupp());
            }
            if mask == 0 {
                return Ok(());
            }
            // SAFETY: The core passes valid attributes.
            receives.arm(unsafe { (*attributes).srq_limit })
        })
    }

    /// `query_srq`.
    ///
    /// # Safety
    ///
    /// For the core only: `srq` was made by [`Self::create`].
    pub(crate) unsafe extern "C" fn query(
        srq: *mut cbindings::ib_srq,
        attributes: *mut cbindings::ib_srq_attr,
    ) -> ffi::c_int {
        errno(|| {
            let found = NonNull::new(srq).ok_or(EINVAL)?;
            // SAFETY: The core passes a queue that is not destroyed.
            let receives = unsafe { SharedReceives::of(found) };
            let values = cbindings::ib_srq_attr {
                max_wr: receives.sizes.receives,
                max_sge: receives.sizes.max_sge,
                srq_limit: receives.limit(),
            };
            // SAFETY: The core passes room for the attributes.
            unsafe { attributes.write(values) };
            Ok(())
        })
    }

    /// `destroy_srq`: its queue pairs are destroyed.
    ///
    /// # Safety
    ///
    /// For the core only: `srq` was made by [`Self::create`].
    pub(crate) unsafe extern "C" fn destroy(
        srq: *mut cbindings::ib_srq,
        _: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        // SAFETY: The core destroys a queue that it created, once.
        let (receives, user) = unsafe {
            let srq = srq.cast::<IbSrq>();
            (
                (*srq).receives.assume_init_read(),
                (*srq).user.assume_init_read(),
            )
        };
        drop(user);
        receives.detach();
        0
    }

    /// `post_srq_recv`. Called in any context.
    ///
    /// # Safety
    ///
    /// For consumers only: `srq` was made by [`Self::create`], `wr` begins a chain of valid
    /// requests whose memory stays allocated until they are completed.
    pub(crate) unsafe extern "C" fn post(
        srq: *mut cbindings::ib_srq,
        wr: *const cbindings::ib_recv_wr,
        bad: *mut *const cbindings::ib_recv_wr,
    ) -> ffi::c_int {
        errno(|| {
            let found = NonNull::new(srq).ok_or(EINVAL)?;
            // SAFETY: The consumer passes a queue that is not destroyed.
            let receives = unsafe { SharedReceives::of(found) };
            if receives.is_of_process {
                // The core offers this to no process. The memory would be taken for that of the
                // kernel.
                if !bad.is_null() {
                    // SAFETY: The consumer passes room for a pointer.
                    unsafe { bad.write(wr) };
                }
                return Err(EINVAL);
            }
            // SAFETY: The caller promises a chain of valid requests.
            unsafe { receives.post(wr, bad) }
        })
    }
}
