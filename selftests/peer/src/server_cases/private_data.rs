// SPDX-License-Identifier: GPL-2.0

//! CM private data of a client (RFC 8797): inline thresholds and remote invalidation.

use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::Client;
use crate::message::expect_err_chunk;
use crate::message::parse_reply;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::message::RDMA_MSG;
use crate::nfs4;
use crate::nfs4::read;
use crate::verbs::Options;
use std::net::SocketAddrV4;

cases![ServerCase:
    adv108_malformed_private_data,
    p03_trailing_bytes_are_ignored,
    p04_reserved_flags_are_ignored,
    p08_no_remote_invalidation_without_agreement,
    p09_remote_invalidation_of_a_handle_of_the_call,
    p12_server_keeps_its_own_send_size,
    p13_client_receive_size_bounds_replies,
];

/// The format identifier (RFC 8797, section 4).
const IDENTIFIER: [u8; 4] = [0xf6, 0xab, 0x0e, 0x18];

/// Private data of version 1 with these flags and sizes.
fn private_data(flags: u8, send: u8, receive: u8) -> Vec<u8> {
    let mut private = IDENTIFIER.to_vec();
    private.extend([1, flags, send, receive]);
    private
}

/// A client with this private data.
fn client_with(server: SocketAddrV4, private: &[u8]) -> Result<Client, String> {
    let options = Options {
        private: private.to_vec(),
        receive_len: 65_536,
        ..Options::default()
    };
    Client::ready_with(server, &options)
}

/// Whether the reply to a READ of `count` bytes is inline. Otherwise the reply is ERR_CHUNK.
fn reply_is_inline(client: &Client, count: u32) -> Result<bool, String> {
    let xid = client.xid();
    let call = nfs4::compound(xid, &[read(0, count)]);
    let reply = client.call(&client.inline_call(xid, &ChunkLists::default(), &call.bytes))?;
    if expect_err_chunk(&reply, xid).is_ok() {
        return Ok(false);
    }
    parse_reply(&reply.bytes).map(|(procedure, ..)| procedure == RDMA_MSG)
}

// Shows S3.3.3-09, SEC-29, P-02, ADV-108.
fn adv108_malformed_private_data(server: SocketAddrV4) -> Outcome {
    let [a, b, c, d] = IDENTIFIER;
    let malformed: &[&[u8]] = &[
        &[],
        &[a, b, c, d, 1, 1, 3],
        &[d, c, b, a, 1, 1, 3, 3],
        &[a, b, c, d, 0, 1, 3, 3],
        &[a, b, c, d, 2, 1, 3, 3],
        &[0xFF; 8],
        &[0; 56],
    ];
    for private in malformed {
        let inline = reply_is_inline(&client_with(server, private)?, 1500)?;
        expect_eq(&format!("{private:x?}: 1,500 bytes inline"), inline, false)?;
    }
    let inline = reply_is_inline(&client_with(server, &private_data(0, 3, 3))?, 1500)?;
    expect_eq("4 KiB: 1,500 bytes inline", inline, true)
}

// Shows P-03.
fn p03_trailing_bytes_are_ignored(server: SocketAddrV4) -> Outcome {
    let mut private = private_data(0, 3, 3);
    private.resize(56, 0xEE);
    let inline = reply_is_inline(&client_with(server, &private)?, 1500)?;
    expect_eq("1,500 bytes inline", inline, true)
}

/// The handle that the reply to a READ invalidates, and the handle of its Write chunk, a memory window.
fn invalidated(server: SocketAddrV4, private: &[u8]) -> Result<(Option<u32>, u32), String> {
    let client = client_with(server, private)?;
    let data = client.read(0, 500)?;
    let window = client.connection.window(500);
    let window = window.map_err(|error| error.to_string())?;
    let lists = ChunkLists::with_write(&[&[Segment::of_window(&window)]]);
    let reply = client.compound(&lists, &[read(0, 500)])?;
    parse_reply(&reply.bytes)?;
    expect_eq("data", window.region().bytes(0, 500), data)?;
    client.null_call_succeeds()?;
    Ok((reply.invalidates, window.rkey))
}

// Shows P-04.
fn p04_reserved_flags_are_ignored(server: SocketAddrV4) -> Outcome {
    let (handle, _) = invalidated(server, &private_data(0xFE, 3, 3))?;
    expect_eq("without R", handle, None)?;
    let (handle, offered) = invalidated(server, &private_data(0xFF, 3, 3))?;
    expect_eq("with R", handle.unwrap_or(offered), offered)
}

// Shows P-08.
fn p08_no_remote_invalidation_without_agreement(server: SocketAddrV4) -> Outcome {
    for private in [&[][..], &private_data(0, 3, 3)] {
        let (handle, _) = invalidated(server, private)?;
        expect_eq("invalidated", handle, None)?;
    }
    Ok(())
}

// Shows P-09.
fn p09_remote_invalidation_of_a_handle_of_the_call(server: SocketAddrV4) -> Outcome {
    let (handle, offered) = invalidated(server, &private_data(1, 3, 3))?;
    expect_eq("invalidated", handle, Some(offered))
}

// Shows SEC-29, P-12.
fn p12_server_keeps_its_own_send_size(server: SocketAddrV4) -> Outcome {
    let client = client_with(server, &private_data(1, 0xFF, 0xFF))?;
    let own = 1024 * (1 + u32::from(*client.connection.private.get(6).ok_or("no private data")?));
    expect_eq("more than a Send", reply_is_inline(&client, own)?, false)?;
    expect_eq("less", reply_is_inline(&client, own / 2)?, true)?;
    client.null_call_succeeds()
}

// Shows S4.2.4-11, P-13.
fn p13_client_receive_size_bounds_replies(server: SocketAddrV4) -> Outcome {
    let client = client_with(server, &private_data(0, 3, 0))?;
    expect_eq("3,000 bytes inline", reply_is_inline(&client, 3000)?, false)?;
    expect_eq("800 bytes inline", reply_is_inline(&client, 800)?, true)
}
