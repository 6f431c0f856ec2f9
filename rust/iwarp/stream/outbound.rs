// SPDX-License-Identifier: GPL-2.0

//! Sending: segments of requests and responses, as many as one call takes.

use crate::counters::Count;
use crate::lower::Added;
use crate::lower::Failed;
use crate::lower::Open;
use crate::memory::Registered;
use crate::shared::Shared;
use crate::stream::parts::Parts;
use kernel::prelude::*;
use provider::memory::Piece;
use provider::wr::Operation;
use provider::wr::Run;
use rdmap::fault::Fault;
use rdmap::source::Outgoing;
use rdmap::source::Payload;
use rdmap::stag::Range;
use rdmap::stag::Stag;

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
enum Cut {
    /// It was added, or a local operation was carried out.
    Made,
    /// There is none.
    None,
    /// There is no space for it.
    Full,
}

/// Sends segments, as many as there is space for, in one call. Says whether there may be more. An
/// error is one of the connection.
///
/// Several calls made WRITEs of 1 MiB take a tenth more instructions where both ends are on one
/// machine. Probably more was then under way, before the peer ran, than TCP may refer to, and
/// octets beyond that are copied once more.
pub(super) fn make<O: Open>(
    parts: &mut Parts<O>,
    shared: &Shared,
    memory: &Registered<'_>,
) -> Result<bool> {
    if !flush(parts)? {
        return Ok(false);
    }
    if !parts.open.may_send() && parts.source.fault().is_none() {
        return Ok(false);
    }
    let mut more = true;
    while more && parts.open.has_room() {
        match cut(parts, shared, memory)? {
            Cut::Made => {}
            Cut::None | Cut::Full => more = false,
        }
    }
    Ok(flush(parts)? && more)
}

/// Hands over the added segments. Returns false if an event will report space.
fn flush<O: Open>(parts: &mut Parts<O>) -> Result<bool> {
    match parts.open.flush() {
        Ok(()) => {
            // RFC 5040, section 5.5, rule 14: a request is complete when the layer below has all of
            // it. Octets that were copied and wait here would be lost with the connection. Nothing
            // is added while something waits, so all go at once.
            parts.source.taken(u64::MAX);
            Ok(true)
        }
        Err(error) if error == EAGAIN => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the next segment, or carries out the next local operation.
fn cut<O: Open>(parts: &mut Parts<O>, shared: &Shared, memory: &Registered<'_>) -> Result<Cut> {
    let Some(outgoing) = parts.source.next(parts.open.mulpdu(), memory) else {
        return Ok(Cut::None);
    };
    let of_request = match &outgoing {
        Outgoing::Segment { payload, .. } => !matches!(payload, Payload::Answer(_)),
        _ => true,
    };
    let terminates = parts.source.fault().is_some();
    let added = match outgoing {
        Outgoing::Segment {
            header,
            payload,
            answered,
            ..
        } => {
            if let Some(number) = answered {
                parts.sink.answered(number).map_err(|_| EINVAL)?;
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
            let expected = parts.sink.expect(number, sink, invalidate);
            expected.map_err(|_| EINVAL)?;
            parts.open.add(header.as_slice(), 0, |_| Ok(()))
        }
        Outgoing::Local(number) => {
            let done = local(parts, number, memory);
            parts.source.handed().map_err(|_| EINVAL)?;
            match done {
                true => parts.source.done(number).map_err(|_| EINVAL)?,
                false => parts.source.abandon(),
            }
            return Ok(Cut::Made);
        }
    };
    match added {
        Ok(Added::Done) => {
            shared.counters.add(Count::Sent);
            if terminates {
                shared.counters.add(Count::TerminateSent);
            }
            parts.source.handed().map_err(|_| EINVAL)?;
            Ok(Cut::Made)
        }
        // The next one is the same again, or a shorter one.
        Ok(Added::TooLong) => Ok(Cut::Made),
        Ok(Added::Full) => Ok(Cut::Full),
        Err(Failed::Connection) => Err(EIO),
        // The memory is not there: the rest of a request cannot be sent, and a response must not
        // be.
        Err(Failed::Payload) if terminates => Err(EIO),
        Err(Failed::Payload) => {
            match of_request {
                true => parts.source.abandon(),
                // Only the first fault counts.
                false => drop(parts.source.fail(Fault::LOCAL)),
            }
            Ok(Cut::Made)
        }
    }
}

/// Adds a segment of a header and its payload.
fn add<O: Open>(
    parts: &mut Parts<O>,
    header: &[u8],
    payload: Payload,
    memory: &Registered<'_>,
) -> Result<Added, Failed> {
    match payload {
        Payload::None => parts.open.add(header, 0, |_| Ok(())),
        Payload::Request {
            number,
            offset,
            length,
        } => {
            let request = parts.sends.get(number).ok_or(Failed::Payload)?;
            parts.open.add(header, length, |to| {
                let mut gather = gather(to);
                let memory = |run: Run<'_>| memory.pieces(run, &mut gather);
                request.memory.runs(offset, length, memory)
            })
        }
        Payload::Answer(range) => parts
            .open
            .add(header, range.length, |to| memory.copy(range, gather(to))),
    }
}

/// Registers or invalidates memory. Returns false if that is not possible.
fn local<O: Open>(parts: &mut Parts<O>, number: u64, memory: &Registered<'_>) -> bool {
    match parts.sends.get(number).map(|request| &request.operation) {
        Some(Operation::Register {
            region,
            registration,
        }) => region.domain() == memory.domain && region.register(*registration).is_ok(),
        Some(Operation::Invalidate(stag)) => memory.invalidate_local(Stag(*stag)),
        _ => false,
    }
}
