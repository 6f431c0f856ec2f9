// SPDX-License-Identifier: GPL-2.0

//! An established stream.
//!
//! One context at a time owns it. In rounds it takes posted requests, receives, sends, and
//! completes, until there is nothing to do.
//!
//! # What an FPDU passes
//!
//! Over SCTP a chunk takes the place of the FPDU, and has no CRC of its own.
//!
//! ```text
//! socket, receive queue          an event queues the worker, which holds the socket's lock
//!   v                            until it has received
//! TcpConn::receive, Frames::next an FPDU of which all has arrived
//!   v
//! tcp::established, fpdu         a wrong CRC is a fault, and nothing is placed; unless neither end
//!   |                            wants one
//!   v
//! Receiver::segment              first takes the posted Receives from the queue of `provider`
//!   v
//! RxHalf::segment                the header, then the Receive or the STag that it names:
//!   |                            where the octets go, or a fault
//!   v
//! copy                           from the socket's buffers to memory of the consumer
//!   v
//! RxHalf::placed, deliver        what is complete, in the order of the peer:
//!   |   Send                     the Receive completes: `Queues::complete_receive`
//!   |   Immediate Data           the Receive completes, with the data
//!   |   Read or Atomic Request   `TxHalf::respond`: a response is due
//!   |   last octets of a Read    `TxHalf::done`: the Read can complete, after those before it
//!   |   Atomic Response          the value is stored, then the same
//!   |   Terminate                the consumer gets an event, and the stream ends
//!   v
//! Frame::take                    the octets leave the receive queue
//! ```
//!
//! ```text
//! post_send                      the request goes to a queue of `provider`, the worker is queued
//!   v
//! Stream::take_sends             TxHalf::post: the engine has a slot for each request
//!   v
//! Stream::send <-----------------+  as long as there is space for a segment
//!   v                            |
//! TxHalf::peek                   |  the header, and where the payload is; requests and responses.
//!   |                            |  An atomic operation of the peer is carried out at its turn
//!   v                            |
//! Outbox::fpdu                   |  copies the payload, then computes the CRC, if there is one
//!   v                            |
//! TxHalf::commit ----------------+
//!   v
//! Outbox::flush                  TCP takes the octets; if not all, an event reports space
//!   v
//! TxHalf::release, Stream::complete
//!                                TCP has all of it: a Send or Write completes
//! ```
//!
//! A fault goes to `TxHalf::fail`: a Terminate takes the place of the next segment, and nothing
//! follows it.

mod outbound;
pub(crate) mod receiver;

use crate::prelude::*;
use crate::{
    end_reason::EndReason,
    stream::receiver::Slots, //
};
use provider::{
    queue::QpEvent,
    wr, //
};
use rdmap::{
    atomic::Atomic,
    fault::{
        self,
        RemoteError, //
    },
    header::ReadRequest,
    order::Order,
    rx,
    stag::Range,
    tx, //
};

/// The number of requests of a process that are taken at a time.
const TAKE_LIMIT: usize = 256;

/// Returns the number of Receives of a shared receive queue of `all` that a connection holds at
/// most: those of messages that have begun to arrive.
///
/// Over an LLP that keeps the order that is one message, unless the peer interleaves several. Else
/// it is all behind the first one that is not complete, and one small segment can claim them: so a
/// peer gets a quarter, which leaves most to others. 256 is twice the usual depth of queues in
/// storage protocols: so many messages may be behind a lost segment of a peer that does no harm.
fn shared_limit<O: Order>(all: usize) -> usize {
    match O::IN_ORDER {
        true => all.min(16),
        false => (all / 4).clamp(1, 256),
    }
}

/// An established stream.
pub(crate) struct Stream<O: EstablishedConn> {
    conn: O,
    rx: rx::RxHalf<O::Order, Slots>,
    tx: tx::TxHalf<Slots>,
    sends: Requests<wr::SendRequest>,
    receives: Requests<wr::ReceiveRequest>,
    // The error of the peer's Terminate, if it sent one.
    terminated: Option<Code>,
}

impl<O: EstablishedConn> Stream<O> {
    /// Creates a stream over a connection, with the numbers of Reads that both ends agreed on.
    /// Sleeps.
    pub(crate) fn new(mut conn: O, queues: &Queues, reads: ReadLimits) -> Result<Self> {
        let queue_sizes = queues.queue_sizes();
        let (ird, ord) = (usize::from(reads.ird), usize::from(reads.ord));
        let receives = match queues.shared_receives() {
            None => queue_sizes.receives,
            Some(all) => shared_limit::<O::Order>(usize::try_from(all)?),
        };
        Ok(Self {
            rx: rx::RxHalf::new(
                conn.order()?,
                rx::HashKey(provider::random(), provider::random()),
                KVVec::from_elem(rx::Receive::default(), receives, GFP_KERNEL_ACCOUNT)?,
                KVVec::from_elem(rx::InboundSlot::default(), ird, GFP_KERNEL_ACCOUNT)?,
                KVVec::from_elem(rx::Outstanding::default(), ord, GFP_KERNEL_ACCOUNT)?,
            ),
            tx: tx::TxHalf::new(
                KVVec::from_elem(tx::Posted::EMPTY, queue_sizes.sends, GFP_KERNEL_ACCOUNT)?,
                KVVec::from_elem(rx::InboundRequest::default(), ird, GFP_KERNEL_ACCOUNT)?,
                reads.ord,
                <O::Order as Order>::IN_ORDER,
            ),
            sends: Requests::new(queue_sizes.sends)?,
            receives: Requests::new(receives)?,
            terminated: None,
            conn,
        })
    }

    /// Runs one round of work.
    pub(crate) fn round(
        &mut self,
        shared: &DeviceState,
        queues: &Queues,
        memory: &RegisteredMemory<'_>,
    ) -> StreamProgress {
        self.take_sends(queues, memory);
        let received = self.receive(shared, queues, memory);
        let may_send = match received {
            // A fault is reported, and pending responses are sent, also to a peer that sends
            // nothing more itself.
            Ok(Received::Over { graceful, .. }) => graceful && O::HALF_CLOSES,
            Ok(Received::More | Received::Idle) => true,
            // A peer that has sent a Terminate takes nothing more: what is not sent is flushed.
            Ok(Received::Ended) | Err(_) => false,
        };
        let sent = match may_send {
            true => {
                self.take_sends(queues, memory);
                self.send(shared, memory)
            }
            false => Ok(false),
        };
        self.complete(queues);
        match (received, sent) {
            (Ok(Received::Ended), _) => {
                let graceful = self.conn.ended();
                self.over(graceful, EndReason::InvalidTerminate)
            }
            _ if self.tx.is_over() && self.conn.is_empty() => {
                self.conn.finish();
                self.over(true, EndReason::PeerClosed)
            }
            (Err(error), _) | (_, Err(error)) => {
                self.over(false, EndReason::Error(error.to_errno()))
            }
            // There may have been no space for everything that is still to be sent to the peer.
            (Ok(Received::Over { graceful, reason }), _) if !(graceful && self.owes()) => {
                self.over(graceful, reason)
            }
            (Ok(Received::More), _) | (_, Ok(true)) => StreamProgress::More,
            // A completion has freed a request, and nobody tells of one that was posted before.
            _ if queues.is_of_process() && self.tx.fault().is_none() && queues.has_send() => {
                StreamProgress::More
            }
            (Ok(Received::Idle | Received::Over { .. }), Ok(false)) => StreamProgress::Idle,
        }
    }

    /// Ends the stream. What either side has found wrong counts more than `reason`.
    fn over(&self, graceful: bool, reason: EndReason) -> StreamProgress {
        let reason = match (self.terminated, self.tx.fault()) {
            (Some(code), _) => EndReason::PeerTerminated(code),
            (None, Some(fault)) => EndReason::Failed {
                cause: fault.cause,
                is_told: self.tx.is_over(),
            },
            (None, None) => reason,
        };
        StreamProgress::Over { graceful, reason }
    }

    /// Returns whether a fault is still to be reported, or a Read to be answered, to a peer that
    /// may receive, whether it sends or not.
    fn owes(&self) -> bool {
        let tx = &self.tx;
        O::HALF_CLOSES && (tx.owes_responses() || tx.fault().is_some() && !tx.is_over())
    }

    fn receive(
        &mut self,
        shared: &DeviceState,
        queues: &Queues,
        memory: &RegisteredMemory<'_>,
    ) -> Result<Received> {
        self.conn.receive(&mut Receiver {
            shared,
            queues,
            memory,
            rx: &mut self.rx,
            tx: &mut self.tx,
            sends: &mut self.sends,
            receives: &mut self.receives,
            terminated: &mut self.terminated,
        })
    }

    /// Returns the error of the Terminate that this end has sent, if it has.
    pub(crate) fn sent_terminate(&self) -> Option<Code> {
        let fault = self.tx.fault()?;
        self.tx.is_over().then(|| fault.cause.code())
    }

    /// Reports to a peer that exceeded a time limit, if it may still receive, that the stream ends
    /// (RFC 5040, section 6.2.1). Returns whether it did.
    pub(crate) fn terminate_late(
        &mut self,
        shared: &DeviceState,
        memory: &RegisteredMemory<'_>,
    ) -> bool {
        if !O::HALF_CLOSES {
            return false;
        }
        self.tx.fail(Fault::llp(fault::LlpError::Lost));
        self.send(shared, memory).is_ok() && self.tx.is_over()
    }

    /// Returns whether the peer exceeded a time limit.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.conn.has_timed_out()
    }

    /// Returns the time in milliseconds after which to poll, even without an event.
    pub(crate) fn poll_after_ms(&self) -> Option<u32> {
        self.conn.poll_after_ms()
    }

    /// Returns the event that the consumer gets of the end of the stream, if that is an error of
    /// either side. None, if it has one of the peer's Terminate already.
    fn event(&self, queues: &Queues) -> Option<QpEvent> {
        if self.terminated.is_some() {
            return None;
        }
        if queues.has_overrun() {
            return Some(QpEvent::Fatal);
        }
        Some(match self.tx.fault()?.cause {
            fault::Cause::Local | fault::Cause::Llp(_) => QpEvent::Fatal,
            fault::Cause::Peer(
                fault::Violation::Tagged(_)
                | fault::Violation::Source(_)
                | fault::Violation::Invalidate(_),
            ) => QpEvent::AccessError,
            fault::Cause::Peer(_) => QpEvent::RequestError,
        })
    }

    /// Ends the stream: the consumer gets an event if that is an error, and all its requests are
    /// completed. Returns the connection.
    pub(crate) fn end(mut self, queues: &Queues) -> O {
        if let Some(event) = self.event(queues) {
            queues.report(event);
        }
        if let Some(closed) = self.rx.close() {
            self.tx.close(closed);
        }
        self.complete(queues);
        while let Some(number) = self.rx.flush() {
            if let Some(request) = self.receives.take(number) {
                queues.complete_receive(request, wr::Status::Flushed, 0, false, None);
            }
        }
        // The consumer gets back all requests, also those that the engine did not return.
        while let Some(request) = self.sends.pop() {
            queues.complete_send(request, wr::Status::Flushed);
        }
        while let Some(request) = self.receives.pop() {
            queues.complete_receive(request, wr::Status::Flushed, 0, false, None);
        }
        self.conn
    }

    /// Passes posted requests to the engine.
    fn take_sends(&mut self, queues: &Queues, memory: &RegisteredMemory<'_>) {
        let sizes = queues.queue_sizes();
        let limit = match queues.is_of_process() {
            true => sizes.sends.min(TAKE_LIMIT),
            false => sizes.sends,
        };
        for _ in 0..limit {
            // A process can post for ever: what is left is flushed.
            if queues.is_of_process() && self.tx.fault().is_some() {
                return;
            }
            let Some(mut request) = queues.take_send() else {
                return;
            };
            if queues.is_of_process() {
                refuse_sink(&mut request, memory);
            }
            let fence = request.fence;
            let mut post = |operation| self.tx.post(tx::Request { operation, fence });
            // A Read with an ORD of zero fails in its turn, as a local operation that cannot be
            // carried out.
            let posted = post(operation(&request)).or_else(|_| post(tx::Operation::Local));
            match posted {
                Ok(number) => {
                    if let Some(request) = self.sends.put(number, request) {
                        queues.complete_send(request, wr::Status::Failed);
                    }
                }
                // There is a slot for each request of the queue.
                Err(_) => {
                    queues.complete_send(request, wr::Status::Failed);
                    self.tx.fail(Fault::LOCAL);
                }
            }
        }
    }

    /// Completes the requests that are done.
    fn complete(&mut self, queues: &Queues) {
        while let Some(done) = self.tx.complete() {
            let status = match done.status {
                tx::Status::Success => wr::Status::Success,
                tx::Status::Failed => wr::Status::Failed,
                tx::Status::Refused(RemoteError::Access) => wr::Status::RemoteAccess,
                tx::Status::Refused(RemoteError::InvalidRequest) => {
                    wr::Status::RemoteInvalidRequest
                }
                tx::Status::Refused(RemoteError::Operation) => wr::Status::RemoteOperation,
                tx::Status::Flushed => wr::Status::Flushed,
            };
            if let Some(request) = self.sends.take(done.number) {
                queues.complete_send(request, status);
            }
        }
    }
}

/// Converts a request for the engine.
fn operation(request: &wr::SendRequest) -> tx::Operation {
    let length = request.sg_list.len();
    match &request.operation {
        wr::Operation::Send { invalidate } => tx::Operation::Send {
            length,
            solicited: request.solicited,
            invalidate: invalidate.map(Stag),
        },
        wr::Operation::Write {
            stag,
            offset,
            immediate,
        } => {
            let range = Range {
                stag: Stag(*stag),
                offset: *offset,
                length,
            };
            match immediate {
                None => tx::Operation::Write(range),
                // The other half of the eight octets is zero.
                Some([a, b, c, d]) => tx::Operation::WriteImmediate {
                    range,
                    data: [*a, *b, *c, *d, 0, 0, 0, 0],
                    solicited: request.solicited,
                },
            }
        }
        wr::Operation::Atomic {
            stag,
            offset,
            operation,
            ..
        } => tx::Operation::Atomic {
            stag: Stag(*stag),
            offset: *offset,
            operation: match *operation {
                wr::Atomic::FetchAdd { add, mask } => Atomic::FetchAdd { add, mask },
                wr::Atomic::CmpSwap {
                    swap,
                    swap_mask,
                    compare,
                    compare_mask,
                } => Atomic::CmpSwap {
                    swap,
                    swap_mask,
                    compare,
                    compare_mask,
                },
            },
        },
        wr::Operation::Read {
            stag,
            offset,
            sink_stag,
            sink_offset,
            length,
            ..
        } => tx::Operation::Read(ReadRequest {
            sink_stag: Stag(*sink_stag),
            sink_offset: *sink_offset,
            length: *length,
            source_stag: Stag(*stag),
            source_offset: *offset,
        }),
        wr::Operation::Register { .. }
        | wr::Operation::Invalidate(_)
        | wr::Operation::Refused(_) => tx::Operation::Local,
    }
}

/// Refuses a Read of a process that names memory that may not be written. That of a consumer in the
/// kernel may be registered by a request ahead of it.
fn refuse_sink(request: &mut wr::SendRequest, memory: &RegisteredMemory<'_>) {
    let wr::Operation::Read {
        sink_stag,
        sink_offset,
        length,
        ..
    } = request.operation
    else {
        return;
    };
    let sink = Range {
        stag: Stag(sink_stag),
        offset: sink_offset,
        length,
    };
    if memory.check_sink(sink).is_err() {
        request.operation = wr::Operation::Refused(wr::Status::Failed);
    }
}

/// The result of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamProgress {
    /// There may be more to do at once.
    More,
    /// There is nothing to do until an event.
    Idle,
    /// The stream is over. If `graceful`, the last segments are still to be delivered to the peer.
    Over {
        /// A Terminate was sent, or the peer closed in order.
        graceful: bool,
        /// The reason.
        reason: EndReason,
    },
}

/// Requests by consecutive numbers, never more at a time than slots.
struct Requests<R> {
    slots: KVVec<Option<KBox<R>>>,
    // The number behind the last one that was removed.
    oldest: u64,
}

impl<R> Requests<R> {
    /// Creates a table of `capacity` slots. Sleeps.
    fn new(capacity: usize) -> Result<Self> {
        let mut slots = KVVec::with_capacity(capacity, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..capacity {
            slots.push(None, GFP_KERNEL_ACCOUNT)?;
        }
        Ok(Self { slots, oldest: 0 })
    }

    fn slot(&mut self, number: u64) -> Option<&mut Option<KBox<R>>> {
        let capacity = u64::try_from(self.slots.len()).ok()?;
        let index = number.checked_rem(capacity)?;
        self.slots.get_mut(usize::try_from(index).ok()?)
    }

    /// Inserts a request. Returns the previous one of its slot, or one that has no slot.
    fn put(&mut self, number: u64, request: KBox<R>) -> Option<KBox<R>> {
        match self.slot(number) {
            Some(slot) => slot.replace(request),
            None => Some(request),
        }
    }

    /// Returns the request with this number.
    fn get(&mut self, number: u64) -> Option<&R> {
        self.slot(number)?.as_deref()
    }

    /// Removes the request with this number.
    fn take(&mut self, number: u64) -> Option<KBox<R>> {
        let request = self.slot(number)?.take();
        self.oldest = number.saturating_add(1);
        request
    }

    /// Removes the request behind the last one that was removed.
    fn take_oldest(&mut self) -> Option<KBox<R>> {
        self.take(self.oldest)
    }

    /// Removes any one request.
    fn pop(&mut self) -> Option<KBox<R>> {
        self.slots.iter_mut().find_map(Option::take)
    }
}
