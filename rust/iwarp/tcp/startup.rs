// SPDX-License-Identifier: GPL-2.0

//! Start-up frames of MPA on a socket: the offer of this side, and receiving a frame.

use crate::llp::limit_reads;
use crate::llp::MAX_READS;
use kernel::prelude::*;
use rdmap::enhanced::ReadLimits;
use rdmap::mpa::startup::Frame;
use rdmap::mpa::startup::Kind;
use rdmap::mpa::startup::Offer;
use socket::Events;
use socket::Next;
use socket::Settings;
use socket::TcpConn;

/// The time that a peer may leave octets unacknowledged, in milliseconds.
const USER_TIMEOUT_MS: u32 = 60_000;

/// Socket options of every connection.
pub(super) const SETTINGS: Settings = Settings {
    user_timeout_ms: USER_TIMEOUT_MS,
    receive_buffer: None,
};

/// Returns the offer of this side, for the numbers of Reads that its consumer wants.
pub(super) fn offer(ird: u32, ord: u32) -> Offer {
    Offer {
        crc: true,
        markers: false,
        reads: ReadLimits {
            ird: limit_reads(ird),
            ord: limit_reads(ord),
        },
        max_ird: MAX_READS,
        enhanced: true,
    }
}

/// The outcome of receiving a start-up frame.
pub(super) enum StartupRecv {
    /// The frame is complete, and has that many octets.
    Frame(usize),
    /// The frame is not complete.
    Pending,
    /// The peer closed the connection, or lost it.
    End,
    /// The octets are no such frame.
    Invalid,
}

/// Receives a start-up frame into `buffer`.
pub(super) fn receive<E: Events>(
    connection: &mut TcpConn<E>,
    kind: Kind,
    buffer: &mut [u8; Frame::MAX_LEN],
) -> StartupRecv {
    connection.receive(|frames| {
        let length = |head: &[u8]| -> Result<usize> {
            // An error in the header is found when all of it is there.
            Frame::parse(kind, head).map_err(|_| EINVAL)?;
            let length = head.last_chunk().ok_or(EINVAL)?;
            Ok(head
                .len()
                .saturating_add(u16::from_be_bytes(*length).into()))
        };
        match frames.next(Frame::HEADER_LEN, length) {
            Ok(Next::Whole(frame)) => {
                let length = frame.len();
                let copied = buffer
                    .get_mut(..length)
                    .ok_or(EINVAL)
                    .and_then(|to| frame.copy_to_slice(0, to));
                match copied.and_then(|()| frame.take()) {
                    Ok(()) => StartupRecv::Frame(length),
                    Err(_) => StartupRecv::Invalid,
                }
            }
            Ok(Next::Part | Next::Nothing | Next::Budget) => StartupRecv::Pending,
            Ok(Next::End { .. }) => StartupRecv::End,
            Err(error) if error == ENOMEM => StartupRecv::Pending,
            Err(_) => StartupRecv::Invalid,
        }
    })
}
