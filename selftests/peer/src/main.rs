// SPDX-License-Identifier: GPL-2.0

//! A crafted peer: sends what no correct client or server of NFS over RDMA sends.
//!
//! `peer list` prints the names of all cases, `peer list server` and `peer list client` of those
//! against the kernel's server or client. `peer run NAME` runs one: exit status 0 if the kernel did
//! what the protocol requires. `peer attack NAME CONNECTIONS SECONDS` misbehaves for so long, and
//! `peer payload BYTES CALLS` measures long calls, `peer cost` the device. In the environment,
//! `SERVER_ADDR` is the address of the kernel's server, `CLIENT_ADDR` the address of this machine that
//! the kernel's client mounts, and `PEER_ADDR` the one that crafted clients connect from, if they are to
//! have one of their own.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a case that panics has failed"
)]

mod attacks;
mod case;
mod client;
mod client_cases;
mod cost;
#[path = "../../../rust/proto/tests/common/golden.rs"]
#[allow(dead_code)] // The host tests use all of it.
mod golden;
#[path = "../../../rust/proto/tests/common/hostile.rs"]
#[allow(dead_code)]
mod hostile;
#[path = "../../../rust/proto/tests/common/hostile_replies.rs"]
mod hostile_replies;
mod kernel_client;
mod message;
mod nfs3;
mod nfs4;
mod payload;
mod server;
mod server_cases;
mod timeout;
mod verbs;
#[path = "../../../rust/proto/tests/common/wire.rs"]
#[allow(dead_code)]
mod wire;

use std::env;
use std::net::SocketAddrV4;
use std::process::ExitCode;
use std::time::Duration;

/// The port of NFS over RDMA.
const PORT: u16 = 20049;

fn server_address() -> Result<SocketAddrV4, String> {
    let address = env::var("SERVER_ADDR").map_err(|_| "SERVER_ADDR is not set")?;
    let address = address
        .parse()
        .map_err(|_| "SERVER_ADDR is not an IPv4 address")?;
    Ok(SocketAddrV4::new(address, PORT))
}

fn run(name: &str) -> Result<(), String> {
    if let Some(outcome) = client_cases::run(name) {
        return outcome;
    }
    server_cases::run(name, server_address()?).ok_or_else(|| format!("there is no case {name}"))?
}

fn attack(name: &str, connections: &str, seconds: &str) -> Result<(), String> {
    let connections = connections.parse().map_err(|_| "how many connections?")?;
    let seconds = seconds.parse().map_err(|_| "how many seconds?")?;
    let duration = Duration::from_secs(seconds);
    let outcome = attacks::run(name, server_address()?, connections, duration);
    outcome.ok_or_else(|| format!("there is no attack {name}"))?
}

fn payload(bytes: &str, calls: &str) -> Result<(), String> {
    let bytes = bytes.parse().map_err(|_| "how many bytes?")?;
    let calls = calls.parse().map_err(|_| "how many calls?")?;
    payload::run(server_address()?, bytes, calls)
}

fn finish(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list", ref side @ ..] => {
            let mut names = Vec::new();
            if *side != ["client"] {
                names.extend(server_cases::names());
            }
            if *side != ["server"] {
                names.extend(client_cases::names());
            }
            println!("{}", names.join("\n"));
            ExitCode::SUCCESS
        }
        ["run", name] => finish(run(name)),
        ["attack", name, connections, seconds] => finish(attack(name, connections, seconds)),
        ["payload", bytes, calls] => finish(payload(bytes, calls)),
        ["cost"] => finish(server_address().and_then(cost::run)),
        _ => {
            let attacks = attacks::names().join("|");
            eprintln!("usage: peer list [client|server] | peer run NAME | peer attack {attacks} CONNECTIONS SECONDS | peer payload BYTES CALLS | peer cost");
            ExitCode::from(2)
        }
    }
}
