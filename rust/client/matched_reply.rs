// SPDX-License-Identifier: GPL-2.0

//! A reply with the `rpc_rqst` that it completes.

use super::connection::{
    ClientConnection,
    ClientTransport, //
};
use kernel::prelude::*;
use rdma::{
    receive,
    QueuePair, //
};
use sunrpc::PendingReply;

/// The place of the RPC message of a reply.
pub(super) enum ReplyBody {
    /// The last `len` bytes of the Receive; `written` is the length of the result in the Write
    /// chunk.
    Inline { len: usize, written: Option<u32> },
    /// The Reply chunk, with that many bytes, perhaps without padding at the end.
    ReplyChunk(usize),
    /// Nowhere: the server sent an RDMA_ERROR, a result that does not fit its chunk, or another
    /// reply that breaks the protocol.
    Error,
    /// Nowhere, and the connection ends for this reason: once more the server broke a rule that the
    /// connection depends on.
    Violation(&'static CStr),
}

/// A reply, and the RPC that it completes when the regions of that are invalid.
pub(crate) struct MatchedReply {
    pub(super) rqst: PendingReply<ClientTransport>,
    pub(super) message: receive::Message<ClientConnection>,
    pub(super) body: ReplyBody,
    /// The grant, unless the message is malformed.
    pub(super) credits: Option<u32>,
}

impl MatchedReply {
    /// Completes the RPC. The server can no longer reach any memory of it.
    pub(super) fn complete(
        self,
        connection: &ClientConnection,
        queue: &QueuePair<ClientConnection>,
    ) {
        let Self {
            mut rqst,
            message,
            body,
            credits,
        } = self;
        connection.xprt.with(|xprt| {
            if let Some(grant) = credits {
                let window = connection.on_grant(grant, xprt);
                xprt.set_window(window, || connection.current_window());
            }
            xprt.reply_received();
        });
        let violation = match body {
            ReplyBody::Violation(reason) => Some(reason),
            _ => None,
        };
        let received = match body {
            ReplyBody::Error | ReplyBody::Violation(_) => None,
            ReplyBody::ReplyChunk(len) => Some(Ok(rqst.pad_to_unit(len))),
            ReplyBody::Inline { len, written } => {
                let bytes = message.bytes();
                let inline = bytes.get(bytes.len().saturating_sub(len)..).unwrap_or(&[]);
                connection.counters.fixup_bytes.add(len as u64);
                Some(rqst.copy_inline(inline, written))
            }
        };
        connection.receives.repost(queue, message.into_buffer());
        match received {
            Some(Ok(len)) => rqst.complete(len),
            Some(Err(_)) | None => {
                connection.counters.bad_replies.add(1);
                rqst.fail(EIO);
            }
        }
        if let Some(reason) = violation {
            connection.lost(reason);
        }
    }
}
