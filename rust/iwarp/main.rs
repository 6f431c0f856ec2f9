// SPDX-License-Identifier: GPL-2.0

//! A software iWARP device on sockets of the kernel: `iwarp.ko`.
//!
//! The crate `rdmap` is the protocol; `provider` connects it to ib_core and iw_cm, `socket` to TCP
//! and SCTP. This crate decides what happens when.
//!
//! # Who has what
//!
//! ```text
//! Listener -> Acceptor <- Request        until the consumer decides
//!                         Qp -> Connecting, then Stream
//!                         ClosingConn            until the peer has what was sent last
//! ```
//!
//! The LLP is a type parameter of them all ([`llp`]), and a module of its own: [`tcp`], [`sctp`].
//!
//! Each of `Acceptor`, `Request`, `Qp` and `ClosingConn` has a worker on the module's workqueue, a
//! `Qp` of a process on one that has no priority, and one that has much to do goes on in a third.
//! The worker is the only user of its socket, and there is a mutex around the state of the worker.
//! A socket's events queue the work that its [`event_target`] points at.
//!
//! # Locks
//!
//! The mutex of a `Qp`, `Request` or `Acceptor` is taken first, that of an `Acceptor` inside that
//! of a `Request`, and that of a `ClosingConn` inside that of a `Qp`; then the socket's lock; then
//! that of a region. Events go to iw_cm under these mutexes, and iw_cm calls none of these
//! functions under a lock that its event handler takes.
//!
//! The locks of the queues between a consumer or a process and a `Qp` are innermost: nothing is
//! called under them. Those under which completions and events are reported are taken with none of
//! these held, and outside the locks of ib_uverbs. A process that posts holds locks of ib_uverbs,
//! and takes none but that of a queue. The lock of the registry of devices is taken inside RTNL,
//! and inside the mutex of a listener; nothing waits under it.

#![crate_name = "iwarp"]
#![forbid(unsafe_code)]

mod addr_changes;
mod closing;
mod connect;
mod device;
mod end_reason;
mod event_target;
mod listen_sockets;
mod listener;
mod llp;
mod memory;
mod prelude;
mod qp;
mod sctp;
mod stream;
mod tcp;

use crate::prelude::*;

module! {
    type: Iwarp,
    name: "iwarp",
    authors: ["The rpcrdma Rust developers"],
    description: "Software iWARP device, in Rust",
    license: "GPL",
    alias: ["rdma-link-iwarp-tcp", "rdma-link-iwarp-sctp"],
}

/// The loaded module. Its fields are dropped in this order: devices, then the workqueue, then
/// callbacks that still run.
struct Iwarp {
    _tcp: provider::RdmaLinkType<device::Device<tcp::Tcp>>,
    _sctp: provider::RdmaLinkType<device::Device<sctp::Sctp>>,
    _service: provider::work::ModuleQueue,
    _callbacks: Callbacks,
}

/// Waits, when it is dropped, until no callback of a socket runs.
struct Callbacks;

impl Drop for Callbacks {
    fn drop(&mut self) {
        socket::wait_for_callbacks();
    }
}

impl kernel::Module for Iwarp {
    fn init(module: &'static ThisModule) -> Result<Self> {
        #[cfg(RPCRDMA_SELFTEST)]
        ext::ktap::run(
            &[
                provider::selftest::TESTS,
                provider::selftest::USER_TESTS,
                socket::selftest::TESTS,
                memory::selftest::TESTS,
                tcp::selftest::TESTS,
            ],
            |line| pr_info!("{line}\n"),
        )?;
        socket::sctp::check_addresses().inspect_err(|_| {
            pr_err!("sctp_addresses has something that is no address of a host\n")
        })?;
        let service = provider::work::ModuleQueue::start(
            c_str!("iwarp"),
            c_str!("iwarp-long"),
            c_str!("iwarp-user"),
        )?;
        Ok(Self {
            _tcp: provider::RdmaLinkType::new(module)?,
            _sctp: provider::RdmaLinkType::new(module)?,
            _service: service,
            _callbacks: Callbacks,
        })
    }
}
