// SPDX-License-Identifier: GPL-2.0

//! The in-kernel tests of `rpcrdma.ko`.

use kernel::prelude::*;

/// Runs all tests.
pub(crate) fn run() -> Result {
    let tests = [
        ext::selftest::TESTS,
        sunrpc::selftest::TESTS,
        sunrpc::selftest::buffers::TESTS,
        sunrpc::selftest::calls::TESTS,
        sunrpc::selftest::callbacks::TESTS,
        sunrpc::selftest::svc_transports::TESTS,
        rdma::selftest::TESTS,
        endpoint::selftest::TESTS,
        client::selftest::TESTS,
        server::selftest::TESTS,
    ];
    ext::ktap::run(&tests, |line| pr_info!("{line}\n"))
}
