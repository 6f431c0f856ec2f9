// SPDX-License-Identifier: GPL-2.0

//! Queue pairs: the structures of the core and iw_cm, and their end.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)
//!
//! The core allocates a queue pair and frees it when `destroy_qp` returns. iw_cm counts references
//! to the same memory, which it finds by number, so `destroy_qp` first removes it from the table,
//! waits until nobody is between finding and counting, ends the connection, and waits for the
//! count. It depends on iw_cm's worker only if iw_cm still has a reference, and then it is not
//! called on that worker: iw_cm drops its own before it reports an end.

use crate::cq;
use crate::cq::CompletionQueue;
use crate::driver::Access;
use crate::driver::Change;
use crate::driver::Driver;
use crate::driver::QueuePair;
use crate::driver::State;
use crate::errno;
use crate::objects;
use crate::objects::Found;
use crate::queue;
use crate::queue::Capacities;
use crate::queue::Queues;
use crate::region::Domain;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering;
use iwraw::errno::eopnotsupp;
use iwraw::noio::NoIo;
use kernel::ffi;
use kernel::prelude::*;
use kernel::sync::rcu;
use kernel::sync::Arc;
use kernel::sync::Completion;

/// The number of references of iw_cm, plus one of the core.
#[pin_data]
pub(crate) struct References {
    count: AtomicU32,
    #[pin]
    gone: Completion,
}

impl References {
    fn put(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.gone.complete_all();
        }
    }
}

/// An `ib_qp` with the data of this crate, as the core allocates it.
#[repr(C)]
pub(crate) struct Shell<Q> {
    ib: iwraw::ib_qp,
    inner: MaybeUninit<Inner<Q>>,
}

struct Inner<Q> {
    qp: Arc<Q>,
    queues: Arc<Queues>,
    references: Arc<References>,
}

impl<Q> Shell<Q> {
    /// # Safety
    ///
    /// `qp` is of a device with queue pairs of `Q`, created, and not destroyed as long as `'a`.
    unsafe fn inner<'a>(qp: *mut iwraw::ib_qp) -> &'a Inner<Q> {
        // SAFETY: The caller promises that `create_qp` has written the field.
        unsafe { (*qp.cast::<Self>()).inner.assume_init_ref() }
    }
}

/// The queue pair operations of a device of `D`.
pub(crate) struct Operations<D>(PhantomData<D>);

impl<D: Driver> Operations<D> {
    /// `create_qp`.
    ///
    /// # Safety
    ///
    /// For the core only: `qp` is a zeroed [`Shell`], whose fields the core has set.
    pub(crate) unsafe extern "C" fn create(
        qp: *mut iwraw::ib_qp,
        attributes: *mut iwraw::ib_qp_init_attr,
        _: *mut iwraw::ib_udata,
    ) -> ffi::c_int {
        errno(|| {
            // SAFETY: The core passes valid attributes.
            let attributes = unsafe { &mut *attributes };
            let cap = &mut attributes.cap;
            if attributes.qp_type != iwraw::ib_qp_type_IB_QPT_RC
                || !attributes.srq.is_null()
                || attributes.create_flags != 0
                || cap.max_send_sge > D::LIMITS.max_entries
                || cap.max_recv_sge > D::LIMITS.max_entries
                || cap.max_inline_data > 0
            {
                return Err(eopnotsupp());
            }
            let capacities = Capacities {
                sends: queue::capacity(cap.max_send_wr, D::LIMITS.max_requests)?,
                receives: queue::capacity(cap.max_recv_wr, D::LIMITS.max_requests)?,
                send_entries: usize::try_from(cap.max_send_sge.max(1))?,
                receive_entries: usize::try_from(cap.max_recv_sge.max(1))?,
            };
            let max_sends = queue::told(capacities.sends)?;
            let max_receives = queue::told(capacities.receives)?;
            // SAFETY: The core passes completion queues that stay until the queue pair is
            // destroyed.
            let (send_cq, receive_cq) = unsafe {
                (
                    CompletionQueue::of(attributes.send_cq),
                    CompletionQueue::of(attributes.recv_cq),
                )
            };
            let all = attributes.sq_sig_type == iwraw::ib_sig_type_IB_SIGNAL_ALL_WR;
            let at = qp.expose_provenance();
            let queues = Queues::new(at, capacities, send_cq, receive_cq, all)?;
            // SAFETY: The core has set the device, which is registered, and the domain.
            let (objects, domain) =
                unsafe { (objects::of::<D>((*qp).device), Domain((*qp).pd.addr())) };
            let inner = Inner {
                qp: D::create(objects.driver(), queues.clone(), domain)?,
                queues,
                references: Arc::pin_init(
                    pin_init!(References {
                        count: AtomicU32::new(1),
                        gone <- Completion::new(),
                    }),
                    GFP_KERNEL,
                )?,
            };
            let shell = qp.cast::<Shell<D::QueuePair>>();
            // SAFETY: The core passes memory of the size of a `Shell`, which nobody uses yet.
            unsafe { (*shell).inner.write(inner) };
            let found = NonNull::new(qp).ok_or(EINVAL)?;
            // INVARIANT: `destroy` waits for a grace period after it has removed the entry.
            let inserted = objects.queue_pairs.insert(|_| Found(found));
            let number = inserted.inspect_err(|_| {
                // SAFETY: It was just written, and nobody has seen it.
                let inner = unsafe { (*shell).inner.assume_init_read() };
                D::QueuePair::destroy(inner.qp);
            })?;
            // SAFETY: The core passes a queue pair that nobody uses yet. `destroy` calls `forget`.
            unsafe {
                (*qp).qp_num = number;
                Shell::<D::QueuePair>::inner(qp).queues.tell(found);
            }
            cap.max_send_wr = max_sends;
            cap.max_recv_wr = max_receives;
            Ok(())
        })
    }

    /// `destroy_qp`.
    ///
    /// # Safety
    ///
    /// For the core only: `qp` was made by [`Self::create`].
    pub(crate) unsafe extern "C" fn destroy(
        qp: *mut iwraw::ib_qp,
        _: *mut iwraw::ib_udata,
    ) -> ffi::c_int {
        // SAFETY: The core passes a live queue pair.
        let (objects, number) = unsafe { (objects::of::<D>((*qp).device), (*qp).qp_num) };
        objects.queue_pairs.remove(number);
        // iw_cm counts its reference under the spin lock under which it found the queue pair. That
        // is an RCU read-side section, because interrupts are off, or with PREEMPT_RT because each
        // spin lock is one there.
        // SAFETY: `destroy_qp` may sleep, and its caller is in no RCU read-side section.
        unsafe { kernel::bindings::synchronize_rcu() };
        // SAFETY: The core passes a queue pair that it created, so `create` has written the field.
        let inner = unsafe { (*qp.cast::<Shell<D::QueuePair>>()).inner.assume_init_ref() };
        // The worker waits for this function, so it allocates in the same scope.
        let noio = NoIo::new();
        // iw_cm may hold references, and drop them only when it learns of the end.
        D::QueuePair::destroy(inner.qp.clone());
        drop(noio);
        inner.references.put();
        inner.references.gone.wait_for_completion();
        inner.queues.forget();
        // SAFETY: The core destroys a queue pair once, and nobody has a reference to it any more.
        drop(unsafe { (*qp.cast::<Shell<D::QueuePair>>()).inner.assume_init_read() });
        0
    }

    /// `modify_qp`.
    ///
    /// # Safety
    ///
    /// For the core only: `qp` was made by [`Self::create`].
    pub(crate) unsafe extern "C" fn modify(
        qp: *mut iwraw::ib_qp,
        attributes: *mut iwraw::ib_qp_attr,
        mask: ffi::c_int,
        _: *mut iwraw::ib_udata,
    ) -> ffi::c_int {
        errno(|| {
            // SAFETY: The core passes a live queue pair and valid attributes.
            let (inner, attributes) = unsafe { (Shell::<D::QueuePair>::inner(qp), &*attributes) };
            // CAST: Sets of flags.
            let has = |flag: u32| mask as u32 & flag != 0;
            let flag = |flag: u32| attributes.qp_access_flags as u32 & flag != 0;
            let state = match has(iwraw::ib_qp_attr_mask_IB_QP_STATE) {
                true => Some(State::of(attributes.qp_state)?),
                false => None,
            };
            let access = has(iwraw::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS).then(|| Access {
                remote_read: flag(iwraw::ib_access_flags_IB_ACCESS_REMOTE_READ),
                remote_write: flag(iwraw::ib_access_flags_IB_ACCESS_REMOTE_WRITE),
            });
            D::QueuePair::modify(&inner.qp, Change { state, access })
        })
    }

    /// `query_qp`. Not every kernel keeps a listing of queue pairs (`rdma resource show qp`) from
    /// asking while one is destroyed. `EINVAL` then.
    ///
    /// # Safety
    ///
    /// For the core only: `qp` was made by [`Self::create`], and is not freed.
    pub(crate) unsafe extern "C" fn query(
        qp: *mut iwraw::ib_qp,
        attributes: *mut iwraw::ib_qp_attr,
        _: ffi::c_int,
        init: *mut iwraw::ib_qp_init_attr,
    ) -> ffi::c_int {
        errno(|| {
            let _rcu = rcu::read_lock();
            // SAFETY: The core passes a queue pair of a device that is added.
            let (objects, number) = unsafe { (objects::of::<D>((*qp).device), (*qp).qp_num) };
            if objects.queue_pairs.look(number, |found| found.0) != NonNull::new(qp) {
                return Err(EINVAL);
            }
            // SAFETY: The core passes room for the attributes. `destroy` waits for RCU readers that
            // have found the queue pair in the table before it drops the data.
            let (inner, attributes, init, qp) = unsafe {
                (
                    Shell::<D::QueuePair>::inner(qp),
                    &mut *attributes,
                    &mut *init,
                    &*qp,
                )
            };
            let state = inner.qp.state().code();
            let capacities = inner.queues.capacities();
            attributes.qp_state = state;
            attributes.cur_qp_state = state;
            attributes.cap = iwraw::ib_qp_cap {
                max_send_wr: queue::told(capacities.sends)?,
                max_recv_wr: queue::told(capacities.receives)?,
                max_send_sge: u32::try_from(capacities.send_entries)?,
                max_recv_sge: u32::try_from(capacities.receive_entries)?,
                ..Default::default()
            };
            init.qp_type = qp.qp_type;
            init.send_cq = qp.send_cq;
            init.recv_cq = qp.recv_cq;
            init.cap = attributes.cap;
            Ok(())
        })
    }

    /// `post_send`. Called in any context. `EINVAL` before the queue pair is ready to send.
    ///
    /// # Safety
    ///
    /// For consumers only: `qp` was created by [`Self::create`], `wr` begins a chain of valid
    /// requests whose memory stays allocated until they are completed.
    pub(crate) unsafe extern "C" fn post_send(
        qp: *mut iwraw::ib_qp,
        wr: *const iwraw::ib_send_wr,
        bad: *mut *const iwraw::ib_send_wr,
    ) -> ffi::c_int {
        // SAFETY: The consumer passes a live queue pair.
        let inner = unsafe { Shell::<D::QueuePair>::inner(qp) };
        if (inner.qp.state() as u32) < State::ReadyToSend as u32 {
            if !bad.is_null() {
                // SAFETY: The consumer passes room for a pointer.
                unsafe { bad.write(wr) };
            }
            return EINVAL.to_errno();
        }
        // SAFETY: The caller promises a chain of valid requests.
        let posted = unsafe { inner.queues.post_send(wr, bad) };
        D::QueuePair::posted(&inner.qp);
        errno(|| posted)
    }

    /// `post_recv`. Called in any context.
    ///
    /// # Safety
    ///
    /// For consumers only: `qp` was created by [`Self::create`], `wr` begins a chain of valid
    /// requests whose memory stays allocated until they are completed.
    pub(crate) unsafe extern "C" fn post_receive(
        qp: *mut iwraw::ib_qp,
        wr: *const iwraw::ib_recv_wr,
        bad: *mut *const iwraw::ib_recv_wr,
    ) -> ffi::c_int {
        // SAFETY: The consumer passes a live queue pair.
        let inner = unsafe { Shell::<D::QueuePair>::inner(qp) };
        // SAFETY: The caller promises a chain of valid requests.
        let posted = unsafe { inner.queues.post_receive(wr, bad) };
        // A Receive needs attention only where all requests are flushed: the driver takes them when
        // messages arrive.
        if inner.qp.state() == State::Error {
            D::QueuePair::posted(&inner.qp);
        }
        errno(|| posted)
    }

    /// `iw_get_qp`. Called with interrupts off, as is `iw_add_ref` right after it.
    ///
    /// # Safety
    ///
    /// For iw_cm only: `device` is registered.
    pub(crate) unsafe extern "C" fn get(
        device: *mut iwraw::ib_device,
        number: ffi::c_int,
    ) -> *mut iwraw::ib_qp {
        // SAFETY: iw_cm passes a device that is registered.
        let objects = unsafe { objects::of::<D>(device) };
        let number = u32::try_from(number).unwrap_or(0);
        let found = objects.queue_pairs.look(number, |found| found.0);
        found.map_or(null_mut(), NonNull::as_ptr)
    }

    /// `iw_add_ref`.
    ///
    /// # Safety
    ///
    /// For iw_cm only: `qp` was just found, or has a reference.
    pub(crate) unsafe extern "C" fn add_reference(qp: *mut iwraw::ib_qp) {
        // SAFETY: iw_cm just found the queue pair, and `destroy` waits for that.
        let inner = unsafe { Shell::<D::QueuePair>::inner(qp) };
        inner.references.count.fetch_add(1, Ordering::Relaxed);
    }

    /// `iw_rem_ref`.
    ///
    /// # Safety
    ///
    /// For iw_cm only: it gives a reference back.
    pub(crate) unsafe extern "C" fn remove_reference(qp: *mut iwraw::ib_qp) {
        // SAFETY: The reference that iw_cm drops keeps the queue pair. `destroy` may continue as
        // soon as the last one is dropped, so the count has a reference of its own.
        let references = unsafe { Shell::<D::QueuePair>::inner(qp) }
            .references
            .clone();
        references.put();
    }

    /// Returns the driver's queue pair of this number, if it `is_meant`. Else `EINVAL`.
    ///
    /// # Safety
    ///
    /// `device` is registered, and iw_cm has a reference to the queue pair.
    pub(crate) unsafe fn find(
        device: *mut iwraw::ib_device,
        number: u32,
        is_meant: impl FnOnce(NonNull<iwraw::ib_qp>) -> bool,
    ) -> Result<Arc<D::QueuePair>> {
        // SAFETY: The caller promises a registered device.
        let objects = unsafe { objects::of::<D>(device) };
        let found = objects.queue_pairs.look(number, |found| found.0);
        let found = found.filter(|found| is_meant(*found)).ok_or(EINVAL)?;
        // SAFETY: The caller promises that iw_cm has a reference, which keeps the queue pair.
        let inner = unsafe { Shell::<D::QueuePair>::inner(found.as_ptr()) };
        Ok(inner.qp.clone())
    }
}

/// Returns the sizes of the structures that the core allocates.
pub(crate) const fn sizes<Q>() -> (usize, usize) {
    (size_of::<Shell<Q>>(), size_of::<cq::Shell>())
}
