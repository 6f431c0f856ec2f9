// SPDX-License-Identifier: GPL-2.0

//! Sending: segments of requests and responses, as many as one call takes.

use crate::device::Count;
use crate::device::DeviceState;
use crate::llp::EstablishedConn;
use crate::llp::SendError;
use crate::llp::SendStatus;
use crate::memory::RegisteredMemory;
use crate::stream::Stream;
use kernel::prelude::*;
use provider::borrowed::Piece;
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
    stream: &mut Stream<O>,
    shared: &DeviceState,
    memory: &RegisteredMemory<'_>,
) -> Result<bool> {
    if !flush(stream)? {
        return Ok(false);
    }
    if !stream.conn.may_send() && stream.tx.fault().is_none() {
        return Ok(false);
    }
    let mut more = true;
    while more && stream.conn.has_space() {
        match cut(stream, shared, memory)? {
            SegmentResult::Added => {}
            SegmentResult::None | SegmentResult::NoSpace => more = false,
        }
    }
    Ok(flush(stream)? && more)
}

/// Hands over the added segments. Returns false if an event will report space.
fn flush<O: EstablishedConn>(stream: &mut Stream<O>) -> Result<bool> {
    match stream.conn.flush() {
        Ok(()) => {
            // RFC 5040, section 5.5, rule 14: a request is complete when the layer below has all of
            // it. Octets that were copied and wait here would be lost with the connection. Nothing
            // is added while something waits, so all go at once.
            stream.tx.release(u64::MAX);
            Ok(true)
        }
        Err(error) if error == EAGAIN => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the next segment, or carries out the next local operation.
fn cut<O: EstablishedConn>(
    stream: &mut Stream<O>,
    shared: &DeviceState,
    memory: &RegisteredMemory<'_>,
) -> Result<SegmentResult> {
    let Some(outgoing) = stream.tx.peek(stream.conn.mulpdu(), memory) else {
        return Ok(SegmentResult::None);
    };
    let is_of_request = match &outgoing {
        Outgoing::Segment { payload, .. } => !matches!(payload, Payload::Response(_)),
        _ => true,
    };
    let terminates = stream.tx.fault().is_some();
    let added = match outgoing {
        Outgoing::Segment {
            header,
            payload,
            last_of_response,
            ..
        } => {
            if let Some(number) = last_of_response {
                stream.rx.free_inbound(number).map_err(|_| EINVAL)?;
            }
            add(stream, header.as_slice(), payload, memory)
        }
        Outgoing::Read {
            number,
            header,
            request,
        } => {
            let invalidate = match stream.sends.get(number).map(|posted| &posted.operation) {
                Some(Operation::Read { invalidate, .. }) => *invalidate,
                _ => false,
            };
            let sink = Range {
                stag: request.sink_stag,
                offset: request.sink_offset,
                length: request.length,
            };
            let expected = stream.rx.expect(number, sink, invalidate);
            expected.map_err(|_| EINVAL)?;
            stream.conn.add(header.as_slice(), 0, |_| Ok(()))
        }
        Outgoing::Local(number) => {
            let done = local(stream, number, memory);
            stream.tx.commit().map_err(|_| EINVAL)?;
            match done {
                true => stream.tx.done(number).map_err(|_| EINVAL)?,
                false => stream.tx.abandon(),
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
            stream.tx.commit().map_err(|_| EINVAL)?;
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
                true => stream.tx.abandon(),
                // Only the first fault counts.
                false => drop(stream.tx.fail(Fault::LOCAL)),
            }
            Ok(SegmentResult::Added)
        }
    }
}

/// Adds a segment of a header and its payload.
fn add<O: EstablishedConn>(
    stream: &mut Stream<O>,
    header: &[u8],
    payload: Payload,
    memory: &RegisteredMemory<'_>,
) -> Result<SendStatus, SendError> {
    match payload {
        Payload::None => stream.conn.add(header, 0, |_| Ok(())),
        Payload::Request {
            number,
            offset,
            length,
        } => {
            let request = stream.sends.get(number).ok_or(SendError::Payload)?;
            stream.conn.add(header, length, |to| {
                let mut gather = gather(to);
                let memory = |run: Run<'_>| memory.pieces(run, &mut gather);
                request.sg_list.runs(offset, length, memory)
            })
        }
        Payload::Response(range) => stream
            .conn
            .add(header, range.length, |to| memory.copy(range, gather(to))),
    }
}

/// Registers or invalidates memory. Returns false if that is not possible.
fn local<O: EstablishedConn>(
    stream: &mut Stream<O>,
    number: u64,
    memory: &RegisteredMemory<'_>,
) -> bool {
    match stream.sends.get(number).map(|request| &request.operation) {
        Some(Operation::Register {
            region,
            registration,
        }) => region.pd() == memory.pd && region.register(*registration).is_ok(),
        Some(Operation::Invalidate(stag)) => memory.invalidate_local(Stag(*stag)),
        _ => false,
    }
}
