// SPDX-License-Identifier: GPL-2.0

//! The longest calls and replies, for a server that takes 4 MiB, and messages of 64 KiB: the defaults are less, and no client of Linux
//! asks for more than 1 MiB.

use super::target::target;
use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::Client;
use crate::client::PRIVATE_DATA;
use crate::message::parse_inline;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::nfs4;
use crate::nfs4::read;
use crate::nfs4::write;
use crate::nfs4::write_reduced;
use crate::nfs4::Results;
use crate::verbs::Access;
use crate::verbs::Options;
use std::net::SocketAddrV4;

cases![ServerCase:
    large_write,
    large_call_in_a_position_zero_chunk,
    large_reads_at_any_offset,
    large_list_of_segments,
];

/// The longest result of a READ. A WRITE may be longer: the server takes messages of another page.
const MOST: usize = 4 << 20;

/// No multiple of a page or of an XDR unit.
const LENGTH: usize = MOST + 3;

/// Data in which each unit says where it belongs, and to which case.
fn data(seed: u32) -> Vec<u8> {
    let words = (0..LENGTH.div_ceil(4) as u32).map(|at| at.wrapping_mul(0x9E37_79B1) ^ seed);
    let mut bytes: Vec<_> = words.flat_map(u32::to_be_bytes).collect();
    bytes.truncate(LENGTH);
    bytes
}

/// Expects the same bytes, of which a failure names the first that is not.
fn expect_same(what: &str, got: &[u8], expected: &[u8]) -> Outcome {
    expect_eq(&format!("{what}: length"), got.len(), expected.len())?;
    let at = got
        .iter()
        .zip(expected)
        .position(|(got, expected)| got != expected);
    expect_eq(&format!("{what}: first wrong byte"), at, None)
}

/// Sends a Call whose only operation is a WRITE of everything.
fn writes(client: &Client, message: &[u8]) -> Outcome {
    let reply = client.call(message)?;
    let (_, payload) = parse_inline(&reply.bytes)?;
    let mut results = Results::new(payload)?;
    expect_eq("written", results.written()? as usize, LENGTH)?;
    results.end()
}

/// Reads `count` bytes at `offset`, of which `expected` come, into a Write chunk of two segments. What is behind these is not written.
fn reads(client: &Client, offset: usize, count: usize, expected: &[u8]) -> Outcome {
    let region = target(client, count)?;
    let first = count / 3;
    let segments = [
        Segment::of(&region, 0, first),
        Segment::of(&region, first, count - first),
    ];
    let lists = ChunkLists::with_write(&[&segments]);
    let operation = read(offset as u32, count as u32);
    let reply = client.compound(&lists, &[operation])?;
    let (_, payload) = parse_inline(&reply.bytes)?;
    let mut results = Results::new(payload)?;
    expect_eq("read", results.read_reduced()? as usize, expected.len())?;
    results.end()?;
    let mut whole = expected.to_vec();
    whole.resize(count, super::target::UNWRITTEN);
    let what = format!("{count} bytes at {offset}");
    expect_same(&what, &region.bytes(0, count), &whole)
}

/// Expects that the file begins with all of `data`.
fn file_has(client: &Client, data: &[u8]) -> Outcome {
    let (most, rest) = data.split_at(MOST);
    reads(client, 0, LENGTH, most)?;
    reads(client, MOST, rest.len(), rest)
}

/// A Read chunk of 1,025 pages.
fn large_write(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    for seed in [1, 2] {
        let data = data(seed);
        let region = client.region_with(&data, Access::Read)?;
        let xid = client.xid();
        let call = nfs4::compound(xid, &[write_reduced(0, LENGTH as u32)]);
        let lists = ChunkLists::with_read_segment(call.positions[0], Segment::all_of(&region));
        writes(&client, &client.inline_call(xid, &lists, &call.bytes))?;
        file_has(&client, &data)?;
    }
    client.null_call_succeeds()
}

/// The same WRITE without reduction, so that its data begin within a page.
fn large_call_in_a_position_zero_chunk(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = data(3);
    let xid = client.xid();
    let call = nfs4::compound(xid, &[write(0, &data)]);
    let whole = client.region_with(&call.bytes, Access::Read)?;
    let lists = ChunkLists::with_read_segment(0, Segment::all_of(&whole));
    writes(&client, &client.long_call(xid, &lists))?;
    file_has(&client, &data)?;
    client.null_call_succeeds()
}

/// The pages of a file are sent as they are, and so 1,025 of them unless the data begin with one.
fn large_reads_at_any_offset(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = data(4);
    let region = client.region_with(&data, Access::Read)?;
    let xid = client.xid();
    let call = nfs4::compound(xid, &[write_reduced(0, LENGTH as u32)]);
    let lists = ChunkLists::with_read_segment(call.positions[0], Segment::all_of(&region));
    writes(&client, &client.inline_call(xid, &lists, &call.bytes))?;
    for offset in [0, 1, 3] {
        reads(&client, offset, MOST, &data[offset..offset + MOST])?;
    }
    // Past the end.
    reads(&client, 4095, MOST, &data[4095..])?;
    client.null_call_succeeds()
}

/// As many segments as a message of 64 KiB has room for. What the server lists of each is more than it finds contiguous pages for, if
/// memory is fragmented.
fn large_list_of_segments(server: SocketAddrV4) -> Outcome {
    const SEGMENTS: usize = 2_600;
    let options = Options {
        private: [&PRIVATE_DATA[..6], &[63, 63]].concat(),
        receive_len: 65_536,
        ..Options::default()
    };
    let client = Client::ready_with(server, &options)?;
    let mut data = data(5);
    data.truncate(SEGMENTS);
    let region = client.region_with(&data, Access::Read)?;
    let xid = client.xid();
    let call = nfs4::compound(xid, &[write_reduced(0, SEGMENTS as u32)]);
    let segment = |at| (call.positions[0], Segment::of(&region, at, 1));
    let lists = ChunkLists::with_read((0..SEGMENTS).map(segment).collect());
    let message = client.inline_call(xid, &lists, &call.bytes);
    expect_eq("a message of 56 KiB", message.len() > 56 << 10, true)?;
    let reply = client.call(&message)?;
    let (_, payload) = parse_inline(&reply.bytes)?;
    expect_eq(
        "written",
        Results::new(payload)?.written()? as usize,
        SEGMENTS,
    )?;
    client.file_has(0, &data)?;
    client.null_call_succeeds()
}
