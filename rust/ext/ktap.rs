// SPDX-License-Identifier: GPL-2.0

//! The harness of tests in the kernel, which run when a module loads and report as KTAP in the log.
//! Each module has a list of its own.
//!
//! Only in modules built with `RPCRDMA_SELFTEST=1`.

use crate::errno::eopnotsupp;
use core::fmt::Arguments;
use kernel::prelude::*;

/// A list of tests, each with the claim that it shows. A test returns true if it passed, and
/// `EOPNOTSUPP` if it does not apply to the device.
pub type Tests = [(&'static str, fn() -> Result<bool>)];

/// Runs all tests, and passes the lines of the report to `log`, which has the prefix of the module.
/// Returns an error if one failed: then the module does not load.
pub fn run(tests: &[&Tests], log: fn(Arguments<'_>)) -> Result {
    let mut failed = false;
    let not_supported = eopnotsupp();
    let count: usize = tests.iter().map(|tests| tests.len()).sum();
    log(format_args!("KTAP version 1"));
    log(format_args!("1..{count}"));
    for (number, (name, test)) in (1..).zip(tests.iter().copied().flatten()) {
        match test() {
            Ok(true) => log(format_args!("ok {number} {name}")),
            Err(error) if error == not_supported => {
                log(format_args!("ok {number} {name} # SKIP not on this device"));
            }
            Ok(false) => {
                log(format_args!("not ok {number} {name}"));
                failed = true;
            }
            Err(error) => {
                log(format_args!("not ok {number} {name}: {error:?}"));
                failed = true;
            }
        }
    }
    if failed {
        Err(EINVAL)
    } else {
        Ok(())
    }
}
