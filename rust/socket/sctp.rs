// SPDX-License-Identifier: GPL-2.0

//! SCTP sockets of the kernel, one association each: chunks out, chunks and notifications in.
//!
//! C header: [`include/uapi/linux/sctp.h`](srctree/include/uapi/linux/sctp.h)
//!
//! Nothing of SCTP is linked to, so that its module is loaded only while it is used: a socket is
//! created by the protocol's number, and everything else goes through the functions of the socket.
//!
//! Every chunk is sent unordered and unfragmented; a longer one is refused, and
//! [`Association::fragmentation_point`] says how long it may be now.

pub(crate) mod addresses;
mod association;
mod control;
mod listener;
mod notification;
mod settings;
mod write_space;

pub use addresses::check as check_addresses;
pub use addresses::contains as has_address;
pub use association::Association;
pub use association::Received;
pub use association::Sent;
pub use listener::Accepted;
pub use listener::Listener;
pub use notification::Notification;
pub use settings::Settings;
