// SPDX-License-Identifier: GPL-2.0

//! A software iWARP device on sockets of the kernel: `iwarp.ko`.
//!
//! The engine is the crate `rdmap`; `provider` joins it to ib_core and iw_cm, `socket` to TCP.

#![crate_name = "iwarp"]
#![forbid(unsafe_code)]

#[cfg(RPCRDMA_SELFTEST)]
#[path = "../ktap.rs"]
mod ktap;
#[cfg(RPCRDMA_SELFTEST)]
mod selftest;

use kernel::prelude::*;

module! {
    type: Iwarp,
    name: "iwarp",
    authors: ["The rpcrdma Rust developers"],
    description: "Software iWARP device, in Rust",
    license: "GPL",
    alias: ["rdma-link-iwarp-tcp"],
}

/// The loaded module.
struct Iwarp;

impl kernel::Module for Iwarp {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        #[cfg(RPCRDMA_SELFTEST)]
        selftest::run()?;
        Ok(Self)
    }
}
