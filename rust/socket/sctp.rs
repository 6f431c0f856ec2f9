// SPDX-License-Identifier: GPL-2.0

//! SCTP sockets of the kernel, one association each: chunks out, chunks and notifications in.
//!
//! C header: [`include/uapi/linux/sctp.h`](srctree/include/uapi/linux/sctp.h)
//!
//! Nothing of SCTP is linked to, so that its module is there only while somebody uses it: a socket is made by its number, and all
//! else goes by the functions of the socket.
//!
//! Every chunk is sent unordered and whole; what is too long is refused, and [`Association::fragmentation_point`] says how
//! much it may be now.

pub(crate) mod addresses;
mod association;
mod control;
mod listener;
mod notification;
mod room;
mod settings;

pub use addresses::check as check_addresses;
pub use addresses::contains as has_address;
pub use association::Arrived;
pub use association::Association;
pub use association::Sent;
pub use listener::Accepted;
pub use listener::Listener;
pub use notification::Notification;
pub use settings::Settings;
