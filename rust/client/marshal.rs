// SPDX-License-Identifier: GPL-2.0

//! From an RPC to one chain of work requests: registrations and a Send.
//!
//! RFC 8166, sections 3.5 and 4.4. What travels inline is copied into a Send
//! buffer of the connection, but for data in pages if it is long enough: the Send
//! takes a reference to those, so that the RPC need not wait for it.

use super::{
    connection::Sizing,
    slot::{
        Chunk,
        Offered, //
    },
    stats::Counters,
    Active,
    Client,
    Connection,
    CALLBACKS, //
};
use crate::endpoint::WORTH_INSERTING;
use core::ops::Range;
use kernel::{
    alloc::flags::__GFP_NOWARN,
    prelude::*,
    sync::Arc, //
};
use proto::{
    chunk::ReadSegment,
    header::Call,
    plan::{
        Argument,
        CallForm,
        Plan,
        ReplyForm,
        Sizes, //
    },
    reduction,
    reverse, //
};
use rdma::{
    mr::{
        Access,
        Idle,
        Prepared, //
    },
    send::{
        Buffer,
        Doorbell, //
    },
    transfer::{
        Inserted,
        Transfer, //
    }, //
};
use sunrpc::{
    memory::Piece,
    CallbackRqst,
    ReplyPart,
    Rqst,
    SendError, //
};

/// A Call whose memory is covered and whose message is written: what is left is to post it.
///
/// It belongs to the connection that it was made for, and keeps it: who holds one gives it up when
/// that connection ends.
pub(super) struct PreparedCall {
    active: Active,
    regions: Prepared<Connection>,
    buffer: Buffer<Connection>,
    message: Message,
    plan: Plan,
}

/// What a Send is of.
struct Message {
    /// Bytes in the buffer.
    len: usize,
    /// How many of them were copied from the Call.
    copied: usize,
    /// Data of the Call that is sent from where it is.
    inserted: Option<Inserted<Connection>>,
}

impl PreparedCall {
    /// Gives back what it was made from. Nothing was posted. Sleeps if the connection is over.
    pub(super) fn cancel(self) {
        self.active.queue.put_back_send_buffer(self.buffer);
        self.active
            .connection
            .recycle_regions(self.regions.cancel());
    }

    pub(super) fn is_for(&self, connection: &Arc<Connection>) -> bool {
        Arc::ptr_eq(&self.active.connection, connection)
    }
}

/// What a Call may take from the reserve of its connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RegionReserve {
    /// Only what others do not need: those that it waits behind must not wait for it.
    Spare,
    /// All.
    Whole,
}

/// Gets the Call in `rqst` ready in its own task, if that can be done now. May sleep, but not for
/// memory. An error other than for want of something says that it can never be sent.
pub(super) fn prepare(active: Active, rqst: &Rqst<Client>) -> Result<(), SendError> {
    let slot = rqst.slot();
    let (old, sent) = slot.begin();
    // Of an encoding that was not sent.
    if let Some(old) = old {
        old.cancel();
    }
    let connection = active.connection.clone();
    // The memory of a transmission that may still be answered is not mapped a second time.
    if sent || !connection.is_open() {
        return Ok(());
    }
    let mut offered = Offered::Nothing;
    let ready = match get_ready(active, rqst, RegionReserve::Spare, &mut offered) {
        Ok(ready) => ready,
        Err(error @ (SendError::TooBig | SendError::Io)) => {
            connection.counters.failed_marshals.add(1);
            return Err(error);
        }
        // Its turn to be sent will show whether there is enough.
        Err(_) => return Ok(()),
    };
    if let Err(unwanted) = slot.keep_ready(ready, offered, &connection) {
        unwanted.cancel();
    }
    Ok(())
}

/// Sends the Call in `rqst`, or says why not. Does not sleep.
pub(super) fn send(
    active: &Active,
    rqst: &Rqst<Client>,
    counters: &Counters,
    doorbell: Doorbell,
) -> Result<(), SendError> {
    let slot = rqst.slot();
    let mut state = slot.state().lock();
    let ready = match state.take_ready() {
        Some(ready) if active.connection.is_open() && ready.is_for(&active.connection) => ready,
        stale => {
            drop(state);
            drop(stale);
            if !active.connection.is_open() {
                return Err(SendError::Disconnected);
            }
            let mut offered = Offered::Nothing;
            let ready = get_ready(active.clone(), rqst, RegionReserve::Whole, &mut offered)
                .inspect_err(|error| match error {
                    SendError::TooBig | SendError::Io => counters.failed_marshals.add(1),
                    SendError::Again | SendError::NoBuffers | SendError::Disconnected => (),
                })?;
            state = slot.state().lock();
            state.offer(offered);
            ready
        }
    };
    // Under the slot's lock: the reply may be here before `post_send` returns, and must find what
    // was offered.
    count(counters, &ready, &state.offered);
    let Message { len, inserted, .. } = ready.message;
    let (registered, result) =
        active
            .queue
            .post_send(ready.regions, ready.buffer, len, inserted, doorbell);
    state.asked = true;
    state.xid = rqst.xid();
    let before = core::mem::replace(&mut state.registered, registered);
    drop(state);
    // Empty: an RPC is fenced, or its connection torn down, before its slot sends again.
    drop(before);
    result.map_err(|_| SendError::Disconnected)
}

/// Covers the memory of the Call in `rqst` and writes its message. What is `offered` was nothing.
/// Does not sleep.
fn get_ready(
    active: Active,
    rqst: &Rqst<Client>,
    reserve: RegionReserve,
    offered: &mut Offered,
) -> Result<PreparedCall, SendError> {
    let sizing = active.connection.sizing();
    let plan = plan(rqst, sizing)?;
    let mut idle = take_regions(&active, regions_for(&plan, sizing), reserve)?;
    let Some(mut buffer) = take_buffer(&active, reserve) else {
        active.connection.recycle_regions(idle);
        return Err(SendError::Again);
    };
    let mut regions = Prepared::new();
    let marshalled = marshal(
        rqst,
        &plan,
        &active,
        &mut idle,
        &mut regions,
        offered,
        buffer.bytes_mut(),
    );
    active.connection.recycle_regions(idle);
    match marshalled {
        Ok(message) => Ok(PreparedCall {
            active,
            regions,
            buffer,
            message,
            plan,
        }),
        Err(error) => {
            active.queue.put_back_send_buffer(buffer);
            active.connection.recycle_regions(regions.cancel());
            Err(error)
        }
    }
}

/// Sends the reply to a callback. Does not sleep.
pub(super) fn send_callback_reply(
    active: &Active,
    rqst: &CallbackRqst,
    doorbell: Doorbell,
) -> Result<(), SendError> {
    if !active.connection.is_open() {
        return Err(SendError::Disconnected);
    }
    let Some(mut buffer) = take_buffer(active, RegionReserve::Whole) else {
        return Err(SendError::Again);
    };
    let header = reverse::Header {
        xid: rqst.xid(),
        credits: CALLBACKS as u32,
    };
    let limit = active.connection.sizing().thresholds.call;
    let len = header
        .emit(buffer.bytes_mut())
        .map_err(|_| SendError::Io)
        .and_then(|header| {
            let end = header.saturating_add(rqst.reply_len());
            let bytes = buffer.bytes_mut().get_mut(header..end);
            let bytes = bytes.filter(|_| end <= limit).ok_or(SendError::TooBig)?;
            rqst.copy_reply(bytes).map_err(|_| SendError::Io)?;
            Ok(end)
        });
    match len {
        Ok(len) => {
            let (_, result) = active
                .queue
                .post_send(Prepared::new(), buffer, len, None, doorbell);
            result.map_err(|_| SendError::Disconnected)
        }
        Err(error) => {
            active.queue.put_back_send_buffer(buffer);
            Err(error)
        }
    }
}

fn plan(rqst: &Rqst<Client>, sizing: &Sizing) -> Result<Plan, SendError> {
    let sizes = Sizes {
        call: rqst.call_len(),
        argument: rqst.call_payload().and_then(|payload| {
            Some(Argument {
                position: u32::try_from(payload.start).ok()?,
                length: payload.len(),
            })
        }),
        reply: rqst.reply_max(),
        result: rqst.reply_payload(),
        reduction: rqst.reduction_allowed(),
        segments: sizing.segments,
    };
    let mut plan = Plan::new(&sizes, &sizing.thresholds);
    if let Ok(Plan {
        reply: ReplyForm::WriteAndReplyChunk { .. },
        ..
    }) = plan
    {
        // Two chunks for one `xdr_buf` cost more than the copy that one of them saves.
        let unreduced = Sizes {
            result: None,
            ..sizes
        };
        plan = Plan::new(&unreduced, &sizing.thresholds);
    }
    plan.map_err(|_| SendError::TooBig)
}

/// How many regions `plan` needs at most.
fn regions_for(plan: &Plan, sizing: &Sizing) -> usize {
    let call = match plan.call {
        CallForm::Inline => 0,
        CallForm::ReadChunk(_) => sizing.payload_segments,
        CallForm::PositionZero => sizing.segments,
    };
    let reply = match plan.reply {
        ReplyForm::Inline => 0,
        ReplyForm::WriteChunk { .. } => sizing.payload_segments,
        ReplyForm::ReplyChunk { .. } | ReplyForm::WriteAndReplyChunk { .. } => sizing.segments,
    };
    call.saturating_add(reply)
}

/// Regions of the pool. If the whole has too few, the pool will tell when there are more.
fn take_regions(
    active: &Active,
    count: usize,
    reserve: RegionReserve,
) -> Result<Idle<Connection>, SendError> {
    if count == 0 {
        return Ok(Idle::new());
    }
    let pool = &active.connection.regions;
    match reserve {
        RegionReserve::Spare => pool.take_spare(count),
        RegionReserve::Whole => pool.take(count),
    }
    .ok_or(SendError::Again)
}

/// A Send buffer. If the whole has none, the queue will tell when there is.
fn take_buffer(active: &Active, reserve: RegionReserve) -> Option<Buffer<Connection>> {
    match reserve {
        RegionReserve::Spare => active.queue.take_spare_send_buffer(),
        RegionReserve::Whole => active.queue.take_send_buffer().or_else(|| {
            active.connection.counters.empty_send_queue.add(1);
            None
        }),
    }
}

/// Covers memory and writes the message.
///
/// Most Calls have no chunk, and then nothing as large as one is written or moved.
fn marshal(
    rqst: &Rqst<Client>,
    plan: &Plan,
    active: &Active,
    idle: &mut Idle<Connection>,
    regions: &mut Prepared<Connection>,
    offered: &mut Offered,
    out: &mut [u8],
) -> Result<Message, SendError> {
    let xid = rqst.xid();
    let mut read = None;
    if let Some((position, range)) = plan.call.read_chunk(rqst.call_len()) {
        let pieces = rqst.call_pieces(range);
        let chunk = cover(regions, idle, pieces, Access::Read, xid)?;
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
    match plan.reply {
        ReplyForm::Inline => (),
        ReplyForm::WriteChunk { .. } => {
            let pieces = rqst.reply_pieces(ReplyPart::Pages);
            *offered = Offered::Write(cover(regions, idle, pieces, Access::Write, xid)?);
        }
        ReplyForm::ReplyChunk { .. } | ReplyForm::WriteAndReplyChunk { .. } => {
            let pieces = rqst.reply_pieces(ReplyPart::All);
            *offered = Offered::Reply(cover(regions, idle, pieces, Access::Write, xid)?);
        }
    }
    let header = offered
        .with(|offer| {
            Call {
                xid,
                credits: active.connection.sizing().requested_credits,
                body: plan.call.body(),
                read: read.unwrap_or(&[]),
                write: offer.write,
                reply: offer.reply,
            }
            .emit(out)
        })
        .map_err(|_| SendError::TooBig)?;
    let data = match plan.call {
        CallForm::Inline => rqst.call_data(),
        CallForm::ReadChunk(_) | CallForm::PositionZero => 0..0,
    };
    let inserted = match data.len() {
        WORTH_INSERTING.. => insert(rqst, active, data.clone(), header).ok(),
        _ => None,
    };
    let skipped = inserted.as_ref().map_or(0..0, |_| data);
    let mut len = header;
    for range in plan.call.inline(rqst.call_len()) {
        for part in reduction::around(range, &skipped) {
            if part.is_empty() {
                continue;
            }
            let end = len.saturating_add(part.len());
            let place = out.get_mut(len..end).ok_or(SendError::TooBig)?;
            rqst.copy_call(part.start, place)
                .map_err(|_| SendError::Io)?;
            len = end;
        }
    }
    Ok(Message {
        len,
        copied: len.saturating_sub(header),
        inserted,
    })
}

/// The bytes `data` of the Call, for a Send whose buffer starts with `header` bytes. Not for data that
/// is in more pieces than a Send takes, nor if it would take memory that there is not.
fn insert(
    rqst: &Rqst<Client>,
    active: &Active,
    data: Range<usize>,
    header: usize,
) -> Result<Inserted<Connection>> {
    let at = header.checked_add(data.start).ok_or(EINVAL)?;
    let mut memory = Transfer::writes(&active.queue, GFP_NOWAIT | __GFP_NOWARN)?;
    memory.add_pieces(rqst.call_pieces(data))?;
    memory.insert(at)
}

/// Covers `pieces` with regions of `idle`.
fn cover(
    regions: &mut Prepared<Connection>,
    idle: &mut Idle<Connection>,
    pieces: impl Iterator<Item = Result<Piece>>,
    access: Access,
    xid: u32,
) -> Result<Chunk, SendError> {
    let mut pieces = pieces.peekable();
    let mut chunk = Chunk::EMPTY;
    while pieces.peek().is_some() {
        regions
            .map(idle, &mut pieces, access, xid)
            .and_then(|handle| chunk.push(handle))
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

fn count(counters: &Counters, ready: &PreparedCall, offered: &Offered) {
    counters.pullup_bytes.add(ready.message.copied as u64);
    match ready.plan.call {
        CallForm::Inline => (),
        CallForm::ReadChunk(_) => counters.read_chunks.add(1),
        CallForm::PositionZero => {
            counters.read_chunks.add(1);
            counters.long_calls.add(1);
        }
    }
    let (chunks, chunk) = match offered {
        Offered::Nothing => return,
        Offered::Write(chunk) => (&counters.write_chunks, chunk),
        Offered::Reply(chunk) => (&counters.reply_chunks, chunk),
    };
    chunks.add(1);
    let lengths = chunk
        .as_slice()
        .iter()
        .map(|segment| u64::from(segment.length));
    counters.offered_bytes.add(lengths.sum());
}
