// SPDX-License-Identifier: GPL-2.0

//! A Call that is ready to be posted, and the resources that it took from its connection.
//!
//! All memory regions and Send buffers for the Calls that there are credits for are allocated
//! before. Calls are prepared in their own tasks, in any order, but sent in order. Those that are
//! prepared early leave a reserve, so that there is enough for the Call whose turn it is.

use super::{
    chunk::Offered,
    connection::{
        ActiveConnection,
        ClientConnection, //
    },
    stats::Counters, //
};
use crate::endpoint::SendBufferExt;
use kernel::sync::Arc;
use proto::plan::{
    CallForm,
    Plan, //
};
use rdma::{
    mr::{
        Idle,
        Prepared, //
    },
    send::Buffer,
    transfer::Gathered, //
};
use sunrpc::SendError;

/// A Call whose memory is mapped and whose message is written: it only has to be posted.
///
/// It keeps its connection alive, so it is cancelled when that is closed.
pub(crate) struct PreparedCall {
    pub(super) active: ActiveConnection,
    pub(super) regions: Prepared<ClientConnection>,
    pub(super) buffer: Buffer<ClientConnection>,
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
    pub(super) gathered: Option<Gathered<ClientConnection>>,
}

impl PreparedCall {
    /// Gives its resources back. Nothing was posted. Sleeps if the connection is closed.
    pub(super) fn cancel(self) {
        self.active.queue.put_back_send_buffer(self.buffer);
        self.active.connection.put_regions(self.regions.cancel());
    }

    /// Returns whether it was prepared for this connection.
    pub(super) fn is_for(&self, connection: &Arc<ClientConnection>) -> bool {
        Arc::ptr_eq(&self.active.connection, connection)
    }

    /// Counts the transmission of the Call, which offers `offered`.
    pub(super) fn count(&self, counters: &Counters, offered: &Offered) {
        counters.pullup_bytes.add(self.message.copied as u64);
        match self.plan.call {
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
    ) -> Result<Idle<ClientConnection>, SendError> {
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
    ) -> Result<Buffer<ClientConnection>, SendError> {
        match self {
            Self::Keep => active.queue.take_spare_send_buffer(),
            Self::Use => active.queue.take_send_buffer().or_else(|| {
                active.connection.counters.empty_send_queue.add(1);
                None
            }),
        }
        .ok_or(SendError::Again)
    }
}
