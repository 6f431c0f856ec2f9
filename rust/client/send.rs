// SPDX-License-Identifier: GPL-2.0

//! Sends: Calls, which are prepared in their own tasks and posted in order, and replies to
//! callbacks.
//!
//! All memory regions and Send buffers for the Calls that there are credits for are allocated
//! before. Calls are prepared in any order, but sent in order. Those that are prepared early leave
//! a reserve, so that there is enough for the Call whose turn it is.

use super::{
    marshal::marshal,
    stats::SendCounters, //
};
use crate::prelude::*;
use proto::{
    plan::{
        self,
        Plan, //
    },
    reverse, //
};
use rdma::{
    mr::{
        Prepared,
        Registered, //
    },
    send::{
        Buffer,
        Doorbell, //
    },
    transfer::Gathered, //
};
use sunrpc::{
    CallbackRqst,
    SendError, //
};
use trace::TaskId;

/// A Call whose memory is mapped and whose message is written: it only has to be posted.
///
/// It keeps its connection alive, so it is cancelled when that is closed.
pub(crate) struct PreparedCall {
    pub(super) active: Arc<ActiveConnection>,
    pub(super) regions: Prepared<ClientConn>,
    pub(super) buffer: Buffer<ClientConn>,
    pub(super) message: SendMessage,
    pub(super) plan: Plan,
}

/// The message of a Send.
pub(crate) struct SendMessage {
    /// Bytes in the Send buffer.
    pub(super) len: usize,
    /// Bytes of it that were copied from the Call.
    pub(super) copied: usize,
    /// Data of the Call that the device gathers from the pages of the Call.
    pub(super) gathered: Option<Gathered<ClientConn>>,
}

impl PreparedCall {
    /// Gives its resources back. Nothing was posted. Sleeps if the connection is closed.
    pub(super) fn cancel(self) {
        self.active.queue.put_back_send_buffer(self.buffer);
        self.active.connection.put_regions(self.regions.cancel());
    }

    /// Returns whether the connection that it was prepared for is open. Then that is the one in
    /// use: none is opened before the last one was closed.
    pub(super) fn is_for_open_connection(&self) -> bool {
        self.active.connection.is_open()
    }

    /// Counts the transmission of the Call, which offers `offered`.
    pub(super) fn count(&self, counters: &SendCounters, offered: &Offered) {
        counters.pullup_bytes.add(self.message.copied as u64);
        match self.plan.call {
            plan::CallForm::Inline => (),
            plan::CallForm::ReadChunk(_) => counters.read_chunks.add(1),
            plan::CallForm::PositionZero => {
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
        counters.offered_bytes.add(chunk.covered());
    }
}

/// Permission to use the reserve of memory regions and Send buffers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ResourceReserve {
    /// The message leaves as much as one RPC needs, so that Calls before it need not wait for it.
    Keep,
    /// The message is the next to be sent, so it may take the last ones.
    Use,
}

impl ResourceReserve {
    /// Takes `count` regions of the pool. Returns [`SendError::Again`] if there are fewer. With
    /// [`Self::Use`] the pool then reports when there are more.
    pub(super) fn take_regions(
        self,
        active: &ActiveConnection,
        count: usize,
    ) -> Result<Idle<ClientConn>, SendError> {
        if count == 0 {
            return Ok(Idle::new());
        }
        let pool = &active.connection.regions;
        match self {
            Self::Keep => pool.take_spare(count),
            Self::Use => pool.take(count),
        }
        .ok_or(SendError::Again)
    }

    /// Takes a Send buffer. Returns [`SendError::Again`] if there is none. With [`Self::Use`] the
    /// queue pair then reports when there is one.
    pub(super) fn take_send_buffer(
        self,
        active: &ActiveConnection,
    ) -> Result<Buffer<ClientConn>, SendError> {
        match self {
            Self::Keep => active.queue.take_spare_send_buffer(),
            Self::Use => active.queue.take_send_buffer().or_else(|| {
                active.connection.counters.rare.empty_send_queue.add(1);
                None
            }),
        }
        .ok_or(SendError::Again)
    }
}

/// Prepares the Call in `rqst` in its own task, if there are resources to spare. Sleeps, for memory
/// if `flags` allow it. An error means that the Call can never be sent.
pub(super) fn prepare(
    transport: &ClientTransport,
    rqst: &Rqst<ClientTransport>,
    flags: Flags,
) -> Result<(), SendError> {
    let slot = rqst.slot();
    let (old, known) = slot.begin();
    // It was prepared from an encoding that was not sent.
    if let Some(old) = old {
        old.cancel();
    }
    // A transmission that the server may still answer has the memory mapped already.
    let Ok(known) = known else {
        return Ok(());
    };
    let is_open = |active: &Arc<ActiveConnection>| active.connection.is_open();
    let active = match known.filter(is_open) {
        Some(known) => known,
        None => match transport.active().filter(is_open) {
            Some(active) => active,
            None => return Ok(()),
        },
    };
    let mut offered = Offered::Nothing;
    let prepared = match marshal(active, rqst, ResourceReserve::Keep, flags, &mut offered) {
        Ok(prepared) => prepared,
        Err(error @ (SendError::TooBig | SendError::Io)) => return Err(error),
        // `send` prepares it, with all resources that there are then.
        Err(_) => return Ok(()),
    };
    if let Err(prepared) = slot.keep(prepared, offered) {
        prepared.cancel();
    }
    Ok(())
}

/// Sends the Call in `rqst`. Does not sleep.
pub(super) fn send(
    transport: &ClientTransport,
    rqst: &Rqst<ClientTransport>,
    doorbell: Doorbell,
) -> Result<(), SendError> {
    let slot = rqst.slot();
    let mut state = slot.lock();
    let prepared = match state.take_prepared() {
        Some(prepared) if prepared.is_for_open_connection() => prepared,
        stale => {
            drop(state);
            drop(stale);
            // The caller owns `XPRT_LOCKED`, so this is not the last reference.
            let active = transport.active().ok_or(SendError::Disconnected)?;
            if !active.connection.is_open() {
                return Err(SendError::Disconnected);
            }
            let mut offered = Offered::Nothing;
            let flags = GFP_NOWAIT | __GFP_NOWARN;
            let prepared = marshal(active, rqst, ResourceReserve::Use, flags, &mut offered)?;
            state = slot.lock();
            state.set_offered(offered);
            prepared
        }
    };
    // Only Calls have registrations, and they are sent one at a time, so the room stays.
    let regions = prepared.regions.len();
    if regions > 0 && !prepared.active.queue.has_room_for(regions) {
        let kept = slot.put_back(&mut state, prepared);
        drop(state);
        return Err(match kept {
            Ok(()) => SendError::Again,
            Err(prepared) => {
                prepared.cancel();
                SendError::Disconnected
            }
        });
    }
    // The slot stays locked: the reply may arrive before `post_send` returns, and is compared with
    // the offered chunk and the registered regions.
    prepared.count(&transport.counters.sends, &state.offered);
    if trace::xprtrdma_mr_fastreg::is_on() {
        for region in prepared.regions.info() {
            trace::xprtrdma_mr_fastreg::emit(rqst.task_id(), region);
        }
    }
    let PreparedCall {
        active,
        regions,
        buffer,
        message,
        ..
    } = prepared;
    let (registered, result) = post(
        &active,
        Sender::Call(rqst),
        regions,
        buffer,
        message.len,
        message.gathered,
        doorbell,
    );
    let failed = result.is_err().then(|| active.clone());
    let left = slot.sent(&mut state, rqst.xid(), registered, active);
    drop(state);
    drop(left);
    if let Some(active) = failed {
        active.connection.end(Cause::SendNotPosted);
    }
    result
}

/// The sender of a message.
#[derive(Clone, Copy)]
enum Sender<'a> {
    Call(&'a Rqst<ClientTransport>),
    CallbackReply(&'a CallbackRqst),
}

impl Sender<'_> {
    fn task_id(self) -> TaskId {
        match self {
            Self::Call(rqst) => rqst.task_id(),
            Self::CallbackReply(rqst) => rqst.task_id(),
        }
    }
}

/// Posts a Send, and traces that.
fn post(
    active: &ActiveConnection,
    sender: Sender<'_>,
    regions: Prepared<ClientConn>,
    buffer: Buffer<ClientConn>,
    len: usize,
    gathered: Option<Gathered<ClientConn>>,
    doorbell: Doorbell,
) -> (Registered<ClientConn>, Result<(), SendError>) {
    let queue = &active.queue;
    let (registered, result) = queue.post_send(regions, buffer, len, gathered, doorbell, |send| {
        trace::event!(xprtrdma_post_send(
            send.id(),
            sender.task_id(),
            send.elements(),
            send.is_signalled()
        ));
    });
    let result = result.map_err(|error| {
        let number = queue.queue_number();
        trace::event!(xprtrdma_post_send_err(number, sender.task_id(), error));
        SendError::Disconnected
    });
    (registered, result)
}

/// Counts a Call that can never be sent.
pub(super) fn marshal_failed(
    rqst: &Rqst<ClientTransport>,
    connection: &ClientConn,
    error: SendError,
) {
    connection.counters.rare.failed_marshals.add(1);
    let xid = rqst.xid();
    let error = match error {
        // `marshal` has logged what is too long.
        SendError::TooBig => EMSGSIZE,
        _ => {
            connection.log_message(|server| {
                pr_info!("the call {xid:#010x} to {server} cannot be sent: its memory cannot be mapped or copied\n");
            });
            EIO
        }
    };
    trace::event!(xprtrdma_marshal_failed(rqst.task_id(), xid, error));
}

/// Sends the reply to a callback. Does not sleep.
pub(super) fn send_callback_reply(
    active: &ActiveConnection,
    rqst: &CallbackRqst,
    doorbell: Doorbell,
) -> Result<(), SendError> {
    if !active.connection.is_open() {
        return Err(SendError::Disconnected);
    }
    let mut buffer = ResourceReserve::Use.take_send_buffer(active)?;
    let header = reverse::Header {
        xid: rqst.xid(),
        credits: config::CALLBACK_CREDITS,
    };
    let limit = active.connection.limits().thresholds.call;
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
            if trace::xprtrdma_cb_reply::is_on() {
                active.connection.with_peer(|server| {
                    trace::xprtrdma_cb_reply::emit(server, rqst.xid());
                });
            }
            let sender = Sender::CallbackReply(rqst);
            let (_, result) = post(active, sender, Prepared::new(), buffer, len, None, doorbell);
            if result.is_err() {
                active.connection.end(Cause::SendNotPosted);
            }
            result
        }
        Err(error) => {
            active.queue.put_back_send_buffer(buffer);
            // The server would wait for it; the end of the connection ends its wait.
            active.connection.end(Cause::CallbackReplyTooLong);
            Err(error)
        }
    }
}
