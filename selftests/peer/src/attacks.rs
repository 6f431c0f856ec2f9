// SPDX-License-Identifier: GPL-2.0

//! Clients that misbehave for as long as they are let: `peer attack NAME CONNECTIONS SECONDS`. What the server's other clients notice
//! of them is for others to measure: `selftests/hostile/guest.py` and `selftests/vm/hostile.sh`.
//!
//! An attack has so many connections at once. One that the server ends is made again. The line `ready` says that all were made once, or
//! that the server makes no more, and the last line what became of them.

mod attacker;
mod credits;
mod crowd;
mod raw_requests;
mod silent;
mod storm;
mod tally;

use crate::case::Outcome;
use attacker::Attacker;
use std::net::SocketAddrV4;
use std::time::Duration;
use std::time::Instant;
use tally::ready;
use tally::Tally;

/// Makes a connection of an attack.
type Begin = fn(SocketAddrV4) -> Result<Box<dyn Attacker>, String>;

/// Attacks that are so many connections, each of which does the same.
const ATTACKS: [(&str, Begin); 8] = [
    ("unanswered-reads", silent::unanswered_reads),
    ("abandoned-grant", silent::abandoned_grant),
    ("no-receives", credits::no_receives),
    ("slow-receives", credits::slow_receives),
    ("overrun", credits::overrun),
    ("idle", crowd::idle),
    ("busy", crowd::busy),
    ("calls-a-second", crowd::calls_a_second),
];

/// An attack that has all of these, in turn.
const MIXED: [Begin; 5] = [
    silent::unanswered_reads,
    silent::abandoned_grant,
    credits::no_receives,
    credits::slow_receives,
    credits::overrun,
];

/// Between two calls of [`Attacker::step`].
const PAUSE: Duration = Duration::from_millis(50);

/// So many attempts in a row that fail are enough for a round.
const REFUSALS: usize = 3;

/// Holds connections that `begin` makes, the one with index `n` by `begin[n % begin.len()]`, for so long after all were made once.
fn hold(server: SocketAddrV4, begin: &[Begin], connections: usize, duration: Duration) -> Tally {
    let mut tally = Tally::default();
    let mut held: Vec<Option<Box<dyn Attacker>>> = (0..connections).map(|_| None).collect();
    let mut end = None;
    let is_over = |end: Option<Instant>| end.is_some_and(|end| Instant::now() >= end);
    while !is_over(end) {
        let mut in_a_row = 0;
        for (index, slot) in held.iter_mut().enumerate() {
            if is_over(end) {
                break;
            }
            let Some(attacker) = slot else {
                match begin[index % begin.len()](server) {
                    Ok(attacker) => {
                        tally.made += 1;
                        in_a_row = 0;
                        *slot = Some(attacker);
                    }
                    Err(reason) => {
                        tally.refused(reason);
                        in_a_row += 1;
                        // The server has enough for now. Each attempt takes long.
                        if in_a_row >= REFUSALS {
                            break;
                        }
                    }
                }
                continue;
            };
            let lost = attacker.step().err();
            let connection = &attacker.client().connection;
            if let Some(reason) = connection.lost().or(lost) {
                tally.lost(reason);
                tally.answered += connection.arrived();
                *slot = None;
            }
        }
        if end.is_none() {
            ready();
            end = Some(Instant::now() + duration);
        }
        std::thread::sleep(PAUSE);
    }
    let held = held.iter().flatten();
    tally.answered += held
        .map(|attacker| attacker.client().connection.arrived())
        .sum::<usize>();
    tally
}

/// The names of all attacks.
pub fn names() -> Vec<&'static str> {
    let named = ATTACKS.iter().map(|(name, _)| *name);
    named.chain(["mixed", "storm", "raw-requests"]).collect()
}

/// Runs the attack of this name, if there is one.
pub fn run(
    name: &str,
    server: SocketAddrV4,
    connections: usize,
    duration: Duration,
) -> Option<Outcome> {
    let end = Instant::now() + duration;
    let tally = match name {
        "mixed" => Ok(hold(server, &MIXED, connections, duration)),
        "storm" => Ok(storm::storm(server, connections, end)),
        "raw-requests" => raw_requests::flood(server, connections, end),
        _ => {
            let (_, begin) = ATTACKS.iter().find(|(known, _)| *known == name)?;
            Ok(hold(server, &[*begin], connections, duration))
        }
    };
    Some(tally.map(|tally| println!("{tally}")))
}
