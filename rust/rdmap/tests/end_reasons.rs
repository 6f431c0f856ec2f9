// SPDX-License-Identifier: GPL-2.0

//! `docs/iwarp.md` explains every text with which `iwarp.ko` logs the end of a connection, and no
//! other.

use rdmap::fault::Cause;
use rdmap::fault::Code;
use std::collections::BTreeSet;

#[path = "../../iwarp/end_reason.rs"]
mod end_reason;

use end_reason::EndReason;

const DOCUMENT: &str = include_str!("../../../docs/iwarp.md");

/// Returns the reason behind `reason` in a list of all.
const fn next(reason: EndReason) -> Option<EndReason> {
    Some(match reason {
        EndReason::Requested => EndReason::PeerClosed,
        EndReason::PeerClosed => EndReason::PeerTerminated(Code::new(0, 0, 0)),
        EndReason::PeerTerminated(_) => EndReason::InvalidTerminate,
        EndReason::InvalidTerminate => EndReason::Failed {
            cause: Cause::Local,
            is_told: true,
        },
        EndReason::Failed {
            cause,
            is_told: true,
        } => EndReason::Failed {
            cause,
            is_told: false,
        },
        EndReason::Failed { is_told: false, .. } => EndReason::Error(-104),
        EndReason::Error(_) => EndReason::AssociationLost,
        EndReason::AssociationLost => EndReason::NotDdp,
        EndReason::NotDdp => EndReason::IllegalChunk,
        EndReason::IllegalChunk => EndReason::Late,
        EndReason::Late => EndReason::CqOverrun,
        EndReason::CqOverrun => return None,
    })
}

fn all() -> impl Iterator<Item = EndReason> {
    std::iter::successors(Some(EndReason::Requested), |reason| next(*reason))
}

/// Returns what the first column of the table names.
fn explained() -> BTreeSet<&'static str> {
    let (_, section) = DOCUMENT
        .split_once("\n### Connections that end\n")
        .expect("a section about connections that end");
    let section = section
        .split_once("\n##")
        .map_or(section, |(section, _)| section);
    section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect()
}

#[test]
fn each_reason_is_explained_and_nothing_else() {
    let texts: BTreeSet<_> = all()
        .map(|reason| reason.text().to_str().expect("text"))
        .collect();
    assert_eq!(texts.len(), all().count(), "each has a text of its own");
    assert_eq!(texts, explained());
}

#[test]
fn only_ends_in_order_and_errors_are_special() {
    let orderly: Vec<_> = all().filter(|reason| reason.is_orderly()).collect();
    assert_eq!(orderly, [EndReason::Requested, EndReason::PeerClosed]);
    let with_error: Vec<_> = all().filter(|reason| reason.error() != 0).collect();
    assert_eq!(with_error, [EndReason::Error(-104)]);
}
