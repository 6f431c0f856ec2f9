// SPDX-License-Identifier: GPL-2.0

//! Received chunks: a segment is placed at once, in any order, and delivered in the order of the
//! sender.

use crate::counters::Count;
use crate::sctp::heard::Heard;
use crate::sctp::held::Held;
use crate::sctp::peer::Order;
use crate::sctp::peer::Peer;
use crate::stream::receiver::Handled;
use crate::stream::receiver::Received;
use crate::stream::receiver::Receiver;
use kernel::prelude::*;
use rdmap::order::Order as _;
use rdmap::sctp::chunk::Body;
use rdmap::sctp::chunk::Chunk;
use rdmap::sctp::session::Event;
use rdmap::sctp::session::State;
use rdmap::sctp::session::Tell;
use rdmap::sink::HEAD_LEN;

/// Chunks that are handled in a row, before other work runs.
const BATCH: usize = 256;

/// Receives the chunks that are there.
pub(super) fn take(
    peer: &mut Peer,
    held: &mut Held,
    receiver: &mut Receiver<'_, '_, Order>,
) -> Result<Received> {
    while let Some((ppid, octets)) = held.pop() {
        match chunk(peer, receiver, Chunk::parse(ppid, true, &octets).ok())? {
            Received::More => {}
            received => return Ok(received),
        }
    }
    // The peer's Terminate may have come before the stream was open.
    if ends(peer, receiver) {
        return Ok(Received::Over { graceful: true });
    }
    for _ in 0..BATCH {
        let received = match peer.hear() {
            Heard::Nothing => return Ok(Received::Idle),
            // No chunk of the peer is under way, and it has not terminated the session.
            Heard::End => Received::Over { graceful: true },
            Heard::Lost | Heard::Wrong => Received::Over { graceful: false },
            Heard::Data(data) => {
                let received = chunk(peer, receiver, data.chunk());
                peer.give_back(data);
                received?
            }
        };
        if received != Received::More {
            return Ok(received);
        }
    }
    Ok(Received::More)
}

/// Ends the session, as the peer broke a rule of RFC 5043 (section 6.1).
fn illegal(peer: &mut Peer, receiver: &Receiver<'_, '_, Order>) -> Received {
    receiver.count(Count::IllegalChunk);
    peer.on(Event::Illegal);
    Received::Over { graceful: true }
}

/// Handles a chunk, which is [`None`] if RFC 5043 does not know it. Returns `More` if the next one
/// may come. An error is one of this machine.
fn chunk(
    peer: &mut Peer,
    receiver: &mut Receiver<'_, '_, Order>,
    chunk: Option<Chunk<'_>>,
) -> Result<Received> {
    let Some(chunk) = chunk else {
        return Ok(illegal(peer, receiver));
    };
    let Ok(turn) = receiver.order().turn(chunk.ssn) else {
        return Ok(illegal(peer, receiver));
    };
    let handled = match chunk.body {
        Body::Segment(segment) => {
            receiver.count(Count::Received);
            if turn > receiver.order().reached() {
                receiver.count(Count::OutOfOrder);
            }
            match peer.on(Event::Segment { turn }).place {
                true => place(receiver, chunk.ssn, segment)?,
                false => pass(receiver, chunk.ssn)?,
            }
        }
        Body::Control(control) => {
            peer.on(Event::Control {
                function: control.function,
                enhanced: control.is_enhanced,
                turn,
                // No Initiate of this session is undecided.
                full: false,
            });
            pass(receiver, chunk.ssn)?
        }
    };
    if peer.session.state() == State::Failing {
        receiver.count(Count::IllegalChunk);
        return Ok(Received::Over { graceful: true });
    }
    if handled == Handled::Ended {
        return Ok(Received::Ended);
    }
    Ok(match ends(peer, receiver) {
        true => Received::Over { graceful: true },
        false => Received::More,
    })
}

/// Says whether everything is delivered that the peer sent before its Terminate.
fn ends(peer: &mut Peer, receiver: &mut Receiver<'_, '_, Order>) -> bool {
    let reached = receiver.order().reached();
    peer.on(Event::Reached(reached)).tell == Some(Tell::Closed)
}

/// Passes a segment to DDP.
fn place(receiver: &mut Receiver<'_, '_, Order>, ssn: u16, segment: &[u8]) -> Result<Handled> {
    let head = segment
        .get(..segment.len().min(HEAD_LEN))
        .unwrap_or_default();
    receiver.segment(ssn, head, segment.len(), |at, piece| {
        let end = at.saturating_add(usize::try_from(piece.len())?);
        piece.copy_from(segment.get(at..end).ok_or(EINVAL)?)
    })
}

/// Takes note of a chunk that has nothing to place.
fn pass(receiver: &mut Receiver<'_, '_, Order>, ssn: u16) -> Result<Handled> {
    receiver.order().pass(ssn).map_err(|_| EINVAL)?;
    receiver.deliver()
}
