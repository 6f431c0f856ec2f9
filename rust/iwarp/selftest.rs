// SPDX-License-Identifier: GPL-2.0

//! The tests in `iwarp.ko` that need the kernel.

use kernel::prelude::*;

/// Runs all tests.
pub(crate) fn run() -> Result {
    crate::ktap::run(&[
        provider::selftest::TESTS,
        socket::selftest::TESTS,
        crate::tcp::selftest::TESTS,
    ])
}
