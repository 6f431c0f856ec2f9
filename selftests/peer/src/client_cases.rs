// SPDX-License-Identifier: GPL-2.0

//! All cases against the kernel's client.

mod credits;
mod invalidation;
mod malformed;
mod memory_access;
mod pending;
mod replies;
mod reverse_direction;

use crate::case;
use crate::case::ClientCase;
use crate::case::Outcome;
use crate::case::Table;
use crate::hostile_replies;

const TABLES: [Table<ClientCase>; 6] = [
    malformed::CASES,
    replies::CASES,
    credits::CASES,
    reverse_direction::CASES,
    invalidation::CASES,
    memory_access::CASES,
];

/// The names of all.
pub fn names() -> Vec<String> {
    let numbers = (0..100).filter(|number| !hostile_replies::replies(*number).is_empty());
    case::names(numbers, &TABLES)
}

/// Runs the case of this name, if there is one.
pub fn run(name: &str) -> Option<Outcome> {
    if let Some(case) = case::find(name, &TABLES) {
        return Some(case());
    }
    let messages = hostile_replies::replies(case::number(name)?);
    (!messages.is_empty()).then(|| malformed::are_dropped(messages))
}
