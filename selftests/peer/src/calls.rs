// SPDX-License-Identifier: GPL-2.0

//! The cases to a server, by name.

use super::arguments;
use super::bench::Bench;
use super::bench::Verdict;
use super::faults;
use super::gss;
use super::hostile;
use super::private;
use super::results;
use std::net::SocketAddrV4;

/// Runs against the server at an address.
pub type Case = fn(SocketAddrV4) -> Verdict;

/// A table of functions with their names.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// The cases of this file, by name.
        pub const CASES: &[(&str, $crate::calls::Case)] = &[$((stringify!($name), $name)),*];
    };
}
pub(crate) use cases;

fn named() -> impl Iterator<Item = &'static (&'static str, Case)> {
    let tables = [
        arguments::CASES,
        results::CASES,
        private::CASES,
        faults::CASES,
    ];
    tables.into_iter().flatten()
}

/// The names of all.
pub fn names() -> Vec<String> {
    let mut numbers: Vec<_> = hostile::cases().iter().map(|case| case.number).collect();
    numbers.sort();
    numbers.dedup();
    let numbered = numbers.iter().map(|number| format!("adv{number:02}"));
    numbered
        .chain(named().map(|(name, _)| name.to_string()))
        .collect()
}

/// Runs the case of this name, if there is one.
pub fn run(name: &str, server: SocketAddrV4) -> Option<Verdict> {
    // Those of `gss` are not listed: they need more of a server than that it is there.
    if let Some((_, case)) = named().chain(gss::CASES).find(|(known, _)| *known == name) {
        return Some(case(server));
    }
    let number = name.strip_prefix("adv")?.parse().ok()?;
    let cases = hostile::cases();
    let mut cases = cases.iter().filter(|case| case.number == number).peekable();
    cases.peek()?;
    Some(Bench::new(server).and_then(|bench| bench.answers(cases)))
}
