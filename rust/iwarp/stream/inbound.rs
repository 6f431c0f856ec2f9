// SPDX-License-Identifier: GPL-2.0

//! What arrives: each FPDU is verified, then placed, then delivered.

use crate::counters::Count;
use crate::memory::Registered;
use crate::shared::Shared;
use crate::stream::parts::Parts;
use crate::stream::parts::Round;
use crate::stream::parts::Slots;
use crate::stream::requests::Requests;
use kernel::prelude::*;
use provider::memory::Piece;
use provider::queue::Queues;
use provider::wr::ReceiveRequest;
use provider::wr::Status;
use rdmap::fault::Culprit;
use rdmap::fault::Fault;
use rdmap::fault::Lower;
use rdmap::header::Header;
use rdmap::mpa::crc;
use rdmap::mpa::frame::Layout;
use rdmap::mpa::frame::CRC_LEN;
use rdmap::mpa::frame::LENGTH_LEN;
use rdmap::mpa::marker::Position;
use rdmap::order::Arrival;
use rdmap::sink::Delivery;
use rdmap::sink::Place;
use rdmap::sink::Refusal;
use rdmap::sink::Sink;
use rdmap::sink::HEAD_LEN;
use rdmap::source::Source;
use rdmap::stag::Denied;
use rdmap::violation::Violation;
use socket::Frame;
use socket::Next;

/// The receive side of a stream, apart from its connection.
struct Receiver<'a, 'm> {
    shared: &'a Shared,
    queues: &'a Queues,
    memory: &'a Registered<'m>,
    sink: &'a mut Sink<Arrival, Slots>,
    source: &'a mut Source<Slots>,
    receives: &'a mut Requests<ReceiveRequest>,
    crc: bool,
}

/// What an FPDU led to.
enum Handled {
    /// It is placed, and what was to be delivered is.
    Done,
    /// The stream ends, without a word to the peer.
    Ended,
}

/// Receives what is there.
pub(super) fn take(
    parts: &mut Parts,
    shared: &Shared,
    queues: &Queues,
    memory: &Registered<'_>,
) -> Result<Round> {
    let mut receiver = Receiver {
        shared,
        queues,
        memory,
        sink: &mut parts.sink,
        source: &mut parts.source,
        receives: &mut parts.receives,
        crc: parts.crc,
    };
    let (gated, ended) = (&mut parts.gated, &mut parts.ended);
    parts.connection.receive(|frames| loop {
        let length = |head: &[u8]| -> Result<usize> {
            let layout = Layout::of(head, Position::NO_MARKERS).ok_or(EINVAL)?;
            Ok(layout.wire_len())
        };
        match frames.next(LENGTH_LEN, length)? {
            Next::Whole(frame) => {
                let handled = receiver.fpdu(&frame)?;
                frame.take()?;
                *gated = false;
                if let Handled::Ended = handled {
                    *ended = true;
                    return Ok(Round::Idle);
                }
            }
            Next::Part | Next::Nothing => return Ok(Round::Idle),
            Next::Budget => return Ok(Round::More),
            Next::End { within_frame } => {
                return Ok(Round::Over {
                    graceful: !within_frame,
                })
            }
        }
    })
}

impl Receiver<'_, '_> {
    /// Handles a whole FPDU. An error is one of this machine.
    fn fpdu(&mut self, frame: &Frame<'_, '_>) -> Result<Handled> {
        self.shared.counters.add(Count::Received);
        // Behind a fault nothing is placed (RFC 5044, section 8). A wrong CRC is one that the sink does not know of.
        if self.source.fault().is_some() {
            return Ok(Handled::Done);
        }
        let mut head = [0; LENGTH_LEN + HEAD_LEN];
        let head_len = head.len().min(frame.len());
        let head = head.get_mut(..head_len).ok_or(EINVAL)?;
        frame.copy_to_slice(0, head)?;
        let layout = Layout::of(head, Position::NO_MARKERS).ok_or(EINVAL)?;
        if self.crc && !verify(frame)? {
            self.shared.counters.add(Count::BadCrc);
            self.source.fail(Fault::lower(Lower::Crc));
            return Ok(Handled::Done);
        }
        let ulpdu_len = usize::from(layout.ulpdu_len());
        let head = head.get(LENGTH_LEN..).ok_or(EINVAL)?;
        let head = head.get(..ulpdu_len.min(head.len())).unwrap_or(head);
        self.segment(frame, head, ulpdu_len)
    }

    fn segment(&mut self, frame: &Frame<'_, '_>, head: &[u8], length: usize) -> Result<Handled> {
        // The Receive of a Send was posted before the peer could know that it may send.
        while let Some(request) = self.queues.take_receive() {
            let posted = self.sink.post_receive(request.memory.len());
            let left = match posted {
                Ok(number) => self.receives.put(number, request),
                Err(_) => Some(request),
            };
            if let Some(request) = left {
                self.queues
                    .complete_receive(request, Status::Failed, 0, false, None);
            }
        }
        let place = match self.sink.segment((), head, length, self.memory) {
            Ok(place) => place,
            Err(Refusal::Fault(fault)) => {
                self.source.fail(fault);
                return self.deliver();
            }
            Err(Refusal::Terminate(_) | Refusal::Order(_)) => return Ok(Handled::Ended),
        };
        let header_len = head.first().map_or(0, |control| Header::len_of(*control));
        let mut at = LENGTH_LEN.saturating_add(header_len);
        let copy = |piece: Piece<'_>| -> Result {
            frame.copy_to(at, piece)?;
            at = at.saturating_add(usize::try_from(piece.len())?);
            Ok(())
        };
        let copied = match place {
            Place::Receive {
                receive,
                offset,
                length,
            } => {
                let request = self.receives.get(receive).ok_or(EINVAL)?;
                request.memory.pieces(offset, length, copy)
            }
            Place::Write(range) | Place::Response { range, .. } => self.memory.copy(range, copy),
            Place::Nothing => Ok(()),
        };
        self.sink.placed();
        if copied.is_err() {
            // It was invalidated since it was looked up.
            let culprit = Culprit::of(head, length);
            let violation = Violation::Tagged(Denied::Invalid);
            self.source.fail(Fault::peer(violation, culprit));
            return Ok(Handled::Done);
        }
        self.deliver()
    }

    /// Delivers what has its turn.
    fn deliver(&mut self) -> Result<Handled> {
        loop {
            match self.sink.deliver(self.memory) {
                Ok(None) => return Ok(Handled::Done),
                Ok(Some(Delivery::Message {
                    receive,
                    length,
                    solicited,
                    invalidated,
                })) => {
                    let request = self.receives.take(receive).ok_or(EINVAL)?;
                    let invalidated = invalidated.map(|stag| stag.0);
                    self.queues.complete_receive(
                        request,
                        Status::Success,
                        length,
                        solicited,
                        invalidated,
                    );
                }
                Ok(Some(Delivery::Answer(answer))) => {
                    self.source.answer(answer).map_err(|_| EINVAL)?;
                }
                Ok(Some(Delivery::ReadDone {
                    read,
                    to_invalidate,
                })) => {
                    if let Some(stag) = to_invalidate {
                        self.memory.invalidate_local(stag);
                    }
                    self.source.done(read).map_err(|_| EINVAL)?;
                }
                Ok(Some(Delivery::Terminate(_))) => {
                    self.shared.counters.add(Count::TerminateReceived);
                    return Ok(Handled::Ended);
                }
                Err(fault) => {
                    self.source.fail(fault);
                    return Ok(Handled::Done);
                }
            }
        }
    }
}

/// Whether the CRC of an FPDU is right.
fn verify(frame: &Frame<'_, '_>) -> Result<bool> {
    let covered = frame.len().checked_sub(CRC_LEN).ok_or(EINVAL)?;
    let mut found = [0; CRC_LEN];
    frame.copy_to_slice(covered, &mut found)?;
    Ok(crc::octets(!frame.crc32c(!0, 0, covered)?) == found)
}
