// SPDX-License-Identifier: GPL-2.0

//! Clients that have no Receives for the server's replies, or send more calls than they have credits for.

use super::attacker::patient;
use super::attacker::Attacker;
use crate::case::Outcome;
use crate::client::Client;
use crate::message::head;
use crate::verbs::Options;
use std::env;
use std::net::SocketAddrV4;
use std::time::Duration;
use std::time::Instant;

/// The most calls at once: there is a Send buffer for each.
const MOST: usize = 60;

/// A client that waits for replies for which it has no Receive.
struct NoReceives {
    client: Client,
}

impl Attacker for NoReceives {
    fn step(&mut self) -> Outcome {
        Ok(())
    }

    fn client(&self) -> &Client {
        &self.client
    }
}

/// RNR for ever: a client that gets credits until it has used all its Receives, uses all credits once more, and posts no Receive again.
pub fn no_receives(server: SocketAddrV4) -> Result<Box<dyn Attacker>, String> {
    const RECEIVES: usize = 64;
    let options = Options {
        repost: false,
        receive_len: 1024,
        ..patient().with_receives(RECEIVES)
    };
    let client = Client::with(server, &options)?;
    let mut granted = 1;
    let mut left = RECEIVES;
    while left > 0 {
        let calls = granted.min(left);
        for _ in 0..calls {
            client.send(&client.null_call_asking(u32::MAX).1)?;
        }
        for _ in 0..calls {
            let [_, _, grant] = head(&client.receive()?.bytes).ok_or("a short reply")?;
            granted = (grant as usize).min(MOST);
        }
        left -= calls;
    }
    for _ in 0..granted {
        client.send(&client.null_call().1)?;
    }
    Ok(Box::new(NoReceives { client }))
}

/// A client that posts a Receive whenever the server's patience is about to end.
struct SlowReceives {
    client: Client,
    posted: u64,
    next: Instant,
}

/// A Send for which there was no Receive is sent again after two thirds of a second at the latest. With more than half of a short timeout,
/// the second of two replies would be in time as well.
const MARGIN: Duration = Duration::from_secs(1);

/// How long the server waits for a completion: PROGRESS_TIMEOUT in the environment, in seconds.
fn progress_timeout() -> Duration {
    let seconds = env::var("PROGRESS_TIMEOUT").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(30))
}

impl SlowReceives {
    fn wait(&mut self) {
        self.next = Instant::now() + progress_timeout().saturating_sub(MARGIN);
    }
}

impl Attacker for SlowReceives {
    fn step(&mut self) -> Outcome {
        while self.client.connection.receive(Duration::ZERO).is_some() {
            self.client.send(&self.client.null_call().1)?;
        }
        if Instant::now() >= self.next {
            let posted = self.client.connection.post_receive(self.posted);
            posted.map_err(|error| error.to_string())?;
            self.posted += 1;
            self.wait();
        }
        Ok(())
    }

    fn client(&self) -> &Client {
        &self.client
    }
}

/// One completion in every second-last moment.
pub fn slow_receives(server: SocketAddrV4) -> Result<Box<dyn Attacker>, String> {
    let options = Options {
        delay_receives: true,
        repost: false,
        ..patient().with_receives(64)
    };
    let client = Client::with(server, &options)?;
    // The first grant of our server.
    for _ in 0..2 {
        client.send(&client.null_call().1)?;
    }
    let mut attacker = SlowReceives {
        client,
        posted: 0,
        next: Instant::now(),
    };
    attacker.wait();
    Ok(Box::new(attacker))
}

/// A client that keeps no account of credits.
struct Overrun {
    client: Client,
    /// The calls without a reply.
    pending: usize,
}

impl Overrun {
    /// Calls at once: more than this server and the in-tree one grant.
    const CALLS: usize = 256;
}

impl Attacker for Overrun {
    fn step(&mut self) -> Outcome {
        while self.client.connection.receive(Duration::ZERO).is_some() {
            self.pending = self.pending.saturating_sub(1);
        }
        while self.pending < Self::CALLS {
            self.pending += 1;
            self.client
                .send(&self.client.null_call_asking(u32::MAX).1)?;
        }
        Ok(())
    }

    fn client(&self) -> &Client {
        &self.client
    }
}

/// As many calls as credits and as many again, all the time, whatever the server grants. Each asks for all the credits that there are.
pub fn overrun(server: SocketAddrV4) -> Result<Box<dyn Attacker>, String> {
    let options = Options {
        receive_len: 1024,
        sends: Overrun::CALLS,
        send_len: 256,
        ..patient().with_receives(Overrun::CALLS)
    };
    let client = Client::with(server, &options)?;
    Ok(Box::new(Overrun { client, pending: 0 }))
}
