// SPDX-License-Identifier: GPL-2.0

//! Segments arrive at an end, and messages are delivered.

use rdmap::fault::Fault;
use rdmap::rx::{Delivery, InboundRequest, Placement, Refusal, Wanted, HEAD_LEN};
use rdmap::stag::{Access, Range};
use rdmap::tx::Operation;

use super::end::End;
use super::planted::Bug;
use super::terms::{Flying, Llp, Summary};

impl<L: Llp> End<L> {
    /// A segment arrives.
    pub fn arrive(&mut self, flying: &Flying, peer: &mut Self, summary: &mut Summary) {
        if self.closed {
            return;
        }
        let octets = &flying.octets;
        let head = &octets[..octets.len().min(HEAD_LEN)];
        self.arrived += 1;
        let number = match self.bug {
            Some(Bug::OrderOfArrival) => self.arrived - 1,
            _ => flying.count,
        };
        let placed = self
            .rx
            .segment(L::key(number), head, octets.len(), &self.memory);
        match placed {
            Ok(place) => {
                self.place_in_time(place, octets);
                self.rx.placed();
            }
            Err(Refusal::Fault(fault)) => self.fail(fault),
            Err(refusal) => panic!("{refusal:?}"),
        }
        loop {
            match self.rx.deliver(&self.memory) {
                Ok(Some(delivery)) => self.deliver(delivery, peer, summary),
                Ok(None) => break,
                Err(fault) => {
                    self.fail(fault);
                    break;
                }
            }
        }
    }

    fn fail(&mut self, fault: Fault) {
        self.tx.fail(fault);
    }

    fn place_in_time(&mut self, place: Placement, octets: &[u8]) {
        if let Some((place, octets)) = self.withheld_octets.take() {
            self.place(place, &octets);
        }
        match self.bug {
            Some(Bug::PlacedEarly) => self.withheld_octets = Some((place, octets.to_vec())),
            Some(Bug::PlacedAside) => {
                let mut octets = octets.to_vec();
                let payload = match place {
                    Placement::Nothing => 0,
                    Placement::Write(range) | Placement::Response { range, .. } => range.length,
                    Placement::Receive { length, .. } => length,
                };
                let header = octets.len() - usize::try_from(payload).unwrap();
                octets[header..].rotate_right(usize::from(payload > 0));
                self.place(place, &octets);
            }
            _ => self.place(place, octets),
        }
    }

    fn answer(&mut self, answer: InboundRequest) {
        let second = self.withheld_answer.take();
        match (self.bug, second) {
            (Some(Bug::AnswersSwapped), None) if self.reads_delivered == 1 => {
                self.withheld_answer = Some(answer);
            }
            _ => self.tx.respond(answer).unwrap(),
        }
        if let Some(second) = second {
            self.tx.respond(second).unwrap();
        }
    }

    fn place(&mut self, place: Placement, octets: &[u8]) {
        let payload = |length: u32| &octets[octets.len() - usize::try_from(length).unwrap()..];
        match place {
            Placement::Nothing => {}
            Placement::Write(range) => {
                let octets = payload(range.length);
                self.memory.write(range, Access::RemoteWrite, octets);
            }
            Placement::Response { read, range } => {
                assert!(
                    usize::try_from(read).unwrap() >= self.completed,
                    "nothing is written after the completion"
                );
                let octets = payload(range.length);
                self.memory.write(range, Access::ReadSink, octets);
                if self.bug == Some(Bug::ReadDoneEarly) {
                    let _ = self.tx.done(read);
                }
            }
            Placement::Receive {
                receive,
                offset,
                length,
            } => {
                let buffer = self.receives.get_mut(&receive).expect("a posted Receive");
                let first = usize::try_from(offset).unwrap();
                let last = first + usize::try_from(length).unwrap();
                buffer[first..last].copy_from_slice(payload(length));
            }
        }
    }

    /// Checks that everything that was sent ahead of the peer's request at `index` is here: Sends
    /// delivered, Writes placed.
    fn check_before(&self, peer: &Self, index: usize, summary: &mut Summary) {
        let mut sends = 0;
        for work in &peer.work[..index] {
            match work.operation {
                Operation::Send { .. } => sends += 1,
                Operation::WriteImmediate { range, .. } => {
                    assert!(self.memory.read(range) == work.octets, "a Write is placed");
                    sends += 1;
                }
                Operation::Write(range) => {
                    assert!(self.memory.read(range) == work.octets, "a Write is placed");
                    summary.writes += 1;
                }
                _ => {}
            }
        }
        assert!(self.sends_delivered >= sends);
    }

    fn nth(peer: &Self, nth: usize, kind: impl Fn(&Operation) -> bool) -> usize {
        let mut found = (0..peer.work.len()).filter(|at| kind(&peer.work[*at].operation));
        found.nth(nth).expect("what the peer posted")
    }

    fn deliver(&mut self, delivery: Delivery, peer: &mut Self, summary: &mut Summary) {
        match delivery {
            Delivery::Message {
                receive,
                length,
                solicited,
                invalidated,
            } => {
                let index = Self::nth(peer, self.sends_delivered, takes_receive);
                self.check_before(peer, index, summary);
                let work = &peer.work[index];
                let sent = Operation::Send {
                    length,
                    solicited,
                    invalidate: invalidated,
                };
                assert_eq!(sent, work.operation);
                assert_eq!(receive, u64::try_from(self.sends_delivered).unwrap());
                let buffer = self.receives.remove(&receive).unwrap();
                assert!(buffer[..usize::try_from(length).unwrap()] == work.octets);
                if let Some(stag) = invalidated {
                    assert!(!self.memory.is_valid(stag));
                }
                self.sends_delivered += 1;
                summary.sends += 1;
                self.post_receive();
            }
            Delivery::Immediate {
                receive,
                data,
                written,
                solicited,
            } => {
                let index = Self::nth(peer, self.sends_delivered, takes_receive);
                self.check_before(peer, index, summary);
                let work = &peer.work[index];
                let Operation::WriteImmediate { range, .. } = work.operation else {
                    panic!("{:?}", work.operation);
                };
                let sent = Operation::WriteImmediate {
                    range,
                    data,
                    solicited,
                };
                assert_eq!(sent, work.operation);
                assert_eq!(written, if L::IN_ORDER { range.length } else { 0 });
                assert!(
                    self.memory.read(range) == work.octets,
                    "its Write is placed"
                );
                assert_eq!(receive, u64::try_from(self.sends_delivered).unwrap());
                let buffer = self.receives.remove(&receive).unwrap();
                assert!(buffer.iter().all(|octet| *octet == 0));
                self.sends_delivered += 1;
                summary.immediates += 1;
                self.post_receive();
            }
            Delivery::Request(answer) => {
                let is_request = |operation: &Operation| {
                    matches!(operation, Operation::Read(_) | Operation::Atomic { .. })
                };
                let index = Self::nth(peer, self.reads_delivered, is_request);
                self.check_before(peer, index, summary);
                let asked = match answer.wanted {
                    Wanted::Read(request) => Operation::Read(request),
                    Wanted::Atomic(request) => Operation::Atomic {
                        stag: request.stag,
                        offset: request.offset,
                        operation: request.operation,
                    },
                };
                assert_eq!(asked, peer.work[index].operation);
                self.reads_delivered += 1;
                self.answer(answer);
            }
            Delivery::ReadDone { read, .. } => {
                let work = &mut self.work[usize::try_from(read).unwrap()];
                let Operation::Read(request) = work.operation else {
                    panic!("{:?}", work.operation);
                };
                let sink = Range {
                    stag: request.sink_stag,
                    offset: request.sink_offset,
                    length: request.length,
                };
                if sink.length > 0 {
                    assert!(self.memory.read(sink) == work.expected);
                }
                assert!(!std::mem::replace(&mut work.done, true));
                self.reads_outstanding -= 1;
                summary.reads += 1;
                self.tx.done(read).unwrap();
            }
            Delivery::AtomicDone { request, original } => {
                let work = &mut self.work[usize::try_from(request).unwrap()];
                assert_eq!(original.to_ne_bytes().to_vec(), work.expected);
                assert!(!std::mem::replace(&mut work.done, true));
                self.reads_outstanding -= 1;
                summary.atomics += 1;
                self.tx.done(request).unwrap();
            }
            Delivery::Terminate(terminate) => {
                summary.codes.push(terminate.code);
                self.close();
            }
        }
    }
}

/// Returns whether a request takes a Receive of the peer.
fn takes_receive(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Send { .. } | Operation::WriteImmediate { .. }
    )
}
