// SPDX-License-Identifier: GPL-2.0

//! A test case, and what a case expects.

use crate::connection::Device;

/// Nothing if the kernel did what it must, else what it did.
pub type Outcome = Result<(), String>;

/// A case, on a device.
pub type Case = fn(&Device) -> Outcome;

/// The cases of one file, by name.
pub type Table = &'static [(&'static str, Case)];

/// `cases![one, another]` makes the table of these functions, which is called `CASES`.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        /// The cases of this file, by name.
        pub const CASES: $crate::case::Table = &[$((stringify!($name), $name)),*];
    };
}
pub(crate) use cases;

/// Expects that something holds.
pub fn expect(what: &str, holds: bool) -> Outcome {
    match holds {
        true => Ok(()),
        false => Err(format!("not so: {what}")),
    }
}

/// Expects one of these errors.
pub fn refused<T>(what: &str, result: Result<T, i32>, errnos: &[i32]) -> Outcome {
    match result {
        Ok(_) => Err(format!("{what} is allowed")),
        Err(errno) if errnos.contains(&errno) => Ok(()),
        Err(errno) => Err(format!(
            "{what} fails with errno {errno}, none of {errnos:?}"
        )),
    }
}
