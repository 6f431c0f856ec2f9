// SPDX-License-Identifier: GPL-2.0

//! Clients that misbehave below RPC-over-RDMA: Sends, Receives, disconnects, the number of connections.

use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::options;
use crate::client::reply_timeout;
use crate::client::Client;
use crate::golden;
use crate::message::expect_null_reply;
use crate::message::ChunkLists;
use crate::message::Segment;
use crate::nfs4;
use crate::nfs4::read;
use crate::nfs4::write_reduced;
use crate::timeout::scaled;
use crate::verbs::Access;
use crate::verbs::Options;
use crate::verbs::Verb;
use crate::verbs::SUCCESS;
use crate::wire;
use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::hash::Hasher;
use std::net::SocketAddrV4;
use std::time::Duration;
use std::time::Instant;

cases![ServerCase:
    adv96_send_longer_than_a_receive,
    adv97_no_receive_posted_for_the_reply,
    adv98_disconnect_during_a_transfer,
    adv105_immediate_data,
    adv110_flipped_bits,
    clients_that_post_no_receives,
    clients_that_post_no_receives_hold_no_thread,
    no_unsolicited_message,
    many_connections,
    many_short_connections,
];

/// A number from the environment.
fn number(name: &str, default: usize) -> usize {
    let value = env::var(name).ok().and_then(|value| value.parse().ok());
    value.unwrap_or(default)
}

/// Connections that post no Receives.
fn without_receives(server: SocketAddrV4, count: usize) -> Result<Vec<Client>, String> {
    let options = options().with_receives(0);
    (0..count).map(|_| Client::with(server, &options)).collect()
}

// Shows S4.5.3-02, P-01, P-07, ADV-96.
fn adv96_send_longer_than_a_receive(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let code = client.connection.private.get(7).ok_or("no private data")?;
    let longest = 1024 * (1 + usize::from(*code));
    let (xid, mut message) = client.null_call();
    message.resize(longest, 0);
    expect_null_reply(&client.call(&message)?, xid)?;
    let (_, mut message) = client.null_call();
    message.resize(longest + 1, 0);
    client.send(&message)?;
    client.loses_connection()?;
    Client::new(server)?.null_call_succeeds()
}

/// Options of a client that posts no Receives: the server's first Send to it ends the connection.
fn no_receives_and_no_retries() -> Options {
    Options {
        rnr_retries: 0,
        ..options().with_receives(0)
    }
}

// Shows S4.5.4-03, ADV-97.
fn adv97_no_receive_posted_for_the_reply(server: SocketAddrV4) -> Outcome {
    let client = Client::with(server, &no_receives_and_no_retries())?;
    client.send(&client.null_call().1)?;
    client.loses_connection()?;
    Client::new(server)?.null_call_succeeds()
}

// Shows S3.3.1-14.
fn no_unsolicited_message(server: SocketAddrV4) -> Outcome {
    let client = Client::with(server, &no_receives_and_no_retries())?;
    let lost = client.connection.is_lost_within(Duration::from_secs(2));
    expect_eq("connection lost", lost, false)
}

fn clients_that_post_no_receives(server: SocketAddrV4) -> Outcome {
    let clients = without_receives(server, 4)?;
    for client in &clients {
        for _ in 0..8 {
            client.send(&client.null_call().1)?;
        }
    }
    // The server serves others while its Sends to these are in flight.
    Client::new(server)?.null_call_succeeds()?;
    std::thread::sleep(Duration::from_secs(1));
    Client::new(server)?.null_call_succeeds()?;
    drop(clients);
    Client::new(server)?.null_call_succeeds()
}

/// More clients than the server has threads (scripts/vm/nfs-server) post no Receives, so that the
/// server's Send queues fill up. No thread waits for them: each call of another client has its reply soon, until the connections
/// of the others have ended.
// Shows SEC-26.
fn clients_that_post_no_receives_hold_no_thread(server: SocketAddrV4) -> Outcome {
    // The server's Send queues are shorter.
    const CALLS: usize = 64;
    let other = Client::new(server)?;
    let clients = without_receives(server, number("PEER_THREADS", 4) + 2)?;
    let mut slowest = Duration::ZERO;
    for _ in 0..CALLS {
        for client in &clients {
            // One call at a time: a Send for which the server has no Receive is not sent again, and ends the connection.
            if client.connection.lost().is_none() {
                let _ = client.send(&client.null_call().1);
            }
        }
        let (xid, message) = other.null_call();
        let start = Instant::now();
        other.send(&message)?;
        let reply = other.receive_within(scaled(Duration::from_secs(90)))?;
        expect_null_reply(&reply, xid)?;
        slowest = slowest.max(start.elapsed());
    }
    for client in &clients {
        client.loses_connection()?;
    }
    other.null_call_succeeds()?;
    println!("the slowest call of the other took {slowest:?}");
    expect_eq("slow", slowest > scaled(Duration::from_secs(3)), false)
}

// Shows S4.5.3-05, ADV-98.
fn adv98_disconnect_during_a_transfer(server: SocketAddrV4) -> Outcome {
    const LONG: u32 = 65_536;
    for round in 0..number("PEER_ROUNDS", 8) {
        // Early in the transfer in the first rounds, late or after it in the last ones.
        let delay = Duration::from_micros(500 * round as u64);
        for verb in [Verb::Read, Verb::Write, Verb::Send] {
            let client = Client::new(server)?;
            let region = client.region(LONG as usize, Access::Both)?;
            let segment = Segment::all_of(&region);
            let xid = client.xid();
            let operation = match verb {
                Verb::Read => {
                    region.put(0, &client.read(0, 2048)?);
                    write_reduced(0, LONG)
                }
                Verb::Write => read(0, LONG),
                _ => read(0, 2048),
            };
            let call = nfs4::compound(xid, &[operation]);
            let lists = match verb {
                Verb::Read => ChunkLists::with_read_segment(call.positions[0], segment),
                Verb::Write => ChunkLists::with_write(&[&[segment]]),
                _ => ChunkLists::default(),
            };
            client.send(&client.inline_call(xid, &lists, &call.bytes))?;
            std::thread::sleep(delay);
            // The memory is deregistered and the connection ended here.
        }
    }
    Client::new(server)?.null_call_succeeds()
}

// Shows ADV-105.
fn adv105_immediate_data(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let (xid, message) = client.null_call();
    let sent = client
        .connection
        .send_as(Verb::SendWithImmediate(7), &message);
    sent.map_err(|error| error.to_string())?;
    match client.connection.receive(reply_timeout()) {
        Some(reply) => expect_null_reply(&reply, xid)?,
        None => client.loses_connection()?,
    }
    let client = Client::new(server)?;
    // The server offers no memory. A Write of no bytes needs none, and uses up a Receive.
    let status = client
        .connection
        .transfer_nothing(Verb::WriteWithImmediate(7));
    let status = status.map_err(|error| error.to_string())?;
    expect_eq("status", status, SUCCESS)?;
    Client::new(server)?.null_call_succeeds()
}

// Shows S8.2.2.4-01, SEC-26, SEC-27, ADV-110.
fn adv110_flipped_bits(server: SocketAddrV4) -> Outcome {
    let mut client = Client::new(server)?;
    let mut sent = 0;
    // One run flips only some of the bits after the XID; another run starts with another bit.
    let step = number("PEER_BITS", 37);
    let first = RandomState::new().build_hasher().finish() as usize % step;
    for (_, vector) in golden::MESSAGES {
        let mut message = wire::hex(vector);
        if message.len() < 68 {
            message.extend(wire::null_call(wire::XID));
        }
        for bit in (32 + first..8 * message.len()).step_by(step) {
            message[bit / 8] ^= 1 << (bit % 8);
            if client.send(&message).is_err() || client.connection.lost().is_some() {
                client = Client::new(server)?;
            }
            message[bit / 8] ^= 1 << (bit % 8);
            sent += 1;
            // Other cases are about the replies.
            while client
                .connection
                .receive(Duration::from_millis(5))
                .is_some()
            {}
        }
    }
    expect_eq("no bit flipped", sent == 0, false)?;
    let works = Client::new(server)?.null_call_succeeds();
    works.map_err(|error| format!("from bit {first} on: {error}"))
}

// Shows SEC-26.
fn many_connections(server: SocketAddrV4) -> Outcome {
    let options = options().with_receives(2);
    let connect = || {
        let client = Client::with(server, &options)?;
        // sunrpc keeps only 64 connections of clients that have not used a file handle.
        client.read(0, 8).map(|_| client)
    };
    let count = number("PEER_CONNECTIONS", 50);
    let clients: Vec<_> = (0..count).map(|_| connect()).collect::<Result<_, _>>()?;
    for client in clients.iter().chain(&clients) {
        client.null_call_succeeds()?;
    }
    Ok(())
}

/// Some clients wait for a reply, some disconnect before it, some send nothing.
// Shows S4.5.3-05, SEC-26.
fn many_short_connections(server: SocketAddrV4) -> Outcome {
    for round in 0..number("PEER_CONNECTS", 40) {
        let client = Client::with(server, &options().with_receives(2))?;
        match round % 3 {
            0 => client.null_call_succeeds()?,
            1 => client.send(&client.null_call().1)?,
            _ => (),
        }
    }
    Client::new(server)?.null_call_succeeds()
}
