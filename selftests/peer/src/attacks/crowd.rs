// SPDX-License-Identifier: GPL-2.0

//! Clients that do nothing wrong, but are many.

use super::attacker::patient;
use super::attacker::Attacker;
use crate::case::Outcome;
use crate::client::Client;
use crate::verbs::Options;
use std::net::SocketAddrV4;
use std::time::Duration;
use std::time::Instant;

/// Calls that a busy client has under way.
const CALLS: usize = 8;

/// The time between two calls of a client that is used now and then.
const INTERVAL: Duration = Duration::from_secs(1);

/// A client with so many calls under way, the next of them `interval` after the last ones.
struct Caller {
    client: Client,
    calls: usize,
    pending: usize,
    interval: Duration,
    called: Instant,
}

impl Attacker for Caller {
    fn step(&mut self) -> Outcome {
        while self.client.connection.receive(Duration::ZERO).is_some() {
            self.pending -= 1;
        }
        if self.called.elapsed() < self.interval {
            return Ok(());
        }
        self.called = Instant::now();
        while self.pending < self.calls {
            self.pending += 1;
            self.client.send(&self.client.null_call().1)?;
        }
        Ok(())
    }

    fn client(&self) -> &Client {
        &self.client
    }
}

fn caller(
    server: SocketAddrV4,
    calls: usize,
    interval: Duration,
) -> Result<Box<dyn Attacker>, String> {
    let options = Options {
        receive_len: 1024,
        ..patient().with_receives(CALLS)
    };
    let client = Client::with(server, &options)?;
    // sunrpc keeps only 64 connections of clients that have not used a file handle.
    client.read(0, 8)?;
    Ok(Box::new(Caller {
        client,
        calls,
        pending: 0,
        interval,
        called: Instant::now(),
    }))
}

/// A client that has read once and says nothing any more.
pub fn idle(server: SocketAddrV4) -> Result<Box<dyn Attacker>, String> {
    caller(server, 0, INTERVAL)
}

/// A client that has calls under way all the time. The first of them exceed its credits, if the server grants only two to
/// begin with: the device of the client repeats them until there is a Receive.
pub fn busy(server: SocketAddrV4) -> Result<Box<dyn Attacker>, String> {
    caller(server, CALLS, Duration::ZERO)
}

/// A client that makes a call each second.
pub fn calls_a_second(server: SocketAddrV4) -> Result<Box<dyn Attacker>, String> {
    caller(server, 1, INTERVAL)
}
