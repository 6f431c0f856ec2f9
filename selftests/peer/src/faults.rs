// SPDX-License-Identifier: GPL-2.0

//! Clients that misbehave below the messages: in number, in time, in memory.

use super::bench::head;
use super::bench::inline;
use super::bench::is_null_reply;
use super::bench::patience;
use super::bench::same;
use super::bench::shown;
use super::bench::Bench;
use super::bench::Lists;
use super::bench::Segment;
use super::bench::Verdict;
use super::bench::PRIVATE;
use super::calls::cases;
use super::golden;
use super::nfs;
use super::nfs::Operation;
use super::nfs::Results;
use super::pace::here;
use super::verbs::Access;
use super::verbs::Options;
use super::verbs::Verb;
use super::verbs::SUCCESS;
use super::wire;
use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::hash::Hasher;
use std::net::SocketAddrV4;
use std::time::Duration;
use std::time::Instant;

cases![
    adv15_request_for_zero_credits,
    adv16_request_for_maximum_credits,
    adv94_two_calls_before_the_first_reply,
    adv95_more_calls_than_credits,
    adv96_send_longer_than_a_receive,
    adv97_no_receive_posted_for_the_reply,
    adv98_disconnect_during_a_transfer,
    adv99_same_call_twice,
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

fn null(bench: &Bench) -> (u32, Vec<u8>) {
    let xid = bench.xid();
    (
        xid,
        bench.message(xid, 0, &Lists::default(), &wire::null_call(xid)),
    )
}

/// A NULL call that asks for this many credits.
fn asks_for(server: SocketAddrV4, credits: u32) -> Verdict {
    let bench = Bench::new(server)?;
    let (xid, mut message) = null(&bench);
    message[8..12].copy_from_slice(&credits.to_be_bytes());
    is_null_reply(&bench.ask(&message)?, xid)?;
    bench.survives()
}

fn adv15_request_for_zero_credits(server: SocketAddrV4) -> Verdict {
    asks_for(server, 0)
}

fn adv16_request_for_maximum_credits(server: SocketAddrV4) -> Verdict {
    asks_for(server, u32::MAX)
}

fn many(receives: usize) -> Options {
    Options {
        private: PRIVATE.to_vec(),
        receives,
        ..Options::default()
    }
}

/// All of `count` NULL calls at once are answered, or the connection is lost; another is served.
fn at_once(server: SocketAddrV4, bench: &Bench, count: usize) -> Verdict {
    let calls: Vec<_> = (0..count).map(|_| null(bench)).collect();
    for (_, message) in &calls {
        bench.send(message)?;
    }
    let mut open: Vec<_> = calls.iter().map(|(xid, _)| *xid).collect();
    while !open.is_empty() {
        let Some(reply) = bench.connection.receive(patience()) else {
            if bench.connection.lost().is_some() {
                break;
            }
            return Err(format!("{} calls are not answered", open.len()));
        };
        let xid = head(&reply.bytes).map_or(0, |[xid]| xid);
        let Some(at) = open.iter().position(|call| *call == xid) else {
            return Err(format!("answers nothing: {}", shown(&reply.bytes)));
        };
        is_null_reply(&reply, open.remove(at))?;
    }
    Bench::new(server)?.survives()
}

fn adv94_two_calls_before_the_first_reply(server: SocketAddrV4) -> Verdict {
    at_once(server, &Bench::with(server, &many(8))?, 2)
}

fn adv95_more_calls_than_credits(server: SocketAddrV4) -> Verdict {
    let bench = Bench::with(server, &many(1024))?;
    let (_, message) = null(&bench);
    let reply = bench.ask(&message)?;
    let [_, _, grant] = head(&reply.bytes).ok_or("a short reply")?;
    same("a grant of more than 512", grant > 512, false)?;
    at_once(server, &bench, grant as usize + 1)?;
    let bench = Bench::with(server, &many(1024))?;
    bench.survives()?;
    at_once(server, &bench, 2 * grant as usize)
}

fn adv96_send_longer_than_a_receive(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let code = bench.connection.private.get(7).ok_or("no private data")?;
    let longest = 1024 * (1 + usize::from(*code));
    let (xid, mut message) = null(&bench);
    message.resize(longest, 0);
    is_null_reply(&bench.ask(&message)?, xid)?;
    let (_, mut message) = null(&bench);
    message.resize(longest + 1, 0);
    bench.send(&message)?;
    bench.loses()?;
    Bench::new(server)?.survives()
}

fn adv97_no_receive_posted_for_the_reply(server: SocketAddrV4) -> Verdict {
    let options = Options {
        rnr_retries: 0,
        ..many(0)
    };
    let bench = Bench::with(server, &options)?;
    bench.send(&null(&bench).1)?;
    bench.loses()?;
    Bench::new(server)?.survives()
}

fn clients_that_post_no_receives(server: SocketAddrV4) -> Verdict {
    let benches: Vec<_> = (0..4)
        .map(|_| Bench::with(server, &many(0)))
        .collect::<Result<_, _>>()?;
    for bench in &benches {
        for _ in 0..8 {
            bench.send(&null(bench).1)?;
        }
    }
    // With the server's Sends still in flight, others are served.
    Bench::new(server)?.survives()?;
    std::thread::sleep(Duration::from_secs(1));
    Bench::new(server)?.survives()?;
    drop(benches);
    Bench::new(server)?.survives()
}

/// Each of more clients than the server has threads (scripts/vm/nfs-server) lets all its Sends wait.
/// A thread that has another reply for such a client waits as well, but not for ever.
fn clients_that_post_no_receives_hold_no_thread(server: SocketAddrV4) -> Verdict {
    // The server has room for far fewer Sends.
    const MOST: usize = 1024;
    // Surely not how long a NULL call takes that finds a thread.
    const STALLED: Duration = Duration::from_secs(15);
    let other = Bench::new(server)?;
    let benches: Vec<_> = (0..number("PEER_THREADS", 4) + 2)
        .map(|_| Bench::with(server, &many(0)))
        .collect::<Result<_, _>>()?;
    for _ in 0..MOST {
        // One at a time: a Send for which the server has no Receive is not tried again.
        for bench in &benches {
            bench.send(&null(bench).1)?;
        }
        let (xid, message) = null(&other);
        let start = Instant::now();
        other.send(&message)?;
        is_null_reply(&other.hear_within(here(Duration::from_secs(90)))?, xid)?;
        if start.elapsed() > STALLED {
            let lost = benches.iter().any(|bench| bench.loses().is_ok());
            same("a connection of those is lost", lost, true)?;
            drop(benches);
            return Bench::new(server)?.survives();
        }
    }
    Err(format!("no thread waits for {MOST} Sends"))
}

fn no_unsolicited_message(server: SocketAddrV4) -> Verdict {
    let options = Options {
        rnr_retries: 0,
        ..many(0)
    };
    // Without a Receive, the first message would be the end.
    let bench = Bench::with(server, &options)?;
    let lost = bench.connection.is_lost_within(Duration::from_secs(2));
    same("connection lost", lost, false)
}

fn adv98_disconnect_during_a_transfer(server: SocketAddrV4) -> Verdict {
    const LONG: u32 = 65_536;
    let read = Operation::Read {
        offset: 0,
        count: LONG,
    };
    for round in 0..number("PEER_ROUNDS", 8) {
        // Whether it is early or late in the transfer is for the clock to say.
        let delay = Duration::from_micros(500 * round as u64);
        for what in ["Read", "Write", "Send"] {
            let bench = Bench::new(server)?;
            let region = bench.connection.region(LONG as usize, Access::Both);
            let region = region.map_err(|error| error.to_string())?;
            let whole = vec![Segment::of(&region, 0, LONG as usize)];
            let xid = bench.xid();
            let (operation, lists) = match what {
                "Read" => {
                    let data = bench.read(0, 2048)?;
                    region.put(0, &data);
                    let write = Operation::WriteReduced {
                        offset: 0,
                        count: LONG,
                    };
                    let position = nfs::compound(xid, &[write]).positions[0];
                    let read = vec![(position, whole[0])];
                    (
                        write,
                        Lists {
                            read,
                            ..Lists::default()
                        },
                    )
                }
                "Write" => (
                    read,
                    Lists {
                        write: vec![whole],
                        ..Lists::default()
                    },
                ),
                _ => (
                    Operation::Read {
                        offset: 0,
                        count: 2048,
                    },
                    Lists::default(),
                ),
            };
            let call = nfs::compound(xid, &[operation]);
            bench.send(&bench.message(xid, 0, &lists, &call.bytes))?;
            std::thread::sleep(delay);
            // Region and connection go here, in the middle of it.
        }
    }
    Bench::new(server)?.survives()
}

fn adv99_same_call_twice(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let data = bench.read(0, 1000)?;
    let xid = bench.xid();
    let call = nfs::compound(
        xid,
        &[Operation::Read {
            offset: 0,
            count: 1000,
        }],
    );
    let message = bench.message(xid, 0, &Lists::default(), &call.bytes);
    bench.send(&message)?;
    bench.send(&message)?;
    for _ in 0..2 {
        let reply = bench.hear()?;
        same("transaction", head(&reply.bytes), Some([xid]))?;
        let (_, payload) = inline(&reply.bytes)?;
        same("data", Results::new(payload)?.read()?, &data)?;
    }
    bench.survives()
}

fn adv105_immediate_data(server: SocketAddrV4) -> Verdict {
    let bench = Bench::new(server)?;
    let (xid, message) = null(&bench);
    let sent = bench
        .connection
        .send_as(Verb::SendWithImmediate(7), &message);
    sent.map_err(|error| error.to_string())?;
    match bench.connection.receive(patience()) {
        Some(reply) => is_null_reply(&reply, xid)?,
        None => bench.loses()?,
    }
    let bench = Bench::new(server)?;
    // There is no memory of the server to name; without any, this takes up a Receive.
    let written = bench
        .connection
        .transfer_nothing(Verb::WriteWithImmediate(7));
    same(
        "status",
        written.map_err(|error| error.to_string())?,
        SUCCESS,
    )?;
    Bench::new(server)?.survives()
}

fn adv110_flipped_bits(server: SocketAddrV4) -> Verdict {
    let mut bench = Bench::new(server)?;
    let mut sent = 0;
    // Each of the bits behind the transaction, in the end, but not all in one run.
    let step = number("PEER_BITS", 37);
    let first = RandomState::new().build_hasher().finish() as usize % step;
    for (_, vector) in golden::MESSAGES {
        let mut message = wire::hex(vector);
        if message.len() < 68 {
            message.extend(wire::null_call(wire::XID));
        }
        for bit in (32 + first..8 * message.len()).step_by(step) {
            message[bit / 8] ^= 1 << (bit % 8);
            if bench.send(&message).is_err() || bench.connection.lost().is_some() {
                bench = Bench::new(server)?;
            }
            message[bit / 8] ^= 1 << (bit % 8);
            sent += 1;
            // What comes back is for the other cases to judge.
            while bench.connection.receive(Duration::from_millis(5)).is_some() {}
        }
    }
    same("no bit flipped", sent == 0, false)?;
    let survived = Bench::new(server)?.survives();
    survived.map_err(|error| format!("from bit {first} on: {error}"))
}

fn many_connections(server: SocketAddrV4) -> Verdict {
    let options = many(2);
    let count = number("PEER_CONNECTIONS", 50);
    let open = || {
        let bench = Bench::with(server, &options)?;
        // Of those that never had a file handle, sunrpc keeps 64 connections.
        bench.read(0, 8).map(|_| bench)
    };
    let benches: Vec<_> = (0..count).map(|_| open()).collect::<Result<_, _>>()?;
    for bench in benches.iter().chain(&benches) {
        bench.survives()?;
    }
    Ok(())
}

fn many_short_connections(server: SocketAddrV4) -> Verdict {
    for round in 0..number("PEER_CONNECTS", 40) {
        let bench = Bench::with(server, &many(2))?;
        match round % 3 {
            0 => bench.survives()?,
            1 => bench.send(&null(&bench).1)?,
            _ => (),
        }
    }
    Bench::new(server)?.survives()
}
