// SPDX-License-Identifier: GPL-2.0

//! The cost of long payloads for the kernel's server: `peer payload BYTES CALLS` writes and then reads so many bytes of one file, so often and
//! one call at a time, and prints how many nanoseconds a call of each kind takes.

use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::Client;
use crate::message::parse_inline;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::nfs4;
use crate::nfs4::read;
use crate::nfs4::write_reduced;
use crate::nfs4::Results;
use crate::verbs::Access;
use crate::verbs::Region;
use std::net::SocketAddrV4;
use std::time::Instant;

/// A WRITE of what is in `from`, as a Read chunk.
fn writes(client: &Client, from: &Region) -> Outcome {
    let (xid, bytes) = (client.xid(), from.len());
    let call = nfs4::compound(xid, &[write_reduced(0, bytes as u32)]);
    let lists = ChunkLists::with_read_segment(call.positions[0], Segment::all_of(from));
    let reply = client.call(&client.inline_call(xid, &lists, &call.bytes))?;
    let mut results = Results::new(parse_inline(&reply.bytes)?.1)?;
    expect_eq("written", results.written()? as usize, bytes)
}

/// A READ of as much as `to` has room for, into a Write chunk.
fn reads(client: &Client, to: &Region) -> Outcome {
    let bytes = to.len();
    let lists = ChunkLists::with_write(&[&[Segment::all_of(to)]]);
    let reply = client.compound(&lists, &[read(0, bytes as u32)])?;
    let mut results = Results::new(parse_inline(&reply.bytes)?.1)?;
    expect_eq("read", results.read_reduced()? as usize, bytes)
}

/// Prints what a call takes, of so many after the first one.
fn measure(what: &str, calls: u32, call: impl Fn() -> Outcome) -> Outcome {
    call()?;
    let start = Instant::now();
    (0..calls).try_for_each(|_| call())?;
    println!("{what} {}", (start.elapsed() / calls.max(1)).as_nanos());
    Ok(())
}

/// Measures WRITEs, and then READs of what they wrote.
pub fn run(server: SocketAddrV4, bytes: usize, calls: u32) -> Outcome {
    let client = Client::new(server)?;
    let source = client.region_with(&vec![7; bytes], Access::Read)?;
    let sink = client.region(bytes, Access::Both)?;
    measure("write", calls, || writes(&client, &source))?;
    measure("read", calls, || reads(&client, &sink))
}
