// SPDX-License-Identifier: GPL-2.0

//! Error numbers that sunrpc gives a meaning to and the `kernel` crate does not name.

use kernel::{
    error::Error,
    ffi::c_int,
    prelude::ENOMEM, //
};

/// There is no connection.
pub(crate) const ENOTCONN: c_int = errno(kernel::bindings::ENOTCONN);
/// The request has no credit.
pub(crate) const EBADSLT: c_int = errno(kernel::bindings::EBADSLT);
/// No memory now; try again after a while.
pub(crate) const ENOBUFS: c_int = errno(kernel::bindings::ENOBUFS);

/// What becomes of the calls that wait for a connection when the attempt to make one failed with `error`.
///
/// sunrpc tries again after those that it knows from sockets, and fails the calls with all others, even on
/// a hard mount. A device fails in more ways for a moment. The error that stays an error is that of a
/// device that will never do.
pub(crate) fn of_attempt(error: Error) -> c_int {
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
