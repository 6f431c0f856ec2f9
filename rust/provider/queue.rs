// SPDX-License-Identifier: GPL-2.0

//! The two work queues of a queue pair: requests from the post to the completion.
//!
//! Posting, in any context, moves a request from the free ones to the posted ones. The driver [takes](Queues::take_send)
//! it, in the order of posting, and [completes](Queues::complete_send) it, after which it is free again.

use crate::cq::CompletionQueue;
use crate::cq::Entry;
use crate::fifo::Fifo;
use crate::wr::Operation;
use crate::wr::ReceiveRequest;
use crate::wr::Request;
use crate::wr::SendRequest;
use crate::wr::Status;
use iwraw::lock::IrqLock;
use iwraw::new_irq_lock;
use kernel::prelude::*;
use kernel::sync::Arc;

struct Lists<R> {
    free: Fifo<KBox<R>>,
    posted: Fifo<KBox<R>>,
    // Nothing of this is to be carried out any more.
    closed: bool,
}

impl<R: Request> Lists<R> {
    fn new(home: usize, capacity: usize, entries: usize) -> Result<Self> {
        let mut free = Fifo::new(capacity)?;
        for _ in 0..capacity {
            let request = KBox::new(R::new(home, entries)?, GFP_KERNEL)?;
            free.push(request).map_err(|_| ENOMEM)?;
        }
        Ok(Self {
            free,
            posted: Fifo::new(capacity)?,
            closed: false,
        })
    }
}

/// Posts a chain of requests. Stops at the first that fails, which `bad` then names.
///
/// # Safety
///
/// `raw` begins a chain of valid requests, whose memory stays allocated until they are completed. `bad` is valid.
unsafe fn post<R: Request>(
    lists: &IrqLock<Lists<R>>,
    mut raw: *const R::Raw,
    bad: *mut *const R::Raw,
    signal_all: bool,
) -> Result {
    while !raw.is_null() {
        let posted = lists.with(|lists| {
            let mut request = lists.free.pop().ok_or(ENOMEM)?;
            // SAFETY: The caller vouches for the chain.
            let filled = unsafe { request.fill(raw, signal_all) };
            let list = match filled {
                Ok(()) => &mut lists.posted,
                Err(_) => &mut lists.free,
            };
            // There is room: each of them can hold all.
            let _ = list.push(request);
            filled
        });
        if let Err(error) = posted {
            if !bad.is_null() {
                // SAFETY: The caller promises it.
                unsafe { bad.write(raw) };
            }
            return Err(error);
        }
        // SAFETY: The caller vouches for the chain.
        raw = unsafe { R::next(raw) };
    }
    Ok(())
}

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug)]
pub struct Capacities {
    /// Requests of the send queue.
    pub sends: usize,
    /// Requests of the receive queue.
    pub receives: usize,
    /// SGEs of a send request.
    pub send_entries: usize,
    /// SGEs of a receive request.
    pub receive_entries: usize,
}

/// The work queues of a queue pair.
#[pin_data]
pub struct Queues {
    #[pin]
    send: IrqLock<Lists<SendRequest>>,
    #[pin]
    receive: IrqLock<Lists<ReceiveRequest>>,
    send_cq: Arc<CompletionQueue>,
    receive_cq: Arc<CompletionQueue>,
    // The queue pair, as completions name it; also says which requests are of these queues.
    qp: usize,
    signal_all: bool,
    capacities: Capacities,
}

impl Queues {
    pub(crate) fn new(
        qp: usize,
        capacities: Capacities,
        send_cq: Arc<CompletionQueue>,
        receive_cq: Arc<CompletionQueue>,
        signal_all: bool,
    ) -> Result<Arc<Self>> {
        let send = Lists::new(qp, capacities.sends, capacities.send_entries)?;
        let receive = Lists::new(qp, capacities.receives, capacities.receive_entries)?;
        Arc::pin_init(
            pin_init!(Self {
                send <- new_irq_lock!(send),
                receive <- new_irq_lock!(receive),
                send_cq,
                receive_cq,
                qp,
                signal_all,
                capacities,
            }),
            GFP_KERNEL,
        )
    }

    /// How much room there is.
    #[inline]
    pub fn capacities(&self) -> Capacities {
        self.capacities
    }

    /// `post_send`.
    ///
    /// # Safety
    ///
    /// As [`post`].
    pub(crate) unsafe fn post_send(
        &self,
        raw: *const iwraw::ib_send_wr,
        bad: *mut *const iwraw::ib_send_wr,
    ) -> Result {
        // SAFETY: The caller vouches for it.
        unsafe { post(&self.send, raw, bad, self.signal_all) }
    }

    /// `post_recv`.
    ///
    /// # Safety
    ///
    /// As [`post`].
    pub(crate) unsafe fn post_receive(
        &self,
        raw: *const iwraw::ib_recv_wr,
        bad: *mut *const iwraw::ib_recv_wr,
    ) -> Result {
        // SAFETY: The caller vouches for it.
        unsafe { post(&self.receive, raw, bad, false) }
    }

    /// Has no send request carried out that was not taken until now: [`Self::take_send`] returns none any more. To be called before the
    /// consumer is told that its queue pair is in error state: what it posts then is flushed, and so completes even if it did not ask for a
    /// completion. The core relies on that when it drains.
    pub fn close_sends(&self) {
        self.send.with(|lists| lists.closed = true);
    }

    /// The oldest send request that was not taken yet, to be carried out.
    pub fn take_send(&self) -> Option<KBox<SendRequest>> {
        self.send.with(|lists| match lists.closed {
            true => None,
            false => lists.posted.pop(),
        })
    }

    /// The oldest send request that was not taken yet, to be flushed.
    pub fn take_send_to_flush(&self) -> Option<KBox<SendRequest>> {
        self.send.with(|lists| lists.posted.pop())
    }

    /// The oldest receive request that was not taken yet.
    pub fn take_receive(&self) -> Option<KBox<ReceiveRequest>> {
        self.receive.with(|lists| lists.posted.pop())
    }

    /// Completes a send request. Those that succeed are told of only if the consumer asked for that.
    pub fn complete_send(&self, mut request: KBox<SendRequest>, status: Status) {
        let (opcode, length) = match &request.operation {
            Operation::Send { .. } => (iwraw::ib_wc_opcode_IB_WC_SEND, request.memory.len()),
            Operation::Write { .. } => (iwraw::ib_wc_opcode_IB_WC_RDMA_WRITE, request.memory.len()),
            Operation::Read { length, .. } => (iwraw::ib_wc_opcode_IB_WC_RDMA_READ, *length),
            Operation::Register { .. } => (iwraw::ib_wc_opcode_IB_WC_REG_MR, 0),
            Operation::Invalidate(_) => (iwraw::ib_wc_opcode_IB_WC_LOCAL_INV, 0),
        };
        if request.home != self.qp {
            return;
        }
        let entry = Entry {
            id: request.id,
            qp: self.qp,
            status: status.code(),
            opcode,
            length,
            invalidated: None,
        };
        let told = request.signalled || status != Status::Success;
        // What it names may be freed here, but not where requests are posted.
        request.operation = Operation::Invalidate(0);
        self.send.with(|lists| {
            let _ = lists.free.push(request);
        });
        if told {
            self.send_cq.push(entry, false);
        }
    }

    /// Completes a receive request, to which `length` octets were sent, and whose Send invalidated that STag.
    pub fn complete_receive(
        &self,
        request: KBox<ReceiveRequest>,
        status: Status,
        length: u32,
        solicited: bool,
        invalidated: Option<u32>,
    ) {
        if request.home != self.qp {
            return;
        }
        let entry = Entry {
            id: request.id,
            qp: self.qp,
            status: status.code(),
            opcode: iwraw::ib_wc_opcode_IB_WC_RECV,
            length,
            invalidated,
        };
        self.receive.with(|lists| {
            let _ = lists.free.push(request);
        });
        self.receive_cq.push(entry, solicited);
    }

    /// Forgets the completions that nobody has polled: the queue pair goes.
    pub(crate) fn forget(&self) {
        self.send_cq.forget(self.qp);
        self.receive_cq.forget(self.qp);
    }
}

/// Places that no consumer hears of. When one drains a queue, the core posts a request of its own, which must not fail; a
/// consumer that fills the queue up to what it was told may have left none for that (nvmet-rdma).
const DRAIN: u32 = 2;

/// Room for `wanted` requests, and for what the core posts when it drains.
pub(crate) fn capacity(wanted: u32, most: u32) -> Result<usize> {
    if wanted > most {
        return Err(EINVAL);
    }
    let room = wanted.saturating_add(DRAIN).next_power_of_two();
    Ok(usize::try_from(room)?)
}

/// How many requests a consumer is told that there is room for.
pub(crate) fn told(capacity: usize) -> Result<u32> {
    Ok(u32::try_from(capacity)?.saturating_sub(DRAIN))
}
