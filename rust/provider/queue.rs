// SPDX-License-Identifier: GPL-2.0

//! The two work queues of a queue pair, and what completes there.
//!
//! The driver [takes](Queues::take_send) a request that was posted, in the order of posting, and
//! [completes](Queues::complete_send) it, after which it is free again. A process can post for
//! ever; whoever takes requests until there is none takes at most as many as there are slots at a
//! time ([`Queues::queue_sizes`]).

use crate::{
    cq::{
        CompletionQueue,
        Cqe,
        Polled,
        SourceId, //
    },
    region::ProtectionDomain,
    srq::SharedReceives,
    user::{
        memory_flags,
        rings::RequestRing, //
    },
    work_queue::{
        post,
        take,
        WorkQueue, //
    },
    wr::{
        Atomic,
        Operation,
        ReceiveRequest,
        Request,
        SendRequest,
        Status, //
    }, //
};
use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicU32,
        Ordering, //
    }, //
};
use ext::{
    lock::IrqLock,
    new_irq_lock, //
};
use iwtrace::QpId;
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The rings of a process.
pub(crate) struct UserRings {
    pub(crate) send: RequestRing,
    // If it uses no shared receive queue.
    pub(crate) receive: Option<RequestRing>,
}

/// An event of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpEvent {
    /// The stream ended with an error.
    Fatal,
    /// The peer broke a rule with what it sent.
    RequestError,
    /// The peer named memory that it may not access.
    AccessError,
    /// It takes nothing from its shared receive queue any more, and what it had taken is complete.
    LastReceive,
}

/// The sizes of the queues of a queue pair.
#[derive(Clone, Copy, Debug)]
pub struct QueueSizes {
    /// Requests of the send queue.
    pub sends: usize,
    /// Requests of the receive queue; none if it is a shared one.
    pub receives: usize,
    /// SGEs of a send request.
    pub send_sge: usize,
    /// SGEs of a receive request.
    pub receive_sge: usize,
}

/// The work queues of a queue pair.
///
/// # Examples
///
/// ```
/// use provider::{
///     queue::Queues,
///     wr::Status, //
/// };
///
/// /// Completes what was posted and not taken, as the queue pair is in error state.
/// fn flush(queues: &Queues) {
///     while let Some(request) = queues.take_send_to_flush() {
///         queues.complete_send(request, Status::Flushed);
///     }
///     while let Some(request) = queues.take_receive() {
///         queues.complete_receive(request, Status::Flushed, 0, false, None);
///     }
/// }
/// ```
#[pin_data]
pub struct Queues {
    #[pin]
    send: IrqLock<WorkQueue<SendRequest>>,
    #[pin]
    receive: IrqLock<WorkQueue<ReceiveRequest>>,
    // Instead of `receive`, which is empty then.
    shared: Option<Arc<SharedReceives>>,
    send_cq: Arc<CompletionQueue>,
    receive_cq: Arc<CompletionQueue>,
    // The queue pair, as completions name it; it also marks requests of its own queues.
    qp: usize,
    // Its number, and that of its device; 0 until it has one.
    qp_number: AtomicU32,
    device: AtomicU32,
    is_of_process: bool,
    signal_all: bool,
    queue_sizes: QueueSizes,
    // The numbers of completions that either completion queue had lost before.
    overruns_before: [u64; 2],
    reservation: CqReservation,
    // INVARIANT: A queue pair that is not destroyed. The lock is held during a notification, so
    // that it stays.
    #[pin]
    ib_qp: IrqLock<Option<NonNull<cbindings::ib_qp>>>,
}

// SAFETY: The pointer to `ib_qp` is used under a lock only; everything else may be sent.
unsafe impl Send for Queues {}
// SAFETY: The pointer to `ib_qp` is used under a lock only, and locks protect everything else that
// changes.
unsafe impl Sync for Queues {}

/// Reserved entries of completion queues for all requests that there is room for: of the sends, and
/// of the receives. They are released when this is dropped.
struct CqReservation([(Arc<CompletionQueue>, Option<SourceId>); 2]);

impl CqReservation {
    /// Reserves the entries for queues with that many places, of which that of Receives may be one
    /// of many queue pairs. Sleeps.
    fn reserve(
        send_cq: Arc<CompletionQueue>,
        (sends, send_places): (&Arc<Polled>, usize),
        receive_cq: Arc<CompletionQueue>,
        (receives, receive_places): (&Arc<Polled>, usize),
        is_shared: bool,
    ) -> Result<Self> {
        let send = send_cq.reserve(sends, send_places, false)?;
        let mut reservation = Self([(send_cq, send), (receive_cq, None)]);
        let [_, (receive_cq, receive)] = &mut reservation.0;
        // If it fails, the drop gives back the other.
        *receive = receive_cq.reserve(receives, receive_places, is_shared)?;
        Ok(reservation)
    }

    /// Returns how the completion queues know the two queues.
    fn sources(&self) -> [Option<SourceId>; 2] {
        let [(_, send), (_, receive)] = self.0;
        [send, receive]
    }
}

impl Drop for CqReservation {
    fn drop(&mut self) {
        for (cq, source) in &self.0 {
            if let Some(source) = source {
                cq.release(*source);
            }
        }
    }
}

impl Queues {
    pub(crate) fn new(
        qp: usize,
        queue_sizes: QueueSizes,
        send_cq: Arc<CompletionQueue>,
        receive_cq: Arc<CompletionQueue>,
        signal_all: bool,
        rings: Option<UserRings>,
        shared: Option<Arc<SharedReceives>>,
    ) -> Result<Arc<Self>> {
        let is_of_process = rings.is_some();
        let (send, receive) = match rings {
            None => (None, None),
            Some(rings) => (Some(rings.send), rings.receive),
        };
        let send = WorkQueue::new(qp, queue_sizes.sends, queue_sizes.send_sge, send)?;
        let receive = WorkQueue::new(qp, queue_sizes.receives, queue_sizes.receive_sge, receive)?;
        let (receives, receive_places) = match &shared {
            None => (receive.polled().clone(), queue_sizes.receives),
            // All of them may complete here.
            Some(shared) => (shared.polled(), usize::try_from(shared.size())?),
        };
        let reservation = CqReservation::reserve(
            send_cq.clone(),
            (send.polled(), queue_sizes.sends),
            receive_cq.clone(),
            (&receives, receive_places),
            shared.is_some(),
        )?;
        let overruns_before = [send_cq.overruns(), receive_cq.overruns()];
        Arc::pin_init(
            pin_init!(Self {
                send <- new_irq_lock!(send),
                receive <- new_irq_lock!(receive),
                shared,
                send_cq,
                receive_cq,
                qp,
                qp_number: AtomicU32::new(0),
                device: AtomicU32::new(0),
                is_of_process,
                signal_all,
                queue_sizes,
                overruns_before,
                reservation,
                ib_qp <- new_irq_lock!(None),
            }),
            memory_flags(is_of_process),
        )
    }

    /// Returns the numbers of the queue pair, for traces.
    pub fn id(&self) -> QpId {
        QpId {
            device: self.device.load(Ordering::Relaxed),
            number: self.qp_number.load(Ordering::Relaxed),
        }
    }

    /// Traces a request of a consumer or a process that is refused, if there is one.
    ///
    /// # Safety
    ///
    /// `raw` is valid or null.
    pub(crate) unsafe fn note_refused<R: Request>(&self, raw: *const R::Raw, error: Error) {
        if raw.is_null() || !iwtrace::iwarp_wr_refused::is_on() {
            return;
        }
        // SAFETY: The caller promises it, as it is not null.
        let (id, opcode) = unsafe { R::id_and_opcode(raw) };
        iwtrace::iwarp_wr_refused::emit(self.id(), R::IS_RECEIVE, id, opcode, error);
    }

    /// Traces a request that failed.
    fn note_failed(&self, receive: bool, id: u64, status: Status) {
        if !matches!(status, Status::Success | Status::Flushed) {
            iwtrace::event!(iwarp_wr_failed(self.id(), receive, id, status.code()));
        }
    }

    /// Returns the sizes.
    #[inline]
    pub fn queue_sizes(&self) -> QueueSizes {
        self.queue_sizes
    }

    /// Returns whether a process posts the requests.
    #[inline]
    pub fn is_of_process(&self) -> bool {
        self.is_of_process
    }

    /// Returns the number of Receives of the shared receive queue that they use, if they use one.
    #[inline]
    pub fn shared_receives(&self) -> Option<u32> {
        self.shared.as_ref().map(|shared| shared.size())
    }

    /// Returns the protection domain of the memory of Receives, for a queue pair of `pd`.
    #[inline]
    pub fn receive_pd(&self, pd: ProtectionDomain) -> ProtectionDomain {
        self.shared.as_ref().map_or(pd, |shared| shared.pd())
    }

    /// Returns the numbers of requests that the owner may post: sends, and receives.
    pub(crate) fn advertised(&self) -> Result<(u32, u32)> {
        let sizes = self.queue_sizes;
        Ok(match self.is_of_process {
            false => (advertised(sizes.sends)?, advertised(sizes.receives)?),
            true => (sizes.sends.try_into()?, sizes.receives.try_into()?),
        })
    }

    /// Drops the send requests that a process has posted, as it may not yet.
    pub(crate) fn drop_sends(&self) {
        for _ in 0..self.queue_sizes.sends {
            if !self.send.with(WorkQueue::drop_posted) {
                return;
            }
        }
    }

    /// `post_send`.
    ///
    /// # Safety
    ///
    /// As for [`post`].
    pub(crate) unsafe fn post_send(
        &self,
        raw: *const cbindings::ib_send_wr,
        bad: *mut *const cbindings::ib_send_wr,
    ) -> Result {
        // SAFETY: The caller promises what `post` requires.
        unsafe { post(&self.send, raw, bad, self.signal_all, || self.id()) }
    }

    /// `post_recv`.
    ///
    /// # Safety
    ///
    /// As for [`post`].
    pub(crate) unsafe fn post_receive(
        &self,
        raw: *const cbindings::ib_recv_wr,
        bad: *mut *const cbindings::ib_recv_wr,
    ) -> Result {
        // SAFETY: The caller promises what `post` requires.
        unsafe { post(&self.receive, raw, bad, false, || self.id()) }
    }

    /// Returns whether completions were lost in the completion queues of these requests, even if
    /// only those of others: nobody knows whose. Nothing is to be carried out any more. May be
    /// called in any context.
    pub fn has_overrun(&self) -> bool {
        self.overruns_before != [self.send_cq.overruns(), self.receive_cq.overruns()]
    }

    /// Keeps send requests that were not taken from being carried out: [`Self::take_send`] returns
    /// none any more. To be called before the consumer sees its queue pair in error state: requests
    /// that it posts then are flushed, and so complete even if they are unsignalled. The core
    /// relies on that when it drains.
    pub fn stop_sends(&self) {
        self.send.with(WorkQueue::close);
    }

    /// Takes the oldest posted send request, to be carried out.
    pub fn take_send(&self) -> Option<KBox<SendRequest>> {
        take(&self.send, true)
    }

    /// Returns whether [`Self::take_send`] would return a request. A process does not tell of one
    /// that it posted while none was free.
    pub fn has_send(&self) -> bool {
        self.send.with(|lists| lists.has_next())
    }

    /// Takes the oldest posted send request, to be flushed.
    pub fn take_send_to_flush(&self) -> Option<KBox<SendRequest>> {
        take(&self.send, false)
    }

    /// Takes the oldest posted receive request.
    pub fn take_receive(&self) -> Option<KBox<ReceiveRequest>> {
        take(&self.receive, true)
    }

    /// Takes the oldest Receive of the shared receive queue, if at least `wanted` are there: a
    /// message needs as many.
    pub fn take_shared_receive(&self, wanted: u32) -> Option<KBox<ReceiveRequest>> {
        self.shared.as_ref()?.take(wanted)
    }

    /// Completes a send request. The consumer sees one that succeeded only if it is signalled.
    pub fn complete_send(&self, mut request: KBox<SendRequest>, status: Status) {
        let (opcode, length) = match &request.operation {
            Operation::Send { .. } => (cbindings::ib_wc_opcode_IB_WC_SEND, request.sg_list.len()),
            Operation::Write { .. } => (
                cbindings::ib_wc_opcode_IB_WC_RDMA_WRITE,
                request.sg_list.len(),
            ),
            Operation::Atomic {
                operation, masked, ..
            } => {
                let opcode = match (operation, masked) {
                    (Atomic::FetchAdd { .. }, false) => cbindings::ib_wc_opcode_IB_WC_FETCH_ADD,
                    (Atomic::FetchAdd { .. }, true) => {
                        cbindings::ib_wc_opcode_IB_WC_MASKED_FETCH_ADD
                    }
                    (Atomic::CmpSwap { .. }, false) => cbindings::ib_wc_opcode_IB_WC_COMP_SWAP,
                    (Atomic::CmpSwap { .. }, true) => {
                        cbindings::ib_wc_opcode_IB_WC_MASKED_COMP_SWAP
                    }
                };
                (opcode, request.sg_list.len())
            }
            Operation::Read { length, .. } => (cbindings::ib_wc_opcode_IB_WC_RDMA_READ, *length),
            Operation::Register { .. } => (cbindings::ib_wc_opcode_IB_WC_REG_MR, 0),
            Operation::Invalidate(_) => (cbindings::ib_wc_opcode_IB_WC_LOCAL_INV, 0),
            Operation::Refused(_) => (cbindings::ib_wc_opcode_IB_WC_SEND, 0),
        };
        let status = match &request.operation {
            Operation::Refused(reason) if status == Status::Failed => *reason,
            _ => status,
        };
        if request.owner != self.qp {
            return;
        }
        let id = request.id;
        self.note_failed(false, id, status);
        let is_signalled = request.signalled || status != Status::Success;
        // The region that it names may be freed here, but not where requests are posted.
        request.operation = Operation::Invalidate(0);
        let [source, _] = self.reservation.sources();
        self.free(&self.send, request, is_signalled);
        if is_signalled {
            let entry = Cqe {
                id,
                qp: self.qp,
                qp_number: self.qp_number.load(Ordering::Relaxed),
                status,
                opcode,
                length,
                invalidated: None,
                immediate: None,
                source,
            };
            self.send_cq.push(entry, false);
        }
    }

    /// Completes a receive request with a message of `length` octets, whose Send invalidated that
    /// STag.
    pub fn complete_receive(
        &self,
        request: KBox<ReceiveRequest>,
        status: Status,
        length: u32,
        solicited: bool,
        invalidated: Option<u32>,
    ) {
        let entry = Cqe {
            id: request.id,
            qp: self.qp,
            qp_number: self.qp_number.load(Ordering::Relaxed),
            status,
            opcode: cbindings::ib_wc_opcode_IB_WC_RECV,
            length,
            invalidated,
            immediate: None,
            source: None,
        };
        self.finish_receive(request, entry, solicited);
    }

    /// Completes a receive request with the Immediate Data of a Write of `written` octets.
    ///
    /// That is its length only if the request has no memory: the peer decides how long the Write is
    /// and who gets the Immediate Data, and a consumer that expects none would take the length for
    /// that of a message in its memory.
    pub fn complete_immediate(
        &self,
        request: KBox<ReceiveRequest>,
        data: [u8; 4],
        written: u32,
        solicited: bool,
    ) {
        let entry = Cqe {
            id: request.id,
            qp: self.qp,
            qp_number: self.qp_number.load(Ordering::Relaxed),
            status: Status::Success,
            opcode: cbindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM,
            length: match request.sg_list.entries() {
                0 => written,
                _ => 0,
            },
            invalidated: None,
            immediate: Some(data),
            source: None,
        };
        self.finish_receive(request, entry, solicited);
    }

    fn finish_receive(&self, request: KBox<ReceiveRequest>, mut entry: Cqe, solicited: bool) {
        let (id, status) = (request.id, entry.status);
        let [_, source] = self.reservation.sources();
        entry.source = source;
        match &self.shared {
            None if request.owner == self.qp => self.free(&self.receive, request, true),
            Some(shared) if shared.owns(&request) => shared.give_back(request),
            // It is none of these queues.
            _ => return,
        };
        self.note_failed(true, id, status);
        self.receive_cq.push(entry, solicited);
    }

    /// Frees a request, which may have a completion.
    fn free<R: Request>(
        &self,
        lists: &IrqLock<WorkQueue<R>>,
        request: KBox<R>,
        has_completion: bool,
    ) {
        let keeps_place = has_completion && !self.is_of_process;
        lists.with(|lists| lists.give_back(request, keeps_place));
    }

    /// Sets the queue pair and its number. Its consumer gets events from now on.
    ///
    /// # Safety
    ///
    /// It is not destroyed before [`Self::detach`] was called.
    pub(crate) unsafe fn attach(&self, qp: NonNull<cbindings::ib_qp>, id: QpId) {
        self.qp_number.store(id.number, Ordering::Relaxed);
        self.device.store(id.device, Ordering::Relaxed);
        // INVARIANT: The caller promises it.
        self.ib_qp.with(|ib_qp| *ib_qp = Some(qp));
    }

    /// Reports an event to the consumer. May be called in any context.
    pub fn report(&self, event: QpEvent) {
        let event = match event {
            QpEvent::Fatal => cbindings::ib_event_type_IB_EVENT_QP_FATAL,
            QpEvent::RequestError => cbindings::ib_event_type_IB_EVENT_QP_REQ_ERR,
            QpEvent::AccessError => cbindings::ib_event_type_IB_EVENT_QP_ACCESS_ERR,
            QpEvent::LastReceive => cbindings::ib_event_type_IB_EVENT_QP_LAST_WQE_REACHED,
        };
        self.ib_qp.with(|qp| {
            let Some(qp) = *qp else { return };
            // SAFETY: By the invariant of `ib_qp`, whose lock is held, the queue pair is not
            // destroyed; the core has set these fields.
            let (handler, context, device) = unsafe {
                let qp = qp.as_ptr();
                ((*qp).event_handler, (*qp).qp_context, (*qp).device)
            };
            let mut event = cbindings::ib_event {
                device,
                event,
                ..Default::default()
            };
            event.element.qp = qp.as_ptr();
            if let Some(handler) = handler {
                // SAFETY: The handler of the consumer takes an event, which it does not keep, and
                // its context, in any context.
                unsafe { handler(&mut event, context) };
            }
        });
    }

    /// Removes the completions that nobody has polled, and ends events: the queue pair is
    /// destroyed.
    pub(crate) fn detach(&self) {
        self.ib_qp.with(|ib_qp| *ib_qp = None);
        self.send_cq.purge(self.qp);
        self.receive_cq.purge(self.qp);
    }
}

/// Entries that consumers are not told of. When one drains a queue, the core posts a request of its
/// own, which must not fail; a consumer that fills the queue up to the advertised size may have
/// left no entry for that (nvmet-rdma).
const DRAIN_WRS: u32 = 2;

/// Returns the size of a queue for `wanted` requests, and for those that the core posts when it
/// drains.
pub(crate) fn size_for(wanted: u32, max: u32) -> Result<usize> {
    if wanted > max {
        return Err(EINVAL);
    }
    Ok(usize::try_from(wanted.saturating_add(DRAIN_WRS))?)
}

/// Returns the size that a consumer is told.
pub(crate) fn advertised(size: usize) -> Result<u32> {
    Ok(u32::try_from(size)?.saturating_sub(DRAIN_WRS))
}
