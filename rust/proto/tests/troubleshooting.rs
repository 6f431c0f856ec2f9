// SPDX-License-Identifier: GPL-2.0

//! `docs/troubleshooting.md` explains every text with which `rpcrdma.ko` logs the end of a
//! connection, and no other.
//!
//! This is a program of its own, which stands for the crate `endpoint`: the tables of causes are
//! part of the module, and name what they use by its path there.

extern crate self as endpoint;

use std::collections::BTreeSet;

#[path = "../../endpoint/causes.rs"]
mod causes;
#[path = "../../client/cause.rs"]
#[expect(dead_code, reason = "the module uses the rest")]
mod client;
#[path = "../../server/cause.rs"]
#[expect(dead_code, reason = "the module uses the rest")]
mod server;

const DOCUMENT: &str = include_str!("../../../docs/troubleshooting.md");

/// Texts of the kernel for the status of a work request, of which it has more.
const OF_THE_DEVICE: [&str; 5] = [
    "RNR retry counter exceeded",
    "WR flushed",
    "local length error",
    "remote access error",
    "transport retry counter exceeded",
];

/// Returns the texts of both sides, without those of the device.
fn logged() -> BTreeSet<&'static str> {
    let client = client::Cause::ALL.iter().map(|cause| cause.text());
    let server = server::Cause::ALL.iter().filter_map(|cause| cause.text());
    client
        .chain(server)
        .map(|text| text.to_str().unwrap_or("no UTF-8"))
        .filter(|text| !text.is_empty())
        .collect()
}

/// Returns what the first column of the table names, without the texts of the device.
fn explained() -> BTreeSet<&'static str> {
    let (_, section) = DOCUMENT
        .split_once("\n## Connections that end\n")
        .expect("a section about connections that end");
    let section = section
        .split_once("\n## ")
        .map_or(section, |(section, _)| section);
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next())
        // Every other part stands between two backticks.
        .flat_map(|reasons| reasons.split('`').step_by(2))
        .filter(|reason| !OF_THE_DEVICE.contains(reason))
        .collect()
}

#[test]
fn each_cause_is_explained() {
    let (logged, explained) = (logged(), explained());
    let missing: Vec<_> = logged.difference(&explained).collect();
    assert!(missing.is_empty(), "logged, not explained: {missing:?}");
}

#[test]
fn what_is_explained_is_a_cause() {
    let (logged, explained) = (logged(), explained());
    let unknown: Vec<_> = explained.difference(&logged).collect();
    assert!(unknown.is_empty(), "explained, never logged: {unknown:?}");
}
