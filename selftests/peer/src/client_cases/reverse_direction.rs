// SPDX-License-Identifier: GPL-2.0

//! Calls to a client that offers no service in the reverse direction (RFC 8167).

use super::pending::pending_read;
use crate::case::cases;
use crate::case::Outcome;
use crate::message::ChunkLists;
use crate::nfs3;
use crate::server::Call;
use crate::server::Server;
use crate::wire;
use crate::wire::words;

cases![ClientCase:
    adv78_reverse_direction_call,
    adv79_reverse_direction_call_with_a_pending_xid,
    b10_reverse_direction_call_with_chunks,
    b15_more_reverse_direction_calls_than_credits,
];

// Shows B-13, ADV-78.
fn adv78_reverse_direction_call() -> Outcome {
    let (server, call) = pending_read()?;
    let xid = call.xid ^ 0x8000_0000;
    let mut message = words([xid, 1, 32, 0, 0, 0, 0]);
    message.extend(wire::null_call(xid));
    is_dropped(server, &call, &message)
}

/// Expects that the client drops `message` and keeps the connection.
fn is_dropped(mut server: Server, call: &Call, message: &[u8]) -> Outcome {
    server.client_drops(call, message)?;
    server.client_succeeds(&nfs3::content())?;
    server.has_connected(1)
}

/// A NULL call with the XID of `call`.
fn reverse_call(call: &Call, lists: &ChunkLists) -> Vec<u8> {
    call.inline_reply(lists, &wire::null_call(call.xid))
}

// Shows B-07, ADV-79.
fn adv79_reverse_direction_call_with_a_pending_xid() -> Outcome {
    let (server, call) = pending_read()?;
    let message = reverse_call(&call, &ChunkLists::default());
    is_dropped(server, &call, &message)
}

// Shows B-10, N-14.
fn b10_reverse_direction_call_with_chunks() -> Outcome {
    let (server, call) = pending_read()?;
    let lists = ChunkLists::with_reply(Some(call.lists.write[0].clone()));
    is_dropped(server, &call, &reverse_call(&call, &lists))
}

// Shows B-15.
fn b15_more_reverse_direction_calls_than_credits() -> Outcome {
    let (mut server, call) = pending_read()?;
    let message = reverse_call(&call, &ChunkLists::default());
    for _ in 0..300 {
        server.send(&message)?;
    }
    // The connection may be lost; then the client sends the READ again over another one.
    let _ = server.reply(&call);
    server.client_succeeds(&nfs3::content())
}
