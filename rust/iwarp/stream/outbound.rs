// SPDX-License-Identifier: GPL-2.0

//! Sending: segments of requests and responses, as many as one call takes.

use crate::counters::Count;
use crate::llp::EstablishedConn;
use crate::llp::SendError;
use crate::llp::SendStatus;
use crate::memory::RegisteredMemory;
use crate::shared::DeviceState;
use crate::stream::parts::Parts;
use kernel::prelude::*;
use provider::memory::Piece;
use provider::wr::Operation;
use provider::wr::Run;
use rdmap::fault::Fault;
use rdmap::stag::Range;
use rdmap::stag::Stag;
use rdmap::tx::Outgoing;
use rdmap::tx::Payload;

/// Returns a function that copies pieces one behind the other.
fn gather(to: &mut [u8]) -> impl FnMut(Piece<'_>) -> Result + '_ {
    let mut at = 0_usize;
    move |piece| {
        let end = at.saturating_add(usize::try_from(piece.len())?);
        piece.copy_to(to.get_mut(at..end).ok_or(EINVAL)?)?;
        at = end;
        Ok(())
    }
}

/// The result of cutting the next segment.
enum SegmentResult {
    /// It was added, or a local operation was carried out.
    Added,
    /// There is none.
    None,
    /// There is no space for it.
    NoSpace,
}

/// Sends segments, as many as there is space for, in one call. Says whether there may be more. An
/// error is one of the connection.
///
/// Several calls made WRITEs of 1 MiB take a tenth more instructions where both ends are on one
/// machine. Probably more was then under way, before the peer ran, than TCP may refer to, and
/// octets beyond that are copied once more.
pub(super) fn send<O: EstablishedConn>(
    parts: &mut Parts<O>,
    shared: &DeviceState,
    memory: &RegisteredMemory<'_>,
) -> Result<bool> {
    if !flush(parts)? {
        return Ok(false);
    }
    if !parts.conn.may_send() && parts.tx.fault().is_none() {
        return Ok(false);
    }
    let mut more = true;
    while more && parts.conn.has_space() {
        match cut(parts, shared, memory)? {
            SegmentResult::Added => {}
            SegmentResult::None | SegmentResult::NoSpace => more = false,
        }
    }
    Ok(flush(parts)? && more)
}

/// Hands over the added segments. Returns false if an event will report space.
fn flush<O: EstablishedConn>(parts: &mut Parts<O>) -> Result<bool> {
    match parts.conn.flush() {
        Ok(()) => {
            // RFC 5040, section 5.5, rule 14: a request is complete when the layer below has all of
            // it. Octets that were copied and wait here would be lost with the connection. Nothing
            // is added while something waits, so all go at once.
            parts.tx.release(u64::MAX);
            Ok(true)
        }
        Err(error) if error == EAGAIN => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the next segment, or carries out the next local operation.
fn cut<O: EstablishedConn>(
    parts: &mut Parts<O>,
    shared: &DeviceState,
    memory: &RegisteredMemory<'_>,
) -> Result<SegmentResult> {
    let Some(outgoing) = parts.tx.peek(parts.conn.mulpdu(), memory) else {
        return Ok(SegmentResult::None);
    };
    let is_of_request = match &outgoing {
        Outgoing::Segment { payload, .. } => !matches!(payload, Payload::Response(_)),
        _ => true,
    };
    let terminates = parts.tx.fault().is_some();
    let added = match outgoing {
        Outgoing::Segment {
            header,
            payload,
            last_of_response,
            ..
        } => {
            if let Some(number) = last_of_response {
                parts.rx.free_inbound(number).map_err(|_| EINVAL)?;
            }
            add(parts, header.as_slice(), payload, memory)
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
            let expected = parts.rx.expect(number, sink, invalidate);
            expected.map_err(|_| EINVAL)?;
            parts.conn.add(header.as_slice(), 0, |_| Ok(()))
        }
        Outgoing::Local(number) => {
            let done = local(parts, number, memory);
            parts.tx.commit().map_err(|_| EINVAL)?;
            match done {
                true => parts.tx.done(number).map_err(|_| EINVAL)?,
                false => parts.tx.abandon(),
            }
            return Ok(SegmentResult::Added);
        }
    };
    match added {
        Ok(SendStatus::Queued) => {
            shared.counters.add(Count::Sent);
            if terminates {
                shared.counters.add(Count::TerminateSent);
            }
            parts.tx.commit().map_err(|_| EINVAL)?;
            Ok(SegmentResult::Added)
        }
        // The next one is the same again, or a shorter one.
        Ok(SendStatus::TooLong) => Ok(SegmentResult::Added),
        Ok(SendStatus::NoSpace) => Ok(SegmentResult::NoSpace),
        Err(SendError::Connection) => Err(EIO),
        // The memory is not there: the rest of a request cannot be sent, and a response must not
        // be.
        Err(SendError::Payload) if terminates => Err(EIO),
        Err(SendError::Payload) => {
            match is_of_request {
                true => parts.tx.abandon(),
                // Only the first fault counts.
                false => drop(parts.tx.fail(Fault::LOCAL)),
            }
            Ok(SegmentResult::Added)
        }
    }
}

/// Adds a segment of a header and its payload.
fn add<O: EstablishedConn>(
    parts: &mut Parts<O>,
    header: &[u8],
    payload: Payload,
    memory: &RegisteredMemory<'_>,
) -> Result<SendStatus, SendError> {
    match payload {
        Payload::None => parts.conn.add(header, 0, |_| Ok(())),
        Payload::Request {
            number,
            offset,
            length,
        } => {
            let request = parts.sends.get(number).ok_or(SendError::Payload)?;
            parts.conn.add(header, length, |to| {
                let mut gather = gather(to);
                let memory = |run: Run<'_>| memory.pieces(run, &mut gather);
                request.sg_list.runs(offset, length, memory)
            })
        }
        Payload::Response(range) => parts
            .conn
            .add(header, range.length, |to| memory.copy(range, gather(to))),
    }
}

/// Registers or invalidates memory. Returns false if that is not possible.
fn local<O: EstablishedConn>(
    parts: &mut Parts<O>,
    number: u64,
    memory: &RegisteredMemory<'_>,
) -> bool {
    match parts.sends.get(number).map(|request| &request.operation) {
        Some(Operation::Register {
            region,
            registration,
        }) => region.pd() == memory.pd && region.register(*registration).is_ok(),
        Some(Operation::Invalidate(stag)) => memory.invalidate_local(Stag(*stag)),
        _ => false,
    }
}
