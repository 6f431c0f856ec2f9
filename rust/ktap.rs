// SPDX-License-Identifier: GPL-2.0

//! The harness of in-kernel tests, which run when the module loads and report as KTAP in the log.
//! Each module has a list of its own.
//!
//! Only in modules built with `RPCRDMA_SELFTEST=1`.

use kernel::{
    error::Error,
    prelude::*, //
};

/// A list of tests, each with the claim that it shows. A test returns true if it passed, and
/// `EOPNOTSUPP` if it does not apply to the device.
type Tests = [(&'static str, fn() -> Result<bool>)];

/// Runs all tests and logs the results. Returns an error if one failed: then the module does not
/// load.
pub(crate) fn run(tests: &[&Tests]) -> Result {
    let mut failed = false;
    // CAST: Error numbers are small.
    let not_supported = Error::from_errno(-(kernel::bindings::EOPNOTSUPP as i32));
    pr_info!("KTAP version 1\n");
    pr_info!(
        "1..{}\n",
        tests.iter().map(|tests| tests.len()).sum::<usize>()
    );
    for (number, (name, test)) in (1..).zip(tests.iter().copied().flatten()) {
        match test() {
            Ok(true) => pr_info!("ok {number} {name}\n"),
            Err(error) if error == not_supported => {
                pr_info!("ok {number} {name} # SKIP not on this device\n");
            }
            Ok(false) => {
                pr_info!("not ok {number} {name}\n");
                failed = true;
            }
            Err(error) => {
                pr_info!("not ok {number} {name}: {error:?}\n");
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
