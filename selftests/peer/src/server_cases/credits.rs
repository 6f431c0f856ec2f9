// SPDX-License-Identifier: GPL-2.0

//! Credits and XIDs: what a client asks for, and more calls than it may send (RFC 8166, section 3.3.1).

use crate::case::cases;
use crate::case::expect_eq;
use crate::case::Outcome;
use crate::client::options;
use crate::client::reply_timeout;
use crate::client::Client;
use crate::message::expect_null_reply;
use crate::message::head;
use crate::message::hex_words;
use crate::message::parse_inline;
use crate::message::ChunkLists;
use crate::message::RDMA_ERROR;
use crate::message::RDMA_MSG;
use crate::nfs4;
use crate::nfs4::read;
use crate::nfs4::Results;
use crate::wire;
use crate::wire::words;
use std::net::SocketAddrV4;
use std::thread;
use std::time::Duration;

cases![ServerCase:
    adv15_request_for_zero_credits,
    adv16_request_for_maximum_credits,
    adv94_two_calls_before_the_first_reply,
    adv95_more_calls_than_credits,
    adv99_same_call_twice,
    reply_to_no_callback_is_dropped,
    malformed_messages_without_end_end_the_connection,
];

/// A NULL call that asks for this many credits.
fn requests_credits(server: SocketAddrV4, credits: u32) -> Outcome {
    let client = Client::new(server)?;
    let (xid, mut message) = client.null_call();
    message[8..12].copy_from_slice(&credits.to_be_bytes());
    expect_null_reply(&client.call(&message)?, xid)?;
    client.null_call_succeeds()
}

// Shows S3.3.1-04, ADV-15.
fn adv15_request_for_zero_credits(server: SocketAddrV4) -> Outcome {
    requests_credits(server, 0)
}

// Shows S3.3.1-04, ADV-16.
fn adv16_request_for_maximum_credits(server: SocketAddrV4) -> Outcome {
    requests_credits(server, u32::MAX)
}

/// Sends `count` NULL calls at once. Expects a reply to each, or that the connection is lost, and that
/// another connection works.
fn calls_at_once(server: SocketAddrV4, client: &Client, count: usize) -> Outcome {
    let calls: Vec<_> = (0..count).map(|_| client.null_call()).collect();
    for (_, message) in &calls {
        client.send(message)?;
    }
    let mut pending: Vec<_> = calls.iter().map(|(xid, _)| *xid).collect();
    while !pending.is_empty() {
        let Some(reply) = client.connection.receive(reply_timeout()) else {
            if client.connection.lost().is_some() {
                break;
            }
            return Err(format!("{} calls have no reply", pending.len()));
        };
        let xid = head(&reply.bytes).map_or(0, |[xid]| xid);
        let Some(at) = pending.iter().position(|call| *call == xid) else {
            return Err(format!("no call has this XID: {}", hex_words(&reply.bytes)));
        };
        expect_null_reply(&reply, pending.remove(at))?;
    }
    Client::new(server)?.null_call_succeeds()
}

// Shows S3.3.3-01, S3.3.3-02, ADV-94.
fn adv94_two_calls_before_the_first_reply(server: SocketAddrV4) -> Outcome {
    let client = Client::with(server, &options().with_receives(8))?;
    calls_at_once(server, &client, 2)
}

// Shows S3.3.1-12, S3.5-01, ADV-95.
fn adv95_more_calls_than_credits(server: SocketAddrV4) -> Outcome {
    let options = options().with_receives(1024);
    let client = Client::with(server, &options)?;
    let (_, message) = client.null_call();
    let reply = client.call(&message)?;
    let [_, _, grant] = head(&reply.bytes).ok_or("a short reply")?;
    expect_eq("a grant of more than 512", grant > 512, false)?;
    calls_at_once(server, &client, grant as usize + 1)?;
    let client = Client::ready_with(server, &options)?;
    calls_at_once(server, &client, 2 * grant as usize)
}

/// Messages that no honest client sends, and whether the server answers each with an RDMA_ERROR.
fn malformed(client: &Client) -> [(&'static str, Vec<u8>, bool); 9] {
    let xid = client.xid();
    let none = ChunkLists::default();
    let reply = wire::reply(xid, &[]);
    let chunk = ChunkLists::with_reply(Some(Vec::new()));
    [
        (
            "a reply to no callback",
            client.inline_call(xid, &none, &reply),
            false,
        ),
        ("RDMA_DONE", words([xid, 1, 32, 3, 0, 0, 0]), false),
        ("nothing", Vec::new(), false),
        ("no chunk lists", words([xid, 1, 32, RDMA_MSG]), false),
        (
            "RDMA_ERROR for no callback",
            words([xid, 1, 32, RDMA_ERROR, 2]),
            false,
        ),
        (
            "RDMA_ERROR of no kind",
            words([xid, 1, 32, RDMA_ERROR, 9]),
            false,
        ),
        (
            "a reply with a chunk",
            client.inline_call(xid, &chunk, &reply),
            false,
        ),
        ("another version", words([xid, 2, 32, 0, 0, 0, 0]), true),
        ("no procedure", words([xid, 1, 32, 9, 0, 0, 0]), true),
    ]
}

/// The log has a line for it that peer.sh looks for.
fn reply_to_no_callback_is_dropped(server: SocketAddrV4) -> Outcome {
    // It leaves out lines about messages when there were ten in five seconds, and other cases cause some.
    thread::sleep(Duration::from_secs(6));
    let client = Client::new(server)?;
    let xid = client.xid();
    client.send(&client.inline_call(xid, &ChunkLists::default(), &wire::reply(xid, &[])))?;
    client.null_call_succeeds()
}

/// Whether it takes a thread to drop or refuse it, or none: the server does not do that for ever.
fn malformed_messages_without_end_end_the_connection(server: SocketAddrV4) -> Outcome {
    const MOST: u32 = 16;
    let kinds = malformed(&Client::new(server)?);
    for (kind, message, is_answered) in &kinds {
        let run = || {
            let client = Client::new(server)?;
            for _ in 0..3 {
                for _ in 0..MOST {
                    client.send(message)?;
                    if *is_answered {
                        let reply = client.receive()?;
                        let [_, _, _, procedure] = head(&reply.bytes).ok_or("a short reply")?;
                        expect_eq("procedure", procedure, RDMA_ERROR)?;
                    }
                }
                client.null_call_succeeds()?;
            }
            for _ in 0..=MOST {
                // The last ones may find no connection any more.
                let _ = client.send(message);
            }
            client.loses_connection()
        };
        run().map_err(|error| format!("{kind}: {error}"))?;
    }
    Client::new(server)?.null_call_succeeds()
}

// Shows ADV-99.
fn adv99_same_call_twice(server: SocketAddrV4) -> Outcome {
    let client = Client::new(server)?;
    let data = client.read(0, 1000)?;
    let xid = client.xid();
    let call = nfs4::compound(xid, &[read(0, 1000)]);
    let message = client.inline_call(xid, &ChunkLists::default(), &call.bytes);
    client.send(&message)?;
    client.send(&message)?;
    for _ in 0..2 {
        let reply = client.receive()?;
        expect_eq("XID", head(&reply.bytes), Some([xid]))?;
        let (_, payload) = parse_inline(&reply.bytes)?;
        expect_eq("data", Results::new(payload)?.read()?, &data)?;
    }
    client.null_call_succeeds()
}
