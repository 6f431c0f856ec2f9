// SPDX-License-Identifier: GPL-2.0

//! Marshalling: from an RPC to memory regions that cover its chunks, and to a message in a Send
//! buffer.
//!
//! RFC 8166, sections 3.5 and 4.4. Inline data is copied into the Send buffer, but for data in
//! pages if it is long enough: the device gathers that from the pages. The Send holds references to
//! them, so the RPC need not wait for its completion.

use super::{
    chunk::Chunk,
    send, //
};
use crate::prelude::*;
use core::{
    iter,
    ops::Range, //
};
use endpoint::GATHER_MIN_BYTES;
use proto::{
    chunk::ReadSegment,
    header::Call,
    plan::{
        self,
        Plan, //
    },
    reduction, //
};
use rdma::{
    mr,
    transfer::Gathered, //
};
use sunrpc::{
    memory::Piece,
    ReplyPart,
    SendError, //
};
use trace::ChunkType;

/// Maps the memory of the Call in `rqst` and writes its message. `offered` is [`Offered::Nothing`]
/// before. Sleeps if `flags` allow it; the Calls before this one may still be sent meanwhile, with
/// the reserve.
pub(super) fn marshal(
    active: Arc<ActiveConnection>,
    rqst: &Rqst<ClientTransport>,
    reserve: send::ResourceReserve,
    flags: Flags,
    offered: &mut Offered,
) -> Result<send::PreparedCall, SendError> {
    let limits = active.connection.limits();
    let plan = limits.plan(rqst).map_err(|error| {
        let xid = rqst.xid();
        active.connection.log_message(|server| {
            pr_info!("the call {xid:#010x} to {server} cannot be sent: {error:?}\n");
        });
        send::marshal_failed(rqst, &active.connection, SendError::TooBig);
        SendError::TooBig
    })?;
    let idle = reserve
        .take_regions(&active, limits.regions(&plan))
        .inspect_err(|_| {
            // A Call that is prepared early takes only what is to spare.
            if reserve == send::ResourceReserve::Use {
                active.connection.with_peer(|server| {
                    trace::event!(xprtrdma_nomrs_err(rqst.task_id(), server));
                });
            }
        })?;
    let mut buffer = match reserve.take_send_buffer(&active) {
        Ok(buffer) => buffer,
        Err(error) => {
            active.connection.put_regions(idle);
            return Err(error);
        }
    };
    let mut marshal = Marshal {
        rqst,
        plan: &plan,
        active: &active,
        flags,
        idle,
        regions: mr::Prepared::new(),
    };
    let message = marshal.write_message(offered, buffer.bytes_mut());
    let Marshal { idle, regions, .. } = marshal;
    active.connection.put_regions(idle);
    match message {
        Ok(message) => {
            trace::event!(xprtrdma_marshal(
                rqst.task_id(),
                rqst.xid(),
                message.len.saturating_sub(message.copied),
                rqst.call_lens(),
                argument_chunk(&plan, &message),
                result_chunk(&plan)
            ));
            Ok(send::PreparedCall {
                active,
                regions,
                buffer,
                message,
                plan,
            })
        }
        Err(error) => {
            active.queue.put_back_send_buffer(buffer);
            active.connection.put_regions(regions.cancel());
            if matches!(error, SendError::TooBig | SendError::Io) {
                send::marshal_failed(rqst, &active.connection, error);
            }
            Err(error)
        }
    }
}

/// The longest Call that is copied to be one segment, in bytes: the default length of a Send
/// buffer.
const MAX_COPY: usize = 8192;

/// The marshalling of a Call.
struct Marshal<'a> {
    rqst: &'a Rqst<ClientTransport>,
    plan: &'a Plan,
    active: &'a ActiveConnection,
    flags: Flags,
    /// Regions for all chunks of the Call.
    idle: Idle<ClientConn>,
    /// Those that memory is mapped with.
    regions: mr::Prepared<ClientConn>,
}

impl Marshal<'_> {
    /// Maps the memory of the chunks, and writes the message to `out`.
    ///
    /// Most Calls have no chunk, and then nothing as large as one is written or moved.
    fn write_message(
        &mut self,
        offered: &mut Offered,
        out: &mut [u8],
    ) -> Result<send::SendMessage, SendError> {
        let (rqst, plan) = (self.rqst, self.plan);
        let mut read = None;
        if let Some((position, range)) = plan.call.read_chunk(rqst.call_len()) {
            let chunk = match self.in_one_piece() {
                Some(piece) => self.map_chunk(iter::once(Ok(piece)), mr::Access::Read)?,
                None => self.map_chunk(rqst.call_pieces(range), mr::Access::Read)?,
            };
            let (list, len) = read.insert(([ReadSegment::default(); Chunk::MAX], 0));
            *len = chunk.as_slice().len();
            for (place, segment) in list.iter_mut().zip(chunk.as_slice()) {
                *place = ReadSegment {
                    position,
                    segment: *segment,
                };
            }
        }
        let read = read.as_ref().and_then(|(list, len)| list.get(..*len));
        self.map_offer(offered)?;
        let header = offered
            .with(|offer| {
                Call {
                    xid: rqst.xid(),
                    credits: self.active.connection.limits().requested_credits,
                    body: plan.call.body(),
                    read: read.unwrap_or(&[]),
                    write: offer.write,
                    reply: offer.reply,
                }
                .emit(out)
            })
            .map_err(|_| SendError::TooBig)?;
        let data = match plan.call {
            plan::CallForm::Inline => rqst.call_data(),
            plan::CallForm::ReadChunk(_) | plan::CallForm::PositionZero => 0..0,
        };
        let gathered = match data.len() {
            GATHER_MIN_BYTES.. => self.gather(data.clone(), header).ok(),
            _ => None,
        };
        let gathered_range = gathered.as_ref().map_or(0..0, |_| data);
        let len = self.copy_inline(header, &gathered_range, out)?;
        Ok(send::SendMessage {
            len,
            copied: len.saturating_sub(header),
            gathered,
        })
    }

    /// Maps the memory that is offered for the result.
    fn map_offer(&mut self, offered: &mut Offered) -> Result<(), SendError> {
        match self.plan.reply {
            plan::ReplyForm::Inline => (),
            plan::ReplyForm::WriteChunk { .. } => {
                let pieces = self.rqst.reply_pieces(ReplyPart::Pages);
                *offered = Offered::Write(self.map_chunk(pieces, mr::Access::Write)?);
            }
            plan::ReplyForm::ReplyChunk { .. } | plan::ReplyForm::WriteAndReplyChunk { .. } => {
                let pieces = self.rqst.reply_pieces(ReplyPart::All);
                *offered = Offered::Reply(self.map_chunk(pieces, mr::Access::Write)?);
            }
        }
        Ok(())
    }

    /// Maps `pieces`, as the segments of one chunk.
    fn map_chunk(
        &mut self,
        pieces: impl Iterator<Item = Result<Piece>>,
        access: mr::Access,
    ) -> Result<Chunk, SendError> {
        let xid = self.rqst.xid();
        let mut pieces = pieces.peekable();
        let mut chunk = Chunk::EMPTY;
        while pieces.peek().is_some() {
            self.regions
                .map(&mut self.idle, &mut pieces, access, xid)
                .and_then(|segment| chunk.push(segment))
                .map_err(|error| {
                    if error == ENOMEM {
                        SendError::NoBuffers
                    } else {
                        SendError::Io
                    }
                })?;
        }
        Ok(chunk)
    }

    /// Returns a copy of a Call that travels whole, if it is so short that a copy costs less than
    /// to register head, pages and tail apart. nfs-ganesha cannot decode a Position-Zero chunk with
    /// an XDR item and its padding in two segments. Returns [`None`] if a copy is not worth it, or
    /// if memory is short.
    fn in_one_piece(&self) -> Option<Piece> {
        let rqst = self.rqst;
        let parts = rqst.call_lens().iter().filter(|len| **len != 0).count();
        if self.plan.call != plan::CallForm::PositionZero || parts < 2 || rqst.call_len() > MAX_COPY
        {
            return None;
        }
        rqst.call_in_one_piece(self.flags | __GFP_NOWARN).ok()
    }

    /// Gathers `data` of the Call from its pages into a Send whose buffer begins with a header of
    /// `header` bytes. Fails if a Send has too few scatter/gather elements for it, or if memory is
    /// short.
    fn gather(&self, data: Range<usize>, header: usize) -> Result<Gathered<ClientConn>> {
        let at = header.checked_add(data.start).ok_or(EINVAL)?;
        let mut memory = self.active.queue.gathers(self.flags)?;
        memory.add_pieces(self.rqst.call_pieces(data))?;
        memory.gather(at)
    }

    /// Copies what is inline behind the header of `header` bytes, but for what is `gathered`.
    /// Returns the length with the header.
    fn copy_inline(
        &self,
        header: usize,
        gathered: &Range<usize>,
        out: &mut [u8],
    ) -> Result<usize, SendError> {
        let mut len = header;
        for range in self.plan.call.inline(self.rqst.call_len()) {
            for part in reduction::split_around(range, gathered) {
                if part.is_empty() {
                    continue;
                }
                let end = len.saturating_add(part.len());
                let place = out.get_mut(len..end).ok_or(SendError::TooBig)?;
                self.rqst
                    .copy_call(part.start, place)
                    .map_err(|_| SendError::Io)?;
                len = end;
            }
        }
        Ok(len)
    }
}

/// Returns how the argument travels, for traces.
fn argument_chunk(plan: &Plan, message: &send::SendMessage) -> ChunkType {
    match plan.call {
        plan::CallForm::Inline if message.gathered.is_some() => ChunkType::Mapped,
        plan::CallForm::Inline => ChunkType::Pullup,
        plan::CallForm::ReadChunk(_) => ChunkType::Read,
        plan::CallForm::PositionZero => ChunkType::PositionZero,
    }
}

/// Returns how the result will travel, for traces.
fn result_chunk(plan: &Plan) -> ChunkType {
    match plan.reply {
        plan::ReplyForm::Inline => ChunkType::Inline,
        plan::ReplyForm::WriteChunk { .. } => ChunkType::Write,
        plan::ReplyForm::ReplyChunk { .. } | plan::ReplyForm::WriteAndReplyChunk { .. } => {
            ChunkType::Reply
        }
    }
}
