// SPDX-License-Identifier: GPL-2.0

//! Error numbers of connections and devices that the `kernel` crate does not name in every kernel.

use kernel::error::Error;

/// The address is of no family that is known here.
pub fn eafnosupport() -> Error {
    error(kernel::bindings::EAFNOSUPPORT)
}

/// What arrived is no frame.
pub fn eproto() -> Error {
    error(kernel::bindings::EPROTO)
}

/// The port is taken.
pub fn eaddrinuse() -> Error {
    error(kernel::bindings::EADDRINUSE)
}

/// This host, or the namespace, has no such address.
pub fn eaddrnotavail() -> Error {
    error(kernel::bindings::EADDRNOTAVAIL)
}

/// It is longer than what is sent in one piece.
pub fn emsgsize() -> Error {
    error(kernel::bindings::EMSGSIZE)
}

/// There is no connection.
pub fn enotconn() -> Error {
    error(kernel::bindings::ENOTCONN)
}

/// The attempt to connect has begun.
pub fn einprogress() -> Error {
    error(kernel::bindings::EINPROGRESS)
}

/// The peer refused to connect.
pub fn econnrefused() -> Error {
    error(kernel::bindings::ECONNREFUSED)
}

/// The peer, or the device, ended the connection.
pub fn econnreset() -> Error {
    error(kernel::bindings::ECONNRESET)
}

/// The device does not do that.
pub fn eopnotsupp() -> Error {
    error(kernel::bindings::EOPNOTSUPP)
}

fn error(number: u32) -> Error {
    // CAST: Error numbers are small.
    Error::from_errno(-(number as i32))
}
