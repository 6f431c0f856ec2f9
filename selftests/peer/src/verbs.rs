// SPDX-License-Identifier: GPL-2.0

//! Connections, messages and registered memory, over librdmacm and libibverbs.
//!
//! Nothing here depends on what is sent. A connection has one completion queue and is used by one
//! thread; each wait has a timeout. All unsafe code is here and in `kernel_client.rs`, which mounts.

mod connection;
mod ffi;
mod memory;
mod resources;

pub use connection::Connection;
pub use connection::Listener;
pub use connection::Message;
pub use connection::Options;
pub use connection::Verb;
pub use memory::Access;
pub use memory::Region;
pub use memory::Window;

use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// From now on the packets of `socket`, which is not connected, have no identification in their IP header.
pub fn without_identification(socket: &UdpSocket) -> std::io::Result<()> {
    // SAFETY: It sets an option of a socket that is open.
    ffi::check(unsafe { ffi::peer_without_identification(socket.as_raw_fd()) })
}

/// `IBV_WC_SUCCESS`.
pub const SUCCESS: u32 = 0;

/// The statuses of a request that the other device refused: `IBV_WC_REM_INV_REQ_ERR`, for an atomic
/// operation that it does not allow, and `IBV_WC_REM_ACCESS_ERR`.
pub const DENIED: [u32; 2] = [9, 10];
