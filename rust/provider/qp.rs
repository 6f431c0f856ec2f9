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

use crate::{
    cq::{
        self,
        CompletionQueue, //
    },
    device::{
        self,
        QpEntry, //
    },
    driver::{
        Driver,
        QpAttr,
        QpState,
        QueuePair, //
    },
    errno,
    queue::{
        self,
        QueueSizes,
        Queues,
        UserRings, //
    },
    region::{
        AccessFlags,
        ProtectionDomain, //
    },
    srq::{
        IbSrq,
        SharedReceives, //
    },
    user::{
        memory_flags,
        quota::QuotaShare,
        rings::UserRing,
        Call,
        Owner, //
    },
    wr::{
        ReceiveRequest,
        SendRequest, //
    }, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::{
        null_mut,
        NonNull, //
    },
    sync::atomic::{
        AtomicU32,
        Ordering, //
    }, //
};
use ext::{
    alloc_scope::NoIo,
    errno::eopnotsupp, //
};
use iwtrace::QpId;
use kernel::{
    ffi,
    prelude::*,
    sync::{
        Arc,
        Completion, //
    }, //
};
use uabi::{
    response::queue_pair,
    ring::{
        Queue,
        Slots, //
    },
    sg_list::{
        Inline,
        SgList, //
    }, //
};

/// The references of iw_cm, and one of the core.
#[pin_data]
pub(crate) struct References {
    count: AtomicU32,
    // How often iw_cm has found the queue pair, but has no reference yet.
    found: AtomicU32,
    #[pin]
    dropped: Completion,
}

impl References {
    /// Creates the core's reference.
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            count: AtomicU32::new(1),
            found: AtomicU32::new(0),
            dropped <- Completion::new(),
        })
    }

    /// Notes that iw_cm has found the queue pair.
    pub(crate) fn note_found(&self) {
        self.found.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a reference for one who has found it.
    pub(crate) fn get(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        // Whoever sees none that is found sees the reference.
        self.found.fetch_sub(1, Ordering::Release);
    }

    /// Returns whether somebody is about to take a reference. Nobody finds the queue pair any more.
    pub(crate) fn is_awaited(&self) -> bool {
        self.found.load(Ordering::Acquire) != 0
    }

    fn put(&self) {
        if self.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.dropped.complete_all();
        }
    }
}

/// An `ib_qp` with the data of this crate, as the core allocates it.
#[repr(C)]
pub(crate) struct IbQp<Q> {
    ib: cbindings::ib_qp,
    data: MaybeUninit<QpData<Q>>,
}

struct QpData<Q> {
    qp: Arc<Q>,
    queues: Arc<Queues>,
    references: Arc<References>,
    user: Option<UserData>,
}

/// The part of a queue pair that only those of processes have.
struct UserData {
    owner: Owner,
    // The rings, until the queue pair is destroyed. There is none for Receives if they come from a
    // shared receive queue.
    send: UserRing,
    receive: Option<UserRing>,
    _share: QuotaShare,
}

impl UserData {
    /// Creates the rings of a queue pair of the process that calls. Sleeps.
    ///
    /// # Safety
    ///
    /// The value is dropped before the context of the process is freed.
    unsafe fn new(call: Call, slots: UserSlots, share: QuotaShare) -> Result<(Self, UserRings)> {
        // SAFETY: The caller promises it.
        let ring = |queue, slots| unsafe { UserRing::new(call, queue, slots) };
        let (send, send_ring) = ring(Queue::Send, slots.sends)?;
        let receive = slots.receives.map(|slots| ring(Queue::Receive, slots));
        let (receive, receive_ring) = receive.transpose()?.unzip();
        let data = Self {
            owner: Owner::current(),
            send,
            receive,
            _share: share,
        };
        let rings = UserRings {
            send: send_ring,
            receive: receive_ring,
        };
        Ok((data, rings))
    }

    /// Tells the process of its rings. Sleeps.
    fn respond(&self, call: Call, number: u32) -> Result {
        let receive = self.receive.as_ref().map(UserRing::mapped).transpose()?;
        call.respond(&queue_pair(number, self.send.mapped()?, receive))
    }
}

/// The numbers of slots of the rings of a process's queue pair.
#[derive(Clone, Copy)]
struct UserSlots {
    sends: Slots,
    // If it uses no shared receive queue.
    receives: Option<Slots>,
}

impl<Q> IbQp<Q> {
    /// # Safety
    ///
    /// `qp` is of a device with queue pairs of `Q`, created, and not destroyed as long as `'a`.
    unsafe fn data<'a>(qp: *mut cbindings::ib_qp) -> &'a QpData<Q> {
        // SAFETY: The caller promises that `create_qp` has written the field.
        unsafe { (*qp.cast::<Self>()).data.assume_init_ref() }
    }
}

/// The queue pair operations of a device of `D`.
pub(crate) struct Operations<D>(PhantomData<D>);

impl<D: Driver> Operations<D> {
    /// `create_qp`.
    ///
    /// # Safety
    ///
    /// For the core only: `qp` is a zeroed [`IbQp`], whose fields the core has set.
    pub(crate) unsafe extern "C" fn create(
        qp: *mut cbindings::ib_qp,
        attributes: *mut cbindings::ib_qp_init_attr,
        udata: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        errno(|| {
            // SAFETY: The core passes valid attributes.
            let attributes = unsafe { &mut *attributes };
            // SAFETY: The core passes data of the call of a process, or null.
            let call = unsafe { Call::new(udata) };
            let (queue_sizes, user) = match call {
                None => (Self::queue_sizes(attributes)?, None),
                Some(call) => {
                    let (queue_sizes, slots) = Self::user_sizes(attributes)?;
                    // SAFETY: The core has set the device, which is registered.
                    let device_data = unsafe { device::data_of::<D>((*qp).device) };
                    let share = device_data.quotas.queue_pairs.take()?;
                    // SAFETY: `destroy` drops it, or this function if it fails. The core destroys
                    // the queue pair before the context.
                    let user = unsafe { UserData::new(call, slots, share)? };
                    (queue_sizes, Some(user))
                }
            };
            // SAFETY: The core has set the device, which is registered, the domain, and queues that
            // stay until the queue pair is destroyed.
            let data = unsafe { Self::new_data(qp, attributes, queue_sizes, user)? };
            let (max_sends, max_receives) = data.queues.advertised()?;
            // SAFETY: The core passes memory of the size of an `IbQp`, which nobody uses yet, and
            // calls `destroy` if this succeeds; `end` is called if it does not.
            unsafe { Self::insert(qp, data)? };
            if let Some(call) = call {
                // SAFETY: `insert` has written the data.
                let data = unsafe { IbQp::<D::QueuePair>::data(qp) };
                // SAFETY: The core passes memory for the number, which `insert` has written.
                let number = unsafe { (*qp).qp_num };
                let user = data.user.as_ref().ok_or(EINVAL);
                user.and_then(|user| user.respond(call, number))
                    .inspect_err(|_| {
                        // SAFETY: It was created, and `destroy` is not called.
                        unsafe { Self::end(qp) }
                    })?;
                attributes.cap.max_inline_data = u32::try_from(Inline::MAX_LEN)?;
            }
            attributes.cap.max_send_wr = max_sends;
            attributes.cap.max_recv_wr = max_receives;
            Ok(())
        })
    }

    /// Returns the sizes of the queues of a process's queue pair with these attributes, as requests
    /// and as slots. `EOPNOTSUPP` or `EINVAL` if they ask for what there is not.
    fn user_sizes(attributes: &cbindings::ib_qp_init_attr) -> Result<(QueueSizes, UserSlots)> {
        let cap = &attributes.cap;
        if attributes.qp_type != cbindings::ib_qp_type_IB_QPT_RC || attributes.create_flags != 0 {
            return Err(eopnotsupp());
        }
        let max_sge = u32::try_from(SgList::MAX_SGE)?;
        if cap.max_send_sge > max_sge
            || cap.max_recv_sge > max_sge
            || cap.max_inline_data > u32::try_from(Inline::MAX_LEN)?
        {
            return Err(EINVAL);
        }
        let slots = |wanted| Slots::for_entries(wanted, D::LIMITS.max_wr).ok_or(EINVAL);
        let sends = slots(cap.max_send_wr)?;
        let receives = match attributes.srq.is_null() {
            true => Some(slots(cap.max_recv_wr)?),
            false => None,
        };
        let queue_sizes = QueueSizes {
            sends: usize::try_from(sends.count())?,
            receives: usize::try_from(receives.map_or(0, Slots::count))?,
            send_sge: SgList::MAX_SGE,
            receive_sge: SgList::MAX_SGE,
        };
        Ok((queue_sizes, UserSlots { sends, receives }))
    }

    /// Returns the sizes of the queues of a queue pair with these attributes. `EOPNOTSUPP` if they
    /// ask for what no device of `D` has.
    fn queue_sizes(attributes: &cbindings::ib_qp_init_attr) -> Result<QueueSizes> {
        let cap = &attributes.cap;
        if attributes.qp_type != cbindings::ib_qp_type_IB_QPT_RC
            || attributes.create_flags != 0
            || cap.max_send_sge > D::LIMITS.max_send_sge
            || cap.max_recv_sge > D::LIMITS.max_receive_sge
            || cap.max_inline_data > 0
        {
            return Err(eopnotsupp());
        }
        Ok(QueueSizes {
            sends: queue::size_for(cap.max_send_wr, D::LIMITS.max_wr)?,
            receives: match attributes.srq.is_null() {
                true => queue::size_for(cap.max_recv_wr, D::LIMITS.max_wr)?,
                false => 0,
            },
            send_sge: usize::try_from(cap.max_send_sge.max(1))?,
            receive_sge: usize::try_from(cap.max_recv_sge.max(1))?,
        })
    }

    /// Creates the driver's queue pair, and the queues. Sleeps.
    ///
    /// # Safety
    ///
    /// The core has set the device of `qp`, which is registered, its domain, and the queues of
    /// `attributes`, which stay until the queue pair is destroyed.
    unsafe fn new_data(
        qp: *mut cbindings::ib_qp,
        attributes: &cbindings::ib_qp_init_attr,
        queue_sizes: QueueSizes,
        user: Option<(UserData, UserRings)>,
    ) -> Result<QpData<D::QueuePair>> {
        // SAFETY: The caller promises these completion queues.
        let (send_cq, receive_cq) = unsafe {
            (
                CompletionQueue::of(attributes.send_cq),
                CompletionQueue::of(attributes.recv_cq),
            )
        };
        // SAFETY: The caller promises the device, which is registered, and the domain.
        let (device_data, pd) = unsafe {
            (
                device::data_of::<D>((*qp).device),
                ProtectionDomain((*qp).pd.addr()),
            )
        };
        // SAFETY: The caller promises a queue of this device, if there is one.
        let shared = NonNull::new(attributes.srq).map(|srq| unsafe { SharedReceives::of(srq) });
        if shared
            .as_ref()
            .is_some_and(|shared| shared.is_of_process() != user.is_some())
        {
            return Err(EINVAL);
        }
        let all = attributes.sq_sig_type == cbindings::ib_sig_type_IB_SIGNAL_ALL_WR;
        let at = qp.expose_provenance();
        let (user, rings) = user.unzip();
        let flags = memory_flags(user.is_some());
        let queues = Queues::new(at, queue_sizes, send_cq, receive_cq, all, rings, shared)?;
        Ok(QpData {
            qp: D::create(device_data.driver(), queues.clone(), pd)?,
            queues,
            references: Arc::pin_init(References::new(), flags)?,
            user,
        })
    }

    /// Gives the queue pair its data and a number, under which iw_cm finds it. If that fails, it is
    /// ended.
    ///
    /// # Safety
    ///
    /// `qp` is an [`IbQp`] of a registered device, which nobody uses yet. [`Self::destroy`] is
    /// called before it is freed, unless this fails.
    unsafe fn insert(qp: *mut cbindings::ib_qp, data: QpData<D::QueuePair>) -> Result {
        // SAFETY: The caller promises a registered device.
        let device_data = unsafe { device::data_of::<D>((*qp).device) };
        let ib_qp = qp.cast::<IbQp<D::QueuePair>>();
        let found = NonNull::new(qp).ok_or(EINVAL)?;
        let flags = memory_flags(data.user.is_some());
        // SAFETY: The caller promises an `IbQp` that nobody uses yet.
        unsafe { (*ib_qp).data.write(data) };
        // INVARIANT: `end` removes the entry before it drops the data.
        let entry = |_| QpEntry(found);
        let inserted = device_data.queue_pairs.insert_from(flags, entry);
        let number = inserted.inspect_err(|_| {
            // SAFETY: It was just written, and nobody has seen it.
            let data = unsafe { (*ib_qp).data.assume_init_read() };
            D::QueuePair::destroy(data.qp);
        })?;
        // SAFETY: The caller promises a queue pair that nobody uses yet. `destroy` calls `detach`.
        unsafe {
            (*qp).qp_num = number;
            let device = (*(*qp).device).index;
            let id = QpId { device, number };
            IbQp::<D::QueuePair>::data(qp).queues.attach(found, id);
        }
        Ok(())
    }

    /// `destroy_qp`.
    ///
    /// # Safety
    ///
    /// For the core only: `qp` was made by [`Self::create`].
    pub(crate) unsafe extern "C" fn destroy(
        qp: *mut cbindings::ib_qp,
        _: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        // SAFETY: The core passes a queue pair that it created, once.
        unsafe { Self::end(qp) };
        0
    }

    /// Ends a queue pair. Sleeps.
    ///
    /// # Safety
    ///
    /// `qp` was given its data by [`Self::insert`], and is ended once.
    unsafe fn end(qp: *mut cbindings::ib_qp) {
        // SAFETY: The caller promises a live queue pair.
        let (device_data, number) = unsafe { (device::data_of::<D>((*qp).device), (*qp).qp_num) };
        device_data.queue_pairs.remove(number);
        // SAFETY: The caller promises that `insert` has written the field.
        let data = unsafe { (*qp.cast::<IbQp<D::QueuePair>>()).data.assume_init_ref() };
        if data.references.is_awaited() {
            // iw_cm counts its reference under the spin lock under which it found the queue pair.
            // That is an RCU read-side section, because interrupts are off, or with PREEMPT_RT
            // because each spin lock is one there.
            // SAFETY: `destroy_qp` may sleep, and its caller is in no RCU read-side section.
            unsafe { kernel::bindings::synchronize_rcu() };
        }
        // The worker waits for this function, so it allocates in the same scope.
        let noio = NoIo::new();
        // iw_cm may hold references, and drop them only when it learns of the end.
        D::QueuePair::destroy(data.qp.clone());
        drop(noio);
        data.references.put();
        data.references.dropped.wait_for_completion();
        data.queues.detach();
        // SAFETY: The caller ends a queue pair once, and nobody has a reference to it any more.
        drop(unsafe { (*qp.cast::<IbQp<D::QueuePair>>()).data.assume_init_read() });
    }

    /// `modify_qp`.
    ///
    /// # Safety
    ///
    /// For the core only: `qp` was made by [`Self::create`].
    pub(crate) unsafe extern "C" fn modify(
        qp: *mut cbindings::ib_qp,
        attributes: *mut cbindings::ib_qp_attr,
        mask: ffi::c_int,
        _: *mut cbindings::ib_udata,
    ) -> ffi::c_int {
        errno(|| {
            // SAFETY: The core passes a live queue pair and valid attributes.
            let (data, attributes) = unsafe { (IbQp::<D::QueuePair>::data(qp), &*attributes) };
            // CAST: Sets of flags.
            let has = |flag: u32| mask as u32 & flag != 0;
            let flag = |flag: u32| attributes.qp_access_flags as u32 & flag != 0;
            let state = match has(cbindings::ib_qp_attr_mask_IB_QP_STATE) {
                true => Some(QpState::of(attributes.qp_state)?),
                false => None,
            };
            let access = has(cbindings::ib_qp_attr_mask_IB_QP_ACCESS_FLAGS).then(|| AccessFlags {
                remote_read: flag(cbindings::ib_access_flags_IB_ACCESS_REMOTE_READ),
                remote_write: flag(cbindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE),
            });
            D::QueuePair::modify(&data.qp, QpAttr { state, access })
        })
    }

    /// `query_qp`. Not every kernel keeps a listing of queue pairs (`rdma resource show qp`) from
    /// asking while one is destroyed. `EINVAL` then.
    ///
    /// # Safety
    ///
    /// For the core only: `qp` was made by [`Self::create`], and is not freed.
    pub(crate) unsafe extern "C" fn query(
        qp: *mut cbindings::ib_qp,
        attributes: *mut cbindings::ib_qp_attr,
        _: ffi::c_int,
        init: *mut cbindings::ib_qp_init_attr,
    ) -> ffi::c_int {
        errno(|| {
            // SAFETY: The core passes a queue pair of a device that is added.
            let (device_data, number) =
                unsafe { (device::data_of::<D>((*qp).device), (*qp).qp_num) };
            let found = device_data.queue_pairs.with(number, |found| {
                if found.0.as_ptr() != qp {
                    return None;
                }
                // SAFETY: It is in the table, and so has its data, as long as the lock is held.
                let data = unsafe { IbQp::<D::QueuePair>::data(qp) };
                let is_of_process = data.user.is_some();
                Some((data.qp.clone(), data.queues.clone(), is_of_process))
            });
            let (driver_qp, queues, is_of_process) = found.flatten().ok_or(EINVAL)?;
            // SAFETY: The core passes a queue pair that is not freed, and room for the attributes.
            let (attributes, init, qp) = unsafe { (&mut *attributes, &mut *init, &*qp) };
            // iWARP has one state before a connection, Idle. Drivers for iWARP call it INIT from
            // the beginning on, and programs expect that.
            let state = match driver_qp.state() {
                QpState::Reset => QpState::Init.code(),
                state => state.code(),
            };
            let queue_sizes = queues.queue_sizes();
            let (max_sends, max_receives) = queues.advertised()?;
            attributes.qp_state = state;
            attributes.cur_qp_state = state;
            attributes.cap = cbindings::ib_qp_cap {
                max_send_wr: max_sends,
                max_recv_wr: max_receives,
                max_send_sge: u32::try_from(queue_sizes.send_sge)?,
                max_recv_sge: u32::try_from(queue_sizes.receive_sge)?,
                max_inline_data: match is_of_process {
                    false => 0,
                    true => u32::try_from(Inline::MAX_LEN)?,
                },
                ..Default::default()
            };
            init.qp_type = qp.qp_type;
            init.send_cq = qp.send_cq;
            init.recv_cq = qp.recv_cq;
            init.srq = qp.srq;
            init.cap = attributes.cap;
            Ok(())
        })
    }

    /// `post_send`. Called in any context. `EINVAL` before the queue pair is ready to send.
    ///
    /// A process tells with a null pointer that it has posted, and may have to sleep then. It can
    /// pass other requests through the core, but their memory would be taken for that of the
    /// kernel: `EINVAL`.
    ///
    /// # Safety
    ///
    /// For consumers only: `qp` was created by [`Self::create`], `wr` begins a chain of valid
    /// requests whose memory stays allocated until they are completed.
    pub(crate) unsafe extern "C" fn post_send(
        qp: *mut cbindings::ib_qp,
        wr: *const cbindings::ib_send_wr,
        bad: *mut *const cbindings::ib_send_wr,
    ) -> ffi::c_int {
        // SAFETY: The consumer passes a live queue pair.
        let data = unsafe { IbQp::<D::QueuePair>::data(qp) };
        let is_early = (data.qp.state() as u32) < QpState::Rts as u32;
        if data.user.is_some() && wr.is_null() {
            if is_early {
                // What it was told that it failed to post is not sent later.
                data.queues.drop_sends();
                iwtrace::event!(iwarp_wr_refused(data.queues.id(), false, 0, 0, EINVAL));
                return EINVAL.to_errno();
            }
            // The core calls in the system call of the process, without a lock that spins.
            let _noio = NoIo::new();
            D::QueuePair::doorbell(&data.qp);
            return 0;
        }
        if data.user.is_some() || is_early {
            // SAFETY: The caller promises a chain of valid requests.
            unsafe { data.queues.note_refused::<SendRequest>(wr, EINVAL) };
            if !bad.is_null() {
                // SAFETY: The consumer passes room for a pointer.
                unsafe { bad.write(wr) };
            }
            return EINVAL.to_errno();
        }
        // SAFETY: The caller promises a chain of valid requests.
        let posted = unsafe { data.queues.post_send(wr, bad) };
        D::QueuePair::posted(&data.qp);
        errno(|| posted)
    }

    /// `post_recv`. Called in any context.
    ///
    /// # Safety
    ///
    /// For consumers only: `qp` was created by [`Self::create`], `wr` begins a chain of valid
    /// requests whose memory stays allocated until they are completed.
    pub(crate) unsafe extern "C" fn post_receive(
        qp: *mut cbindings::ib_qp,
        wr: *const cbindings::ib_recv_wr,
        bad: *mut *const cbindings::ib_recv_wr,
    ) -> ffi::c_int {
        // SAFETY: The consumer passes a live queue pair.
        let data = unsafe { IbQp::<D::QueuePair>::data(qp) };
        if data.user.is_some() {
            // The core offers this to no process. The memory would be taken for that of the kernel.
            // SAFETY: The caller promises a chain of valid requests.
            unsafe { data.queues.note_refused::<ReceiveRequest>(wr, EINVAL) };
            if !bad.is_null() {
                // SAFETY: The consumer passes room for a pointer.
                unsafe { bad.write(wr) };
            }
            return EINVAL.to_errno();
        }
        // SAFETY: The caller promises a chain of valid requests.
        let posted = unsafe { data.queues.post_receive(wr, bad) };
        // A Receive needs attention only where all requests are flushed: the driver takes them when
        // messages arrive.
        if data.qp.state() == QpState::Error {
            D::QueuePair::posted(&data.qp);
        }
        errno(|| posted)
    }

    /// `iw_get_qp`. Called under a spin lock, as is `iw_add_ref` right after it.
    ///
    /// # Safety
    ///
    /// For iw_cm only: `device` is registered.
    pub(crate) unsafe extern "C" fn get(
        device: *mut cbindings::ib_device,
        number: ffi::c_int,
    ) -> *mut cbindings::ib_qp {
        // SAFETY: iw_cm passes a device that is registered.
        let device_data = unsafe { device::data_of::<D>(device) };
        let number = u32::try_from(number).unwrap_or(0);
        let found = device_data.queue_pairs.with(number, |found| {
            let qp = found.0.as_ptr();
            // SAFETY: It is in the table, and so has its data, as long as the lock is held.
            let data = unsafe { IbQp::<D::QueuePair>::data(qp) };
            // Under the lock, so that `end` sees it, once the queue pair has left the table.
            data.references.note_found();
            qp
        });
        found.unwrap_or(null_mut())
    }

    /// `iw_add_ref`.
    ///
    /// # Safety
    ///
    /// For iw_cm only: `qp` was just found by [`Self::get`], and each time that is followed by this
    /// once.
    pub(crate) unsafe extern "C" fn add_reference(qp: *mut cbindings::ib_qp) {
        // SAFETY: iw_cm just found the queue pair, and `end` waits for that.
        let data = unsafe { IbQp::<D::QueuePair>::data(qp) };
        data.references.get();
    }

    /// `iw_rem_ref`.
    ///
    /// # Safety
    ///
    /// For iw_cm only: it gives a reference back.
    pub(crate) unsafe extern "C" fn remove_reference(qp: *mut cbindings::ib_qp) {
        // SAFETY: The reference that iw_cm drops keeps the queue pair. `destroy` may continue as
        // soon as the last one is dropped, so the count has a reference of its own.
        let references = unsafe { IbQp::<D::QueuePair>::data(qp) }.references.clone();
        references.put();
    }

    /// Returns the driver's queue pair of this number, if the process that calls has created it, or
    /// if it is one of the kernel and `is_meant`. Else `EPERM` or `EINVAL`.
    ///
    /// The creator of a queue pair is the one that matters: a process says whatever number it
    /// likes.
    ///
    /// # Safety
    ///
    /// `device` is registered, and iw_cm has a reference to the queue pair.
    pub(crate) unsafe fn find(
        device: *mut cbindings::ib_device,
        number: u32,
        is_meant: impl FnOnce(NonNull<cbindings::ib_qp>) -> bool,
    ) -> Result<Arc<D::QueuePair>> {
        // SAFETY: The caller promises a registered device.
        let device_data = unsafe { device::data_of::<D>(device) };
        // iw_cm has a reference to a queue pair that had this number. Another one may have it by
        // now, and be destroyed meanwhile.
        let found = device_data.queue_pairs.with(number, |found| {
            // SAFETY: It is in the table, and so has its data, as long as the lock is held.
            let data = unsafe { IbQp::<D::QueuePair>::data(found.0.as_ptr()) };
            match &data.user {
                Some(user) if user.owner.is_current() => Ok(data.qp.clone()),
                Some(_) => Err(EPERM),
                None if is_meant(found.0) => Ok(data.qp.clone()),
                None => Err(EINVAL),
            }
        });
        found.unwrap_or(Err(EINVAL))
    }
}

/// Returns the sizes of the structures that the core allocates.
pub(crate) const fn sizes<Q>() -> [usize; 3] {
    [
        size_of::<IbQp<Q>>(),
        size_of::<cq::IbCq>(),
        size_of::<IbSrq>(),
    ]
}
