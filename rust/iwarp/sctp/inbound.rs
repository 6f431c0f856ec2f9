// SPDX-License-Identifier: GPL-2.0

//! Received chunks: a segment is placed at once, in any order, and delivered in the order of the
//! sender. One that has overtaken the Accept (RFC 5043, section 6.6) waits until there is a stream
//! for it.

use crate::prelude::*;
use crate::{
    end_reason::EndReason,
    sctp::association::{
        DdpAssociation,
        Order,
        RecvOutcome, //
    },
    stream::receiver::Handled, //
};
use rdmap::{
    order::Order as _,
    rx::HEAD_LEN,
    sctp::{
        chunk,
        session, //
    }, //
};

/// Chunks that are handled in a row, before other work runs.
const CHUNK_BUDGET: usize = 256;

/// The greatest number of chunks that are kept.
const MAX_EARLY_CHUNKS: usize = 64;

/// The greatest number of octets of these chunks.
const MAX_EARLY_OCTETS: usize = 256 * 1024;

/// Receives the chunks that are there.
pub(super) fn receive(
    assoc: &mut DdpAssociation,
    early: &mut EarlySegments,
    receiver: &mut Receiver<'_, '_, Order>,
) -> Result<Received> {
    while let Some((ppid, octets)) = early.pop() {
        match chunk(
            assoc,
            receiver,
            chunk::Chunk::parse(ppid, true, &octets).ok(),
        )? {
            Received::More => {}
            received => return Ok(received),
        }
    }
    // The peer's Terminate may have come before the stream was open.
    if is_complete(assoc, receiver) {
        return Ok(over(EndReason::PeerClosed));
    }
    for _ in 0..CHUNK_BUDGET {
        let received = match assoc.recv() {
            RecvOutcome::Nothing => return Ok(Received::Idle),
            // No chunk of the peer is under way, and it has not terminated the session.
            RecvOutcome::End => over(EndReason::PeerClosed),
            RecvOutcome::Lost => lost(EndReason::AssociationLost),
            RecvOutcome::Violation => lost(EndReason::NotDdp),
            RecvOutcome::Data(data) => {
                let received = chunk(assoc, receiver, data.chunk());
                assoc.return_buffer(data);
                received?
            }
        };
        if received != Received::More {
            return Ok(received);
        }
    }
    Ok(Received::More)
}

/// Ends the session. The last chunks are still to be delivered to the peer.
const fn over(reason: EndReason) -> Received {
    Received::Over {
        graceful: true,
        reason,
    }
}

/// Ends the session, whose association is of no use any more.
const fn lost(reason: EndReason) -> Received {
    Received::Over {
        graceful: false,
        reason,
    }
}

/// Ends the session, as the peer broke a rule of RFC 5043 (section 6.1).
fn illegal(assoc: &mut DdpAssociation, receiver: &Receiver<'_, '_, Order>) -> Received {
    receiver.count(Count::IllegalChunk);
    assoc.on(session::Event::Illegal);
    over(EndReason::IllegalChunk)
}

/// Handles a chunk, which is [`None`] if RFC 5043 does not know it. Returns `More` if the next one
/// may come. An error is one of this machine.
fn chunk(
    assoc: &mut DdpAssociation,
    receiver: &mut Receiver<'_, '_, Order>,
    chunk: Option<chunk::Chunk<'_>>,
) -> Result<Received> {
    let Some(chunk) = chunk else {
        return Ok(illegal(assoc, receiver));
    };
    let Ok(seq) = receiver.order().seq(chunk.ssn) else {
        return Ok(illegal(assoc, receiver));
    };
    let handled = match chunk.body {
        chunk::Body::Segment(segment) => {
            receiver.count(Count::Received);
            if seq > receiver.order().in_order_upto() {
                receiver.count(Count::OutOfOrder);
            }
            match assoc.on(session::Event::Segment { seq }).place {
                true => place(receiver, chunk.ssn, segment)?,
                false => pass(receiver, chunk.ssn)?,
            }
        }
        chunk::Body::Control(control) => {
            assoc.on(session::Event::Control {
                function: control.function,
                enhanced: control.is_enhanced,
                seq,
                // No Initiate of this session is undecided.
                full: false,
            });
            pass(receiver, chunk.ssn)?
        }
    };
    if assoc.session.state() == session::State::Failing {
        receiver.count(Count::IllegalChunk);
        return Ok(over(EndReason::IllegalChunk));
    }
    if handled == Handled::Ended {
        return Ok(Received::Ended);
    }
    Ok(match is_complete(assoc, receiver) {
        true => over(EndReason::PeerClosed),
        false => Received::More,
    })
}

/// Returns whether everything is delivered that the peer sent before its Terminate.
fn is_complete(assoc: &mut DdpAssociation, receiver: &mut Receiver<'_, '_, Order>) -> bool {
    let in_order_upto = receiver.order().in_order_upto();
    assoc
        .on(session::Event::InOrderUpto(in_order_upto))
        .indication
        == Some(session::Indication::Closed)
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

/// Segments that arrived before the stream was open.
pub(super) struct EarlySegments {
    chunks: KVec<(u32, KVec<u8>)>,
    octets: usize,
}

impl EarlySegments {
    /// Creates an empty list.
    pub(super) const fn new() -> Self {
        Self {
            chunks: KVec::new(),
            octets: 0,
        }
    }

    /// Keeps a segment. `ENOSPC` if the limit is reached.
    pub(super) fn push(&mut self, ppid: u32, octets: &[u8]) -> Result {
        let all = self.octets.saturating_add(octets.len());
        if self.chunks.len() == MAX_EARLY_CHUNKS || all > MAX_EARLY_OCTETS {
            return Err(ENOSPC);
        }
        let mut copy = KVec::with_capacity(octets.len(), GFP_KERNEL_ACCOUNT)?;
        copy.extend_from_slice(octets, GFP_KERNEL_ACCOUNT)?;
        self.chunks.push((ppid, copy), GFP_KERNEL_ACCOUNT)?;
        self.octets = all;
        Ok(())
    }

    /// Takes a segment. They were sent unordered, so it does not matter which.
    pub(super) fn pop(&mut self) -> Option<(u32, KVec<u8>)> {
        self.chunks.pop()
    }
}
