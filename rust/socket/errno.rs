// SPDX-License-Identifier: GPL-2.0

//! Error numbers of sockets that the `kernel` crate does not name in every kernel.

use kernel::error::Error;

/// The address is of no family that is known here.
pub(crate) fn eafnosupport() -> Error {
    error(kernel::bindings::EAFNOSUPPORT)
}

/// What arrived is no frame.
pub(crate) fn eproto() -> Error {
    error(kernel::bindings::EPROTO)
}

/// The port is taken.
pub(crate) fn eaddrinuse() -> Error {
    error(kernel::bindings::EADDRINUSE)
}

/// The attempt to connect has begun.
pub(crate) fn einprogress() -> Error {
    error(kernel::bindings::EINPROGRESS)
}

fn error(number: u32) -> Error {
    // CAST: Error numbers are small.
    Error::from_errno(-(number as i32))
}
