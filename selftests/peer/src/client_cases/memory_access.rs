// SPDX-License-Identifier: GPL-2.0

//! The client's registered memory: what a server can access, and until when.

use super::pending::pending_read;
use super::pending::pending_read_of;
use super::pending::pending_readdir;
use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::kernel_client;
use crate::message::Segment;
use crate::nfs3;
use crate::nfs3::procedure;
use crate::server::Call;
use crate::server::Server;
use crate::timeout::scaled;
use crate::verbs::Verb;
use crate::verbs::DENIED;
use crate::verbs::SUCCESS;
use std::time::Duration;

cases![ClientCase:
    adv103_write_after_the_reply,
    adv105_rdma_write_with_immediate,
    sec02_write_chunk_cannot_be_read,
    sec02_read_chunk_cannot_be_written,
    sec02_no_atomics,
    sec03_handle_of_another_connection,
    sec04_no_access_beyond_a_segment,
    sec05_handle_of_an_earlier_rpc,
    sec08_no_read_after_the_reply,
    sec10_no_segment_outlives_the_reply,
    sec12_invalidation_of_another_connection_s_handle,
    repeated_invalidation_of_another_s_handle_ends_its_rpc_alone,
    sec16_memory_of_a_killed_call_is_invalidated,
    sec17_killed_calls_keep_the_connection,
];

/// Expects that the client's device refuses `verb`. The connection is lost then, and the client sends
/// a pending call again.
fn is_denied(server: &mut Server, verb: Verb, segment: Segment, length: usize) -> Outcome {
    let bytes = vec![0x5A; length];
    let local = server.local_region(&bytes)?;
    let status = server.transfer(verb, segment, &local)?;
    expect_eq("access is denied", DENIED.contains(&status), true)?;
    match verb {
        Verb::Read | Verb::FetchAndAdd => expect_eq("bytes", local.bytes(0, length), bytes),
        _ => Ok(()),
    }
}

/// The first WRITE, and the segment that its data are in.
fn pending_write(server: &mut Server) -> Result<(Call, Segment), String> {
    let call = server.serve_until(procedure::WRITE)?;
    let read = call.lists.read.first();
    let (_, segment) = *read.ok_or("the WRITE has no Read chunk")?;
    Ok((call, segment))
}

// Shows S8.1-01, SEC-02.
fn sec02_write_chunk_cannot_be_read() -> Outcome {
    let (mut server, call) = pending_read()?;
    is_denied(&mut server, Verb::Read, call.write_segment()?, 64)?;
    server.client_succeeds(&nfs3::content())
}

// Shows S8.1-01, SEC-02.
fn sec02_no_atomics() -> Outcome {
    let (mut server, call) = pending_read()?;
    is_denied(&mut server, Verb::FetchAndAdd, call.write_segment()?, 8)?;
    server.client_succeeds(&nfs3::content())
}

// Shows S2.3.2-05, S8.1-01, SEC-02.
fn sec02_read_chunk_cannot_be_written() -> Outcome {
    let mut server = Server::new(kernel_client::write)?;
    let (_, segment) = pending_write(&mut server)?;
    // RDMA Read succeeds, so the handle is valid.
    let local = server.local_region(&[0; 1024])?;
    server.can_access(Verb::Read, segment, &local)?;
    let expected = nfs3::content()[..1024].to_vec();
    expect_eq("data", local.bytes(0, 1024), expected)?;
    is_denied(&mut server, Verb::Write, segment, 64)?;
    server.client_succeeds(&[])
}

// Shows S8.1-01, S8.1.4-03, SEC-04.
fn sec04_no_access_beyond_a_segment() -> Outcome {
    for before in [true, false] {
        let (mut server, call) = pending_read()?;
        let segment = call.write_segment()?;
        let offset = match before {
            true => segment.offset - 1,
            false => segment.offset + u64::from(segment.length),
        };
        is_denied(&mut server, Verb::Write, Segment { offset, ..segment }, 1)?;
        server.client_succeeds(&nfs3::content())?;
    }
    Ok(())
}

/// Expects that `verb` is denied after the reply to `call`.
fn is_denied_after_reply(
    server: &mut Server,
    call: &Call,
    verb: Verb,
    segment: Segment,
) -> Outcome {
    let connections = server.connections;
    server.reply(call)?;
    // The client's next call shows that it has taken the reply.
    let next = server.next_call(scaled(Duration::from_secs(10)))?;
    server.has_connected(connections)?;
    is_denied(server, verb, segment, 64)?;
    if let Some(next) = next {
        let _ = server.reply(&next);
    }
    Ok(())
}

// Shows S4.4.1-01, S4.4.1-02, S8.1.2-02, S8.1.3-02, S8.1.3-03, SEC-06, SEC-08, SEC-09, P-10,
// ADV-103.
fn adv103_write_after_the_reply() -> Outcome {
    let (mut server, call) = pending_read()?;
    let segment = call.write_segment()?;
    is_denied_after_reply(&mut server, &call, Verb::Write, segment)?;
    server.client_succeeds(&nfs3::content())
}

// Shows S3.4.5.1-03, S4.4.1-01, S4.4.1-02, S8.1.2-02, S8.1.3-02, SEC-06, SEC-08, SEC-09.
fn sec08_no_read_after_the_reply() -> Outcome {
    let mut server = Server::new(kernel_client::write)?;
    let (call, segment) = pending_write(&mut server)?;
    is_denied_after_reply(&mut server, &call, Verb::Read, segment)?;
    server.client_succeeds(&[])
}

// Shows S8.1.3-02, SEC-06, SEC-08, SEC-09, SEC-10.
fn sec10_no_segment_outlives_the_reply() -> Outcome {
    let mut index = 0;
    loop {
        let (mut server, call) = pending_readdir()?;
        let Some(segment) = call.reply_chunk()?.get(index) else {
            server.reply(&call)?;
            server.client_succeeds(&nfs3::entry_names())?;
            // The client invalidates them in one chain, after a reply without remote invalidation.
            return expect_eq("several segments", index > 1, true);
        };
        let segment = segment.with_length(1);
        is_denied_after_reply(&mut server, &call, Verb::Write, segment)?;
        server.client_succeeds(&nfs3::entry_names())?;
        index += 1;
    }
}

/// Two transports of the client, each with a pending READ.
fn two_transports() -> Result<[(Server, Call); 2], String> {
    let first = pending_read()?;
    let second = pending_read_of(Server::second(kernel_client::read)?)?;
    Ok([first, second])
}

// Shows S8.1.1-01, SEC-03.
fn sec03_handle_of_another_connection() -> Outcome {
    let [(mut first, call), (mut second, _)] = two_transports()?;
    is_denied(&mut second, Verb::Write, call.write_segment()?, 64)?;
    second.client_succeeds(&nfs3::content())?;
    first.reply(&call)?;
    first.client_succeeds(&nfs3::content())?;
    first.has_connected(1)
}

// Shows SEC-12.
fn sec12_invalidation_of_another_connection_s_handle() -> Outcome {
    let [(mut first, call), (mut second, other)] = two_transports()?;
    let handle = call.write_segment()?.handle;
    let reply = second.correct_reply(&other)?;
    second.send_as(Verb::SendWithInvalidate(handle), &reply)?;
    second.client_succeeds(&nfs3::content())?;
    expect_eq("more than one connection", second.connections > 1, true)?;
    // Soft RoCE does invalidate it. Then the first READ fails with its connection, and comes again.
    let _ = first.reply(&call);
    first.client_succeeds(&nfs3::content())
}

// Shows SEC-14.
fn repeated_invalidation_of_another_s_handle_ends_its_rpc_alone() -> Outcome {
    let mut first = Server::new(kernel_client::read_in_vain_and_list)?;
    let mut call = first.serve_until(procedure::READ)?;
    let (mut second, other) = pending_read_of(Server::second(kernel_client::read)?)?;
    let handle = other.write_segment()?.handle;
    let xid = call.xid;
    for connections in 1..=2 {
        if connections == 2 {
            call = first.serve_until(procedure::READ)?;
        }
        first.has_connected(connections)?;
        expect_eq("XID", call.xid, xid)?;
        let reply = first.correct_reply(&call)?;
        first.send_as(Verb::SendWithInvalidate(handle), &reply)?;
    }
    first.client_succeeds(&nfs3::entry_names())?;
    first.has_connected(3)?;
    // Soft RoCE does invalidate it. Then the other READ fails with its connection, and comes again.
    let _ = second.reply(&other);
    second.client_succeeds(&nfs3::content())
}

/// A client whose first process lists the directory, and the first segment of that Reply chunk.
fn pending_readdir_of_process() -> Result<(Server, Segment), String> {
    let mut server = Server::new(kernel_client::list_in_processes)?;
    let call = server.serve_until(procedure::READDIR)?;
    Ok((server, call.reply_chunk()?[0]))
}

// Shows S4.4.1-03, S8.1.3-04, S8.1.4-05, SEC-16.
fn sec16_memory_of_a_killed_call_is_invalidated() -> Outcome {
    let (mut server, segment) = pending_readdir_of_process()?;
    let local = server.local_region(&[0; 64])?;
    server.can_access(Verb::Write, segment, &local)?;
    kernel_client::kill_list_process()?;
    is_denied(&mut server, Verb::Write, segment, 64)?;
    server.client_succeeds(&nfs3::entry_names())
}

// Shows S8.1.4-06, SEC-17.
fn sec17_killed_calls_keep_the_connection() -> Outcome {
    let (mut server, _) = pending_readdir_of_process()?;
    kernel_client::kill_list_process()?;
    for _ in 1..kernel_client::LIST_PROCESSES {
        server.serve_until(procedure::READDIR)?;
        kernel_client::kill_list_process()?;
    }
    server.client_succeeds(&nfs3::entry_names())?;
    server.has_connected(1)
}

// Shows S8.1.2-02, S8.1.3-01, SEC-05.
fn sec05_handle_of_an_earlier_rpc() -> Outcome {
    let mut server = Server::new(kernel_client::read_and_list)?;
    let read = server.serve_until(procedure::READ)?;
    let segment = read.write_segment()?;
    server.reply(&read)?;
    let list = server.serve_until(procedure::READDIR)?;
    // A region that is registered again gets another key: the last byte of its handle.
    let again = |next: &&Segment| next.handle >> 8 == segment.handle >> 8;
    let mut offered = list.lists.reply.iter().flatten();
    let next = offered.find(again).ok_or("no region is used again")?;
    expect_eq("the same handle", next.handle == segment.handle, false)?;
    let offset = next.offset;
    is_denied(&mut server, Verb::Write, Segment { offset, ..segment }, 64)?;
    server.client_succeeds(&nfs3::entry_names())
}

// Shows ADV-105.
fn adv105_rdma_write_with_immediate() -> Outcome {
    let (mut server, call) = pending_read()?;
    let local = server.local_region(&[0x5A; 64])?;
    let segment = call.write_segment()?;
    // It uses up a Receive of the client, whose buffer stays empty.
    let status = server.transfer(Verb::WriteWithImmediate(7), segment, &local)?;
    expect_eq("status", status, SUCCESS)?;
    match server.call_again()? {
        Some(again) => server.reply(&again)?,
        None => server.reply(&call)?,
    }
    server.client_succeeds(&nfs3::content())
}
