// SPDX-License-Identifier: GPL-2.0

//! Clients whose device ignores all packets of the server, in the middle of something.

use super::attacker::patient;
use super::attacker::Attacker;
use crate::case::Outcome;
use crate::client::reply_timeout;
use crate::client::Client;
use crate::message::expect_null_reply;
use crate::message::head;
use crate::verbs::Access;
use crate::verbs::Options;
use crate::verbs::Region;
use std::net::SocketAddrV4;

/// Where the WRITEs write: behind what other clients read.
const OFFSET: u32 = 1 << 20;

/// A client that says nothing any more.
struct Silent {
    client: Client,
    _memory: Option<Region>,
}

impl Attacker for Silent {
    fn step(&mut self) -> Outcome {
        Ok(())
    }

    fn client(&self) -> &Client {
        &self.client
    }
}

/// Keeps all credits in use until `wanted` are granted, or for some rounds. Returns how many are granted, up to `wanted`.
fn drive_up(client: &Client, wanted: u32) -> Result<u32, String> {
    let mut granted = 1;
    for _ in 0..16 {
        let calls: Vec<_> = (0..granted)
            .map(|_| client.null_call_asking(wanted))
            .collect();
        for (_, call) in &calls {
            client.send(call)?;
        }
        for _ in &calls {
            let reply = client.receive_within(reply_timeout())?;
            let [xid, _, grant] = head(&reply.bytes).ok_or("a short reply")?;
            expect_null_reply(&reply, xid)?;
            granted = grant.min(wanted);
        }
        if granted == wanted {
            break;
        }
    }
    Ok(granted)
}

/// Ten WRITEs of 1 MiB, none of whose RDMA Reads is answered.
pub fn unanswered_reads(server: SocketAddrV4) -> Result<Box<dyn Attacker>, String> {
    const LONG: u32 = 1 << 20;
    const CALLS: u32 = 10;
    let client = Client::ready_with(server, &patient())?;
    let calls = drive_up(&client, CALLS)?;
    let memory = client.region(LONG as usize, Access::Both)?;
    for _ in 0..calls {
        client.send_long_write(OFFSET, &memory)?;
    }
    client.falls_silent()?;
    Ok(Box::new(Silent {
        client,
        _memory: Some(memory),
    }))
}

/// As large a grant as the server gives, of which no credit is used again.
pub fn abandoned_grant(server: SocketAddrV4) -> Result<Box<dyn Attacker>, String> {
    const CREDITS: u32 = 128;
    let options = Options {
        receive_len: 1024,
        ..patient().with_receives(CREDITS as usize)
    };
    let client = Client::ready_with(server, &options)?;
    drive_up(&client, CREDITS)?;
    client.falls_silent()?;
    Ok(Box::new(Silent {
        client,
        _memory: None,
    }))
}
