// SPDX-License-Identifier: GPL-2.0

//! Received FPDUs: each is verified before any of it is placed.

use crate::counters::Count;
use crate::event_target::EventTarget;
use crate::stream::receiver::Handled;
use crate::stream::receiver::Received;
use crate::stream::receiver::Receiver;
use kernel::prelude::*;
use rdmap::fault::Fault;
use rdmap::fault::LlpError;
use rdmap::mpa::crc;
use rdmap::mpa::frame::Layout;
use rdmap::mpa::frame::CRC_LEN;
use rdmap::mpa::frame::LENGTH_LEN;
use rdmap::mpa::marker::Position;
use rdmap::order::InOrder;
use rdmap::rx::HEAD_LEN;
use socket::Frame;
use socket::Next;
use socket::TcpConn;

/// Receives the FPDUs that are there. `gated` ends with the first one; `with_crc` says whether they
/// have a CRC.
pub(super) fn receive(
    connection: &mut TcpConn<EventTarget>,
    gated: &mut bool,
    with_crc: bool,
    receiver: &mut Receiver<'_, '_, InOrder>,
) -> Result<Received> {
    connection.receive(|frames| loop {
        let length = |head: &[u8]| -> Result<usize> {
            let layout = Layout::of(head, Position::NO_MARKERS).ok_or(EINVAL)?;
            Ok(layout.wire_len())
        };
        let next = match frames.next(LENGTH_LEN, length) {
            // There is no memory to assemble a frame. Part of it is there, so it is polled.
            Err(error) if error == ENOMEM => {
                receiver.count(Count::NoMemory);
                return Ok(Received::Idle);
            }
            next => next?,
        };
        match next {
            Next::Whole(frame) => {
                let handled = fpdu(receiver, &frame, with_crc)?;
                frame.take()?;
                *gated = false;
                if let Handled::Ended = handled {
                    return Ok(Received::Ended);
                }
            }
            Next::Part | Next::Nothing => return Ok(Received::Idle),
            Next::Budget => return Ok(Received::More),
            Next::End { within_frame } => {
                if within_frame {
                    // The peer may still receive, and is told the reason (RFC 5040, section 6.2.1),
                    // unless it was told of another fault.
                    receiver.fail(Fault::llp(LlpError::Lost));
                }
                return Ok(Received::Over { graceful: true });
            }
        }
    })
}

/// Handles a complete FPDU. An error is one of this machine.
fn fpdu(
    receiver: &mut Receiver<'_, '_, InOrder>,
    frame: &Frame<'_, '_>,
    with_crc: bool,
) -> Result<Handled> {
    receiver.count(Count::Received);
    // Behind a fault nothing is placed (RFC 5044, section 8). The receive half does not know of a
    // wrong CRC.
    if receiver.has_failed() {
        return Ok(Handled::Done);
    }
    let mut head = [0; LENGTH_LEN + HEAD_LEN];
    let head_len = head.len().min(frame.len());
    let head = head.get_mut(..head_len).ok_or(EINVAL)?;
    frame.copy_to_slice(0, head)?;
    let layout = Layout::of(head, Position::NO_MARKERS).ok_or(EINVAL)?;
    if with_crc && !verify(frame)? {
        receiver.count(Count::BadCrc);
        receiver.fail(Fault::llp(LlpError::Crc));
        return Ok(Handled::Done);
    }
    let ulpdu_len = usize::from(layout.ulpdu_len());
    let head = head.get(LENGTH_LEN..).ok_or(EINVAL)?;
    let head = head.get(..ulpdu_len.min(head.len())).unwrap_or(head);
    receiver.segment((), head, ulpdu_len, |at, piece| {
        frame.copy_to(LENGTH_LEN.saturating_add(at), piece)
    })
}

/// Says whether the CRC of an FPDU is correct.
fn verify(frame: &Frame<'_, '_>) -> Result<bool> {
    let covered = frame.len().checked_sub(CRC_LEN).ok_or(EINVAL)?;
    let mut found = [0; CRC_LEN];
    frame.copy_to_slice(covered, &mut found)?;
    Ok(crc::octets(!frame.crc32c(!0, 0, covered)?) == found)
}
