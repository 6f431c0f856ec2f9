// SPDX-License-Identifier: GPL-2.0

//! Receiving: each segment is placed, then complete messages are delivered in order.

use crate::prelude::*;
use crate::{
    end_reason::EndReason,
    stream::Requests, //
};
use provider::{
    borrowed::Piece,
    queue::QpEvent,
    region::Access,
    wr, //
};
use rdmap::{
    fault,
    header,
    order::Order,
    rx,
    stag::Denied,
    tx, //
};

/// The memory of the engine's queues.
pub(crate) struct Slots;

impl rx::Slots for Slots {
    type Receives = KVVec<rx::Receive>;
    type Inbound = KVVec<rx::InboundSlot>;
    type Outstanding = KVVec<rx::Outstanding>;
}

impl tx::Slots for Slots {
    type Requests = KVVec<tx::Posted>;
    type Responses = KVVec<rx::InboundRequest>;
}

/// The result of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// There may be more to receive at once.
    More,
    /// There is nothing to receive until an event.
    Idle,
    /// The stream ends, without a Terminate of this end.
    Ended,
    /// Nothing more will arrive.
    Over {
        /// The peer closed in order.
        graceful: bool,
        /// The reason.
        reason: EndReason,
    },
}

/// The result of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// It is placed, and complete messages are delivered.
    Done,
    /// The stream ends, without a Terminate of this end.
    Ended,
}

/// The receiving part of a stream, apart from its connection.
pub(crate) struct Receiver<'a, 'm, O: Order> {
    pub(super) shared: &'a DeviceState,
    pub(super) queues: &'a Queues,
    pub(super) memory: &'a RegisteredMemory<'m>,
    pub(super) rx: &'a mut rx::RxHalf<O, Slots>,
    pub(super) tx: &'a mut tx::TxHalf<Slots>,
    pub(super) sends: &'a mut Requests<wr::SendRequest>,
    pub(super) receives: &'a mut Requests<wr::ReceiveRequest>,
    pub(super) terminated: &'a mut Option<Code>,
}

impl<O: Order> Receiver<'_, '_, O> {
    /// Increments a counter.
    pub(crate) fn count(&self, count: Count) {
        self.shared.counters.add(count);
    }

    /// Returns whether the stream has a fault.
    pub(crate) fn has_failed(&self) -> bool {
        self.tx.fault().is_some()
    }

    /// Ends the stream with a fault. Only the first one counts.
    pub(crate) fn fail(&mut self, fault: Fault) {
        self.tx.fail(fault);
    }

    /// Returns the order of the peer's segments.
    pub(crate) fn order(&mut self) -> &mut O {
        self.rx.order()
    }

    /// Handles a segment of `length` octets that begins with `head`. `copy` copies octets of it,
    /// from an offset on, to a piece of memory. An error is one of this machine.
    pub(crate) fn segment(
        &mut self,
        key: O::Key,
        head: &[u8],
        length: usize,
        mut copy: impl FnMut(usize, Piece<'_>) -> Result,
    ) -> Result<Handled> {
        // The Receive of a Send was posted before the peer could know that it may send. A tagged
        // segment needs none.
        if !head
            .first()
            .is_some_and(|control| header::Header::is_tagged(*control))
        {
            self.take_receives(head);
        }
        let place = match self.rx.segment(key, head, length, self.memory) {
            Ok(place) => place,
            Err(rx::Refusal::Fault(fault)) => {
                self.tx.fail(fault);
                self.complete_too_long(fault, head);
                return self.deliver();
            }
            Err(rx::Refusal::Terminate(_) | rx::Refusal::Order(_)) => return Ok(Handled::Ended),
        };
        let header_len = head
            .first()
            .map_or(0, |control| header::Header::len_of(*control));
        let mut at = header_len;
        let mut copy = |piece: Piece<'_>| -> Result {
            copy(at, piece)?;
            at = at.saturating_add(usize::try_from(piece.len())?);
            Ok(())
        };
        let copied = match place {
            rx::Placement::Receive {
                receive,
                offset,
                length,
            } => {
                let request = self.receives.get(receive).ok_or(EINVAL)?;
                let of_receives = RegisteredMemory {
                    pd: self.queues.receive_pd(self.memory.pd),
                    ..*self.memory
                };
                let memory = |run: wr::Run<'_>| of_receives.pieces(run, Access::Write, &mut copy);
                match request.refused() {
                    None => request.sg_list.runs(offset, length, memory),
                    Some(_) => Err(EINVAL),
                }
            }
            rx::Placement::Write(range) | rx::Placement::Response { range, .. } => {
                self.memory.copy(range, Access::Write, copy)
            }
            rx::Placement::Nothing => Ok(()),
        };
        if copied.is_ok() {
            self.rx.placed();
            return self.deliver();
        }
        self.rx.not_placed();
        self.tx.fail(match place {
            // The consumer has posted memory that is not registered, or may not be written.
            rx::Placement::Receive { receive, .. } => {
                if let Some(request) = self.receives.take(receive) {
                    let status = request.refused().unwrap_or(wr::Status::Failed);
                    self.queues
                        .complete_receive(request, status, 0, false, None);
                }
                Fault::LOCAL
            }
            // It was invalidated since it was looked up.
            _ => {
                let violation = fault::Violation::Tagged(Denied::Invalid);
                Fault::peer(violation, fault::OffendingSegment::of(head, length))
            }
        });
        self.deliver()
    }

    /// Completes the Receive of a process that a message was too long for: that of the oldest one
    /// that is not complete. A consumer in the kernel sees it flushed.
    fn complete_too_long(&mut self, fault: Fault, head: &[u8]) {
        let is_send = || {
            let header = header::Header::parse(head).map(|(header, _)| header.model);
            matches!(
                header,
                Ok(header::Model::Untagged {
                    message: header::Untagged::Send { .. },
                    ..
                })
            )
        };
        let is_too_long = fault.cause == fault::Cause::Peer(fault::Violation::TooLong);
        if !is_too_long || !self.queues.is_of_process() || !is_send() {
            return;
        }
        if let Some(request) = self.receives.take_oldest() {
            self.queues
                .complete_receive(request, wr::Status::TooLong, 0, false, None);
        }
    }

    /// Passes posted Receives to the engine: all of the queue pair's own, and of a shared receive
    /// queue those that a segment which begins with `head` needs.
    fn take_receives(&mut self, head: &[u8]) {
        // What is left then is flushed: some that were taken may be complete, for which there is no
        // room again.
        if self.queues.is_of_process() && self.tx.fault().is_some() {
            return;
        }
        if self.queues.shared_receives().is_some() {
            // All, or none: a message for which there are too few ends the stream, and others are
            // to have them then. Only if these take some meanwhile is a part taken.
            let wanted = u32::try_from(self.rx.receives_wanted(head)).unwrap_or(u32::MAX);
            for wanted in (1..=wanted).rev() {
                let Some(request) = self.queues.take_shared_receive(wanted) else {
                    return;
                };
                self.post_receive(request);
            }
            return;
        }
        for _ in 0..self.queues.queue_sizes().receives {
            let Some(request) = self.queues.take_receive() else {
                return;
            };
            self.post_receive(request);
        }
    }

    /// Passes a Receive to the engine.
    fn post_receive(&mut self, request: KBox<wr::ReceiveRequest>) {
        let posted = self.rx.post_receive(request.capacity());
        let left = match posted {
            Ok(number) => self.receives.put(number, request),
            Err(_) => Some(request),
        };
        if let Some(request) = left {
            self.queues
                .complete_receive(request, wr::Status::Failed, 0, false, None);
        }
    }

    /// Stores the result of an atomic operation, as a number of this machine.
    fn store(&mut self, number: u64, original: u64) -> Result {
        let request = self.sends.get(number).ok_or(EINVAL)?;
        let octets = original.to_ne_bytes();
        let mut left = octets.as_slice();
        let mut copy = |piece: Piece<'_>| {
            let (here, behind) = left
                .split_at_checked(usize::try_from(piece.len())?)
                .ok_or(EINVAL)?;
            left = behind;
            piece.copy_from(here)
        };
        let length = request.sg_list.len();
        request.sg_list.runs(0, length, |run| {
            self.memory.pieces(run, Access::Write, &mut copy)
        })
    }

    /// Returns the Receive of a message that is delivered, unless that was refused: then the
    /// message had no octets, which would have found out, and the stream fails.
    fn take_receive(&mut self, receive: u64) -> Result<Option<KBox<wr::ReceiveRequest>>> {
        let request = self.receives.take(receive).ok_or(EINVAL)?;
        let Some(status) = request.refused() else {
            return Ok(Some(request));
        };
        self.queues
            .complete_receive(request, status, 0, false, None);
        self.tx.fail(Fault::LOCAL);
        Ok(None)
    }

    /// Delivers messages that are complete and in order.
    pub(crate) fn deliver(&mut self) -> Result<Handled> {
        loop {
            match self.rx.deliver(self.memory) {
                Ok(None) => return Ok(Handled::Done),
                Ok(Some(rx::Delivery::Message {
                    receive,
                    length,
                    solicited,
                    invalidated,
                })) => {
                    let Some(request) = self.take_receive(receive)? else {
                        return Ok(Handled::Done);
                    };
                    let invalidated = invalidated.map(|stag| stag.0);
                    self.queues.complete_receive(
                        request,
                        wr::Status::Success,
                        length,
                        solicited,
                        invalidated,
                    );
                }
                Ok(Some(rx::Delivery::Immediate {
                    receive,
                    data: [a, b, c, d, ..],
                    written,
                    solicited,
                })) => {
                    let Some(request) = self.take_receive(receive)? else {
                        return Ok(Handled::Done);
                    };
                    self.queues
                        .complete_immediate(request, [a, b, c, d], written, solicited);
                }
                Ok(Some(rx::Delivery::Request(request))) => {
                    self.tx.respond(request).map_err(|_| EINVAL)?;
                }
                Ok(Some(rx::Delivery::AtomicDone { request, original })) => {
                    // The engine knows whether the request is still there.
                    self.tx.done(request).map_err(|_| EINVAL)?;
                    if self.store(request, original).is_err() {
                        // Its memory has gone since the request was sent.
                        self.tx.spoil(request);
                    }
                }
                Ok(Some(rx::Delivery::ReadDone {
                    read,
                    to_invalidate,
                })) => {
                    if let Some(stag) = to_invalidate {
                        self.memory.invalidate_local(stag);
                    }
                    self.tx.done(read).map_err(|_| EINVAL)?;
                }
                Ok(Some(rx::Delivery::Terminate(terminate))) => {
                    // RFC 5040, section 5.4: the consumer is notified of it. Its event has no place
                    // for the reason, so the log has it.
                    // Argues for P3.2-7.
                    self.shared.counters.add(Count::TerminateReceived);
                    *self.terminated = Some(terminate.code);
                    self.tx.refused(&terminate);
                    self.queues.report(QpEvent::Fatal);
                    return Ok(Handled::Ended);
                }
                Err(fault) => {
                    self.tx.fail(fault);
                    return Ok(Handled::Done);
                }
            }
        }
    }
}
