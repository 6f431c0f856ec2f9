// SPDX-License-Identifier: GPL-2.0

//! The report of an attack on itself.

use std::fmt::Display;
use std::fmt::Formatter;
use std::io::Write;

/// The outcome of the connections, or of the requests for them.
#[derive(Clone, Default)]
pub struct Tally {
    pub made: usize,
    pub lost: usize,
    pub refused: usize,
    /// How many messages the server sent.
    pub answered: usize,
    /// The last reason for each of the latter two.
    reasons: [String; 2],
}

impl Tally {
    pub fn lost(&mut self, reason: String) {
        self.lost += 1;
        self.reasons[0] = reason;
    }

    pub fn refused(&mut self, reason: String) {
        self.refused += 1;
        self.reasons[1] = reason;
    }

    pub fn add(&mut self, other: Self) {
        self.answered += other.answered;
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
            answered,
            reasons,
        } = self;
        write!(
            out,
            "made {made}, lost {lost}, refused {refused}, answered {answered}"
        )?;
        let mut reasons = reasons.iter().filter(|reason| !reason.is_empty());
        reasons.try_for_each(|reason| write!(out, "; {reason}"))
    }
}

/// Says that the attack is under way.
pub fn ready() {
    println!("ready");
    let _ = std::io::stdout().flush();
}
