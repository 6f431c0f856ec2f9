// SPDX-License-Identifier: GPL-2.0

//! Remote invalidation: replies by Send With Invalidate (RFC 8797).

use super::pending::pending_read;
use super::pending::pending_read_of;
use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::kernel_client;
use crate::message::with_written_lengths;
use crate::message::ChunkLists;
use crate::nfs3;
use crate::nfs3::procedure;
use crate::server::Server;
use crate::verbs::Verb;

cases![ClientCase:
    adv82_invalidation_of_an_unknown_handle,
    adv82_invalidation_of_another_rpc_s_handle,
    adv83_invalidation_by_a_malformed_reply,
    adv84_invalidation_without_agreement,
    p10_remote_invalidation_with_agreement,
];

// Shows SEC-14, ADV-82.
fn adv82_invalidation_of_an_unknown_handle() -> Outcome {
    let (mut server, call) = pending_read()?;
    let handle = call.write_segment()?.handle ^ 0x0100_0000;
    let reply = server.correct_reply(&call)?;
    server.send_as(Verb::SendWithInvalidate(handle), &reply)?;
    // The connection is lost, and the client sends the READ again over the next one.
    server.client_succeeds(&nfs3::content())?;
    expect_eq("more than one connection", server.connections > 1, true)
}

// Shows SEC-14, ADV-82.
fn adv82_invalidation_of_another_rpc_s_handle() -> Outcome {
    let mut server = Server::new(kernel_client::read_twice)?;
    let replied = server.serve_until(procedure::READ)?;
    let other = server.serve_until(procedure::READ)?;
    let handle = other.write_segment()?.handle;
    let reply = server.correct_reply(&replied)?;
    server.send_as(Verb::SendWithInvalidate(handle), &reply)?;
    // The connection is lost, and the client sends both again over the next one.
    server.client_succeeds(&nfs3::content().repeat(2))?;
    server.has_connected(2)
}

// Shows SEC-13, ADV-83.
fn adv83_invalidation_by_a_malformed_reply() -> Outcome {
    let (mut server, call) = pending_read()?;
    let handle = call.write_segment()?.handle;
    let (payload, data) = call.reduced_reply();
    let lists = ChunkLists {
        write: vec![with_written_lengths(&call.lists.write[0], data.len())],
        ..call.unused_lists()
    };
    let malformed = call.message(9, &lists, &payload);
    server.send_as(Verb::SendWithInvalidate(handle), &malformed)?;
    // The region is invalid now, and the call still pending.
    server.client_waits()?;
    server.send(&call.failed_reply())?;
    server.client_gives_up(procedure::READ, |_, call| Ok(call.failed_reply()))?;
    server.has_connected(1)
}

/// The reply to the first READ invalidates the handle of its Write chunk; the server has this private data.
fn read_with_invalidation(private: &[u8]) -> Result<Server, String> {
    let server = Server::with_private_data(kernel_client::read, private)?;
    let (mut server, call) = pending_read_of(server)?;
    let handle = call.write_segment()?.handle;
    let reply = server.correct_reply(&call)?;
    server.send_as(Verb::SendWithInvalidate(handle), &reply)?;
    server.client_succeeds(&nfs3::content())?;
    Ok(server)
}

// Shows SEC-15, P-10, ADV-84.
fn adv84_invalidation_without_agreement() -> Outcome {
    read_with_invalidation(&[]).map(|_| ())
}

// Shows P-10, P-11.
fn p10_remote_invalidation_with_agreement() -> Outcome {
    let server = read_with_invalidation(&[0xf6, 0xab, 0x0e, 0x18, 1, 1, 0, 0])?;
    server.has_connected(1)
}
