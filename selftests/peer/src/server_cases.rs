// SPDX-License-Identifier: GPL-2.0

//! All cases against the kernel's server.

mod access_errors;
mod connections;
mod credits;
mod gss;
mod large;
mod other_clients;
mod private_data;
mod read_chunks;
mod silent;
mod target;
mod write_chunks;

use crate::case;
use crate::case::Outcome;
use crate::case::ServerCase;
use crate::case::Table;
use crate::client::Client;
use crate::hostile;
use std::net::SocketAddrV4;

const TABLES: [Table<ServerCase>; 8] = [
    read_chunks::CASES,
    write_chunks::CASES,
    access_errors::CASES,
    private_data::CASES,
    credits::CASES,
    other_clients::CASES,
    connections::CASES,
    silent::CASES,
];

/// The names of all.
pub fn names() -> Vec<String> {
    let mut numbers: Vec<_> = hostile::cases().iter().map(|case| case.number).collect();
    numbers.sort();
    numbers.dedup();
    case::names(numbers.into_iter(), &TABLES)
}

/// Runs the case of this name, if there is one.
pub fn run(name: &str, server: SocketAddrV4) -> Option<Outcome> {
    // Cases of `gss` and `large` are not listed: they need a server with a special gssproxy, or with
    // longer messages.
    let unlisted = case::find(name, &[gss::CASES, large::CASES]);
    if let Some(case) = case::find(name, &TABLES).or(unlisted) {
        return Some(case(server));
    }
    let number = case::number(name)?;
    let cases = hostile::cases();
    let mut cases = cases.iter().filter(|case| case.number == number).peekable();
    cases.peek()?;
    Some(Client::new(server).and_then(|client| client.gets_replies(cases)))
}
