// SPDX-License-Identifier: GPL-2.0

//! Clients that stop in the middle: what the server has posted for them never completes, or their first message never arrives. The connection ends after the time that
//! `progress_timeout` says, which `selftests/vm/peer.sh` sets.

use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::options;
use crate::client::Client;
use crate::message::ChunkLists;
use crate::nfs4;
use crate::nfs4::read;
use crate::timeout::scaled;
use crate::verbs::Access;
use crate::verbs::Options;
use std::net::SocketAddrV4;
use std::time::Duration;
use std::time::Instant;

cases![ServerCase:
    reply_that_is_never_taken_ends_the_connection,
    long_reply_that_is_never_taken_ends_the_connection,
    reads_that_are_never_answered_end_the_connection,
    reads_that_are_never_answered_hold_no_thread,
    silence_after_connecting_ends_the_connection,
    first_half_of_a_message_does_not_keep_the_connection,
];

/// Where the cases write: behind what other cases read.
const OFFSET: u32 = 1 << 20;

/// Longer than `progress_timeout`, and shorter than what a device takes to give up that was asked to wait for long.
fn deadline() -> Duration {
    scaled(Duration::from_secs(14))
}

/// Options of a client that asks the server to try for hours.
fn patient() -> Options {
    Options {
        ack_timeout: Some(31),
        ..options()
    }
}

/// Expects that the server ends the connection, but not at once.
fn is_ended(server: SocketAddrV4, client: &Client) -> Outcome {
    let start = Instant::now();
    let lost = client.connection.is_lost_within(deadline());
    expect_eq("connection lost", lost, true)?;
    if start.elapsed() < Duration::from_secs(2) {
        return Err(format!("lost at once: {:?}", client.connection.lost()));
    }
    Client::new(server)?.null_call_succeeds()
}

/// One Send, which asks for no completion, and no other follows.
// Shows SEC-26.
fn reply_that_is_never_taken_ends_the_connection(server: SocketAddrV4) -> Outcome {
    let client = Client::with(server, &options().with_receives(0))?;
    client.send(&client.null_call().1)?;
    is_ended(server, &client)
}

/// A Send with data from pages.
// Shows SEC-26.
fn long_reply_that_is_never_taken_ends_the_connection(server: SocketAddrV4) -> Outcome {
    let client = Client::with(server, &options().with_receives(0))?;
    let call = nfs4::compound(client.xid(), &[read(0, 3000)]);
    let [xid] = crate::message::head(&call.bytes).ok_or("no XID")?;
    client.send(&client.inline_call(xid, &ChunkLists::default(), &call.bytes))?;
    is_ended(server, &client)
}

// Shows SEC-26.
fn reads_that_are_never_answered_end_the_connection(server: SocketAddrV4) -> Outcome {
    is_ended(server, &silent_in_the_middle(server, 1)?)
}

/// One that has called before may be idle for as long.
// Shows SEC-26.
fn silence_after_connecting_ends_the_connection(server: SocketAddrV4) -> Outcome {
    let idle = Client::new(server)?;
    let client = Client::with(server, &options())?;
    is_ended(server, &client)?;
    idle.null_call_succeeds()
}

/// The device sends packets of a message until its memory ends, and nothing after that. A device that looks at the whole message before
/// it sends the first packet does not send the half.
// Shows SEC-26.
fn first_half_of_a_message_does_not_keep_the_connection(server: SocketAddrV4) -> Outcome {
    const HALF: usize = 4096;
    let client = Client::with(server, &options())?;
    let memory = client.region(HALF, Access::Local)?;
    let start = Instant::now();
    let sent = client.connection.send_beyond(&memory, 2 * HALF);
    sent.map_err(|error| error.to_string())?;
    let ended = client.connection.is_disconnected_within(deadline());
    expect_eq("disconnected", ended, true)?;
    let early = start.elapsed() < Duration::from_secs(2);
    expect_eq("disconnected for another reason", early, false)?;
    Client::new(server)?.null_call_succeeds()
}

/// More long WRITEs than the server has threads. Nothing of them keeps another client waiting.
// Shows SEC-26.
fn reads_that_are_never_answered_hold_no_thread(server: SocketAddrV4) -> Outcome {
    let other = Client::new(server)?;
    let client = silent_in_the_middle(server, 8)?;
    let mut slowest = Duration::ZERO;
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        let start = Instant::now();
        other.null_call_succeeds()?;
        slowest = slowest.max(start.elapsed());
    }
    println!("the slowest call of the other took {slowest:?}");
    expect_eq("slow", slowest > scaled(Duration::from_secs(2)), false)?;
    let lost = client.connection.is_lost_within(deadline());
    expect_eq("connection lost", lost, true)?;
    other.null_call_succeeds()
}

/// A client that has asked for `calls` long WRITEs, of which at least one waits for Reads that are never answered, since the device is
/// silent. The server may be faster than this process, so this is tried again.
fn silent_in_the_middle(server: SocketAddrV4, calls: usize) -> Result<Client, String> {
    const LONG: usize = 1 << 20;
    const ATTEMPTS: usize = 20;
    for _ in 0..ATTEMPTS {
        let client = Client::ready_with(server, &patient())?;
        let region = client.region(LONG, Access::Both)?;
        let answered = client.connection.arrived();
        for _ in 0..calls {
            client.send_long_write(OFFSET, &region)?;
        }
        client.falls_silent()?;
        if client.connection.arrived() < answered + calls {
            return Ok(client);
        }
    }
    Err("the server is always faster".into())
}
