// SPDX-License-Identifier: GPL-2.0

//! Connections, messages and registered memory, over librdmacm and libibverbs.
//!
//! Nothing here knows what is sent. A connection has one completion queue and is used by one
//! thread; nothing waits longer than it is told to. All unsafe code of the peer is here.

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

/// The status of a work request that went well.
pub const SUCCESS: u32 = 0;

/// The statuses of one that the peer's device refused: `IBV_WC_REM_INV_REQ_ERR`, which is for an
/// atomic where there may be none, and `IBV_WC_REM_ACCESS_ERR`.
pub const DENIED: [u32; 2] = [9, 10];
