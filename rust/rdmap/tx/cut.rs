// SPDX-License-Identifier: GPL-2.0

//! The next segment: scheduling, and cutting of messages into segments (RFC 5041, section 5.2).

use crate::fault::Fault;
use crate::fault::Misuse;
use crate::fault::Violation;
use crate::header::Header;
use crate::header::Model;
use crate::header::ReadRequest;
use crate::header::Untagged;
use crate::serial::low_u32;
use crate::stag::Access;
use crate::stag::Memory;
use crate::stag::Range;
use crate::terminate::Terminate;
use crate::tx::Current;
use crate::tx::Operation;
use crate::tx::Outgoing;
use crate::tx::Payload;
use crate::tx::Pending;
use crate::tx::Slots;
use crate::tx::State;
use crate::tx::TxHalf;
use crate::tx::HEADER_LEN;
use crate::wire::size;
use crate::wire::Octets;

impl<S: Slots> TxHalf<S> {
    /// Returns the next segment, of at most `mulpdu` octets. `None` if there is nothing to send.
    ///
    /// It returns the same segment again, cut for another `mulpdu` if that changed, until that is
    /// [committed](Self::commit).
    pub fn peek(&mut self, mulpdu: u32, memory: &impl Memory) -> Option<Outgoing> {
        self.pending = None;
        if self.state == State::Open {
            match self.current.or_else(|| self.choose()) {
                Some(Current::Request) => return self.cut_request(mulpdu),
                Some(Current::Response) => {
                    if let Some(outgoing) = self.cut_response(mulpdu, memory) {
                        return Some(outgoing);
                    }
                }
                None => return None,
            }
        }
        match self.state {
            State::Failing => self.terminate(),
            _ => None,
        }
    }

    /// Chooses the next message.
    fn choose(&self) -> Option<Current> {
        let request = self.may_cut().then_some(Current::Request);
        let waiting = self.responding.is_some() || !self.responses.is_empty();
        let answer = waiting.then_some(Current::Response);
        match self.response_next {
            true => answer.or(request),
            false => request.or(answer),
        }
    }

    fn may_cut(&self) -> bool {
        let Some(posted) = self.requests.get(self.cutting) else {
            return false;
        };
        // A local operation that was started is waited for.
        let started = posted.cut;
        let fenced = posted.request.fence && self.outstanding > 0;
        let waits = match posted.request.operation {
            Operation::Read(request) => {
                self.outstanding >= self.ord || self.is_ambiguous(request.sink())
            }
            _ => false,
        };
        !(started || fenced || waits)
    }

    /// Says whether a response to this destination could belong to a Read that is outstanding.
    /// Responses that come in order are identified by that.
    fn is_ambiguous(&self, sink: Range) -> bool {
        let mut left = if self.in_order { 0 } else { self.outstanding };
        let mut numbers = (self.requests.first()..self.cutting).rev();
        while left > 0 {
            let Some(posted) = numbers.next().and_then(|number| self.requests.get(number)) else {
                break;
            };
            if let (Operation::Read(request), false) = (posted.request.operation, posted.done) {
                if request.sink().overlaps(sink) {
                    return true;
                }
                left = left.saturating_sub(1);
            }
        }
        false
    }

    fn cut_request(&mut self, mulpdu: u32) -> Option<Outgoing> {
        let number = self.cutting;
        let operation = self.requests.get(number)?.request.operation;
        let (length, header_len) = match operation {
            Operation::Send { length, .. } => (length, Header::UNTAGGED_LEN),
            Operation::Write(range) => (range.length, Header::TAGGED_LEN),
            Operation::Read(request) => return Some(self.cut_read(number, request)),
            Operation::Local => {
                self.set_pending(Some(Current::Request), 0, true);
                return Some(Outgoing::Local(number));
            }
        };
        let cut = Cut::new(length, self.octets, header_len, mulpdu);
        let model = match operation {
            Operation::Write(range) => Model::Tagged {
                response: false,
                stag: range.stag,
                offset: range.offset.wrapping_add(u64::from(self.octets)),
            },
            Operation::Send {
                solicited,
                invalidate,
                ..
            } => Model::Untagged {
                message: Untagged::Send {
                    solicited,
                    invalidate,
                },
                msn: low_u32(self.sends.saturating_add(1)),
                offset: self.octets,
            },
            Operation::Read(_) | Operation::Local => return None,
        };
        let payload = match cut.octets {
            0 => Payload::None,
            length => Payload::Request {
                number,
                offset: self.octets,
                length,
            },
        };
        self.set_pending(Some(Current::Request), cut.octets, cut.last);
        Some(segment(model, payload, cut.last, None))
    }

    fn cut_read(&mut self, number: u64, request: ReadRequest) -> Outgoing {
        let header = Header {
            last: true,
            model: Model::Untagged {
                message: Untagged::ReadRequest,
                msn: low_u32(self.reads.saturating_add(1)),
                offset: 0,
            },
        };
        self.set_pending(Some(Current::Request), 0, true);
        Outgoing::Read {
            number,
            header: together(header.emit().as_slice(), request.emit().as_slice()),
            request,
        }
    }

    fn cut_response(&mut self, mulpdu: u32, memory: &impl Memory) -> Option<Outgoing> {
        if self.responding.is_none() {
            self.responding = self.responses.pop();
        }
        let answer = self.responding?;
        // Access was checked when the request was delivered, and may have been revoked since.
        let left = answer.request.advanced(self.octets);
        let cut = Cut::new(
            answer.request.length,
            self.octets,
            Header::TAGGED_LEN,
            mulpdu,
        );
        let range = Range {
            length: cut.octets,
            ..left.source()
        };
        let mut payload = Payload::None;
        if cut.octets > 0 {
            if let Err(denied) = memory.check(range, Access::RemoteRead) {
                let fault = Fault::peer(Violation::Source(denied), answer.offending);
                self.fail(fault.with_read(left));
                return None;
            }
            payload = Payload::Response(range);
        }
        let model = Model::Tagged {
            response: true,
            stag: left.sink_stag,
            offset: left.sink_offset,
        };
        self.set_pending(Some(Current::Response), cut.octets, cut.last);
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
        self.set_pending(None, 0, true);
        Some(Outgoing::Segment {
            header: together(header.emit().as_slice(), terminate.emit().as_slice()),
            payload: Payload::None,
            last: true,
            last_of_response: None,
        })
    }

    fn set_pending(&mut self, current: Option<Current>, octets: u32, last: bool) {
        self.pending = Some(Pending {
            current,
            octets,
            last,
        });
    }

    /// Commits the segment or operation that [`peek`](Self::peek) returned last: it was handed to
    /// the LLP, or started. Returns the number of segments handed over so far, which is the number
    /// of this one.
    pub fn commit(&mut self) -> Result<u64, Misuse> {
        let pending = self.pending.take().ok_or(Misuse::State)?;
        let mut local = false;
        let segment = self.segments.saturating_add(1);
        match pending.current {
            // The stream may have been closed in the meantime.
            None if self.state == State::Failing => self.state = State::Terminated,
            None => {}
            Some(Current::Response) => {
                if pending.last {
                    self.responding = None;
                }
            }
            Some(Current::Request) => {
                let posted = self.requests.get_mut(self.cutting).ok_or(Misuse::State)?;
                posted.cut = pending.last;
                let operation = posted.request.operation;
                local = operation == Operation::Local;
                if !local {
                    posted.last_segment = segment;
                }
                let counter = match operation {
                    Operation::Send { .. } => Some(&mut self.sends),
                    Operation::Read(_) => {
                        let outstanding = u16::from(!posted.done);
                        self.outstanding = self.outstanding.saturating_add(outstanding);
                        Some(&mut self.reads)
                    }
                    Operation::Write(_) | Operation::Local => None,
                };
                if let Some(counter) = counter.filter(|_| pending.last) {
                    *counter = counter.saturating_add(1);
                }
                if pending.last && !local {
                    self.cutting = self.cutting.saturating_add(1);
                }
            }
        }
        self.octets = match pending.last {
            true => 0,
            false => self.octets.saturating_add(pending.octets),
        };
        self.current = pending.current.filter(|_| !pending.last);
        if pending.last {
            self.response_next = pending.current == Some(Current::Request);
        }
        if !local {
            self.segments = segment;
        }
        Ok(self.segments)
    }
}

/// The part of a message in the next segment.
struct Cut {
    octets: u32,
    last: bool,
}

impl Cut {
    fn new(length: u32, begun: u32, header_len: usize, mulpdu: u32) -> Self {
        let left = length.saturating_sub(begun);
        // A segment has at least one octet, or a message would have no end. No LLP is that narrow.
        let room = size(mulpdu).saturating_sub(header_len).max(1);
        let octets = u32::try_from(room).map_or(left, |room| room.min(left));
        Self {
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

fn together(header: &[u8], payload: &[u8]) -> Octets<HEADER_LEN> {
    let mut octets = Octets::new();
    octets.put_slice(header);
    octets.put_slice(payload);
    octets
}
