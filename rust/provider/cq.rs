// SPDX-License-Identifier: GPL-2.0

//! Completion queues: a ring of completions, and notification of the consumer or the process.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod sources;

pub(crate) use sources::{
    Polled,
    SourceId, //
};

use crate::{
    device,
    driver::Driver,
    errno,
    fifo::wrapped,
    user::{
        mapping::Mapping,
        memory_flags,
        quota::QuotaShare,
        rings::{
            self,
            CompletionRing, //
        },
        Call, //
    },
    wr::Status, //
};
use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};
use ext::{
    errno::eopnotsupp,
    lock::IrqLock,
    new_irq_lock, //
};
use iwtrace::QpId;
use kernel::{
    alloc::KVVec,
    ffi,
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    }, //
};
use sources::{
    Source,
    Sources, //
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

/// A completion queue entry.
pub(crate) struct Cqe {
    pub(crate) id: u64,
    // The queue pair, as `ib_wc` names it.
    pub(crate) qp: usize,
    // Its number, as a process knows it.
    pub(crate) qp_number: u32,
    pub(crate) status: Status,
    pub(crate) opcode: cbindings::ib_wc_opcode,
    pub(crate) length: u32,
    pub(crate) invalidated: Option<u32>,
    // In the order of the wire.
    pub(crate) immediate: Option<[u8; 4]>,
    // The queue where the request keeps its place, unless a process posted it.
    pub(crate) source: Option<SourceId>,
}

impl Cqe {
    /// Returns the completion as a process sees it.
    fn of_process(&self) -> uabi::cqe::Cqe {
        use uabi::cqe::Opcode;
        uabi::cqe::Cqe {
            id: self.id,
            opcode: match self.opcode {
                cbindings::ib_wc_opcode_IB_WC_RDMA_WRITE => Opcode::Write,
                cbindings::ib_wc_opcode_IB_WC_RDMA_READ => Opcode::Read,
                // The library knows no Immediate Data: a Receive that it took has no octets.
                cbindings::ib_wc_opcode_IB_WC_RECV
                | cbindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM => Opcode::Receive,
                _ => Opcode::Send,
            },
            status: self.status.of_process(),
            length: self.length,
            invalidated: self.invalidated,
            qp: self.qp_number,
        }
    }
}

/// The completions that the consumer is notified of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Armed {
    /// None.
    No,
    /// If the peer asks for it (RFC 5040, section 5.3), or the request failed.
    // Argues for P5.3-6.
    Solicited,
    /// The next one.
    NextCompletion,
}

struct CqRing {
    // INVARIANT: `first` is an index of `entries` or 0, and `len` is at most their number.
    entries: KVVec<Option<Cqe>>,
    first: usize,
    len: usize,
    armed: Armed,
    sources: Sources,
}

impl CqRing {
    /// Allocates empty slots. Sleeps.
    fn slots(capacity: usize) -> Result<KVVec<Option<Cqe>>> {
        let mut entries = KVVec::with_capacity(capacity, GFP_KERNEL)?;
        for _ in 0..capacity {
            entries.push(None, GFP_KERNEL)?;
        }
        Ok(entries)
    }

    /// Moves to `entries`, if those are more. Returns the others.
    fn grow(&mut self, entries: KVVec<Option<Cqe>>) -> KVVec<Option<Cqe>> {
        if entries.len() <= self.entries.len() {
            return entries;
        }
        let mut before = core::mem::replace(&mut self.entries, entries);
        let (mut at, mut left) = (core::mem::replace(&mut self.first, 0), self.len);
        for slot in &mut self.entries {
            if left == 0 {
                break;
            }
            *slot = before.get_mut(at).and_then(Option::take);
            at = wrapped(at + 1, before.len());
            left -= 1;
        }
        before
    }

    /// Removes the entries of a queue pair.
    fn purge(&mut self, qp: usize) {
        for _ in 0..self.len {
            let entry = self.entries.get_mut(self.first).and_then(Option::take);
            self.first = wrapped(self.first + 1, self.entries.len());
            self.len -= 1;
            match entry {
                Some(entry) if entry.qp == qp => self.sources.polled(entry.source),
                Some(entry) => _ = self.push(entry),
                None => (),
            }
        }
    }

    fn push(&mut self, entry: Cqe) -> bool {
        let capacity = self.entries.len();
        if self.len == capacity {
            return false;
        }
        let at = wrapped(self.first + self.len, capacity);
        if let Some(slot) = self.entries.get_mut(at) {
            *slot = Some(entry);
            self.len += 1;
        }
        true
    }

    fn pop(&mut self) -> Option<Cqe> {
        while self.len > 0 {
            let entry = self.entries.get_mut(self.first).and_then(Option::take);
            self.first = wrapped(self.first + 1, self.entries.len());
            self.len -= 1;
            if let Some(entry) = entry {
                self.sources.polled(entry.source);
                return Some(entry);
            }
        }
        None
    }
}

/// The entries of a completion queue.
enum Entries {
    /// Those of a consumer in the kernel.
    Private(CqRing),
    /// Those of a process.
    Mapped(CompletionRing),
}

struct State {
    entries: Entries,
    // The number of completions that were lost.
    overruns: u64,
}

impl State {
    /// Adds a completion. Returns false if there is no room. Says whether to notify.
    fn push(&mut self, entry: Cqe, solicited: bool) -> (bool, bool) {
        let ring = match &mut self.entries {
            Entries::Private(ring) => ring,
            Entries::Mapped(ring) => {
                let completion = entry.of_process();
                let pushed = ring.push(&completion);
                return (pushed, pushed && ring.is_due(&completion, solicited));
            }
        };
        let failed = entry.status != Status::Success;
        let pushed = ring.push(entry);
        let notify = match ring.armed {
            Armed::NextCompletion => true,
            Armed::Solicited => solicited || failed,
            Armed::No => false,
        };
        if notify {
            ring.armed = Armed::No;
        }
        (pushed, notify)
    }

    /// Returns the entries of a consumer in the kernel.
    fn private(&mut self) -> Option<&mut CqRing> {
        match &mut self.entries {
            Entries::Private(ring) => Some(ring),
            Entries::Mapped(_) => None,
        }
    }
}

/// A completion queue.
#[pin_data]
pub(crate) struct CompletionQueue {
    #[pin]
    state: IrqLock<State>,
    // INVARIANT: A completion queue that is not destroyed. The lock is held during a notification,
    // so that it stays.
    #[pin]
    ib_cq: IrqLock<Option<NonNull<cbindings::ib_cq>>>,
    // Requests that the queues on it have room for.
    #[pin]
    reserved: Mutex<usize>,
}

// SAFETY: The pointer to `ib_cq` is used under a lock only; everything else may be sent.
unsafe impl Send for CompletionQueue {}
// SAFETY: The pointer to `ib_cq` is used under a lock only; everything else may be shared.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    pub(crate) fn new(cq: NonNull<cbindings::ib_cq>, capacity: usize) -> Result<Arc<Self>> {
        let ring = CqRing {
            entries: CqRing::slots(capacity)?,
            first: 0,
            len: 0,
            armed: Armed::No,
            sources: Sources::new(),
        };
        Self::with_entries(cq, Entries::Private(ring))
    }

    /// Creates a queue of a process.
    pub(crate) fn of_process(
        cq: NonNull<cbindings::ib_cq>,
        ring: CompletionRing,
    ) -> Result<Arc<Self>> {
        Self::with_entries(cq, Entries::Mapped(ring))
    }

    fn with_entries(cq: NonNull<cbindings::ib_cq>, entries: Entries) -> Result<Arc<Self>> {
        let flags = memory_flags(matches!(entries, Entries::Mapped(_)));
        let state = State {
            entries,
            overruns: 0,
        };
        Arc::pin_init(
            pin_init!(Self {
                state <- new_irq_lock!(state),
                ib_cq <- new_irq_lock!(Some(cq)),
                reserved <- new_mutex!(0, "iwarp_cq"),
            }),
            flags,
        )
    }

    /// Arms the queue of a consumer in the kernel. Returns how many completions are there. May be
    /// called in any context.
    pub(crate) fn arm(&self, wanted: Armed) -> Result<usize> {
        self.state.with(|state| {
            let ring = state.private().ok_or(EINVAL)?;
            if ring.armed != Armed::NextCompletion {
                ring.armed = wanted;
            }
            Ok(ring.len)
        })
    }

    /// Returns whether the consumer would be notified of a completion that asks for it.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn is_armed(&self) -> bool {
        self.state
            .with(|state| state.private().is_some_and(|ring| ring.armed != Armed::No))
    }

    /// Adds a completion, and notifies the consumer if the queue is armed. May be called in any
    /// context.
    ///
    /// If the queue is full the completion is lost, and its owner gets an event. Only that of a
    /// process can be full: one of a consumer in the kernel has room for all [places](sources). The
    /// driver ends the queue pairs on the queue then; nothing else changes, so a queue that is too
    /// short harms only its own process (RFC 5040, section 8.1.1).
    // Argues for P8.1.1-10.
    pub(crate) fn push(&self, entry: Cqe, solicited: bool) {
        let (qp_number, id) = (entry.qp_number, entry.id);
        let (notify, lost) = self.state.with(|state| {
            let (pushed, notify) = state.push(entry, solicited);
            state.overruns = state.overruns.saturating_add(u64::from(!pushed));
            (notify, (!pushed).then_some(state.overruns))
        });
        if let Some(lost) = lost {
            self.trace_overrun(qp_number, id, lost);
        }
        if lost == Some(1) {
            self.ib_cq.with(|cq| {
                let Some(cq) = *cq else { return };
                // SAFETY: By the invariant of `ib_cq`, whose lock is held, the queue is not
                // destroyed.
                let (handler, context, device) = unsafe {
                    let cq = cq.as_ptr();
                    ((*cq).event_handler, (*cq).cq_context, (*cq).device)
                };
                let mut event = cbindings::ib_event {
                    device,
                    event: cbindings::ib_event_type_IB_EVENT_CQ_ERR,
                    ..Default::default()
                };
                event.element.cq = cq.as_ptr();
                if let Some(handler) = handler {
                    // SAFETY: The handler of the consumer takes an event, which it does not keep,
                    // and its context, in any context.
                    unsafe { handler(&mut event, context) };
                }
            });
        }
        if notify {
            self.ib_cq.with(|cq| {
                let Some(cq) = *cq else { return };
                // SAFETY: By the invariant of `ib_cq`, whose lock is held, the queue is not
                // destroyed.
                let (handler, context) =
                    unsafe { ((*cq.as_ptr()).comp_handler, (*cq.as_ptr()).cq_context) };
                if let Some(handler) = handler {
                    // SAFETY: The handler of the consumer takes its queue and its context, in any
                    // context.
                    unsafe { handler(cq.as_ptr(), context) };
                }
            });
        }
    }

    fn trace_overrun(&self, qp_number: u32, wr_id: u64, lost: u64) {
        if !iwtrace::iwarp_cq_overrun::is_on() {
            return;
        }
        self.ib_cq.with(|cq| {
            let Some(cq) = *cq else { return };
            // SAFETY: By the invariant of `ib_cq`, whose lock is held, the queue is not destroyed,
            // and neither is its device.
            let (device, id) = unsafe { ((*(*cq.as_ptr()).device).index, (*cq.as_ptr()).res.id) };
            let qp = QpId {
                device,
                number: qp_number,
            };
            iwtrace::iwarp_cq_overrun::emit(qp, id, wr_id, lost);
        });
    }

    /// Reserves room for the requests of a queue, all of which may complete at once: when a
    /// connection ends. A consumer that shares a completion queue among many expects fewer
    /// (nvmet-rdma). As requests keep their [places](sources), no completion is ever lost, and what
    /// many queue pairs share needs its room once. A process has the room that it asked for.
    /// Sleeps.
    pub(crate) fn reserve(
        &self,
        polled: &Arc<Polled>,
        requests: usize,
    ) -> Result<Option<SourceId>> {
        let mut reserved = self.reserved.lock();
        let Some((known, room, queues, has_room)) = self.with_ring(|ring| {
            let known = ring.sources.share(polled);
            let (queues, has_room) = (ring.sources.len(), ring.sources.has_room());
            (known, ring.entries.len(), queues, has_room)
        }) else {
            return Ok(None);
        };
        if known.is_some() {
            return Ok(known);
        }
        let all = reserved.checked_add(requests).ok_or(EINVAL)?;
        // What was there before is freed without the lock.
        if all > room {
            let entries = CqRing::slots(all)?;
            drop(self.with_ring(|ring| ring.grow(entries)));
        }
        if !has_room {
            let more = Sources::with_room(queues.max(1).checked_mul(2).ok_or(ENOMEM)?)?;
            drop(self.with_ring(|ring| ring.sources.grow(more)));
        }
        let source = Source {
            polled: polled.clone(),
            requests,
            users: 1,
        };
        let id = self.with_ring(|ring| ring.sources.insert(source)).flatten();
        *reserved = all;
        Ok(Some(id.ok_or(ENOMEM)?))
    }

    /// Releases the room for the requests of a queue, of which a queue pair has none any more.
    /// Sleeps.
    pub(crate) fn release(&self, id: SourceId) {
        let mut reserved = self.reserved.lock();
        if let Some(source) = self.with_ring(|ring| ring.sources.release(id)).flatten() {
            *reserved = reserved.saturating_sub(source.requests);
        }
    }

    /// Calls the function with the entries of a consumer in the kernel.
    fn with_ring<T>(&self, function: impl FnOnce(&mut CqRing) -> T) -> Option<T> {
        self.state.with(|state| state.private().map(function))
    }

    /// Returns the number of completions that were lost so far. May be called in any context.
    pub(crate) fn overruns(&self) -> u64 {
        self.state.with(|state| state.overruns)
    }

    /// Removes the oldest completion. May be called in any context.
    pub(crate) fn pop(&self) -> Option<Cqe> {
        self.with_ring(CqRing::pop)?
    }

    /// Removes the completions of a queue pair that is destroyed. A process does that itself.
    pub(crate) fn purge(&self, qp: usize) {
        self.with_ring(|ring| ring.purge(qp));
    }

    /// Ends the notifications: the consumer has no queue any more.
    pub(crate) fn detach(&self) {
        self.ib_cq.with(|cq| *cq = None);
    }

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

/// An `ib_cq` with the data of this crate, as the core allocates it.
#[repr(C)]
pub(crate) struct IbCq {
    ib: cbindings::ib_cq,
    queue: MaybeUninit<Arc<CompletionQueue>>,
    user: MaybeUninit<Option<UserData>>,
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
