// SPDX-License-Identifier: GPL-2.0

//! Calls with Write chunks and Reply chunks: results, and long replies.

use super::target::expect_written;
use super::target::target;
use super::target::UNWRITTEN;
use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::Client;
use crate::client::PRIVATE_DATA;
use crate::message::expect_err_chunk;
use crate::message::parse_inline;
use crate::message::parse_reply;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::message::RDMA_MSG;
use crate::message::RDMA_NOMSG;
use crate::nfs4;
use crate::nfs4::read;
use crate::nfs4::write_reduced;
use crate::nfs4::Operation;
use crate::nfs4::Results;
use crate::verbs::Access;
use crate::verbs::Options;
use crate::wire;
use std::net::SocketAddrV4;

cases![ServerCase:
    adv45_many_empty_write_chunks,
    adv46_empty_write_chunk_requests_inline_result,
    adv47_write_chunk_of_four_gib,
    adv86_write_chunk_without_remote_write_access,
    adv88_result_longer_than_its_write_chunk,
    adv89_reply_longer_than_its_reply_chunk,
    adv90_reply_longer_than_the_inline_threshold,
    adv100_one_handle_in_two_lists,
    adv109_chunk_lists_that_fill_the_reply,
    call_without_room_for_a_reply_is_not_executed,
    linux_before_4_14_takes_no_unused_reply_chunk,
    long_reply_in_the_reply_chunk,
    n08_results_pair_with_write_chunks_in_order,
    n09_more_results_than_write_chunks,
    n10_failed_read_leaves_its_write_chunk_unused,
    n20_short_read_returns_actual_lengths,
    n21_empty_read_uses_up_its_write_chunk,
    pages_of_an_earlier_reply_are_not_sent,
];

// Shows ADV-45.
fn adv45_many_empty_write_chunks(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let lists = ChunkLists::with_write(&[&[][..]; 120]);
    let xid = client.xid();
    let message = client.inline_call(xid, &lists, &wire::null_call(xid));
    let reply = client.call(&message)?;
    if expect_err_chunk(&reply, xid).is_err() {
        let (returned, payload) = parse_inline(&reply.bytes)?;
        expect_eq("chunk lists", returned, lists.words())?;
        expect_eq("payload", payload, &wire::reply(xid, &[]))?;
    }
    client.null_call_succeeds()
}

// Shows S4.3.2.3-03, S4.3.2.3-04, SEC-24, N-09, ADV-46.
fn adv46_empty_write_chunk_requests_inline_result(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let (data, link) = (client.read(0, 100)?, read_link(&client)?);
    let region = target(&client, 4096)?;
    let lists = ChunkLists::with_write(&[&[], &[Segment::all_of(&region)]]);
    let reply = client.compound(&lists, &[read(0, 100), Operation::Readlink])?;
    let (returned, payload) = parse_inline(&reply.bytes)?;
    let expected = ChunkLists::with_write(&[&[], &[Segment::of(&region, 0, link.len())]]);
    expect_eq("chunk lists", returned, expected.words())?;
    let mut results = Results::new(payload)?;
    expect_eq("data", results.read()?, &data)?;
    let length = results.readlink_reduced()? as usize;
    expect_eq("length of the link", length, link.len())?;
    results.end()?;
    expect_written(&region, &link)
}

// Shows S3.4.6-03, ADV-47.
fn adv47_write_chunk_of_four_gib(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = client.read(0, 3000)?;
    let region = target(&client, 8192)?;
    let half = Segment::of(&region, 0, 1 << 31);
    let lists = ChunkLists::with_write(&[&[half, half]]);
    let reply = client.compound(&lists, &[read(0, 3000)])?;
    let (returned, payload) = parse_inline(&reply.bytes)?;
    let expected = ChunkLists::with_write(&[&[half.with_length(3000), half.with_length(0)]]);
    expect_eq("chunk lists", returned, expected.words())?;
    expect_eq("count", Results::new(payload)?.read_reduced()?, 3000)?;
    expect_written(&region, &data)
}

// Shows S4.5.3-01, ADV-86.
fn adv86_write_chunk_without_remote_write_access(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let region = client.region_with(&[UNWRITTEN; 4096], Access::Read)?;
    let lists = ChunkLists::with_write(&[&[Segment::all_of(&region)]]);
    let _ = client.compound(&lists, &[read(0, 3000)]);
    client.loses_connection()?;
    expect_written(&region, &[])?;
    Client::new(server)?.null_call_succeeds()
}

/// Sends a READ of 3,000 bytes with these chunks, and expects ERR_CHUNK.
fn read_gets_err_chunk(client: &Client, lists: &ChunkLists) -> Outcome {
    let xid = client.xid();
    let call = nfs4::compound(xid, &[read(0, 3000)]);
    client.gets_err_chunk(&client.inline_call(xid, lists, &call.bytes))
}

/// A client without private data, so that its inline threshold is 1,024 bytes.
fn client_without_private_data(server: SocketAddrV4) -> Result<Client, String> {
    let options = Options {
        receive_len: 1024,
        ..Options::default()
    };
    Client::ready_with(server, &options)
}

// Shows S4.5.3-03, ADV-88.
fn adv88_result_longer_than_its_write_chunk(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let region = target(&client, 8192)?;
    let lists = ChunkLists::with_write(&[&[Segment::of(&region, 0, 1000)]]);
    read_gets_err_chunk(&client, &lists)?;
    let rest = region.bytes(1000, 7192);
    expect_eq("memory after the chunk", rest, vec![UNWRITTEN; 7192])
}

// Shows S4.5.3-03, ADV-89.
fn adv89_reply_longer_than_its_reply_chunk(server: SocketAddrV4) -> Outcome {
    let client = client_without_private_data(server)?;
    let region = target(&client, 8192)?;
    let chunk = vec![Segment::of(&region, 0, 64)];
    read_gets_err_chunk(&client, &ChunkLists::with_reply(Some(chunk)))?;
    let rest = region.bytes(64, 8128);
    expect_eq("memory after the chunk", rest, vec![UNWRITTEN; 8128])
}

// Shows S3.3.3-01, S3.3.3-09, S4.2.4-11, P-13, ADV-90.
fn adv90_reply_longer_than_the_inline_threshold(server: SocketAddrV4) -> Outcome {
    let client = client_without_private_data(server)?;
    read_gets_err_chunk(&client, &ChunkLists::default())
}

// Shows ADV-100.
fn adv100_one_handle_in_two_lists(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let before = client.read(8192, 512)?;
    let data: Vec<_> = before.iter().map(|byte| byte ^ 0xFF).collect();
    let region = client.region(1024, Access::Both)?;
    region.put(0, &data);
    let xid = client.xid();
    let call = nfs4::compound(xid, &[write_reduced(8192, 512), read(8192, 512)]);
    let lists = ChunkLists {
        read: vec![(call.positions[0], Segment::of(&region, 0, 512))],
        write: vec![vec![Segment::of(&region, 512, 512)]],
        reply: None,
    };
    let reply = client.call(&client.inline_call(xid, &lists, &call.bytes))?;
    let (_, payload) = parse_inline(&reply.bytes)?;
    let mut results = Results::new(payload)?;
    expect_eq("written", results.written()?, 512)?;
    expect_eq("read", results.read_reduced()?, 512)?;
    let invalidated = reply.invalidates.unwrap_or(region.rkey());
    expect_eq("invalidated handle", invalidated, region.rkey())?;
    expect_eq("what was read", region.bytes(512, 512), data)
}

// Shows S4.2.4-11, S4.5.3-03, ADV-109.
fn adv109_chunk_lists_that_fill_the_reply(server: SocketAddrV4) -> Outcome {
    let client = client_without_private_data(server)?;
    let region = target(&client, 4096)?;
    let xid = client.xid();
    let lists = ChunkLists::with_reply(Some(vec![Segment::all_of(&region); 63]));
    client.gets_err_chunk(&client.inline_call(xid, &lists, &wire::null_call(xid)))
}

/// The header of a reply repeats the chunks.
fn call_without_room_for_a_reply_is_not_executed(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let before = client.read(0, 8)?;
    let changed: Vec<_> = before.iter().map(|byte| !byte).collect();
    let segment = Segment::all_of(&target(&client, 8)?);
    let lists = ChunkLists::with_write(&[&[segment; 256]]);
    let xid = client.xid();
    let call = nfs4::compound(xid, &[nfs4::write(0, &changed)]);
    client.gets_err_chunk(&client.inline_call(xid, &lists, &call.bytes))?;
    client.file_has(0, &before)
}

// Shows S3.5.2-02, S3.5.3-07, S3.5.3-08, S4-03, S4.3.2.3-05, S4.3.3-05, S6.1-04.
fn long_reply_in_the_reply_chunk(server: SocketAddrV4) -> Outcome {
    let client = client_without_private_data(server)?;
    let data = [client.read(0, 700)?, client.read(700, 700)?].concat();
    let region = target(&client, 4096)?;
    let first = Segment::of(&region, 0, 1000);
    let second = Segment::of(&region, 1000, 3000);
    let lists = ChunkLists::with_reply(Some(vec![first, second]));
    let reply = client.compound(&lists, &[read(0, 1400)])?;
    let (procedure, returned, payload) = parse_reply(&reply.bytes)?;
    expect_eq("procedure", procedure, RDMA_NOMSG)?;
    expect_eq("inline payload", payload, &[][..])?;
    let [.., length, _, last] = returned[..] else {
        return Err("no chunks".into());
    };
    expect_eq("last word", last, second.offset as u32)?;
    let length = 1000 + length as usize;
    let message = region.bytes(0, length);
    let mut results = Results::new(&message)?;
    expect_eq("data", results.read()?, &data)?;
    results.end()?;
    expect_written(&region, &message)
}

/// Checks what the client of Linux 4.0 to 4.13 takes for a reply: an RDMA_MSG without any Reply chunk in
/// its header, or an RDMA_NOMSG with nothing else there. It announces Receives of 4 KiB at most;
/// whoever announces more gets the shorter form.
// Shows S4.3.3-03, S4.3.3-05.
fn linux_before_4_14_takes_no_unused_reply_chunk(server: SocketAddrV4) -> Outcome {
    let longer = Options {
        private: [&PRIVATE_DATA[..7], &[7]].concat(),
        receive_len: 8192,
        ..Options::default()
    };
    let clients = [
        (
            "no private data",
            client_without_private_data(server)?,
            RDMA_NOMSG,
        ),
        ("4 KiB", Client::new(server)?, RDMA_NOMSG),
        ("8 KiB", Client::ready_with(server, &longer)?, RDMA_MSG),
    ];
    for (receives, client, expected) in clients {
        let data = client.read(0, 100)?;
        let region = target(&client, 4096)?;
        let chunk = Segment::all_of(&region);
        let lists = ChunkLists::with_reply(Some(vec![chunk]));
        let reply = client.compound(&lists, &[read(0, 100)])?;
        let (procedure, returned, payload) = parse_reply(&reply.bytes)?;
        expect_eq(&format!("{receives}: procedure"), procedure, expected)?;
        let message = match procedure {
            RDMA_MSG => payload.to_vec(),
            _ => {
                // A present Reply chunk of one segment, and no Write list.
                let [0, 0, 1, 1, _, length, _, _] = returned[..] else {
                    return Err(format!("chunk lists {returned:x?}"));
                };
                expect_written(&region, &region.bytes(0, length as usize))?;
                region.bytes(0, length as usize)
            }
        };
        let mut results = Results::new(&message)?;
        expect_eq("data", results.read()?, &data)?;
        results.end()?;
        // Where the reply does not fit into the chunk, but into the Send, it is inline.
        let small = ChunkLists::with_reply(Some(vec![chunk.with_length(64)]));
        let reply = client.compound(&small, &[read(0, 100)])?;
        parse_inline(&reply.bytes)?;
        client.null_call_succeeds()?;
    }
    Ok(())
}

/// The text of the link, without chunks.
fn read_link(client: &Client) -> Result<Vec<u8>, String> {
    let reply = client.compound(&ChunkLists::default(), &[Operation::Readlink])?;
    let (_, payload) = parse_inline(&reply.bytes)?;
    Results::new(payload)?.readlink().map(<[u8]>::to_vec)
}

// Shows S2.3.2-04, S3.4.6-06, S3.4.6.2-02, S3.5.2-02, S4.3.2-02, S4.3.2.1-02, S4.3.2.2-01, N-08.
fn n08_results_pair_with_write_chunks_in_order(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let (data, link) = (client.read(0, 999)?, read_link(&client)?);
    let (first, second) = (target(&client, 1024)?, target(&client, 1024)?);
    let lists = |a, b| {
        ChunkLists::with_write(&[&[Segment::of(&first, 0, a)], &[Segment::of(&second, 0, b)]])
    };
    let operations = [read(0, 999), Operation::Readlink];
    let reply = client.compound(&lists(1024, 1024), &operations)?;
    let (returned, payload) = parse_inline(&reply.bytes)?;
    let expected = lists(999, link.len());
    expect_eq("chunk lists", returned, expected.words())?;
    let mut results = Results::new(payload)?;
    expect_eq("count", results.read_reduced()?, 999)?;
    let length = results.readlink_reduced()? as usize;
    expect_eq("length of the link", length, link.len())?;
    results.end()?;
    // No XDR padding is written.
    expect_written(&first, &data)?;
    expect_written(&second, &link)
}

// Shows S4.3.2.1-02, S4.3.2.2-01, N-09.
fn n09_more_results_than_write_chunks(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let (data, link) = (client.read(0, 500)?, read_link(&client)?);
    let region = target(&client, 1024)?;
    let chunk = Segment::all_of(&region);
    let lists = ChunkLists::with_write(&[&[chunk]]);
    let reply = client.compound(&lists, &[read(0, 500), Operation::Readlink])?;
    let (returned, payload) = parse_inline(&reply.bytes)?;
    let expected = ChunkLists::with_write(&[&[chunk.with_length(500)]]);
    expect_eq("chunk lists", returned, expected.words())?;
    let mut results = Results::new(payload)?;
    expect_eq("count", results.read_reduced()?, 500)?;
    expect_eq("link", results.readlink()?, &link)?;
    results.end()?;
    expect_written(&region, &data)
}

// Shows S4.3.2.2-04, SEC-24, N-10.
fn n10_failed_read_leaves_its_write_chunk_unused(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let region = target(&client, 1024)?;
    let chunk = Segment::all_of(&region);
    let lists = ChunkLists::with_write(&[&[chunk]]);
    let reply = client.compound(&lists, &[Operation::ReadWithBadStateid])?;
    let (returned, payload) = parse_inline(&reply.bytes)?;
    let expected = ChunkLists::with_write(&[&[chunk.with_length(0)]]);
    expect_eq("chunk lists", returned, expected.words())?;
    let read = Results::new(payload)?.read_reduced();
    expect_eq("READ succeeded", read.is_ok(), false)?;
    expect_written(&region, &[])
}

// Shows S3.4.6-03, S3.4.6.2-02, SEC-24, N-20.
fn n20_short_read_returns_actual_lengths(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = client.read(65_000, 536)?;
    let region = target(&client, 4096)?;
    let first = Segment::of(&region, 0, 300);
    let second = Segment::of(&region, 300, 3796);
    let lists = ChunkLists::with_write(&[&[first, second]]);
    let reply = client.compound(&lists, &[read(65_000, 4096)])?;
    let (returned, payload) = parse_inline(&reply.bytes)?;
    let expected = ChunkLists::with_write(&[&[first, second.with_length(236)]]);
    expect_eq("chunk lists", returned, expected.words())?;
    expect_eq("count", Results::new(payload)?.read_reduced()?, 536)?;
    expect_written(&region, &data)
}

// Shows N-21.
fn n21_empty_read_uses_up_its_write_chunk(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = client.read(0, 500)?;
    let region = target(&client, 1024)?;
    let first = Segment::of(&region, 512, 512);
    let second = Segment::of(&region, 0, 512);
    let lists = ChunkLists::with_write(&[&[first], &[second]]);
    let reply = client.compound(&lists, &[read(1 << 20, 500), read(0, 500)])?;
    let (returned, payload) = parse_inline(&reply.bytes)?;
    let expected = ChunkLists::with_write(&[&[first.with_length(0)], &[second.with_length(500)]]);
    expect_eq("chunk lists", returned, expected.words())?;
    let mut results = Results::new(payload)?;
    expect_eq("first", results.read_reduced()?, 0)?;
    expect_eq("second", results.read_reduced()?, 500)?;
    results.end()?;
    expect_written(&region, &data)
}

/// nfsd reads the data of a second READ into another page than it sends: what it sends is what that
/// page held before.
// Shows SEC-24.
fn pages_of_an_earlier_reply_are_not_sent(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = client.read(0, 900)?;
    let lists = ChunkLists::default();
    let two_reads = |first, second| client.compound(&lists, &[read(0, first), read(0, second)]);
    // Often enough that each nfsd thread has served one.
    for _ in 0..32 {
        // Data this short are copied to the Send, and two READs are not spliced.
        two_reads(900, 4)?;
        let reply = two_reads(1, 500)?;
        let (_, payload) = parse_inline(&reply.bytes)?;
        let mut results = Results::new(payload)?;
        results.read()?;
        let second = results.read()?;
        // A new page holds zeros, or the pattern of `page_poison`. The correct data would do, too.
        let new = [0, 0xAA].map(|pattern| second.iter().all(|byte| *byte == pattern));
        expect_eq(
            "nothing of another reply",
            new.contains(&true) || data.starts_with(second),
            true,
        )?;
    }
    Ok(())
}
