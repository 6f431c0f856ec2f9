// SPDX-License-Identifier: GPL-2.0

//! Delivery in the order of the sender, and the checks that belong to it (RFC 5040, sections 5.5
//! and 7).

use crate::fault::Fault;
use crate::order::Order;
use crate::order::Turn;
use crate::sink::message::Message;
use crate::sink::queue::Inbound;
use crate::sink::queue::Slots;
use crate::sink::Delivery;
use crate::sink::Sink;
use crate::sink::State;
use crate::stag::Access;
use crate::stag::Memory;
use crate::violation::Violation;

/// The kind of the message to deliver next, the oldest of all.
#[derive(Clone, Copy)]
enum Next {
    Send,
    ReadRequest,
    Response,
    Terminate,
}

impl<O: Order, S: Slots> Sink<O, S> {
    /// Delivers the next message that is complete and in order. Returns `None` if there is none
    /// yet.
    pub fn deliver(&mut self, memory: &impl Memory) -> Result<Option<Delivery>, Fault> {
        let reached = match self.state {
            State::Open => self.order.reached(),
            State::Failed(turn) => turn,
            State::Closed => return Ok(None),
        };
        let Some((turn, next)) = self.next(reached) else {
            return Ok(None);
        };
        let delivered = match next {
            Next::Send => self.deliver_send(turn, memory),
            Next::ReadRequest => self.deliver_request(turn, memory),
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
    fn next(&self, reached: Turn) -> Option<(Turn, Next)> {
        let ended = |message: &Message| message.ended();
        let send = self
            .receives
            .front()
            .and_then(|receive| ended(&receive.message));
        let request = self.inbound.get(self.answering);
        let request = request.and_then(|inbound| inbound.0.as_ref().map(|(turn, _)| *turn));
        let response = self
            .outstanding
            .front()
            .and_then(|read| ended(&read.message));
        let terminate = self.terminate.as_ref().map(|(turn, _)| *turn);
        let candidates = [
            (send, Next::Send),
            (request, Next::ReadRequest),
            (response, Next::Response),
            (terminate, Next::Terminate),
        ];
        candidates
            .into_iter()
            .filter_map(|(turn, next)| Some((turn?, next)))
            .filter(|(turn, _)| *turn < reached)
            .min_by_key(|(turn, _)| *turn)
    }

    /// Checks that the messages of a queue end in the order of their numbers.
    fn in_turn(&mut self, queue: usize, turn: Turn) -> Result<(), Violation> {
        let Some(before) = self.delivered.get_mut(queue) else {
            return Ok(());
        };
        match before.replace(turn) {
            Some(before) if turn <= before => Err(Violation::MessageNumber),
            _ => Ok(()),
        }
    }

    fn deliver_send(
        &mut self,
        turn: Turn,
        memory: &impl Memory,
    ) -> Result<Option<Delivery>, Fault> {
        let number = self.receives.first();
        let Some(receive) = self.receives.front().copied() else {
            return Ok(None);
        };
        let refuse = |violation| Fault::peer(violation, receive.culprit);
        let whole = receive.message.whole(self.key);
        let length = whole.ok_or(Violation::MessageOffset).map_err(refuse)?;
        self.in_turn(0, turn).map_err(refuse)?;
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
        turn: Turn,
        memory: &impl Memory,
    ) -> Result<Option<Delivery>, Fault> {
        let inbound = self.inbound.get(self.answering).copied();
        let Some(Inbound(Some((_, answer)))) = inbound else {
            return Ok(None);
        };
        let refuse = |violation| Fault::peer(violation, answer.culprit).with_read(answer.request);
        self.in_turn(1, turn).map_err(refuse)?;
        if answer.request.length > 0 {
            let allowed = memory.check(answer.request.source(), Access::RemoteRead);
            allowed.map_err(|denied| refuse(Violation::Source(denied)))?;
        }
        self.answering = self.answering.saturating_add(1);
        Ok(Some(Delivery::Answer(answer)))
    }

    fn deliver_response(&mut self) -> Result<Option<Delivery>, Fault> {
        let Some(read) = self.outstanding.pop() else {
            return Ok(None);
        };
        if read.message.whole(self.key) != Some(read.sink.length) {
            return Err(Fault::peer(Violation::ShortResponse, read.culprit));
        }
        Ok(Some(Delivery::ReadDone {
            read: read.read,
            to_invalidate: read.invalidate.then_some(read.sink.stag),
        }))
    }
}
