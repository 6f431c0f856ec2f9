// SPDX-License-Identifier: GPL-2.0

//! Error numbers that sunrpc gives a meaning to and the `kernel` crate does not name.

use kernel::ffi::c_int;

/// There is no connection.
pub(crate) const ENOTCONN: c_int = errno(kernel::bindings::ENOTCONN);
/// The request has no credit.
pub(crate) const EBADSLT: c_int = errno(kernel::bindings::EBADSLT);
/// No memory now; try again after a while.
pub(crate) const ENOBUFS: c_int = errno(kernel::bindings::ENOBUFS);

const fn errno(code: u32) -> c_int {
    // CAST: The numbers are below 4096.
    -(code as c_int)
}
