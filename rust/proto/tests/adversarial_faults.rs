// SPDX-License-Identifier: GPL-2.0

//! Faults of the fabric and of the peer's timing, as far as this crate decides what follows.
//!
//! A test `advNN_...` is case NN of the conformance table. What memory and queues do then is for
//! the tests with a kernel.

use proto::chunk::Lists;
use proto::cm_private_data::{may_invalidate, PrivateData};
use proto::conn::{client, server};
use proto::credit::{self, Window};
use proto::plan::{Role, Thresholds};
use proto::reply::{self, Discard, Incoming};
use proto::reply_builder;

use crate::common::golden;
use crate::common::*;

fn open_client() -> client::ConnMachine {
    use client::Event::*;
    let mut connection = client::ConnMachine::new();
    for event in [Connect, AddressResolved, RouteResolved, Established] {
        let _ = connection.on(event);
    }
    assert_eq!(connection.state(), client::State::Open);
    connection
}

fn open_server() -> server::ConnMachine {
    use server::Event::*;
    let mut connection = server::ConnMachine::new();
    for event in [Prepared, Established] {
        let _ = connection.on(event);
    }
    assert_eq!(connection.state(), server::State::Open);
    connection
}

/// Checks that the server leaves the connection, and releases everything exactly once.
#[track_caller]
fn server_leaves(event: server::Event) {
    use server::Action;
    let mut connection = open_server();
    assert_eq!(connection.on(event), Action::TearDown);
    // The fabric reports the same end in several ways.
    assert_eq!(connection.on(event), Action::Nothing);
    assert_eq!(connection.on(server::Event::Disconnected), Action::Nothing);
    assert_eq!(connection.on(server::Event::Received), Action::Nothing);
    assert_eq!(connection.on(server::Event::Drained), Action::Nothing);
    assert_eq!(connection.state(), server::State::Closed);
}

// Shows ADV-83.
#[test]
fn adv83_invalidation_and_malformed_header() {
    // The key is looked at before the bytes; the bytes then say no more than they always do.
    let mut message = hex(golden::GV12);
    message[15] = 9;
    assert_eq!(reply::parse(&message), Err(Discard::Procedure(9)));
    let mut connection = open_client();
    assert_eq!(
        connection.on(client::Event::Malformed),
        client::Action::Nothing
    );
    assert_eq!(connection.state(), client::State::Open);
}

// Shows P-08, ADV-84.
#[test]
fn adv84_invalidation_that_was_not_agreed_upon() {
    let says = |flag| PrivateData::new(4096, 4096, flag).unwrap();
    for (ours, theirs, may) in [
        (true, Some(true), true),
        (true, Some(false), false),
        (false, Some(true), false),
        (true, None, false),
    ] {
        assert_eq!(may_invalidate(says(ours), theirs.map(says)), may);
    }
    // A Call without chunks has no handle to invalidate.
    let message = hex(golden::GV11);
    assert_eq!(reply_builder::invalidated_handle(&served(&message)), None);
}

// Shows ADV-85.
#[test]
fn adv85_read_of_memory_that_is_not_registered() {
    server_leaves(server::Event::Failed);
    // The Call comes again on the next connection. Refusing it ends the circle.
    let message = hex(golden::GV11);
    assert_eq!(error(&served(&message).refuse()), hex(golden::GV10));
}

// Shows ADV-94.
#[test]
fn adv94_two_calls_before_the_first_reply() {
    assert_eq!(Window::new(8).window(), 1);
    // A Responder with one Receive never grants a second. One with more does with its first reply.
    assert_eq!(credit::raised_grant(1, 1, 1, 1), None);
    assert_eq!(credit::raised_grant(1, 1, 8, 8), Some(2));
}

// Shows S3.3.1-03, ADV-95.
#[test]
fn adv95_more_calls_than_granted() {
    let mut window = Window::new(8);
    assert_eq!(window.on_reply(4), 4);
    assert_eq!(window.on_reply(2), 2);
}

// Shows S3.3.3-08, S3.3.3-09, SEC-29, P-02, P-03, P-04, P-12, ADV-108.
#[test]
fn adv108_strange_private_data() {
    let good = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3];
    let absent: &[&[u8]] = &[
        &[],
        &good[..7],
        &[0x18, 0x0e, 0xab, 0xf6, 1, 1, 3, 3],
        &[0xf6, 0xab, 0x0e, 0x18, 0, 1, 3, 3],
        &[0xf6, 0xab, 0x0e, 0x18, 2, 1, 3, 3],
        &[0xff; 8],
    ];
    let ours = PrivateData::new(4096, 4096, true).unwrap();
    for bytes in absent {
        let theirs = PrivateData::parse(bytes);
        assert_eq!(theirs, None);
        for role in [Role::Client, Role::Server] {
            assert_eq!(
                Thresholds::negotiate(role, ours, theirs),
                Thresholds::DEFAULT
            );
        }
    }
    for length in [8, 56, 196] {
        let mut bytes = good.to_vec();
        bytes.resize(length, 0xEE);
        assert_eq!(PrivateData::parse(&bytes), Some(ours));
    }
    // The largest sizes do not raise ours.
    let theirs = PrivateData::parse(&[0xf6, 0xab, 0x0e, 0x18, 1, 0xFE, 0xFF, 0xFF]);
    assert_eq!(
        theirs.map(|theirs| theirs.remote_invalidation()),
        Some(false)
    );
    let thresholds = Thresholds::negotiate(Role::Client, ours, theirs);
    assert_eq!((thresholds.call, thresholds.reply), (4096, 4096));
}

/// Encodes again a message that was decoded.
fn encode(xid: u32, credits: u32, procedure: u32, lists: &Lists<'_>, payload: &[u8]) -> Vec<u8> {
    let mut message = words([xid, 1, credits, procedure]);
    let mut put = |bytes: &[u32]| message.extend(words(bytes));
    let segment = |s: proto::chunk::Segment| {
        let high = u32::try_from(s.offset >> 32).unwrap();
        let low = u32::try_from(s.offset & 0xFFFF_FFFF).unwrap();
        [s.handle, s.length, high, low]
    };
    for read in lists.read {
        put(&[1, read.position]);
        put(&segment(read.segment));
    }
    put(&[0]);
    for chunk in lists.write {
        put(&[1, u32::try_from(chunk.len()).unwrap()]);
        chunk.iter().for_each(|s| put(&segment(s)));
    }
    put(&[0]);
    match lists.reply {
        Some(chunk) => {
            put(&[1, u32::try_from(chunk.len()).unwrap()]);
            chunk.iter().for_each(|s| put(&segment(s)));
        }
        None => put(&[0]),
    }
    message.extend(payload);
    message
}

/// Decodes `message` on both sides. Nothing of an accepted message is lost.
fn decode_both(message: &[u8]) -> [bool; 2] {
    let call = match serve(message, &POLICY) {
        Served::Call(call) => {
            let procedure = u32::from(call.body == proto::header::Body::NoMsg);
            let again = encode(call.xid, call.credits, procedure, &call.lists, call.payload);
            assert_eq!(again, message);
            true
        }
        other => {
            assert_eq!(other, serve(message, &POLICY));
            false
        }
    };
    let reply = match reply::parse(message) {
        Ok(Incoming::Reply(reply)) => {
            let procedure = u32::from(reply.body == proto::header::Body::NoMsg);
            let lists = Lists {
                write: reply.write,
                reply: reply.reply,
                ..Lists::default()
            };
            let again = encode(reply.xid, reply.credits, procedure, &lists, reply.payload);
            assert_eq!(again, message);
            true
        }
        other => {
            assert_eq!(other, reply::parse(message));
            false
        }
    };
    [call, reply]
}

// Shows S4.5-01, SEC-26, ADV-110.
#[test]
fn adv110_flipped_bits() {
    let mut accepted = [0, 0];
    for (_, vector) in golden::MESSAGES {
        for payload in [vec![], null_call(XID), reply(XID, &[])] {
            let mut message = hex(vector);
            message.extend(payload);
            for bit in 0..message.len() * 8 {
                message[bit / 8] ^= 1 << (bit % 8);
                for other in 0..bit.min(28 * 8) {
                    message[other / 8] ^= 1 << (other % 8);
                    let [call, reply] = decode_both(&message);
                    accepted[0] += u32::from(call);
                    accepted[1] += u32::from(reply);
                    message[other / 8] ^= 1 << (other % 8);
                }
                message[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
    assert!(accepted.iter().all(|count| *count > 10_000), "{accepted:?}");
}
