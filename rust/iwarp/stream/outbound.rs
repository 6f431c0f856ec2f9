// SPDX-License-Identifier: GPL-2.0

//! What leaves: segments of requests and answers, as many as one call takes.

use crate::counters::Count;
use crate::memory::Registered;
use crate::shared::Shared;
use crate::stream::parts::Parts;
use kernel::prelude::*;
use provider::memory::Piece;
use provider::wr::Operation;
use rdmap::fault::Fault;
use rdmap::mpa::frame;
use rdmap::source::Outgoing;
use rdmap::source::Payload;
use rdmap::stag::Range;
use rdmap::stag::Stag;

/// Calls in a row, so that what arrives is not forgotten over what is to be sent.
const CALLS: usize = 4;

/// Copies pieces one behind the other.
fn gather(to: &mut [u8]) -> impl FnMut(Piece<'_>) -> Result + '_ {
    let mut at = 0_usize;
    move |piece| {
        let end = at.saturating_add(usize::try_from(piece.len())?);
        piece.copy_to(to.get_mut(at..end).ok_or(EINVAL)?)?;
        at = end;
        Ok(())
    }
}

/// Sends what is to be sent and what there is room for. Says whether there may be more. An error is one of the connection.
pub(super) fn make(parts: &mut Parts, shared: &Shared, memory: &Registered<'_>) -> Result<bool> {
    for _ in 0..CALLS {
        match parts.outbox.flush(&mut parts.connection) {
            Ok(()) => {}
            // An event tells of room.
            Err(error) if error == EAGAIN => return Ok(false),
            Err(error) => return Err(error),
        }
        if parts.gated && parts.source.fault().is_none() {
            return Ok(false);
        }
        let mulpdu = frame::mulpdu(parts.connection.emss(), parts.send_markers);
        while parts.outbox.has_room() && cut(parts, shared, memory, mulpdu)? {}
        if parts.outbox.is_empty() {
            return Ok(false);
        }
    }
    match parts.outbox.flush(&mut parts.connection) {
        Ok(()) => Ok(true),
        Err(error) if error == EAGAIN => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the next segment, or does the next local operation. False if there is neither.
fn cut(parts: &mut Parts, shared: &Shared, memory: &Registered<'_>, mulpdu: u32) -> Result<bool> {
    let Some(outgoing) = parts.source.next(mulpdu, memory) else {
        return Ok(false);
    };
    let of_request = match &outgoing {
        Outgoing::Segment { payload, .. } => !matches!(payload, Payload::Answer(_)),
        _ => true,
    };
    let made = match outgoing {
        Outgoing::Segment {
            header,
            payload,
            answered,
            ..
        } => {
            if let Some(number) = answered {
                parts.sink.answered(number).map_err(|_| EINVAL)?;
            }
            if parts.source.fault().is_some() {
                shared.counters.add(Count::TerminateSent);
            }
            fpdu(parts, header.as_slice(), payload, memory)
        }
        Outgoing::Read {
            number,
            header,
            request,
        } => {
            let invalidate = match parts.sends.get(number).map(|posted| &posted.operation) {
                Some(Operation::Read { invalidate, .. }) => *invalidate,
                _ => false,
            };
            let sink = Range {
                stag: request.sink_stag,
                offset: request.sink_offset,
                length: request.length,
            };
            let expected = parts.sink.expect(number, sink, invalidate);
            expected.map_err(|_| EINVAL)?;
            parts.outbox.fpdu(header.as_slice(), 0, |_| Ok(()))
        }
        Outgoing::Local(number) => {
            let done = local(parts, number, memory);
            parts.source.handed().map_err(|_| EINVAL)?;
            match done {
                true => parts.source.done(number).map_err(|_| EINVAL)?,
                false => parts.source.abandon(),
            }
            return Ok(true);
        }
    };
    if made.is_err() {
        // The memory is not there: what is to be sent of a request cannot be, and an answer must not be.
        if parts.source.fault().is_some() {
            return Err(EIO);
        }
        match of_request {
            true => parts.source.abandon(),
            // The first fault counts.
            false => drop(parts.source.fail(Fault::LOCAL)),
        }
        return Ok(true);
    }
    shared.counters.add(Count::Sent);
    let handed = parts.source.handed().map_err(|_| EINVAL)?;
    // It was copied.
    parts.source.taken(handed);
    Ok(true)
}

/// Makes an FPDU of a header and what belongs behind it.
fn fpdu(parts: &mut Parts, header: &[u8], payload: Payload, memory: &Registered<'_>) -> Result {
    match payload {
        Payload::None => parts.outbox.fpdu(header, 0, |_| Ok(())),
        Payload::Request {
            number,
            offset,
            length,
        } => {
            let request = parts.sends.get(number).ok_or(EINVAL)?;
            parts.outbox.fpdu(header, length, |to| {
                request.memory.pieces(offset, length, gather(to))
            })
        }
        Payload::Answer(range) => parts
            .outbox
            .fpdu(header, range.length, |to| memory.copy(range, gather(to))),
    }
}

/// Registers or invalidates. False if that cannot be.
fn local(parts: &mut Parts, number: u64, memory: &Registered<'_>) -> bool {
    match parts.sends.get(number).map(|request| &request.operation) {
        Some(Operation::Register {
            region,
            registration,
        }) => region.domain() == memory.domain && region.register(*registration).is_ok(),
        Some(Operation::Invalidate(stag)) => memory.invalidate_local(Stag(*stag)),
        _ => false,
    }
}
