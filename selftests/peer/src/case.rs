// SPDX-License-Identifier: GPL-2.0

//! A test case, the tables of them, and what a case expects.

use std::fmt::Debug;
use std::net::SocketAddrV4;

/// Nothing if the kernel did what the protocol wants, else what it did.
pub type Outcome = Result<(), String>;

/// A case against the NFS server at an address.
pub type ServerCase = fn(SocketAddrV4) -> Outcome;

/// A case against the NFS client of this machine.
pub type ClientCase = fn() -> Outcome;

/// The cases of one file, by name.
pub type Table<C> = &'static [(&'static str, C)];

/// `cases![ServerCase: one, another]` makes the table of these functions, which is called `CASES`.
macro_rules! cases {
    ($kind:ident: $($name:ident),* $(,)?) => {
        /// The cases of this file, by name.
        pub const CASES: $crate::case::Table<$crate::case::$kind> =
            &[$((stringify!($name), $name)),*];
    };
}
pub(crate) use cases;

/// The name of a case that is only a row, with this number, in a table of messages.
fn numbered(number: u32) -> String {
    format!("adv{number:02}")
}

/// The names of all cases: first those that are only rows in a table of messages.
pub fn names<C>(numbers: impl Iterator<Item = u32>, tables: &[Table<C>]) -> Vec<String> {
    let named = tables.iter().copied().flatten();
    let named = named.map(|(name, _)| name.to_string());
    numbers.map(numbered).chain(named).collect()
}

/// The case of this name, if it is in one of the tables.
pub fn find<C: Copy>(name: &str, tables: &[Table<C>]) -> Option<C> {
    let mut cases = tables.iter().copied().flatten();
    let (_, case) = cases.find(|(known, _)| *known == name)?;
    Some(*case)
}

/// The number in the name of a case that is only a row in a table of messages.
pub fn number(name: &str) -> Option<u32> {
    name.strip_prefix("adv")?.parse().ok()
}

/// Expects `got` to be `expected`.
pub fn expect_eq<T: PartialEq + Debug>(what: &str, got: T, expected: T) -> Outcome {
    if got == expected {
        return Ok(());
    }
    let cut = |text: String| text.chars().take(300).collect::<String>();
    let (got, expected) = (cut(format!("{got:x?}")), cut(format!("{expected:x?}")));
    Err(format!("{what}: {got}, not {expected}"))
}
