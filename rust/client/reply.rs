// SPDX-License-Identifier: GPL-2.0

//! What arrives: replies, errors, callbacks.
//!
//! RFC 8166, sections 4.2 to 4.5. A message that says nothing sound is dropped
//! without an answer; its Receive is posted again. One that answers an RPC leads
//! to that RPC's regions being made invalid, and then to its completion.

use super::{
    connection::{
        Connection,
        Fenced, //
    },
    slot::{
        Offered,
        State, //
    },
    Client, //
};
use kernel::{
    prelude::*,
    sync::SpinLockGuard, //
};
use proto::reply::{
    parse,
    Incoming,
    Reply, //
};
use rdma::{
    mr::{
        Idle,
        Registered, //
    },
    receive::{
        Invalidated,
        Message, //
    },
    QueuePair, //
};
use sunrpc::PendingReply;

/// Where the RPC message of an answer is.
enum Answer {
    /// The last `len` bytes of the Send, with `written` more in the Write chunk.
    Inline { len: usize, written: Option<u32> },
    /// That many bytes in the Reply chunk.
    ReplyChunk(usize),
    /// Nowhere: the server could not answer, or not as it must.
    Error,
}

/// An RPC with its answer, to be completed when its regions are invalid.
pub(crate) struct Answered {
    rqst: PendingReply<Client>,
    message: Message<Connection>,
    answer: Answer,
    credits: u32,
}

/// What to do about a message, when it is no longer borrowed.
enum Verdict {
    /// It was for nobody, or a callback that is on its way.
    Done,
    /// It was no good.
    Malformed,
    /// The peer broke the rules that keep memory apart.
    Hostile,
    /// It answers an RPC that has these regions.
    Answer {
        rqst: PendingReply<Client>,
        answer: Answer,
        credits: u32,
        registered: Registered<Connection>,
    },
}

/// Takes in `message`. Runs in a completion handler.
pub(super) fn received(
    connection: &Connection,
    queue: &QueuePair<Connection>,
    message: Message<Connection>,
    mut key: Option<Invalidated<'_, Connection>>,
) {
    let verdict = dispatch(connection, message.bytes(), &mut key);
    // RFC 8797 leaves the peer no other region than those of the RPC it answers.
    let verdict = match (key, verdict) {
        (None, verdict) => verdict,
        (Some(_), verdict) => {
            if let Verdict::Answer {
                rqst, registered, ..
            } = verdict
            {
                rqst.slot().take_back(registered);
            }
            Verdict::Hostile
        }
    };
    match verdict {
        Verdict::Done => (),
        Verdict::Malformed => connection.malformed(),
        Verdict::Hostile => {
            connection.malformed();
            connection.lost(c"the server broke the protocol");
        }
        Verdict::Answer {
            rqst,
            answer,
            credits,
            registered,
        } => {
            let answered = Answered {
                rqst,
                message,
                answer,
                credits,
            };
            return fence(connection, queue, registered, answered);
        }
    }
    connection.receives.repost(queue, message.into_buffer());
}

/// Makes `registered` invalid, then completes.
fn fence(
    connection: &Connection,
    queue: &QueuePair<Connection>,
    registered: Registered<Connection>,
    answered: Answered,
) {
    if registered.is_empty() {
        return answered.complete(connection, queue);
    }
    connection
        .counters
        .local_invalidations
        .add(registered.len() as u64);
    if let Err((registered, fenced)) = queue.post_invalidate(registered, Fenced::Answered(answered))
    {
        // The RPC is sent again on the next connection.
        connection.lost(c"an invalidation could not be posted");
        if let Fenced::Answered(answered) = fenced {
            answered.give_back(registered);
        }
    }
}

/// Decides what `bytes` are. Takes the regions of an answered RPC out of its slot, and takes the
/// key out of `key` if it was one of them.
fn dispatch(
    connection: &Connection,
    bytes: &[u8],
    key: &mut Option<Invalidated<'_, Connection>>,
) -> Verdict {
    let incoming = match parse(bytes) {
        Ok(incoming) => incoming,
        Err(_) => return Verdict::Malformed,
    };
    match incoming {
        Incoming::ReverseCall(call) => {
            let delivered = connection
                .link
                .with(|xprt| xprt.deliver_callback(call.payload));
            match delivered {
                Some(Ok(())) | None => Verdict::Done,
                // More callbacks than it was granted, or one that does not fit: a peer that
                // waits for an answer that cannot come is told by the connection's end.
                Some(Err(_)) => Verdict::Hostile,
            }
        }
        Incoming::Reply(reply) => dispatch_reply(connection, &reply, key),
        Incoming::Error { xid, credits, .. } => match lookup(connection, xid) {
            Some(rqst) => {
                let state = rqst.slot().state().lock();
                if !state.asked {
                    return Verdict::Malformed;
                }
                let registered = take_registered(state, connection, key);
                Verdict::Answer {
                    rqst,
                    answer: Answer::Error,
                    credits,
                    registered,
                }
            }
            None => no_matching_rqst(connection, xid, key),
        },
    }
}

fn dispatch_reply(
    connection: &Connection,
    reply: &Reply<'_>,
    key: &mut Option<Invalidated<'_, Connection>>,
) -> Verdict {
    let Some(rqst) = lookup(connection, reply.xid) else {
        return no_matching_rqst(connection, reply.xid, key);
    };
    let state = rqst.slot().state().lock();
    if !state.asked {
        return Verdict::Malformed;
    }
    let outcome = state.offered.with(|offer| reply.check(offer));
    let reduced = matches!(state.offered, Offered::Write(_));
    let Ok(outcome) = outcome else {
        return Verdict::Malformed;
    };
    let answer = if reduced && outcome.check_last_result(rqst.reply_head()).is_err() {
        Answer::Error
    } else if outcome.reply_chunk_len > 0 {
        connection
            .counters
            .reply_bytes
            .add(outcome.reply_chunk_len as u64);
        Answer::ReplyChunk(outcome.reply_chunk_len)
    } else {
        let written = match u32::try_from(outcome.written_len) {
            Ok(0) => None,
            Ok(written) => Some(written),
            Err(_) => return Verdict::Malformed,
        };
        connection
            .counters
            .reply_bytes
            .add(outcome.written_len as u64);
        Answer::Inline {
            len: outcome.inline.len(),
            written,
        }
    };
    let registered = take_registered(state, connection, key);
    Verdict::Answer {
        rqst,
        answer,
        credits: reply.credits,
        registered,
    }
}

fn lookup(connection: &Connection, xid: u32) -> Option<PendingReply<Client>> {
    connection.link.with(|xprt| xprt.lookup(xid)).flatten()
}

/// Its caller was killed, as a rule. The server has room for another call now.
///
/// It may take back what that call had offered, which is nobody's any more, or will be as soon as the
/// call's slot is fenced. Of any other RPC it may not.
fn no_matching_rqst(
    connection: &Connection,
    xid: u32,
    key: &mut Option<Invalidated<'_, Connection>>,
) -> Verdict {
    let mut idle = Idle::new();
    connection.link.with(|xprt| {
        xprt.no_matching_rqst();
        if key.is_none() {
            return;
        }
        xprt.for_each_slot(|slot| {
            let mut state = slot.state().lock();
            if state.xid == xid {
                idle.append(&mut taken_back(&mut state.registered, key));
            }
        });
        *key = key.take().filter(|key| {
            let mut is_offered = false;
            xprt.for_each_slot(|slot| is_offered |= slot.state().lock().registered.have(key));
            is_offered
        });
    });
    connection.recycle_regions(idle);
    Verdict::Done
}

/// The regions of an answered RPC that are left when the one that `key` names is put back in the pool.
fn take_registered(
    mut state: SpinLockGuard<'_, State>,
    connection: &Connection,
    key: &mut Option<Invalidated<'_, Connection>>,
) -> Registered<Connection> {
    state.asked = false;
    let mut registered = core::mem::take(&mut state.registered);
    drop(state);
    connection.recycle_regions(taken_back(&mut registered, key));
    registered
}

/// The one of `registered` that `key` names, if it does.
fn taken_back(
    registered: &mut Registered<Connection>,
    key: &mut Option<Invalidated<'_, Connection>>,
) -> Idle<Connection> {
    match key.take().map(|key| registered.remote_invalidated(key)) {
        Some(Ok(idle)) => return idle,
        Some(Err(other)) => *key = Some(other),
        None => (),
    }
    Idle::new()
}

impl Answered {
    /// Leaves the RPC unanswered, and `registered` to it, which could not be made invalid.
    pub(super) fn give_back(self, registered: Registered<Connection>) {
        self.rqst.slot().take_back(registered);
    }

    /// Completes the RPC, none of whose memory the server can reach any more.
    pub(super) fn complete(self, connection: &Connection, queue: &QueuePair<Connection>) {
        let Self {
            mut rqst,
            message,
            answer,
            credits,
        } = self;
        let window = connection.on_grant(credits);
        connection.link.with(|xprt| {
            xprt.set_window(window);
            xprt.note_reply();
        });
        let received = match answer {
            Answer::Error => None,
            Answer::ReplyChunk(len) => Some(Ok(len)),
            Answer::Inline { len, written } => {
                let bytes = message.bytes();
                let inline = bytes.get(bytes.len().saturating_sub(len)..).unwrap_or(&[]);
                connection.counters.fixup_bytes.add(len as u64);
                Some(rqst.scatter(inline, written))
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
    }
}
