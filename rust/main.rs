// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA version 1 for sunrpc: `rpcrdma.ko`.
//!
//! Registers what the in-tree C module of the same name registers, so either of
//! the two serves `mount -o proto=rdma`; never both.

#![crate_name = "rpcrdma"]

mod client;
mod endpoint;
#[cfg(RPCRDMA_SELFTEST)]
mod selftest;
mod server;

use kernel::prelude::*;

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
    _reverse: sunrpc::ClassRegistration,
    _server: sunrpc::SvcRegistration<server::Listener>,
    _server_sysctl: sunrpc::sysctl::SysctlRegistration,
    _client: sunrpc::ClassRegistration,
    _client_sysctl: sunrpc::sysctl::SysctlRegistration,
}

impl kernel::Module for RpcRdma {
    fn init(module: &'static ThisModule) -> Result<Self> {
        #[cfg(RPCRDMA_SELFTEST)]
        selftest::run()?;
        // What may lack memory comes first: a class that sunrpc knows may be in use at once, and that
        // does not keep the module if its start fails.
        Ok(Self {
            _server_sysctl: server::register_sysctls()?,
            _client_sysctl: client::register_sysctls()?,
            _reverse: server::BACKCHANNEL.register(module)?,
            _server: server::CLASS.register(module)?,
            _client: client::CLASS.register(module)?,
        })
    }
}
