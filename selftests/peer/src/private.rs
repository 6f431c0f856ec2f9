// SPDX-License-Identifier: GPL-2.0

//! What a client says of itself when it connects (RFC 8797), and what the server makes of it.

use super::bench::is_err_chunk;
use super::bench::same;
use super::bench::split;
use super::bench::Bench;
use super::bench::Lists;
use super::bench::Segment;
use super::bench::Verdict;
use super::calls::cases;
use super::nfs;
use super::nfs::Operation;
use super::verbs::Options;
use std::net::SocketAddrV4;

cases![
    adv108_malformed_private_data,
    p03_trailing_bytes_are_ignored,
    p04_reserved_flags_are_ignored,
    p08_no_remote_invalidation_without_agreement,
    p09_remote_invalidation_of_a_handle_of_the_call,
    p12_server_keeps_its_own_send_size,
    p13_client_receive_size_bounds_replies,
];

const IDENTIFIER: [u8; 4] = [0xf6, 0xab, 0x0e, 0x18];

/// A block of version 1 with these flags and sizes.
fn block(flags: u8, send: u8, receive: u8) -> Vec<u8> {
    let mut block = IDENTIFIER.to_vec();
    block.extend([1, flags, send, receive]);
    block
}

fn client(server: SocketAddrV4, private: &[u8]) -> Result<Bench, String> {
    let options = Options {
        private: private.to_vec(),
        receive_len: 65_536,
        ..Options::default()
    };
    let bench = Bench::with(server, &options)?;
    bench.survives()?;
    Ok(bench)
}

/// Whether READs of `count` bytes come inline; otherwise they are refused.
fn comes_inline(bench: &Bench, count: u32) -> Result<bool, String> {
    let xid = bench.xid();
    let call = nfs::compound(xid, &[Operation::Read { offset: 0, count }]);
    let reply = bench.ask(&bench.message(xid, 0, &Lists::default(), &call.bytes))?;
    if is_err_chunk(&reply, xid).is_ok() {
        return Ok(false);
    }
    split(&reply.bytes).map(|(procedure, ..)| procedure == 0)
}

fn adv108_malformed_private_data(server: SocketAddrV4) -> Verdict {
    let [a, b, c, d] = IDENTIFIER;
    let absent: &[&[u8]] = &[
        &[],
        &[a, b, c, d, 1, 1, 3],
        &[d, c, b, a, 1, 1, 3, 3],
        &[a, b, c, d, 0, 1, 3, 3],
        &[a, b, c, d, 2, 1, 3, 3],
        &[0xFF; 8],
        &[0; 56],
    ];
    for private in absent {
        let inline = comes_inline(&client(server, private)?, 1500)?;
        same(&format!("{private:x?}: 1,500 bytes inline"), inline, false)?;
    }
    same(
        "4 KiB: 1,500 bytes inline",
        comes_inline(&client(server, &block(0, 3, 3))?, 1500)?,
        true,
    )
}

fn p03_trailing_bytes_are_ignored(server: SocketAddrV4) -> Verdict {
    let mut private = block(0, 3, 3);
    private.resize(56, 0xEE);
    same(
        "1,500 bytes inline",
        comes_inline(&client(server, &private)?, 1500)?,
        true,
    )
}

/// The key that a reply to a READ into a window invalidates, and the window's.
fn invalidated(server: SocketAddrV4, private: &[u8]) -> Result<(Option<u32>, u32), String> {
    let bench = client(server, private)?;
    let data = bench.read(0, 500)?;
    let window = bench
        .connection
        .window(500)
        .map_err(|error| error.to_string())?;
    let lists = Lists {
        write: vec![vec![Segment::through(&window)]],
        ..Lists::default()
    };
    let read = Operation::Read {
        offset: 0,
        count: 500,
    };
    let reply = bench.compound(&lists, &[read])?;
    split(&reply.bytes)?;
    same("data", window.region().bytes(0, 500), data)?;
    bench.survives()?;
    Ok((reply.invalidates, window.key))
}

fn p04_reserved_flags_are_ignored(server: SocketAddrV4) -> Verdict {
    let (key, _) = invalidated(server, &block(0xFE, 3, 3))?;
    same("without R", key, None)?;
    let (key, named) = invalidated(server, &block(0xFF, 3, 3))?;
    same("with R", key.unwrap_or(named), named)
}

fn p08_no_remote_invalidation_without_agreement(server: SocketAddrV4) -> Verdict {
    for private in [&[][..], &block(0, 3, 3)] {
        let (key, _) = invalidated(server, private)?;
        same("invalidated", key, None)?;
    }
    Ok(())
}

fn p09_remote_invalidation_of_a_handle_of_the_call(server: SocketAddrV4) -> Verdict {
    let (key, named) = invalidated(server, &block(1, 3, 3))?;
    same("invalidated", key, Some(named))
}

fn p12_server_keeps_its_own_send_size(server: SocketAddrV4) -> Verdict {
    let bench = client(server, &block(1, 0xFF, 0xFF))?;
    let own = 1024 * (1 + u32::from(*bench.connection.private.get(6).ok_or("no private data")?));
    same("more than a Send", comes_inline(&bench, own)?, false)?;
    same("less", comes_inline(&bench, own / 2)?, true)?;
    bench.survives()
}

fn p13_client_receive_size_bounds_replies(server: SocketAddrV4) -> Verdict {
    let bench = client(server, &block(0, 3, 0))?;
    same("3,000 bytes inline", comes_inline(&bench, 3000)?, false)?;
    same("800 bytes inline", comes_inline(&bench, 800)?, true)
}
