// SPDX-License-Identifier: GPL-2.0

//! Calls to a client that offers no service in the reverse direction (RFC 8167).

use super::pending::pending_read;
use crate::case::cases;
use crate::case::expect_eq;
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

/// Expects that `message` does not change the outcome of `call`. The client may end the connection.
fn leaves_pending(mut server: Server, call: &Call, message: &[u8]) -> Outcome {
    server.send(message)?;
    match server.call_again()? {
        None => server.reply(call)?,
        Some(again) => {
            expect_eq("XID", again.xid, call.xid)?;
            server.has_connected(2)?;
            server.reply(&again)?;
        }
    }
    server.client_succeeds(&nfs3::content())
}

fn adv78_reverse_direction_call() -> Outcome {
    let (server, call) = pending_read()?;
    let xid = call.xid ^ 0x8000_0000;
    let mut message = words([xid, 1, 32, 0, 0, 0, 0]);
    message.extend(wire::null_call(xid));
    leaves_pending(server, &call, &message)
}

/// A NULL call with the XID of `call`.
fn reverse_call(call: &Call, lists: &ChunkLists) -> Vec<u8> {
    call.inline_reply(lists, &wire::null_call(call.xid))
}

fn adv79_reverse_direction_call_with_a_pending_xid() -> Outcome {
    let (server, call) = pending_read()?;
    let message = reverse_call(&call, &ChunkLists::default());
    leaves_pending(server, &call, &message)
}

fn b10_reverse_direction_call_with_chunks() -> Outcome {
    let (mut server, call) = pending_read()?;
    let lists = ChunkLists::with_reply(Some(call.lists.write[0].clone()));
    server.client_drops(&call, &reverse_call(&call, &lists))?;
    server.client_succeeds(&nfs3::content())?;
    server.has_connected(1)
}

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
