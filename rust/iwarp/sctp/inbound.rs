// SPDX-License-Identifier: GPL-2.0

//! Received chunks: a segment is placed at once, in any order, and delivered in the order of the
//! sender. One that has overtaken the Accept (RFC 5043, section 6.6) waits until there is a stream
//! for it.

use crate::prelude::*;
use crate::{
    end_reason::EndReason,
    sctp::association::{
        ChunkData,
        DdpAssociation,
        Order,
        RecvOutcome, //
    },
    stream::receiver::Handled, //
};
use provider::{
    borrowed::Piece,
    zeroed, //
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
        let early = chunk::Chunk::parse(ppid, true, &octets).ok();
        match chunk(assoc, receiver, early, Octets::Early(&octets))? {
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
                let octets = Octets::Arrived { len: data.len };
                let received = chunk(assoc, receiver, data.chunk(), octets);
                match assoc.take(data) {
                    Ok(()) => received?,
                    Err(_) => lost(EndReason::AssociationLost),
                }
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

/// Where the octets of a chunk are.
#[derive(Clone, Copy)]
enum Octets<'a> {
    /// They were kept.
    Early(&'a [u8]),
    /// They are where SCTP has them.
    Arrived {
        /// Their number.
        len: usize,
    },
}

impl Octets<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Early(octets) => octets.len(),
            Self::Arrived { len } => *len,
        }
    }

    /// Copies octets from `offset` on to the whole of `to`.
    fn copy_to(&self, assoc: &DdpAssociation, offset: usize, to: Piece<'_>) -> Result {
        match self {
            Self::Early(octets) => {
                let end = offset.saturating_add(usize::try_from(to.len())?);
                to.copy_from(octets.get(offset..end).ok_or(EINVAL)?)
            }
            Self::Arrived { .. } => assoc.copy_to(offset, to),
        }
    }
}

/// Handles a chunk with these `octets`, which is [`None`] if RFC 5043 does not know it. Returns
/// `More` if the next one may come. An error is one of this machine.
fn chunk(
    assoc: &mut DdpAssociation,
    receiver: &mut Receiver<'_, '_, Order>,
    chunk: Option<chunk::Chunk<'_>>,
    octets: Octets<'_>,
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
                true => place(assoc, receiver, chunk.ssn, segment, octets)?,
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

/// Passes a segment to DDP, which begins with `head`. Its octets go from SCTP's buffers to their
/// place, once the header was examined.
fn place(
    assoc: &DdpAssociation,
    receiver: &mut Receiver<'_, '_, Order>,
    ssn: u16,
    head: &[u8],
    octets: Octets<'_>,
) -> Result<Handled> {
    let head = head.get(..head.len().min(HEAD_LEN)).unwrap_or_default();
    let length = octets.len().saturating_sub(chunk::SSN_LEN);
    receiver.segment(ssn, head, length, |at, piece| {
        octets.copy_to(assoc, at.saturating_add(chunk::SSN_LEN), piece)
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

    /// Keeps the segment that was received. `ENOSPC` if the limit is reached.
    pub(super) fn push(&mut self, assoc: &DdpAssociation, data: &ChunkData) -> Result {
        let all = self.octets.saturating_add(data.len);
        if self.chunks.len() == MAX_EARLY_CHUNKS || all > MAX_EARLY_OCTETS {
            return Err(ENOSPC);
        }
        let mut copy: KVec<u8> = zeroed::vec(data.len, GFP_KERNEL_ACCOUNT)?;
        assoc.copy_to_slice(0, &mut copy)?;
        self.chunks.push((data.ppid, copy), GFP_KERNEL_ACCOUNT)?;
        self.octets = all;
        Ok(())
    }

    /// Takes a segment. They were sent unordered, so it does not matter which.
    pub(super) fn pop(&mut self) -> Option<(u32, KVec<u8>)> {
        self.chunks.pop()
    }
}
