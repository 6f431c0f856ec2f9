// SPDX-License-Identifier: GPL-2.0

//! Received messages: replies, RDMA_ERRORs, callbacks.
//!
//! RFC 8166, sections 4.2 to 4.5. A malformed message is dropped without an answer, and its Receive
//! is posted again; only if that happens to a Call over two connections, the Call fails. A reply
//! has the regions of its RPC invalidated and then completes the RPC. If the server did not
//! invalidate them (Send With Invalidate names one at most), a chain of local invalidations does.

use super::slot::{
    InvalidateContext,
    SlotState, //
};
use crate::prelude::*;
use kernel::sync::SpinLockGuard;
use proto::reply;
use rdma::{
    mr::Registered,
    receive,
    Completing,
    Invalidated, //
};
use sunrpc::{
    CallbackError,
    PendingReply, //
};

/// The action that follows from a message. It does not borrow the message.
enum ReplyAction {
    /// Nothing: the message was a callback, or its RPC is gone.
    Done,
    /// The connection has to end, unless it survives [`Cause::Malformed`].
    End(Cause),
    /// The message is the reply to an RPC that has these regions.
    Matched {
        rqst: PendingReply<ClientTransport>,
        body: ReplyBody,
        credits: Option<u32>,
        registered: Registered<ClientConn>,
    },
}

/// Handles `message`, which invalidated the region `rkey` if that is given. Runs in a completion
/// handler.
pub(super) fn received(
    connection: &ClientConn,
    queue: &mut Completing<'_, ClientConn>,
    message: receive::Message<ClientConn>,
    rkey: Option<Invalidated<'_, ClientConn>>,
) {
    let mut arrived = Arrived {
        connection,
        bytes: message.bytes(),
        unclaimed: rkey,
    };
    let action = arrived.dispatch();
    // RFC 8797: the server may invalidate no other region than one of the RPC that it answers.
    let action = if arrived.unclaimed.is_none() {
        action
    } else {
        action.with_foreign_region(connection)
    };
    match action {
        ReplyAction::Done => (),
        ReplyAction::End(cause) => {
            if cause.is_bad_reply() {
                connection.counters.rare.bad_replies.add(1);
            }
            connection.end(cause);
        }
        ReplyAction::Matched {
            rqst,
            body,
            credits,
            registered,
        } => {
            let reply = MatchedReply {
                rqst,
                message,
                body,
                credits,
            };
            return complete_invalidated(connection, queue, registered, reply);
        }
    }
    queue.repost_in_handler(message.into_buffer());
}

impl ReplyAction {
    /// Returns the action if the message invalidated a region of another Call as well: the
    /// connection ends, and the Call is sent again, unless that has happened to it before.
    fn with_foreign_region(self, connection: &ClientConn) -> Self {
        if let Self::Matched {
            rqst, registered, ..
        } = self
        {
            if rqst.slot().lock().is_broken_again() {
                connection.log_failed_call("an invalidation of another call's memory");
                return Self::Matched {
                    rqst,
                    body: ReplyBody::Violation(Cause::InvalidatedOtherCall),
                    credits: None,
                    registered,
                };
            }
            rqst.slot().take_back(registered);
        }
        Self::End(Cause::InvalidatedOtherCall)
    }
}

/// Invalidates `registered`, then completes the RPC.
fn complete_invalidated(
    connection: &ClientConn,
    queue: &mut Completing<'_, ClientConn>,
    registered: Registered<ClientConn>,
    reply: MatchedReply,
) {
    if registered.is_empty() {
        return reply.complete(connection, queue);
    }
    connection.note_local_invalidations(&reply.rqst, &registered);
    let context = InvalidateContext::Reply(reply);
    if let Err((registered, context)) = queue.post_invalidate(registered, context) {
        // The Call is sent again on the next connection.
        connection.end(Cause::InvalidationNotPosted);
        if let InvalidateContext::Reply(reply) = context {
            let error = errno::enotconn();
            trace::event!(xprtrdma_post_linv_err(reply.rqst.task_id(), error));
            reply.rqst.slot().take_back(registered);
        }
    }
}

/// The reason to drop a reply whose Call was not sent over this connection, or has a reply.
const NOT_OUTSTANDING: &str = "a reply that is not awaited";

/// A message that arrived.
struct Arrived<'a> {
    connection: &'a ClientConn,
    bytes: &'a [u8],
    /// The region that the message invalidated, unless it is one of the Call that it answers.
    unclaimed: Option<Invalidated<'a, ClientConn>>,
}

impl Arrived<'_> {
    /// Parses the message, and handles it by its kind.
    fn dispatch(&mut self) -> ReplyAction {
        match reply::parse(self.bytes) {
            Err(discard) => self.on_discard(discard),
            Ok(reply::Incoming::ReverseCall(call)) => self.on_callback(call.xid, call.payload),
            Ok(reply::Incoming::Reply(reply)) => self.on_reply(&reply),
            Ok(reply::Incoming::Error { xid, credits, kind }) => self.on_error(xid, credits, kind),
        }
    }

    /// Drops a message that does not parse. It perhaps is all that the server has for the Call.
    fn on_discard(&mut self, discard: reply::Discard) -> ReplyAction {
        let (connection, bytes) = (self.connection, self.bytes);
        connection.with_peer(|server| match discard {
            reply::Discard::Runt(_) => trace::event!(xprtrdma_reply_short_err(server, bytes)),
            reply::Discard::Version(_) => trace::event!(xprtrdma_reply_vers_err(server, bytes)),
            _ => trace::event!(xprtrdma_reply_hdr_err(server, bytes)),
        });
        connection.log_message(|server| pr_info!("dropped a message of {server}: {discard:?}\n"));
        let xid = reply::claimed_xid(bytes);
        match xid.and_then(|xid| lookup(connection, xid)) {
            Some(rqst) => self.break_reply(rqst, None, discard.reason()),
            None => {
                // Nor is more to come for a Call whose task was killed. A callback answers none.
                if xid.is_some() && discard != reply::Discard::ReverseChunks {
                    connection.xprt.with(|xprt| xprt.no_matching_rqst());
                }
                self.claim_by_xid(xid);
                ReplyAction::End(Cause::Malformed)
            }
        }
    }

    /// Delivers a callback.
    fn on_callback(&self, xid: u32, payload: &[u8]) -> ReplyAction {
        let connection = self.connection;
        if trace::xprtrdma_cb_call::is_on() {
            connection.with_peer(|server| trace::xprtrdma_cb_call::emit(server, xid));
        }
        match connection.xprt.with(|xprt| xprt.deliver_callback(payload)) {
            Some(Ok(())) | None => ReplyAction::Done,
            // Nobody is left who could reply. The server notices by its own timeout, as if the
            // client was gone, which the calls of other mounts over this connection must not suffer
            // for.
            Some(Err(CallbackError::NoService)) => {
                connection.log_message(|server| {
                    pr_info!("dropped a callback of {server}, as no mount takes any\n");
                });
                ReplyAction::Done
            }
            // The server would wait for a reply that cannot come; the end of the connection ends
            // its wait.
            Some(Err(CallbackError::NoMemory)) => ReplyAction::End(Cause::NoMemoryForCallback),
            Some(Err(CallbackError::Overflow)) => ReplyAction::End(Cause::CallbackWithoutCredit),
            Some(Err(CallbackError::Size)) => ReplyAction::End(Cause::CallbackTooLong),
        }
    }

    /// Fails the Call that the server refuses with an RDMA_ERROR.
    fn on_error(&mut self, xid: u32, credits: u32, kind: reply::RdmaError) -> ReplyAction {
        let connection = self.connection;
        let Some(rqst) = lookup(connection, xid) else {
            return self.no_matching_rqst(xid);
        };
        let state = rqst.slot().lock();
        if !state.call_outstanding {
            drop(state);
            return self.dropped(xid, NOT_OUTSTANDING);
        }
        trace::event!(xprtrdma_reply(rqst.task_id(), xid, credits));
        match kind {
            reply::RdmaError::Version { low, high } => {
                trace::event!(xprtrdma_err_vers(rqst.task_id(), xid, low, high));
            }
            reply::RdmaError::Chunk => trace::event!(xprtrdma_err_chunk(rqst.task_id(), xid)),
        }
        let registered = self.take_registered(&rqst, state);
        connection.log_message(|server| {
            pr_info!("{server} refuses the call {xid:#010x}: {kind:?}\n");
        });
        ReplyAction::Matched {
            rqst,
            body: ReplyBody::Error,
            credits: Some(credits),
            registered,
        }
    }

    /// Compares a reply with what its Call offered.
    fn on_reply(&mut self, reply: &reply::Reply<'_>) -> ReplyAction {
        let connection = self.connection;
        let Some(rqst) = lookup(connection, reply.xid) else {
            return self.no_matching_rqst(reply.xid);
        };
        trace::event!(xprtrdma_reply(rqst.task_id(), reply.xid, reply.credits));
        let state = rqst.slot().lock();
        if !state.call_outstanding {
            drop(state);
            return self.dropped(reply.xid, NOT_OUTSTANDING);
        }
        let credits = Some(reply.credits);
        let outcome = match state.offered.with(|offer| reply.check(offer)) {
            Ok(outcome) => outcome,
            Err(violation) => {
                drop(state);
                return match self.break_reply(rqst, credits, violation.reason()) {
                    ReplyAction::End(_) => self.dropped(reply.xid, violation.reason()),
                    failed => failed,
                };
            }
        };
        let result = match state.offered {
            Offered::Write(_) => outcome.check_last_result(),
            _ => Ok(0),
        };
        let registered = self.take_registered(&rqst, state);
        let placed = outcome.written_len.saturating_add(outcome.reply_chunk_len);
        if placed != 0 {
            connection.counters.replies.reply_bytes.add(placed as u64);
        }
        let body = match result {
            Err(violation) => {
                connection.log_failed_call(violation.reason());
                ReplyBody::Error
            }
            Ok(_) if outcome.reply_chunk_len > 0 => ReplyBody::ReplyChunk(outcome.reply_chunk_len),
            Ok(result) => ReplyBody::Inline {
                len: outcome.inline.len(),
                written: u32::try_from(result).ok().filter(|result| *result != 0),
            },
        };
        ReplyAction::Matched {
            rqst,
            body,
            credits,
            registered,
        }
    }

    /// Drops a reply to the Call `xid`, for this `reason`.
    fn dropped(&self, xid: u32, reason: &str) -> ReplyAction {
        let (connection, bytes) = (self.connection, self.bytes);
        connection.with_peer(|server| trace::event!(xprtrdma_reply_hdr_err(server, bytes)));
        connection.log_message(|server| {
            pr_info!(
                "dropped a reply of {server} that does not fit the call {xid:#010x}: {reason}\n"
            );
        });
        ReplyAction::End(Cause::Malformed)
    }

    /// Handles a reply to the Call in `rqst` that breaks the protocol, for this `reason`. It is
    /// dropped, as the right one may follow. But if so was one over an earlier connection, the Call
    /// would be sent for ever: then it fails.
    ///
    /// A region of the Call that the message invalidated is invalid even if the message is dropped.
    fn break_reply(
        &mut self,
        rqst: PendingReply<ClientTransport>,
        credits: Option<u32>,
        reason: &str,
    ) -> ReplyAction {
        let mut state = rqst.slot().lock();
        if !state.call_outstanding || !state.is_broken_again() {
            let idle = self.claim(&mut state.registered);
            drop(state);
            self.connection.put_regions(idle);
            return ReplyAction::End(Cause::Malformed);
        }
        let registered = self.take_registered(&rqst, state);
        self.connection.log_failed_call(reason);
        ReplyAction::Matched {
            rqst,
            body: ReplyBody::Error,
            credits,
            registered,
        }
    }

    /// Handles a reply that no RPC waits for, usually because its task was killed. The server has a
    /// credit for another Call now.
    fn no_matching_rqst(&mut self, xid: u32) -> ReplyAction {
        let bytes = self.bytes;
        self.connection.xprt.with(|xprt| {
            xprt.no_matching_rqst();
            xprt.with_peer(|server| trace::event!(xprtrdma_reply_rqst_err(server, bytes)));
        });
        self.claim_by_xid(Some(xid));
        ReplyAction::Done
    }

    /// Takes the regions of an answered RPC. The one that the server invalidated is put into the
    /// pool.
    fn take_registered(
        &mut self,
        rqst: &PendingReply<ClientTransport>,
        state: SpinLockGuard<'_, SlotState>,
    ) -> Registered<ClientConn> {
        let mut registered = rqst.slot().answered(state);
        if trace::xprtrdma_mr_reminv::is_on() {
            let region = self
                .unclaimed
                .as_ref()
                .and_then(|rkey| registered.info_of(rkey));
            if let Some(region) = region {
                trace::xprtrdma_mr_reminv::emit(rqst.task_id(), region);
            }
        }
        let idle = self.claim(&mut registered);
        self.connection.put_regions(idle);
        registered
    }

    /// Takes the region that the server invalidated out of `registered`, if it is one of them.
    fn claim(&mut self, registered: &mut Registered<ClientConn>) -> Idle<ClientConn> {
        match self
            .unclaimed
            .take()
            .map(|rkey| registered.remote_invalidated(rkey))
        {
            Some(Ok(idle)) => return idle,
            Some(Err(other)) => self.unclaimed = Some(other),
            None => (),
        }
        Idle::new()
    }

    /// Finds the region that the server invalidated with a message that no RPC waits for; the
    /// message is for the Call `xid`, if it says that.
    ///
    /// The server may have invalidated a region of the Call that it answers: the slot of the Call
    /// still has that region, or will release it as invalid. The server must not invalidate a
    /// region of another RPC: then it stays unclaimed.
    fn claim_by_xid(&mut self, xid: Option<u32>) {
        if self.unclaimed.is_none() {
            return;
        }
        let connection = self.connection;
        let mut idle = Idle::new();
        connection.xprt.with(|xprt| {
            xprt.for_each_slot(|slot| {
                let mut state = slot.lock();
                if Some(state.xid) == xid {
                    idle.append(&mut self.claim(&mut state.registered));
                }
            });
            self.unclaimed = self.unclaimed.take().filter(|rkey| {
                let mut is_registered = false;
                xprt.for_each_slot(|slot| is_registered |= slot.lock().registered.have(rkey));
                is_registered
            });
        });
        connection.put_regions(idle);
    }
}

fn lookup(connection: &ClientConn, xid: u32) -> Option<PendingReply<ClientTransport>> {
    connection.xprt.with(|xprt| xprt.lookup(xid)).flatten()
}

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
    /// Nowhere, and the connection ends: once more the server broke a rule that the connection
    /// depends on.
    Violation(Cause),
}

/// A reply, and the RPC that it completes when the regions of that are invalid.
pub(crate) struct MatchedReply {
    pub(super) rqst: PendingReply<ClientTransport>,
    pub(super) message: receive::Message<ClientConn>,
    pub(super) body: ReplyBody,
    /// The grant, unless the message is malformed.
    pub(super) credits: Option<u32>,
}

impl MatchedReply {
    /// Completes the RPC. The server can no longer reach any memory of it.
    pub(super) fn complete(self, connection: &ClientConn, queue: &mut Completing<'_, ClientConn>) {
        let Self {
            mut rqst,
            message,
            body,
            credits,
        } = self;
        connection.xprt.with(|xprt| {
            if let Some(grant) = credits {
                if let Some(window) = connection.on_grant(grant, xprt) {
                    xprt.set_window(window, || connection.current_window());
                }
            }
            xprt.reply_received();
        });
        let violation = match body {
            ReplyBody::Violation(cause) => Some(cause),
            _ => None,
        };
        let received = match body {
            ReplyBody::Error | ReplyBody::Violation(_) => None,
            ReplyBody::ReplyChunk(len) => Some(Ok(rqst.pad_to_unit(len))),
            ReplyBody::Inline { len, written } => {
                let bytes = message.bytes();
                let inline = bytes.get(bytes.len().saturating_sub(len)..).unwrap_or(&[]);
                connection.counters.replies.fixup_bytes.add(len as u64);
                Some(rqst.copy_inline(inline, written))
            }
        };
        queue.repost_in_handler(message.into_buffer());
        match received {
            Some(Ok(len)) => rqst.complete(len),
            Some(Err(_)) | None => {
                connection.counters.rare.bad_replies.add(1);
                rqst.fail(EIO);
            }
        }
        if let Some(cause) = violation {
            connection.end(cause);
        }
    }
}
