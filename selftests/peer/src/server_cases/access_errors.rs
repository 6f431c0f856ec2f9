// SPDX-License-Identifier: GPL-2.0

//! Calls whose memory the server could not access, sent again over another connection (RFC 8166,
//! section 4.5.3).

use super::target::expect_written;
use super::target::target;
use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::options;
use crate::client::Client;
use crate::message::expect_null_reply;
use crate::message::head;
use crate::message::parse_inline;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::message::RDMA_MSG;
use crate::nfs4;
use crate::nfs4::read;
use crate::nfs4::write_reduced;
use crate::nfs4::Results;
use crate::timeout::scaled;
use crate::verbs::Access;
use crate::verbs::Options;
use crate::verbs::Region;
use std::net::SocketAddrV4;
use std::time::Duration;

cases![ServerCase:
    s453_call_with_an_access_error_gets_err_chunk,
    s453_flushed_call_gets_no_error,
];

/// A READ and a WRITE with a handle that is no longer valid, and the same with one that is.
// Shows S4.5.3-04, S8.1.4-02.
fn s453_call_with_an_access_error_gets_err_chunk(server: SocketAddrV4) -> Outcome {
    for operation in [read(0, 3000), write_reduced(0, 3000)] {
        let client = Client::new(server)?;
        let data = client.read(0, 3000)?;
        let xid = client.xid();
        let call = nfs4::compound(xid, &[operation]);
        let message = |segment| {
            let lists = match call.positions.first() {
                Some(position) => ChunkLists::with_read_segment(*position, segment),
                None => ChunkLists::with_write(&[&[segment]]),
            };
            client.inline_call(xid, &lists, &call.bytes)
        };
        let invalid = Segment::all_of(&target(&client, 3000)?);
        client.send(&message(invalid))?;
        client.loses_connection()?;
        // The server hears of it a little later.
        std::thread::sleep(scaled(Duration::from_millis(100)));
        // The second time, it does not try.
        let again = Client::new(server)?;
        again.gets_err_chunk(&message(invalid))?;
        // That was the reply to the call. The next call with the same XID is another one.
        let region = again.region_with(&data, Access::Both)?;
        let reply = again.call(&message(Segment::all_of(&region)))?;
        let [_, _, _, procedure] = head(&reply.bytes).ok_or("a short reply")?;
        expect_eq("procedure", procedure, RDMA_MSG)?;
        again.file_has(0, &data)?;
    }
    Ok(())
}

/// A WRITE whose first RDMA Read is denied and whose last one is flushed, and a READ whose reply is
/// after these in the server's Send queue, and is flushed. The client sends both again.
// Shows S4.5.3-04.
fn s453_flushed_call_gets_no_error(server: SocketAddrV4) -> Outcome {
    let data = Client::new(server)?.read(0, 3000)?;
    let options = Options {
        delay_receives: true,
        ..options()
    };
    let client = Client::with(server, &options)?;
    let (first, null) = client.null_call();
    let (denied, flushed) = (client.xid(), client.xid());

    let call = nfs4::compound(flushed, &[read(0, 3000)]);
    let read_call = |region: &Region| {
        let lists = ChunkLists::with_write(&[&[Segment::all_of(region)]]);
        client.inline_call(flushed, &lists, &call.bytes)
    };
    let region = target(&client, 3000)?;

    let call = nfs4::compound(denied, &[write_reduced(0, 3000)]);
    let position = call.positions[0];
    let rest = [
        client.region(1000, Access::Read)?,
        client.region(1000, Access::Read)?,
    ];
    let invalid = Segment::all_of(&target(&client, 1000)?);
    let segments = [invalid]
        .into_iter()
        .chain(rest.iter().map(Segment::all_of));
    let lists = ChunkLists::with_read(segments.map(|segment| (position, segment)).collect());
    let write_call = client.inline_call(denied, &lists, &call.bytes);

    // The Send queue waits for the reply to the first call, as no Receive is posted.
    for message in [&null, &write_call, &read_call(&region)] {
        client.send(message)?;
        std::thread::sleep(scaled(Duration::from_millis(500)));
    }
    let posted = client.connection.post_receives();
    posted.map_err(|error| error.to_string())?;
    expect_null_reply(&client.receive()?, first)?;
    client.loses_connection()?;

    let again = Client::new(server)?;
    let region = target(&again, 3000)?;
    let reply = again.call(&read_call(&region))?;
    let (_, payload) = parse_inline(&reply.bytes)?;
    expect_eq("count", Results::new(payload)?.read_reduced()?, 3000)?;
    expect_written(&region, &data)?;
    again.gets_err_chunk(&write_call)?;
    again.file_has(0, &data)
}
