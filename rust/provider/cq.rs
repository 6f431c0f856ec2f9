// SPDX-License-Identifier: GPL-2.0

//! Completion queues: a ring of completions, and notification of the consumer or the process.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

mod entries;
mod sources;
mod verbs;

pub(crate) use entries::{
    Armed,
    Cqe, //
};
pub(crate) use sources::{
    Polled,
    SourceId, //
};
pub(crate) use verbs::{
    arm,
    create,
    destroy,
    poll,
    IbCq, //
};

use crate::user::{
    memory_flags,
    rings::CompletionRing, //
};
use core::ptr::NonNull;
use entries::{
    CqRing,
    Entries,
    State, //
};
use ext::{
    lock::IrqLock,
    new_irq_lock, //
};
use iwtrace::QpId;
use kernel::{
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
        let ring = CqRing::new(capacity)?;
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
        self.with_ring(|ring| ring.arm(wanted)).ok_or(EINVAL)
    }

    /// Returns whether the consumer would be notified of a completion that asks for it.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn is_armed(&self) -> bool {
        self.with_ring(|ring| ring.is_armed()).unwrap_or(false)
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
    /// many queue pairs share, a shared receive queue, needs its room once. A process has the room
    /// that it asked for. Sleeps.
    ///
    /// The room grows in steps, as each of them copies what is there: a queue pair costs the same,
    /// however many there are.
    pub(crate) fn reserve(
        &self,
        polled: &Arc<Polled>,
        requests: usize,
        is_shared: bool,
    ) -> Result<Option<SourceId>> {
        let mut reserved = self.reserved.lock();
        let Some((known, room, queues, has_room)) = self.with_ring(|ring| {
            let known = match is_shared {
                true => ring.sources.share(polled),
                false => None,
            };
            let (queues, has_room) = (ring.sources.len(), ring.sources.has_room());
            (known, ring.room(), queues, has_room)
        }) else {
            return Ok(None);
        };
        if known.is_some() {
            return Ok(known);
        }
        let all = reserved.checked_add(requests).ok_or(EINVAL)?;
        // What was there before is freed without the lock.
        if all > room {
            let entries = CqRing::slots(all.max(room.saturating_add(room / 2)))?;
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

    /// Returns how many completions there is room for.
    #[cfg(RPCRDMA_SELFTEST)]
    pub(crate) fn room(&self) -> usize {
        self.with_ring(|ring| ring.room()).unwrap_or(0)
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
}
