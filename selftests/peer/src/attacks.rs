// SPDX-License-Identifier: GPL-2.0

//! Clients that misbehave for as long as they are let: `peer attack NAME CONNECTIONS SECONDS`. What the server's other clients notice
//! of them is for others to measure: `selftests/hostile/guest.py` and `selftests/vm/hostile.sh`.
//!
//! An attack has so many connections at once. One that the server ends is made again. The line `ready` says that all were made once, or
//! that the server makes no more, and the last line what became of them.

mod credits;
mod crowd;
mod raw_requests;
mod silent;
mod storm;

use crate::case::Outcome;
use crate::client::options;
use crate::client::Client;
use crate::verbs::Options;
use std::fmt::Display;
use std::fmt::Formatter;
use std::io::Write;
use std::net::SocketAddrV4;
use std::time::Duration;
use std::time::Instant;

/// One connection of an attack.
trait Attacker {
    /// Does what there is to do now; an error ends the connection. Called many times in a second.
    fn step(&mut self) -> Outcome;

    /// The client, which may have lost its connection.
    fn client(&self) -> &Client;
}

/// Makes a connection of an attack.
type Begin = fn(SocketAddrV4) -> Result<Box<dyn Attacker>, String>;

/// Attacks that are so many connections, each of which does the same.
const ATTACKS: [(&str, Begin); 7] = [
    ("unanswered-reads", silent::unanswered_reads),
    ("abandoned-grant", silent::abandoned_grant),
    ("no-receives", credits::no_receives),
    ("slow-receives", credits::slow_receives),
    ("overrun", credits::overrun),
    ("idle", crowd::idle),
    ("busy", crowd::busy),
];

/// An attack that has all of these, in turn.
const MIXED: [Begin; 5] = [
    silent::unanswered_reads,
    silent::abandoned_grant,
    credits::no_receives,
    credits::slow_receives,
    credits::overrun,
];

/// What became of the connections, or of the requests for them.
#[derive(Clone, Default)]
struct Tally {
    made: usize,
    lost: usize,
    refused: usize,
    /// The last reason for each of the latter two.
    reasons: [String; 2],
}

impl Tally {
    fn lost(&mut self, reason: String) {
        self.lost += 1;
        self.reasons[0] = reason;
    }

    fn refused(&mut self, reason: String) {
        self.refused += 1;
        self.reasons[1] = reason;
    }

    fn add(&mut self, other: Self) {
        self.made += other.made;
        self.lost += other.lost;
        self.refused += other.refused;
        for (reason, theirs) in self.reasons.iter_mut().zip(other.reasons) {
            if !theirs.is_empty() {
                *reason = theirs;
            }
        }
    }
}

impl Display for Tally {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        let Self {
            made,
            lost,
            refused,
            reasons,
        } = self;
        write!(out, "made {made}, lost {lost}, refused {refused}")?;
        let mut reasons = reasons.iter().filter(|reason| !reason.is_empty());
        reasons.try_for_each(|reason| write!(out, "; {reason}"))
    }
}

/// Options of a client that asks the server to try for ever, and that needs little memory itself.
fn patient() -> Options {
    Options {
        ack_timeout: Some(31),
        send_len: 1024,
        ..options()
    }
}

/// Between two calls of [`Attacker::step`].
const PAUSE: Duration = Duration::from_millis(50);

/// So many attempts in a row that fail are enough for a round.
const REFUSALS: usize = 3;

/// Says that the attack is under way.
fn ready() {
    println!("ready");
    let _ = std::io::stdout().flush();
}

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
            if let Some(reason) = attacker.client().connection.lost().or(lost) {
                tally.lost(reason);
                *slot = None;
            }
        }
        if end.is_none() {
            ready();
            end = Some(Instant::now() + duration);
        }
        std::thread::sleep(PAUSE);
    }
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
