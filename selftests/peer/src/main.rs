// SPDX-License-Identifier: GPL-2.0

//! A peer that says on the wire what no good one says.
//!
//! `peer list` names all cases, `peer list server` and `peer list client` those against one side of
//! the kernel. `peer run NAME` runs one: exit status 0 if the kernel did what the protocol wants.
//! `SERVER_ADDR` in the environment says where its server is, `CLIENT_ADDR` which address of this
//! machine its client can mount.

mod arguments;
mod bench;
mod calls;
mod exposure;
mod faults;
mod files;
#[path = "../../proto/tests/common/golden.rs"]
#[allow(dead_code)] // The host tests use all of it.
mod golden;
mod gss;
#[path = "../../proto/tests/common/hostile.rs"]
#[allow(dead_code)]
mod hostile;
#[path = "../../proto/tests/common/hostile_replies.rs"]
mod hostile_replies;
mod nfs;
mod pace;
mod private;
mod replies;
mod results;
mod stage;
mod verbs;
#[path = "../../proto/tests/common/wire.rs"]
#[allow(dead_code)]
mod wire;

use std::env;
use std::net::SocketAddrV4;
use std::process::ExitCode;

/// Where NFS over RDMA is served.
const PORT: u16 = 20049;

fn server() -> Result<SocketAddrV4, String> {
    let address = env::var("SERVER_ADDR").map_err(|_| "SERVER_ADDR is not set")?;
    let address = address
        .parse()
        .map_err(|_| "SERVER_ADDR is no IPv4 address")?;
    Ok(SocketAddrV4::new(address, PORT))
}

fn run(name: &str) -> Result<(), String> {
    if let Some(verdict) = replies::run(name) {
        return verdict;
    }
    calls::run(name, server()?).ok_or_else(|| format!("there is no case {name}"))?
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["list", ref side @ ..] => {
            let mut names = Vec::new();
            if *side != ["client"] {
                names.extend(calls::names());
            }
            if *side != ["server"] {
                names.extend(replies::names());
            }
            println!("{}", names.join("\n"));
            ExitCode::SUCCESS
        }
        ["run", name] => match run(name) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                println!("{error}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("usage: peer list [client|server] | peer run NAME");
            ExitCode::from(2)
        }
    }
}
