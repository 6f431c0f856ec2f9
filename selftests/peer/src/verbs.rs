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
