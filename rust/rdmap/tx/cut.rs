// SPDX-License-Identifier: GPL-2.0

//! The next segment: scheduling, and cutting of messages into segments (RFC 5041, section 5.2), and
//! atomic operations of the peer at their turn (RFC 7306, section 7).

use crate::atomic::{identifier, Atomic, AtomicRequest, AtomicResponse};
use crate::fault::{Fault, Misuse, Violation};
use crate::header::{Header, Model, ReadRequest, Untagged};
use crate::rx::{InboundRequest, Wanted};
use crate::serial::low_u32;
use crate::stag::{Access, Memory, Range, Stag};
use crate::terminate::Terminate;
use crate::tx::{
    Message, Offered, Operation, Outgoing, Payload, Progress, Slots, State, TxHalf, HEADER_LEN,
};
use crate::wire::{size, Octets};

impl<S: Slots> TxHalf<S> {
    /// Returns the next segment, of at most `mulpdu` octets. `None` if there is nothing to send.
    ///
    /// It returns the same segment again, cut for another `mulpdu` if that changed, until that is
    /// [committed](Self::commit).
    pub fn peek(&mut self, mulpdu: u32, memory: &impl Memory) -> Option<Outgoing> {
        self.offered = None;
        match self.state {
            State::Open => {
                let begin = || self.choose().map(|message| (message, 0));
                let (message, sent) = self.partial.or_else(begin)?;
                match message {
                    Message::Request => self.cut_request(sent, mulpdu),
                    Message::Response => self.cut_response(sent, mulpdu, memory),
                }
            }
            State::Failing => self.terminate(),
            State::Terminated | State::Closed => None,
        }
    }

    /// Chooses the next message.
    fn choose(&self) -> Option<Message> {
        let request = self.may_cut().then_some(Message::Request);
        let waiting = self.responding.is_some() || !self.responses.is_empty();
        let response = waiting.then_some(Message::Response);
        match self.previous {
            Message::Request => response.or(request),
            Message::Response => request.or(response),
        }
    }

    fn may_cut(&self) -> bool {
        let Some(posted) = self.requests.get(self.cutting) else {
            return false;
        };
        // A local operation that was started is waited for.
        let started = posted.progress == Progress::Outstanding;
        let fenced = posted.request.fence && self.outstanding > 0;
        let waits = match posted.request.operation {
            Operation::Read(request) => {
                self.outstanding >= self.ord || self.is_ambiguous(request.sink())
            }
            Operation::Atomic { .. } => self.outstanding >= self.ord,
            _ => false,
        };
        !(started || fenced || waits)
    }

    /// Returns whether a response to this destination could belong to a Read that is outstanding.
    /// Responses that come in order are identified by that.
    fn is_ambiguous(&self, sink: Range) -> bool {
        let mut left = if self.in_order { 0 } else { self.outstanding };
        let mut numbers = (self.requests.first()..self.cutting).rev();
        while left > 0 {
            let Some(posted) = numbers.next().and_then(|number| self.requests.get(number)) else {
                break;
            };
            if posted.progress != Progress::Outstanding {
                continue;
            }
            match posted.request.operation {
                Operation::Read(request) if request.sink().overlaps(sink) => return true,
                _ => left = left.saturating_sub(1),
            }
        }
        false
    }

    /// Cuts the next segment of a request of which `sent` octets were handed over.
    fn cut_request(&mut self, sent: u32, mulpdu: u32) -> Option<Outgoing> {
        let operation = self.requests.get(self.cutting)?.request.operation;
        Some(match operation {
            Operation::Send {
                length,
                solicited,
                invalidate,
            } => {
                let model = Model::Untagged {
                    message: Untagged::Send {
                        solicited,
                        invalidate,
                    },
                    msn: low_u32(self.sends.saturating_add(1)),
                    offset: sent,
                };
                let cut = Cut::new(length, sent, Header::UNTAGGED_LEN, mulpdu);
                self.offer_request(model, cut)
            }
            Operation::Write(range) => {
                let model = Model::Tagged {
                    response: false,
                    stag: range.stag,
                    offset: range.offset.wrapping_add(u64::from(sent)),
                };
                let cut = Cut::new(range.length, sent, Header::TAGGED_LEN, mulpdu);
                self.offer_request(model, cut)
            }
            Operation::WriteImmediate {
                range,
                data,
                solicited,
            } => self.cut_write_immediate(range, data, solicited, sent, mulpdu),
            Operation::Read(request) => self.offer_read(request),
            Operation::Atomic {
                stag,
                offset,
                operation,
            } => self.offer_atomic(stag, offset, operation),
            Operation::Local => {
                self.offered = Some(Offered::Local);
                Outgoing::Local(self.cutting)
            }
        })
    }

    /// Cuts the next segment of a Write with Immediate Data: of the Write, until all of that was
    /// handed over.
    fn cut_write_immediate(
        &mut self,
        range: Range,
        data: [u8; 8],
        solicited: bool,
        sent: u32,
        mulpdu: u32,
    ) -> Outgoing {
        // A Write of no octets is a segment as well, before which nothing was handed over.
        if self.partial.is_some() && sent == range.length {
            let header = Header {
                last: true,
                model: Model::Untagged {
                    message: Untagged::Immediate { solicited },
                    msn: low_u32(self.sends.saturating_add(1)),
                    offset: 0,
                },
            };
            self.offered = Some(Offered::Request(Cut::WHOLE));
            return whole(header, &data, None);
        }
        let model = Model::Tagged {
            response: false,
            stag: range.stag,
            offset: range.offset.wrapping_add(u64::from(sent)),
        };
        let cut = Cut::new(range.length, sent, Header::TAGGED_LEN, mulpdu);
        let outgoing = self.offer_request(model, cut);
        // The message may end here, the request does not.
        self.offered = Some(Offered::Request(Cut { last: false, ..cut }));
        outgoing
    }

    /// Offers a part of the memory of a request.
    fn offer_request(&mut self, model: Model, cut: Cut) -> Outgoing {
        self.offered = Some(Offered::Request(cut));
        let payload = match cut.octets {
            0 => Payload::None,
            length => Payload::Request {
                number: self.cutting,
                offset: cut.offset,
                length,
            },
        };
        segment(model, payload, cut.last, None)
    }

    /// Offers a Read Request.
    fn offer_read(&mut self, request: ReadRequest) -> Outgoing {
        self.offered = Some(Offered::Request(Cut::WHOLE));
        let header = Header {
            last: true,
            model: Model::Untagged {
                message: Untagged::ReadRequest,
                msn: low_u32(self.reads.saturating_add(1)),
                offset: 0,
            },
        };
        Outgoing::Read {
            number: self.cutting,
            header: together(header.emit().as_slice(), request.emit().as_slice()),
            request,
        }
    }

    /// Offers an Atomic Request.
    fn offer_atomic(&mut self, stag: Stag, offset: u64, operation: Atomic) -> Outgoing {
        self.offered = Some(Offered::Request(Cut::WHOLE));
        let header = Header {
            last: true,
            model: Model::Untagged {
                message: Untagged::AtomicRequest,
                msn: low_u32(self.reads.saturating_add(1)),
                offset: 0,
            },
        };
        let request = AtomicRequest {
            identifier: identifier(self.cutting),
            stag,
            offset,
            operation,
        };
        Outgoing::Atomic {
            number: self.cutting,
            header: together(header.emit().as_slice(), request.emit().as_slice()),
        }
    }

    /// Cuts the next segment of a response of which `sent` octets were handed over.
    fn cut_response(&mut self, sent: u32, mulpdu: u32, memory: &impl Memory) -> Option<Outgoing> {
        if self.responding.is_none() {
            self.responding = self.responses.pop();
        }
        let answer = self.responding?;
        match answer.wanted {
            Wanted::Read(request) => self.cut_read(&answer, request, sent, mulpdu, memory),
            Wanted::Atomic(request) => self.respond_to_atomic(&answer, request, memory),
        }
    }

    /// Offers the response to an Atomic Request. The operation is carried out now, once, if it was
    /// not yet.
    fn respond_to_atomic(
        &mut self,
        answer: &InboundRequest,
        request: AtomicRequest,
        memory: &impl Memory,
    ) -> Option<Outgoing> {
        let updated = match self.original {
            Some(original) => Ok(original),
            None => memory.update(request.target(), request.operation),
        };
        let original = match updated {
            Ok(original) => original,
            Err(denied) => {
                self.fail(Fault::peer(Violation::Source(denied), answer.offending));
                return self.terminate();
            }
        };
        self.original = Some(original);
        let header = Header {
            last: true,
            model: Model::Untagged {
                message: Untagged::AtomicResponse,
                msn: low_u32(self.originals.saturating_add(1)),
                offset: 0,
            },
        };
        let response = AtomicResponse {
            identifier: request.identifier,
            original,
        };
        self.offered = Some(Offered::Response(Cut::WHOLE));
        Some(whole(
            header,
            response.emit().as_slice(),
            Some(answer.number),
        ))
    }

    /// Cuts the next segment of the response to a Read Request.
    fn cut_read(
        &mut self,
        answer: &InboundRequest,
        request: ReadRequest,
        sent: u32,
        mulpdu: u32,
        memory: &impl Memory,
    ) -> Option<Outgoing> {
        let left = request.advanced(sent);
        let cut = Cut::new(request.length, sent, Header::TAGGED_LEN, mulpdu);
        let payload = match cut.octets {
            0 => Payload::None,
            length => {
                let range = Range {
                    length,
                    ..left.source()
                };
                // Access was checked when the request was delivered, and may have been revoked
                // since.
                if let Err(denied) = memory.check(range, Access::RemoteRead) {
                    let fault = Fault::peer(Violation::Source(denied), answer.offending);
                    self.fail(fault.with_read(left));
                    return self.terminate();
                }
                Payload::Response(range)
            }
        };
        let model = Model::Tagged {
            response: true,
            stag: left.sink_stag,
            offset: left.sink_offset,
        };
        self.offered = Some(Offered::Response(cut));
        let last_of_response = cut.last.then_some(answer.number);
        Some(segment(model, payload, cut.last, last_of_response))
    }

    fn terminate(&mut self) -> Option<Outgoing> {
        let terminate = Terminate::new(&self.fault?);
        let header = Header {
            last: true,
            model: Model::Untagged {
                message: Untagged::Terminate,
                msn: 1,
                offset: 0,
            },
        };
        self.offered = Some(Offered::Terminate);
        Some(whole(header, terminate.emit().as_slice(), None))
    }

    /// Commits the segment or operation that [`peek`](Self::peek) returned last: it was handed to
    /// the LLP, or started. Returns the number of segments handed over so far, which is the number
    /// of this one.
    pub fn commit(&mut self) -> Result<u64, Misuse> {
        let segment = self.segments.saturating_add(1);
        match self.offered.take().ok_or(Misuse::State)? {
            Offered::Local => {
                let posted = self.requests.get_mut(self.cutting).ok_or(Misuse::State)?;
                posted.progress = Progress::Outstanding;
                self.previous = Message::Request;
                return Ok(self.segments);
            }
            Offered::Request(cut) => {
                self.commit_request(cut, segment)?;
                self.advance(Message::Request, cut);
            }
            Offered::Response(cut) => {
                if cut.last {
                    self.responding = None;
                    if self.original.take().is_some() {
                        self.originals = self.originals.saturating_add(1);
                    }
                }
                self.advance(Message::Response, cut);
            }
            // The stream may have been closed in the meantime.
            Offered::Terminate => {
                if self.state == State::Failing {
                    self.state = State::Terminated;
                }
            }
        }
        self.segments = segment;
        Ok(segment)
    }

    /// Commits a segment of the request to cut. With the last one, that is the next request.
    fn commit_request(&mut self, cut: Cut, segment: u64) -> Result<(), Misuse> {
        let posted = self.requests.get_mut(self.cutting).ok_or(Misuse::State)?;
        posted.last_segment = segment;
        if !cut.last {
            return Ok(());
        }
        let progress = match posted.request.operation {
            Operation::Send { .. } | Operation::WriteImmediate { .. } => {
                self.sends = self.sends.saturating_add(1);
                Progress::Done
            }
            Operation::Read(_) | Operation::Atomic { .. } => {
                self.reads = self.reads.saturating_add(1);
                match posted.progress {
                    Progress::Answered => Progress::Done,
                    _ => {
                        self.outstanding = self.outstanding.saturating_add(1);
                        Progress::Outstanding
                    }
                }
            }
            Operation::Write(_) | Operation::Local => Progress::Done,
        };
        posted.set(progress);
        self.cutting = self.cutting.saturating_add(1);
        Ok(())
    }

    /// Takes note of the part of a message that was handed over.
    fn advance(&mut self, message: Message, cut: Cut) {
        match cut.last {
            true => (self.partial, self.previous) = (None, message),
            false => self.partial = Some((message, cut.offset.saturating_add(cut.octets))),
        }
    }
}

/// The part of a message in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    offset: u32,
    octets: u32,
    last: bool,
}

impl Cut {
    /// A message without a payload of the upper layer.
    const WHOLE: Self = Self {
        offset: 0,
        octets: 0,
        last: true,
    };

    /// Cuts the part from `offset` on of a message of `length` octets.
    fn new(length: u32, offset: u32, header_len: usize, mulpdu: u32) -> Self {
        let left = length.saturating_sub(offset);
        // A segment has at least one octet, or a message would have no end. No LLP is that narrow.
        let room = size(mulpdu).saturating_sub(header_len).max(1);
        let octets = u32::try_from(room).map_or(left, |room| room.min(left));
        Self {
            offset,
            octets,
            last: octets == left,
        }
    }
}

fn segment(model: Model, payload: Payload, last: bool, last_of_response: Option<u64>) -> Outgoing {
    let header = Header { last, model }.emit();
    Outgoing::Segment {
        header: together(header.as_slice(), &[]),
        payload,
        last,
        last_of_response,
    }
}

/// Returns the segment of a message that this crate makes itself.
fn whole(header: Header, payload: &[u8], last_of_response: Option<u64>) -> Outgoing {
    Outgoing::Segment {
        header: together(header.emit().as_slice(), payload),
        payload: Payload::None,
        last: true,
        last_of_response,
    }
}

fn together(header: &[u8], payload: &[u8]) -> Octets<HEADER_LEN> {
    let mut octets = Octets::new();
    octets.put_slice(header);
    octets.put_slice(payload);
    octets
}
