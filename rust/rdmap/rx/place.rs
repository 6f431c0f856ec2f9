// SPDX-License-Identifier: GPL-2.0

//! Placement: the checks of a segment that arrives, and its destination (RFC 5041, sections 5 and
//! 7.1; RFC 5040, section 7.2).

use crate::fault::Fault;
use crate::fault::OffendingSegment;
use crate::fault::Violation;
use crate::header::Header;
use crate::header::Model;
use crate::header::ReadRequest;
use crate::header::Untagged;
use crate::order::Invalid;
use crate::order::Order;
use crate::order::Seq;
use crate::rx::InboundRead;
use crate::rx::Placement;
use crate::rx::Receive;
use crate::rx::Refusal;
use crate::rx::RxHalf;
use crate::rx::Slots;
use crate::rx::State;
use crate::serial::ahead_u32;
use crate::stag::Access;
use crate::stag::Denied;
use crate::stag::Memory;
use crate::stag::Range;
use crate::terminate::Terminate;

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
        let Some(length) = length
            .checked_sub(header_len)
            .and_then(|length| u32::try_from(length).ok())
        else {
            return Err(refuse(Violation::Truncated));
        };
        let last = header.last.then_some(seq);
        match header.model {
            Model::Tagged {
                response: false,
                stag,
                offset,
            } => {
                let range = Range {
                    stag,
                    offset,
                    length,
                };
                if length == 0 {
                    return Ok(Placement::Nothing);
                }
                let allowed = memory.check(range, Access::RemoteWrite);
                allowed.map_err(|denied| refuse(Violation::Tagged(denied)))?;
                Ok(Placement::Write(range))
            }
            Model::Tagged { stag, offset, .. } => {
                let range = Range {
                    stag,
                    offset,
                    length,
                };
                self.place_response(range, last, offending, memory)
                    .map_err(refuse)
            }
            Model::Untagged {
                message:
                    Untagged::Send {
                        solicited,
                        invalidate,
                    },
                msn,
                offset,
            } => {
                let segment = Receive {
                    solicited,
                    invalidate,
                    offending,
                    ..Receive::default()
                };
                self.place_send(segment, msn, offset, length, last)
                    .map_err(refuse)
            }
            Model::Untagged {
                message: Untagged::ReadRequest,
                msn,
                offset,
            } => {
                let request = single::<{ ReadRequest::LEN }>(offset, length, last);
                let request =
                    request.and_then(|()| ReadRequest::parse(payload).ok_or(Violation::Truncated));
                // The Terminate includes the request if the request is wrong.
                let request = request.map_err(refuse)?;
                let placed = self.place_request(seq, msn, request, offending);
                placed.map_err(|violation| {
                    Refusal::Fault(Fault::peer(violation, offending).with_read(request))
                })
            }
            Model::Untagged {
                message: Untagged::Terminate,
                msn,
                offset,
            } => single::<{ usize::MAX }>(offset, length, last)
                .and_then(|()| self.place_terminate(seq, msn, payload))
                .map(|()| Placement::Nothing)
                .map_err(Refusal::Terminate),
        }
    }

    fn place_send(
        &mut self,
        segment: Receive,
        msn: u32,
        offset: u32,
        length: u32,
        last: Option<Seq>,
    ) -> Result<Placement, Violation> {
        let number = number_of(msn, self.receives.first())?;
        let receive = self.receives.get_mut(number).ok_or(Violation::NoBuffer)?;
        if offset > receive.capacity {
            return Err(Violation::MessageOffset);
        }
        let end = offset.checked_add(length).ok_or(Violation::TooLong)?;
        if end > receive.capacity {
            return Err(Violation::TooLong);
        }
        let added = receive.message.add(self.key, offset, length, last);
        added.map_err(|_| Violation::MessageOffset)?;
        if last.is_some() {
            *receive = Receive {
                capacity: receive.capacity,
                message: receive.message,
                ..segment
            };
        }
        if length == 0 {
            return Ok(Placement::Nothing);
        }
        Ok(Placement::Receive {
            receive: number,
            offset,
            length,
        })
    }

    fn place_request(
        &mut self,
        seq: Seq,
        msn: u32,
        request: ReadRequest,
        offending: Option<OffendingSegment>,
    ) -> Result<Placement, Violation> {
        let number = number_of(msn, self.inbound.first())?;
        // A request beyond IRD finds no slot.
        let slot = self.inbound.get_mut(number).ok_or(Violation::NoBuffer)?;
        // The slot is occupied until the request is answered.
        if slot.0.is_some() {
            return Err(Violation::MessageNumber);
        }
        let answer = InboundRead {
            number,
            request,
            offending,
        };
        slot.0 = Some((seq, answer));
        Ok(Placement::Nothing)
    }

    fn place_terminate(&mut self, seq: Seq, msn: u32, payload: &[u8]) -> Result<(), Violation> {
        if msn != 1 || self.terminate.is_some() {
            return Err(Violation::MessageNumber);
        }
        let terminate = Terminate::parse(payload).ok_or(Violation::Truncated)?;
        self.terminate = Some((seq, terminate));
        Ok(())
    }

    /// Finds the Read of a response segment: one whose destination contains it, and the oldest
    /// incomplete one if the LLP keeps the order, as responses come in the order of the requests
    /// (RFC 5040, section 5.2.2).
    fn place_response(
        &mut self,
        range: Range,
        last: Option<Seq>,
        offending: Option<OffendingSegment>,
        memory: &impl Memory,
    ) -> Result<Placement, Violation> {
        let mut found = Err(Violation::NoRead);
        for number in self.outstanding.first()..self.outstanding.next() {
            let Some(read) = self.outstanding.get(number) else {
                break;
            };
            // The last segment may have overtaken others.
            let ended = read.message.ended().is_some();
            let full = read.message.octets() == read.sink.length;
            if ended && (O::IN_ORDER || full || last.is_some()) {
                continue;
            }
            match read.offset_of(range, O::IN_ORDER) {
                Ok(offset) => {
                    found = Ok((number, offset));
                    break;
                }
                // The first close match determines the error.
                Err(denied) if found != Err(Violation::Tagged(Denied::Bounds)) => {
                    found = Err(Violation::Tagged(denied));
                }
                Err(_) => {}
            }
            if O::IN_ORDER {
                break;
            }
        }
        let (number, offset) = found?;
        if range.length > 0 {
            // The memory may have been invalidated here in the meantime.
            let allowed = memory.check(range, Access::ReadSink);
            allowed.map_err(Violation::Tagged)?;
        }
        let read = self.outstanding.get_mut(number).ok_or(Violation::NoRead)?;
        let added = read.message.add(self.key, offset, range.length, last);
        added.map_err(|_| Violation::Tagged(Denied::Bounds))?;
        if last.is_some() {
            read.offending = offending;
        }
        if range.length == 0 {
            return Ok(Placement::Nothing);
        }
        Ok(Placement::Response {
            read: read.read,
            range,
        })
    }
}

/// Returns the number of the queue entry for a message number, if that is possible. The first one
/// has MSN 1.
fn number_of(msn: u32, first: u64) -> Result<u64, Violation> {
    let ahead = ahead_u32(msn, first.saturating_add(1)).ok_or(Violation::MessageNumber)?;
    Ok(first.saturating_add(u64::from(ahead)))
}

/// Checks a message that always has one segment, of `LENGTH` octets at most.
fn single<const LENGTH: usize>(
    offset: u32,
    length: u32,
    last: Option<Seq>,
) -> Result<(), Violation> {
    if offset != 0 {
        return Err(Violation::MessageOffset);
    }
    let longer = usize::try_from(length).map_or(true, |length| length > LENGTH);
    match longer || last.is_none() {
        true => Err(Violation::TooLong),
        false => Ok(()),
    }
}
