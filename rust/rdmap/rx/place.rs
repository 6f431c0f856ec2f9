// SPDX-License-Identifier: GPL-2.0

//! Placement: the checks of a segment that arrives, and its destination (RFC 5041, sections 5 and
//! 7.1; RFC 5040, section 7.2; RFC 7306, section 8.2).

use crate::atomic::{exactly, identifier, AtomicRequest, AtomicResponse};
use crate::fault::{Fault, OffendingSegment, Violation};
use crate::header::{Header, Model, ReadRequest, Untagged};
use crate::order::{Invalid, Order, Seq};
use crate::rx::message::Message;
use crate::rx::{
    Awaited, Immediate, InboundRequest, Placement, Refusal, RxHalf, Slots, State, Wanted,
};
use crate::serial::ahead_u32;
use crate::stag::{Access, Denied, Memory, Range, Stag};
use crate::terminate::Terminate;
use crate::wire::size;

impl<O: Order, S: Slots> RxHalf<O, S> {
    /// Takes a segment of `length` octets that begins with `head`, which has
    /// [`HEAD_LEN`](super::HEAD_LEN) of them or all.
    ///
    /// The caller then copies the payload to its destination, and calls [`placed`](Self::placed).
    pub fn segment(
        &mut self,
        key: O::Key,
        head: &[u8],
        length: usize,
        memory: &impl Memory,
    ) -> Result<Placement, Refusal> {
        let arrived = self.order.arrive(key);
        if arrived == Err(Invalid::Busy) {
            // A fault of the caller, not of the peer: the stream stays as it is.
            return Err(Refusal::Order(Invalid::Busy));
        }
        if self.state != State::Open {
            // Only its number counts: a stream is not used again before all of them arrived.
            return Ok(Placement::Nothing);
        }
        let placed = match arrived {
            Ok(seq) => self.place(seq, head, length, memory),
            Err(invalid) => Err(Refusal::Order(invalid)),
        };
        if placed.is_err() {
            self.state = State::Failed(self.order.in_order_upto());
            self.order.placed();
        }
        self.placing = !matches!(placed, Ok(Placement::Nothing) | Err(_));
        placed
    }

    /// Returns how many Receives are to be [posted](Self::post_receive) so that a segment which
    /// begins with `head` finds one. None if it needs none or has one, if there is no room for as
    /// many, or if it skips messages over an LLP that keeps the order.
    ///
    /// For a caller whose Receives are shared by streams, and are posted to one of them when a
    /// message needs one.
    pub fn receives_wanted(&self, head: &[u8]) -> u64 {
        if self.state != State::Open {
            return 0;
        }
        let Ok((Header { model, .. }, _)) = Header::parse(head) else {
            return 0;
        };
        let Model::Untagged {
            message: Untagged::Send { .. } | Untagged::Immediate { .. },
            msn,
            ..
        } = model
        else {
            return 0;
        };
        let Ok(number) = number_of(msn, self.receives.first()) else {
            return 0;
        };
        let behind = number.saturating_add(1);
        let wanted = behind.saturating_sub(self.receives.next());
        let held = self.receives.next().saturating_sub(self.receives.first());
        let room = self.receives.capacity().saturating_sub(held);
        let most = if O::IN_ORDER { room.min(1) } else { room };
        if wanted <= most {
            wanted
        } else {
            0
        }
    }

    fn place(
        &mut self,
        seq: Seq,
        head: &[u8],
        length: usize,
        memory: &impl Memory,
    ) -> Result<Placement, Refusal> {
        let offending = OffendingSegment::of(head, length);
        let refuse = |violation| Refusal::Fault(Fault::peer(violation, offending));
        let (header, payload) = Header::parse(head).map_err(refuse)?;
        let header_len = head.len().saturating_sub(payload.len());
        let length = length.checked_sub(header_len);
        let length = length.and_then(|length| u32::try_from(length).ok());
        let length = length.ok_or(Violation::Truncated).map_err(refuse)?;
        let segment = Segment {
            length,
            last: header.last.then_some(seq),
            offending,
        };
        let placed = match header.model {
            Model::Tagged {
                response,
                stag,
                offset,
            } => {
                let range = Range {
                    stag,
                    offset,
                    length,
                };
                match response {
                    false => {
                        if O::IN_ORDER {
                            self.last_write.add(seq, range, header.last);
                        }
                        place_write(range, memory)
                    }
                    true => self.place_response(&segment, range, memory),
                }
            }
            Model::Untagged {
                message,
                msn,
                offset,
            } => match message {
                Untagged::Send {
                    solicited,
                    invalidate,
                } => self.place_send(&segment, msn, offset, solicited, invalidate),
                Untagged::ReadRequest => {
                    let placed = self.place_request(&segment, msn, offset, payload);
                    return placed.map_err(Refusal::Fault);
                }
                Untagged::Terminate => {
                    let placed = self.place_terminate(&segment, msn, offset, payload);
                    return placed.map_err(Refusal::Terminate);
                }
                Untagged::Immediate { solicited } => {
                    self.place_immediate(&segment, msn, offset, solicited, payload)
                }
                Untagged::AtomicRequest => self.place_atomic(&segment, msn, offset, payload),
                Untagged::AtomicResponse => self.place_original(&segment, msn, offset, payload),
            },
        };
        placed.map_err(refuse)
    }

    fn place_response(
        &mut self,
        segment: &Segment,
        range: Range,
        memory: &impl Memory,
    ) -> Result<Placement, Violation> {
        let (number, offset) = self.read_of(range, segment.last.is_some())?;
        if range.length > 0 {
            // The memory may have been invalidated here in the meantime.
            let allowed = memory.check(range, Access::ReadSink);
            allowed.map_err(Violation::Tagged)?;
        }
        let read = self.outstanding.get_mut(number).ok_or(Violation::NoRead)?;
        let added = read
            .message
            .add(self.key, offset, range.length, segment.last);
        added.map_err(|_| Violation::Tagged(Denied::Bounds))?;
        if segment.last.is_some() {
            read.offending = segment.offending;
        }
        Ok(match range.length {
            0 => Placement::Nothing,
            _ => Placement::Response {
                read: read.read,
                range,
            },
        })
    }

    /// Finds the Read of a response segment, and the offset in its destination: one whose
    /// destination contains the segment, and the oldest incomplete one if the LLP keeps the order,
    /// as responses come in the order of the requests (RFC 5040, section 5.2.2).
    fn read_of(&self, range: Range, last: bool) -> Result<(u64, u32), Violation> {
        let mut violation = Violation::NoRead;
        for number in self.outstanding.first()..self.outstanding.next() {
            let Some(read) = self.outstanding.get(number) else {
                break;
            };
            let ended = read.message.ended().is_some();
            let Awaited::Octets { sink, .. } = read.awaited else {
                match O::IN_ORDER && !ended {
                    // The response to an older request is still to come.
                    true => break,
                    false => continue,
                }
            };
            // The last segment may have overtaken others.
            let full = read.message.octets() == sink.length;
            if ended && (O::IN_ORDER || full || last) {
                continue;
            }
            match read.offset_of(sink, range, O::IN_ORDER) {
                Ok(offset) => return Ok((number, offset)),
                // The first close match determines the error.
                Err(_) if violation == Violation::Tagged(Denied::Bounds) => {}
                Err(denied) => violation = Violation::Tagged(denied),
            }
            if O::IN_ORDER {
                break;
            }
        }
        Err(violation)
    }

    fn place_send(
        &mut self,
        segment: &Segment,
        msn: u32,
        offset: u32,
        solicited: bool,
        invalidate: Option<Stag>,
    ) -> Result<Placement, Violation> {
        let number = number_of(msn, self.receives.first())?;
        let receive = self.receives.get_mut(number).ok_or(Violation::NoBuffer)?;
        if receive.immediate.is_some() {
            return Err(Violation::MessageNumber);
        }
        if offset > receive.capacity {
            return Err(Violation::MessageOffset);
        }
        let length = segment.length;
        let end = offset.checked_add(length).ok_or(Violation::TooLong)?;
        if end > receive.capacity {
            return Err(Violation::TooLong);
        }
        let added = receive.message.add(self.key, offset, length, segment.last);
        added.map_err(|_| Violation::MessageOffset)?;
        if segment.last.is_some() {
            receive.solicited = solicited;
            receive.invalidate = invalidate;
            receive.offending = segment.offending;
        }
        Ok(match length {
            0 => Placement::Nothing,
            _ => Placement::Receive {
                receive: number,
                offset,
                length,
            },
        })
    }

    fn place_request(
        &mut self,
        segment: &Segment,
        msn: u32,
        offset: u32,
        payload: &[u8],
    ) -> Result<Placement, Fault> {
        let fault = |violation| Fault::peer(violation, segment.offending);
        let seq = segment.only(offset).map_err(fault)?;
        if size(segment.length) > ReadRequest::LEN {
            return Err(fault(Violation::TooLong));
        }
        let request = ReadRequest::parse(payload).ok_or_else(|| fault(Violation::Truncated))?;
        // From here on the Terminate includes the request.
        self.take_request(segment, msn, seq, Wanted::Read(request))
            .map_err(|violation| fault(violation).with_read(request))
    }

    /// Takes a request of the peer that is to be answered, unless it is beyond IRD.
    fn take_request(
        &mut self,
        segment: &Segment,
        msn: u32,
        seq: Seq,
        wanted: Wanted,
    ) -> Result<Placement, Violation> {
        let number = number_of(msn, self.inbound.first())?;
        // A request beyond IRD finds no slot.
        let slot = self.inbound.get_mut(number).ok_or(Violation::NoBuffer)?;
        // The slot is occupied until the request is answered.
        if slot.0.is_some() {
            return Err(Violation::MessageNumber);
        }
        let answer = InboundRequest {
            number,
            wanted,
            offending: segment.offending,
        };
        slot.0 = Some((seq, answer));
        Ok(Placement::Nothing)
    }

    /// Takes an Atomic Request, which shares queue and numbers with Read Requests (RFC 7306,
    /// section 5.2).
    fn place_atomic(
        &mut self,
        segment: &Segment,
        msn: u32,
        offset: u32,
        payload: &[u8],
    ) -> Result<Placement, Violation> {
        let seq = segment.only(offset)?;
        let request = AtomicRequest::parse(payload, segment.length)?;
        self.take_request(segment, msn, seq, Wanted::Atomic(request))
    }

    /// Takes an Atomic Response. Its number finds the request, among the atomic ones.
    fn place_original(
        &mut self,
        segment: &Segment,
        msn: u32,
        offset: u32,
        payload: &[u8],
    ) -> Result<Placement, Violation> {
        let seq = segment.only(offset)?;
        let response = AtomicResponse::parse(payload, segment.length)?;
        let wanted = number_of(msn, self.atomics_done)?;
        for at in self.outstanding.first()..self.outstanding.next() {
            let Some(outstanding) = self.outstanding.get_mut(at) else {
                break;
            };
            let ended = outstanding.message.ended().is_some();
            let Awaited::Original { number, value } = &mut outstanding.awaited else {
                match O::IN_ORDER && !ended {
                    // The response to an older Read is still to come.
                    true => break,
                    false => continue,
                }
            };
            if *number != wanted {
                continue;
            }
            if ended {
                return Err(Violation::MessageNumber);
            }
            if response.identifier != identifier(outstanding.read) {
                return Err(Violation::Identifier);
            }
            *value = response.original;
            let added = outstanding.message.add(self.key, 0, 0, Some(seq));
            added.map_err(|_| Violation::MessageNumber)?;
            outstanding.offending = segment.offending;
            return Ok(Placement::Nothing);
        }
        Err(Violation::NoBuffer)
    }

    /// Takes Immediate Data, which has a Receive like a Send (RFC 7306, section 6).
    fn place_immediate(
        &mut self,
        segment: &Segment,
        msn: u32,
        offset: u32,
        solicited: bool,
        payload: &[u8],
    ) -> Result<Placement, Violation> {
        let seq = segment.only(offset)?;
        let data = exactly(payload, segment.length, size_of::<[u8; 8]>())?;
        let data = *data.first_chunk().ok_or(Violation::Truncated)?;
        let number = number_of(msn, self.receives.first())?;
        let receive = self.receives.get_mut(number).ok_or(Violation::NoBuffer)?;
        // A part of a Send has this number, or all of it.
        if receive.immediate.is_some() || receive.message != Message::default() {
            return Err(Violation::MessageNumber);
        }
        // Nothing is placed, so the message that is whole has no octets.
        let added = receive.message.add(self.key, 0, 0, Some(seq));
        added.map_err(|_| Violation::MessageNumber)?;
        let written = self.last_write.before(seq);
        receive.immediate = Some(Immediate { data, written });
        receive.solicited = solicited;
        receive.offending = segment.offending;
        Ok(Placement::Nothing)
    }

    fn place_terminate(
        &mut self,
        segment: &Segment,
        msn: u32,
        offset: u32,
        payload: &[u8],
    ) -> Result<Placement, Violation> {
        let seq = segment.only(offset)?;
        if msn != 1 || self.terminate.is_some() {
            return Err(Violation::MessageNumber);
        }
        let terminate = Terminate::parse(payload).ok_or(Violation::Truncated)?;
        self.terminate = Some((seq, terminate));
        Ok(Placement::Nothing)
    }
}

/// A segment that arrives, whatever its message.
struct Segment {
    /// The length of its payload in octets.
    length: u32,
    /// Its sequence number, if it is the last one of its message.
    last: Option<Seq>,
    offending: Option<OffendingSegment>,
}

impl Segment {
    /// Checks that this is the only segment of its message, and returns its sequence number.
    fn only(&self, offset: u32) -> Result<Seq, Violation> {
        match offset {
            0 => self.last.ok_or(Violation::TooLong),
            _ => Err(Violation::MessageOffset),
        }
    }
}

fn place_write(range: Range, memory: &impl Memory) -> Result<Placement, Violation> {
    if range.length == 0 {
        return Ok(Placement::Nothing);
    }
    let allowed = memory.check(range, Access::RemoteWrite);
    allowed.map_err(Violation::Tagged)?;
    Ok(Placement::Write(range))
}

/// Returns the number of the queue entry for a message number, if that is possible. The first one
/// has MSN 1.
fn number_of(msn: u32, first: u64) -> Result<u64, Violation> {
    let ahead = ahead_u32(msn, first.saturating_add(1)).ok_or(Violation::MessageNumber)?;
    Ok(first.saturating_add(u64::from(ahead)))
}
