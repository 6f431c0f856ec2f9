// SPDX-License-Identifier: GPL-2.0

//! Replies whose chunks or results are not what the client asked for.

use super::pending::pending_read;
use super::pending::pending_readdir;
use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::kernel_client;
use crate::message::with_written_lengths;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::message::RDMA_ERROR;
use crate::message::RDMA_MSG;
use crate::message::RDMA_NOMSG;
use crate::nfs3;
use crate::nfs3::procedure;
use crate::server::Call;
use crate::server::Server;
use crate::server::FIRST_PROCEDURE;
use crate::wire;
use crate::wire::words;

cases![ClientCase:
    adv48_write_chunk_longer_than_offered,
    adv49_write_chunk_with_more_segments,
    adv49_missing_segments_are_unused,
    adv50_write_chunk_with_another_handle_or_offset,
    adv51_write_chunk_that_was_not_offered,
    adv52_write_list_missing,
    adv55_inline_reply_that_used_the_reply_chunk,
    adv56_long_reply_with_an_empty_reply_chunk,
    adv57_long_reply_without_padding,
    adv58_long_reply_longer_than_offered,
    adv62_duplicate_reply,
    adv67_err_chunk_ends_the_rpc,
    adv71_err_vers_ends_the_rpc,
    adv75_inline_result_despite_a_write_chunk,
    adv76_result_length_differs_from_its_write_chunk,
    adv77_failed_read_after_an_rdma_write,
    adv104_no_reply,
    sec25_no_data_beyond_what_was_written,
    padding_in_a_write_chunk_is_ignored,
    wrong_padding_in_a_write_chunk_is_ignored,
    wrong_padding_of_an_inline_result_is_ignored,
    refused_call_is_sent_again_over_the_same_connection,
    repeated_violation_ends_its_rpc_alone,
    long_reply_by_the_reply_chunk,
    p01_client_sends_private_data,
];

/// A reply to a READ that returns `chunk`, and `more` chunks, in its Write list. Nothing is written.
fn reply_with_chunk(call: &Call, chunk: Vec<Segment>, more: &[Vec<Segment>]) -> Vec<u8> {
    let lists = ChunkLists {
        write: [&[chunk], more].concat(),
        ..call.unused_lists()
    };
    call.inline_reply(&lists, &call.reduced_reply().0)
}

/// The Write chunk of a correct reply to a READ.
fn correct_chunk(call: &Call) -> Vec<Segment> {
    with_written_lengths(&call.lists.write[0], call.reduced_reply().1.len())
}

/// Expects that the client drops a reply to a READ whose Write chunk `change` has made wrong.
fn drops_changed_chunk(change: fn(&mut Vec<Segment>)) -> Outcome {
    let (mut server, call) = pending_read()?;
    let mut chunk = correct_chunk(&call);
    change(&mut chunk);
    server.client_drops(&call, &reply_with_chunk(&call, chunk, &[]))?;
    server.client_succeeds(&nfs3::content())?;
    server.has_connected(1)
}

// Shows S4.5-04, SEC-25, ADV-48.
fn adv48_write_chunk_longer_than_offered() -> Outcome {
    let (mut server, call) = pending_read()?;
    let mut chunk = call.lists.write[0].clone();
    if let Some(last) = chunk.last_mut() {
        last.length += 4;
    }
    server.client_drops(&call, &reply_with_chunk(&call, chunk, &[]))?;
    server.client_succeeds(&nfs3::content())
}

// Shows S4.5-04, ADV-49.
fn adv49_write_chunk_with_more_segments() -> Outcome {
    drops_changed_chunk(|chunk| chunk.push(chunk[0].with_length(0)))
}

// Shows ADV-49.
fn adv49_missing_segments_are_unused() -> Outcome {
    let (mut server, call) = pending_readdir()?;
    let offered = call.reply_chunk()?;
    let mut written = server.write_chunk(offered, &call.reduced_reply().0)?;
    written.retain(|segment| segment.length > 0);
    expect_eq("an unused segment", written.len() < offered.len(), true)?;
    let lists = ChunkLists::with_reply(Some(written));
    server.send(&call.message(RDMA_NOMSG, &lists, &[]))?;
    server.client_succeeds(&nfs3::entry_names())?;
    server.has_connected(1)
}

// Shows S4.5-04, ADV-50.
fn adv50_write_chunk_with_another_handle_or_offset() -> Outcome {
    drops_changed_chunk(|chunk| chunk[0].handle ^= 0x100)?;
    drops_changed_chunk(|chunk| chunk[0].offset += 4)
}

// Shows S4.5-04, ADV-51.
fn adv51_write_chunk_that_was_not_offered() -> Outcome {
    let (mut server, call) = pending_read()?;
    let more = vec![call.write_segment()?.with_length(0)];
    server.client_drops(
        &call,
        &reply_with_chunk(&call, correct_chunk(&call), &[more]),
    )?;
    server.client_succeeds(&nfs3::content())
}

// Shows ADV-52.
fn adv52_write_list_missing() -> Outcome {
    result_comes_inline(|_| ChunkLists::default())
}

/// Expects that the client takes a READ whose data come inline, after a header with these chunk lists.
fn result_comes_inline(lists: fn(&Call) -> ChunkLists) -> Outcome {
    let (mut server, call) = pending_read()?;
    // The client reads the rest after a short READ.
    let (_, data) = call.reduced_reply();
    let payload = [&payload_with_count(&call, 512), &data[..512]].concat();
    server.send(&call.inline_reply(&lists(&call), &payload))?;
    server.client_succeeds(&nfs3::content())?;
    server.has_connected(1)
}

/// Expects that the client drops a reply to a READDIR with this procedure and Reply chunk.
fn drops_reply_chunk(
    procedure: u32,
    chunk: impl FnOnce(&[Segment]) -> Option<Vec<Segment>>,
) -> Outcome {
    let (mut server, call) = pending_readdir()?;
    let lists = ChunkLists {
        reply: chunk(call.reply_chunk()?),
        ..call.unused_lists()
    };
    let payload = match procedure {
        RDMA_MSG => wire::reply(call.xid, &[0; 4]),
        _ => vec![],
    };
    server.client_drops(&call, &call.message(procedure, &lists, &payload))?;
    server.client_succeeds(&nfs3::entry_names())?;
    server.has_connected(1)
}

// Shows S4.3.3-05, ADV-55.
fn adv55_inline_reply_that_used_the_reply_chunk() -> Outcome {
    drops_reply_chunk(RDMA_MSG, |chunk| Some(with_written_lengths(chunk, 24)))
}

// Shows S4.2.4-05, S4.2.4-06, ADV-56.
fn adv56_long_reply_with_an_empty_reply_chunk() -> Outcome {
    drops_reply_chunk(RDMA_NOMSG, |chunk| Some(with_written_lengths(chunk, 0)))?;
    drops_reply_chunk(RDMA_NOMSG, |_| None)
}

// Shows S3.5.3-09, ADV-57.
fn adv57_long_reply_without_padding() -> Outcome {
    let (mut server, call) = pending_readdir()?;
    let payload = [&call.reduced_reply().0[..], &[0xFF]].concat();
    let written = server.write_chunk(call.reply_chunk()?, &payload)?;
    let lists = ChunkLists::with_reply(Some(written));
    server.send(&call.message(RDMA_NOMSG, &lists, &[]))?;
    server.client_succeeds(&nfs3::entry_names())?;
    server.has_connected(1)
}

// Shows ADV-58.
fn adv58_long_reply_longer_than_offered() -> Outcome {
    drops_reply_chunk(RDMA_NOMSG, |chunk| {
        let mut chunk = chunk.to_vec();
        chunk.last_mut()?.length += 4;
        Some(chunk)
    })
}

// Shows S3.5.3-08.
fn long_reply_by_the_reply_chunk() -> Outcome {
    let (mut server, call) = pending_readdir()?;
    server.reply(&call)?;
    server.client_succeeds(&nfs3::entry_names())
}

// Shows S2.2.2-03, SEC-30, ADV-62.
fn adv62_duplicate_reply() -> Outcome {
    let (mut server, call) = pending_read()?;
    let reply = server.correct_reply(&call)?;
    server.send(&reply)?;
    server.send(&reply)?;
    server.client_succeeds(&nfs3::content())?;
    server.has_connected(1)
}

/// An RDMA_ERROR with these words after the fixed ones.
fn rdma_error(call: &Call, rest: &[u32]) -> Vec<u8> {
    let mut message = words([call.xid, 1, 32, RDMA_ERROR]);
    message.extend(words(rest));
    message
}

// Shows S3.3.3-05, S4.5-09, N-05, ADV-67.
fn adv67_err_chunk_ends_the_rpc() -> Outcome {
    let (mut server, call) = pending_read()?;
    server.send(&rdma_error(&call, &[2]))?;
    // The NFS client may make another RPC of it, but must not send this one again.
    server.client_gives_up(procedure::READ, |_, next| {
        expect_eq("the same XID", next.xid == call.xid, false)?;
        Ok(rdma_error(next, &[2]))
    })?;
    server.has_connected(1)
}

// Shows S4.5-09, S4.5.1-03, ADV-71.
fn adv71_err_vers_ends_the_rpc() -> Outcome {
    for versions in [[1, 1], [5, 2]] {
        let mut server = Server::new(kernel_client::idle)?;
        server.client_fails(FIRST_PROCEDURE, |_, call| {
            Ok(rdma_error(call, &[1, versions[0], versions[1]]))
        })?;
    }
    Ok(())
}

/// Expects that the client fails to read if `reply` makes the replies to READ, over one connection.
fn read_fails(reply: impl Fn(&Server, &Call) -> Result<Vec<u8>, String>) -> Outcome {
    let mut server = Server::new(kernel_client::read)?;
    server.client_fails(procedure::READ, reply)?;
    server.has_connected(1)
}

/// The Payload stream of a reply to a READ whose result has `count`, without the data.
fn payload_with_count(call: &Call, count: u32) -> Vec<u8> {
    let (mut payload, _) = call.reduced_reply();
    payload.truncate(payload.len() - 12);
    payload.extend(words([count, 0, count]));
    payload
}

// Shows S6.1-09, ADV-75.
fn adv75_inline_result_despite_a_write_chunk() -> Outcome {
    result_comes_inline(Call::unused_lists)
}

// Shows S4.5-04.
fn repeated_violation_ends_its_rpc_alone() -> Outcome {
    let mut server = Server::new(kernel_client::read_in_vain_and_list)?;
    let mut xid = None;
    for connections in 1..=2 {
        let call = server.serve_until(procedure::READ)?;
        server.has_connected(connections)?;
        expect_eq("XID", call.xid, *xid.get_or_insert(call.xid))?;
        let mut chunk = correct_chunk(&call);
        chunk[0].handle ^= 0x100;
        server.send(&reply_with_chunk(&call, chunk, &[]))?;
        if connections == 1 {
            server.client_waits()?;
            server.disconnect();
        }
    }
    server.client_succeeds(&nfs3::entry_names())?;
    server.has_connected(2)
}

/// A reply to a READ after writing `data` to its chunk, whose result has `count`.
fn reply_with_count(
    server: &Server,
    call: &Call,
    data: &[u8],
    count: usize,
) -> Result<Vec<u8>, String> {
    let Some(chunk) = call.lists.write.first() else {
        // The client reads the rest after a short READ.
        return server.correct_reply(call);
    };
    let lists = ChunkLists {
        write: vec![server.write_chunk(chunk, data)?],
        ..call.unused_lists()
    };
    Ok(call.inline_reply(&lists, &payload_with_count(call, count as u32)))
}

// Shows S3.4.6.2-03, ADV-76.
fn adv76_result_length_differs_from_its_write_chunk() -> Outcome {
    for difference in [-4, 4] {
        read_fails(|server, call| {
            let (_, data) = call.reduced_reply();
            let count = data.len().saturating_add_signed(difference);
            reply_with_count(server, call, &data, count)
        })?;
    }
    Ok(())
}

// Shows SEC-25.
fn sec25_no_data_beyond_what_was_written() -> Outcome {
    read_fails(|server, call| {
        let (_, data) = call.reduced_reply();
        // The result counts all data, and half of them were written.
        reply_with_count(server, call, &data[..data.len() / 2], data.len())
    })
}

// Shows S3.4.6.2-02.
fn padding_in_a_write_chunk_is_ignored() -> Outcome {
    let (mut server, call) = pending_read()?;
    let (_, mut data) = call.reduced_reply();
    let length = data.len();
    // A short READ, whose data are written together with their XDR padding.
    data[length - 3..].fill(0xFF);
    let reply = reply_with_count(&server, &call, &data, length - 3)?;
    server.send(&reply)?;
    server.client_succeeds(&nfs3::content())?;
    server.has_connected(1)
}

/// Returns what nfs-ganesha (6.5) adds to data of this length in place of XDR padding: as many bytes as that is more than a
/// multiple of four.
fn ganesha_padding(length: usize) -> Vec<u8> {
    vec![0xFF; length % 4]
}

// Shows S3.4.6.2-02.
fn wrong_padding_in_a_write_chunk_is_ignored() -> Outcome {
    for short in [1, 2, 3] {
        let (mut server, call) = pending_read()?;
        // A short READ: the client reads the rest.
        let data = call.reduced_reply().1;
        let length = data.len() - 4 - short;
        let written = [&data[..length], &ganesha_padding(length)].concat();
        let reply = reply_with_count(&server, &call, &written, length)?;
        server.send(&reply)?;
        server.client_succeeds(&nfs3::content())?;
        server.has_connected(1)?;
    }
    Ok(())
}

// Shows S2.2.4.2-01.
fn wrong_padding_of_an_inline_result_is_ignored() -> Outcome {
    for length in [509, 510, 511] {
        let (mut server, call) = pending_read()?;
        let data = call.reduced_reply().1;
        let payload = payload_with_count(&call, length as u32);
        let payload = [&payload, &data[..length], &ganesha_padding(length)].concat();
        server.send(&call.inline_reply(&call.unused_lists(), &payload))?;
        server.client_succeeds(&nfs3::content())?;
        server.has_connected(1)?;
    }
    Ok(())
}

/// The client sends a call again whose arguments are garbage, or whose reply makes no sense, twice.
// Shows S3.3.1-16.
fn refused_call_is_sent_again_over_the_same_connection() -> Outcome {
    const GARBAGE_ARGS: u32 = 4;
    const NO_SUCH_STATUS: u32 = 99;
    let (mut server, mut call) = pending_read()?;
    for status in [GARBAGE_ARGS, NO_SUCH_STATUS] {
        let payload = words([call.xid, 1, 0, 0, 0, status]);
        server.send(&call.inline_reply(&call.unused_lists(), &payload))?;
        let again = server.serve_until(procedure::READ)?;
        expect_eq("XID", again.xid, call.xid)?;
        call = again;
    }
    server.reply(&call)?;
    server.client_succeeds(&nfs3::content())?;
    server.has_connected(1)
}

// Shows S4.3.2.2-05, S4.3.2.2-06, SEC-25, ADV-77.
fn adv77_failed_read_after_an_rdma_write() -> Outcome {
    read_fails(|server, call| {
        server.write_chunk(&call.lists.write[0], &[0x5A; 4096])?;
        Ok(call.failed_reply())
    })
}

// Shows P-01.
fn p01_client_sends_private_data() -> Outcome {
    let mut server = Server::new(kernel_client::idle)?;
    let call = server.serve_until(FIRST_PROCEDURE)?;
    let private = server.connection()?.private.get(..5).map(<[u8]>::to_vec);
    let expected = vec![0xf6, 0xab, 0x0e, 0x18, 1];
    expect_eq("private data", private, Some(expected))?;
    server.reply(&call)?;
    server.client_succeeds(&[])
}

// Shows S3.3.1-17, S4.2.1-01, N-17, ADV-104.
fn adv104_no_reply() -> Outcome {
    let (mut server, call) = pending_read()?;
    // After its timeout the client sends the call again, over another connection.
    let again = server.serve_until(procedure::READ)?;
    expect_eq("XID", again.xid, call.xid)?;
    server.has_connected(2)?;
    server.reply(&again)?;
    server.client_succeeds(&nfs3::content())
}
