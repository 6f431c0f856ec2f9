// SPDX-License-Identifier: GPL-2.0

//! Error codes of connections and devices that the `kernel` crate does not name in every kernel.

use kernel::error::Error;

/// The address family is not supported.
pub fn eafnosupport() -> Error {
    error(kernel::bindings::EAFNOSUPPORT)
}

/// The octets that arrived are no frame.
pub fn eproto() -> Error {
    error(kernel::bindings::EPROTO)
}

/// The port is in use.
pub fn eaddrinuse() -> Error {
    error(kernel::bindings::EADDRINUSE)
}

/// This host, or the namespace, does not have the address.
pub fn eaddrnotavail() -> Error {
    error(kernel::bindings::EADDRNOTAVAIL)
}

/// The message is longer than the greatest that is sent in one piece.
pub fn emsgsize() -> Error {
    error(kernel::bindings::EMSGSIZE)
}

/// There is no connection.
pub fn enotconn() -> Error {
    error(kernel::bindings::ENOTCONN)
}

/// The connection attempt has begun.
pub fn einprogress() -> Error {
    error(kernel::bindings::EINPROGRESS)
}

/// The peer refused to connect.
pub fn econnrefused() -> Error {
    error(kernel::bindings::ECONNREFUSED)
}

/// The peer, or the device, reset the connection.
pub fn econnreset() -> Error {
    error(kernel::bindings::ECONNRESET)
}

/// The device does not support the operation.
pub fn eopnotsupp() -> Error {
    error(kernel::bindings::EOPNOTSUPP)
}

fn error(number: u32) -> Error {
    // CAST: Error numbers are small.
    Error::from_errno(-(number as i32))
}
