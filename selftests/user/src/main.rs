// SPDX-License-Identifier: GPL-2.0

//! A hostile process: what it may try with user verbs, and what must come of it.
//!
//! `user list` prints the names of all cases. `user run NAME` runs one: exit status 0 if the kernel
//! did what it must. In the environment, `DEVICE` is the RDMA device, and `ADDRESS` an IPv4 address
//! of its network device. Both ends of each connection are in this process, or in one that it
//! starts.
//!
//! The kernel is spoken to by the layouts of its headers only: no library checks, hides or repairs
//! anything. `selftests/user-threats.tsv` has the threats.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a case that panics has failed"
)]
#![allow(missing_docs, reason = "constants and fields of C have its names")]

mod case;
mod commands;
mod connection;
mod entry;
mod events;
mod kernel;
mod life;
mod limits;
mod mappings;
mod memory;
mod numbers;
mod others;
mod owners;
mod regions;
mod rings;
mod shared;
mod transfers;
mod verbs;

use std::env;
use std::process::ExitCode;

use case::Outcome;
use connection::Device;

const TABLES: [case::Table; 11] = [
    regions::CASES,
    commands::CASES,
    rings::CASES,
    mappings::CASES,
    memory::CASES,
    owners::CASES,
    life::CASES,
    limits::CASES,
    transfers::CASES,
    events::CASES,
    shared::CASES,
];

fn device() -> Result<Device, String> {
    let variable = |name| env::var(name).map_err(|_| format!("{name} is not set"));
    Ok(Device {
        name: variable("DEVICE")?,
        ip: variable("ADDRESS")?,
    })
}

fn run(name: &str) -> Outcome {
    let mut cases = TABLES.into_iter().flatten();
    let case = cases.find(|(known, _)| *known == name);
    let (_, case) = case.ok_or(format!("there is no case {name}"))?;
    case(&device()?)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["list"] => {
            for (name, _) in TABLES.into_iter().flatten() {
                println!("{name}");
            }
            Ok(())
        }
        ["run", name] => run(name),
        // What cases start.
        ["victim"] => device().and_then(|device| owners::victim(&device)),
        ["others"] => device().and_then(|device| others::ping_pong(&device)),
        ["traffic"] => device().and_then(|device| life::traffic(&device)),
        // What the script runs beside a mount.
        ["kernel-qps"] => device().and_then(|device| owners::kernel(&device)),
        ["device-goes"] => device().and_then(|device| events::device_goes(&device)),
        ["fills"] => device().and_then(|device| limits::fills(&device)),
        // What it runs in cgroups.
        ["rings", "connection"] => device().and_then(|device| limits::connections(&device)),
        ["rings", kind] => device().and_then(|device| limits::rings(&device, kind)),
        ["objects"] => device().and_then(|device| limits::objects(&device, kernel::EAGAIN)),
        // What measures memory runs.
        ["idle", count] => {
            let count = count.parse().map_err(|_| "no number".to_string());
            device().and_then(|device| limits::idle(&device, count?))
        }
        // Without one.
        ["all-objects"] => device().and_then(|device| limits::objects(&device, kernel::ENOMEM)),
        _ => Err("usage: user list|run NAME".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
