// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA version 1 for sunrpc: `rpcrdma.ko`.
//!
//! This module registers the same transport classes and sysctls as the in-tree module of the same
//! name. Either of them serves `mount -o proto=rdma`; they cannot be loaded together.

#![crate_name = "rpcrdma"]
#![forbid(unsafe_code)]

#[cfg(RPCRDMA_SELFTEST)]
mod selftest;

use kernel::prelude::*;
use sunrpc::{
    sysctl::SysctlRegistration,
    ClassRegistration, //
};

module! {
    type: RpcRdma,
    name: "rpcrdma",
    authors: ["The rpcrdma Rust developers"],
    description: "RPC-over-RDMA transport, in Rust",
    license: "GPL",
    alias: ["rpcrdma6", "xprtrdma", "svcrdma"],
}

/// The loaded module.
struct RpcRdma {
    _server: server::Classes,
    _server_sysctl: SysctlRegistration,
    _client: ClassRegistration,
    _client_sysctl: SysctlRegistration,
    // Dropped last: connections need it.
    _rdma: rdma::ClientRegistration,
}

impl kernel::Module for RpcRdma {
    fn init(module: &'static ThisModule) -> Result<Self> {
        let rdma = rdma::ClientRegistration::new()?;
        #[cfg(RPCRDMA_SELFTEST)]
        selftest::run()?;
        // The registrations that can fail for lack of memory come first. A registered class may be
        // used at once, and such use would not keep the module loaded if `init` failed after it.
        Ok(Self {
            _server_sysctl: server::register_sysctls()?,
            _client_sysctl: client::register_sysctls()?,
            _server: server::register_classes(module)?,
            _client: client::register_class(module)?,
            _rdma: rdma,
        })
    }
}
