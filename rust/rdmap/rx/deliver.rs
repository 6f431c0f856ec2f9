// SPDX-License-Identifier: GPL-2.0

//! Delivery in the order of the sender, and the checks that belong to it (RFC 5040, sections 5.5
//! and 7; RFC 7306, sections 5.4 and 7).

use crate::fault::{Fault, Violation};
use crate::order::{Order, Seq};
use crate::rx::message::Message;
use crate::rx::{Awaited, Delivery, InboundSlot, RxHalf, Slots, State, Wanted};
use crate::stag::{Access, Memory};

/// The kind of the message to deliver next, the oldest of all.
#[derive(Clone, Copy)]
enum Next {
    /// A message that has a Receive.
    Send,
    Request,
    Response,
    Terminate,
}

impl<O: Order, S: Slots> RxHalf<O, S> {
    /// Delivers the next message that is complete and in order. Returns `None` if there is none
    /// yet.
    pub fn deliver(&mut self, memory: &impl Memory) -> Result<Option<Delivery>, Fault> {
        let in_order_upto = match self.state {
            State::Open => self.order.in_order_upto(),
            State::Failed(seq) => seq,
            State::Closed => return Ok(None),
        };
        let Some((seq, next)) = self.next(in_order_upto) else {
            return Ok(None);
        };
        let delivered = match next {
            Next::Send => self.deliver_send(seq, memory),
            Next::Request => self.deliver_request(seq, memory),
            Next::Response => self.deliver_response(seq),
            Next::Terminate => {
                self.state = State::Closed;
                return Ok(self.terminate.map(|(_, told)| Delivery::Terminate(told)));
            }
        };
        if delivered.is_err() {
            self.state = State::Closed;
        }
        delivered
    }

    /// Finds the next message: the oldest one of each queue is a candidate, and the one that the
    /// peer sent first is taken.
    fn next(&self, in_order_upto: Seq) -> Option<(Seq, Next)> {
        let ended = |message: &Message| message.ended();
        let send = self
            .receives
            .front()
            .and_then(|receive| ended(&receive.message));
        let request = self.inbound.get(self.next_response);
        let request = request.and_then(|inbound| inbound.0.as_ref().map(|(seq, _)| *seq));
        let response = self
            .outstanding
            .front()
            .and_then(|read| ended(&read.message));
        let terminate = self.terminate.as_ref().map(|(seq, _)| *seq);
        let candidates = [
            (send, Next::Send),
            (request, Next::Request),
            (response, Next::Response),
            (terminate, Next::Terminate),
        ];
        candidates
            .into_iter()
            .filter_map(|(seq, next)| Some((seq?, next)))
            .filter(|(seq, _)| *seq < in_order_upto)
            .min_by_key(|(seq, _)| *seq)
    }

    /// Checks that the messages of a queue end in the order of their numbers.
    fn check_order(&mut self, queue: usize, seq: Seq) -> Result<(), Violation> {
        let Some(before) = self.delivered.get_mut(queue) else {
            return Ok(());
        };
        match before.replace(seq) {
            Some(before) if seq <= before => Err(Violation::MessageNumber),
            _ => Ok(()),
        }
    }

    fn deliver_send(&mut self, seq: Seq, memory: &impl Memory) -> Result<Option<Delivery>, Fault> {
        let number = self.receives.first();
        let Some(receive) = self.receives.front().copied() else {
            return Ok(None);
        };
        let refuse = |violation| Fault::peer(violation, receive.offending);
        let whole = receive.message.whole(self.key);
        let length = whole.ok_or(Violation::MessageOffset).map_err(refuse)?;
        self.check_order(0, seq).map_err(refuse)?;
        if let Some(stag) = receive.invalidate {
            let done = memory.invalidate(stag);
            done.map_err(|denied| refuse(Violation::Invalidate(denied)))?;
        }
        self.receives.pop();
        if let Some(immediate) = receive.immediate {
            return Ok(Some(Delivery::Immediate {
                receive: number,
                data: immediate.data,
                written: immediate.written,
                solicited: receive.solicited,
            }));
        }
        Ok(Some(Delivery::Message {
            receive: number,
            length,
            solicited: receive.solicited,
            invalidated: receive.invalidate,
        }))
    }

    fn deliver_request(
        &mut self,
        seq: Seq,
        memory: &impl Memory,
    ) -> Result<Option<Delivery>, Fault> {
        let inbound = self.inbound.get(self.next_response).copied();
        let Some(InboundSlot(Some((_, answer)))) = inbound else {
            return Ok(None);
        };
        let refuse = |violation| {
            let fault = Fault::peer(violation, answer.offending);
            match answer.wanted {
                Wanted::Read(request) => fault.with_read(request),
                // RFC 7306, section 8.1: without the header of the request.
                Wanted::Atomic(_) => fault,
            }
        };
        self.check_order(1, seq).map_err(refuse)?;
        let access = match answer.wanted {
            Wanted::Read(request) if request.length == 0 => None,
            Wanted::Read(request) => Some((request.source(), Access::RemoteRead)),
            Wanted::Atomic(request) => Some((request.target(), Access::RemoteAtomic)),
        };
        if let Some((range, want)) = access {
            let allowed = memory.check(range, want);
            allowed.map_err(|denied| refuse(Violation::Source(denied)))?;
        }
        if matches!(answer.wanted, Wanted::Atomic(request) if !request.is_aligned()) {
            return Err(refuse(Violation::Alignment));
        }
        self.next_response = self.next_response.saturating_add(1);
        Ok(Some(Delivery::Request(answer)))
    }

    fn deliver_response(&mut self, seq: Seq) -> Result<Option<Delivery>, Fault> {
        let Some(read) = self.outstanding.pop() else {
            return Ok(None);
        };
        let refuse = |violation| Fault::peer(violation, read.offending);
        match read.awaited {
            Awaited::Octets { sink, invalidate } => {
                if read.message.whole(self.key) != Some(sink.length) {
                    return Err(refuse(Violation::ShortResponse));
                }
                Ok(Some(Delivery::ReadDone {
                    read: read.read,
                    to_invalidate: invalidate.then_some(sink.stag),
                }))
            }
            Awaited::Original { value, .. } => {
                self.check_order(2, seq).map_err(refuse)?;
                self.atomics_done = self.atomics_done.saturating_add(1);
                Ok(Some(Delivery::AtomicDone {
                    request: read.read,
                    original: value,
                }))
            }
        }
    }
}
