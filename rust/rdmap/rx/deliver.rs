// SPDX-License-Identifier: GPL-2.0

//! Delivery in the order of the sender, and the checks that belong to it (RFC 5040, sections 5.5
//! and 7).

use crate::fault::Fault;
use crate::fault::Violation;
use crate::order::Order;
use crate::order::Seq;
use crate::rx::message::Message;
use crate::rx::Delivery;
use crate::rx::InboundSlot;
use crate::rx::RxHalf;
use crate::rx::Slots;
use crate::rx::State;
use crate::stag::Access;
use crate::stag::Memory;

/// The kind of the message to deliver next, the oldest of all.
#[derive(Clone, Copy)]
enum Next {
    Send,
    ReadRequest,
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
            Next::ReadRequest => self.deliver_request(seq, memory),
            Next::Response => self.deliver_response(),
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
            (request, Next::ReadRequest),
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
        let refuse = |violation| Fault::peer(violation, answer.offending).with_read(answer.request);
        self.check_order(1, seq).map_err(refuse)?;
        if answer.request.length > 0 {
            let allowed = memory.check(answer.request.source(), Access::RemoteRead);
            allowed.map_err(|denied| refuse(Violation::Source(denied)))?;
        }
        self.next_response = self.next_response.saturating_add(1);
        Ok(Some(Delivery::ReadRequest(answer)))
    }

    fn deliver_response(&mut self) -> Result<Option<Delivery>, Fault> {
        let Some(read) = self.outstanding.pop() else {
            return Ok(None);
        };
        if read.message.whole(self.key) != Some(read.sink.length) {
            return Err(Fault::peer(Violation::ShortResponse, read.offending));
        }
        Ok(Some(Delivery::ReadDone {
            read: read.read,
            to_invalidate: read.invalidate.then_some(read.sink.stag),
        }))
    }
}
