// SPDX-License-Identifier: GPL-2.0

//! Clients that connect and go, one after the other.

use super::attacker::patient;
use super::tally::ready;
use super::tally::Tally;
use crate::client::Client;
use std::net::SocketAddrV4;
use std::time::Instant;

/// Some of them wait for a reply, some disconnect before it, some send nothing.
fn connects(server: SocketAddrV4, end: Instant) -> Tally {
    let mut tally = Tally::default();
    let options = patient().with_receives(2);
    let mut round = 0;
    while Instant::now() < end {
        round += 1;
        match Client::with(server, &options) {
            Ok(client) => {
                tally.made += 1;
                let outcome = match round % 3 {
                    0 => client.null_call_succeeds(),
                    1 => client.send(&client.null_call().1),
                    _ => Ok(()),
                };
                if let Err(reason) = outcome {
                    tally.lost(reason);
                }
                tally.answered += client.connection.arrived();
            }
            Err(reason) => tally.refused(reason),
        }
    }
    tally
}

/// So many threads that connect.
pub fn storm(server: SocketAddrV4, threads: usize, end: Instant) -> Tally {
    ready();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| connects(server, end)))
            .collect();
        let mut tally = Tally::default();
        for thread in threads {
            tally.add(thread.join().expect("a thread that does not panic"));
        }
        tally
    })
}
