// SPDX-License-Identifier: GPL-2.0

//! Error numbers that have a meaning to sunrpc and that the `kernel` crate does not name.

use kernel::{
    error::Error,
    ffi::c_int,
    prelude::ENOMEM, //
};

/// No connection.
pub(crate) const ENOTCONN: c_int = errno(kernel::bindings::ENOTCONN);
/// The request has no credit.
pub(crate) const EBADSLT: c_int = errno(kernel::bindings::EBADSLT);
/// No memory now; try again after a while.
pub(crate) const ENOBUFS: c_int = errno(kernel::bindings::ENOBUFS);

/// Returns the status for the calls that wait for a connection, after the attempt to connect failed
/// with `error`.
///
/// sunrpc tries again after the errors that it knows from sockets, and fails the calls with all
/// others, even on a hard mount. A device has more errors that are temporary. `EOPNOTSUPP` stays as
/// it is: a device that lacks a feature that the transport needs will never have it.
pub(crate) fn of_connect_error(error: Error) -> c_int {
    use kernel::bindings as c;
    const KNOWN: [c_int; 13] = [
        errno(c::ENETDOWN),
        errno(c::ENETUNREACH),
        errno(c::ECONNREFUSED),
        errno(c::ECONNRESET),
        errno(c::ECONNABORTED),
        errno(c::EHOSTUNREACH),
        errno(c::EPIPE),
        errno(c::EPROTO),
        errno(c::EADDRINUSE),
        ENOTCONN,
        errno(c::EAGAIN),
        errno(c::ETIMEDOUT),
        errno(c::EOPNOTSUPP),
    ];
    if error == ENOMEM {
        return ENOBUFS;
    }
    let code = error.to_errno();
    if KNOWN.contains(&code) {
        code
    } else {
        errno(c::ECONNABORTED)
    }
}

const fn errno(code: u32) -> c_int {
    // CAST: The numbers are below 4096.
    -(code as c_int)
}
