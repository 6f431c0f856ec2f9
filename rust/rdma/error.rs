// SPDX-License-Identifier: GPL-2.0

//! Error codes that the `kernel` crate does not name.

use kernel::error::Error;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident: $code:ident),* $(,)?) => {
        $(
            $(#[$doc])*
            pub fn $name() -> Error {
                // CAST: The numbers are below 4096.
                Error::from_errno(-(cbindings::$code as i32))
            }
        )*
    };
}

errors! {
    /// There is no connection, or it has ended.
    not_connected: ENOTCONN,
    /// The peer refused.
    connection_refused: ECONNREFUSED,
    /// No device or path leads to the peer, or it does not answer.
    host_unreachable: EHOSTUNREACH,
    /// The operation timed out.
    timed_out: ETIMEDOUT,
    /// The device lacks a feature that this crate needs.
    not_supported: EOPNOTSUPP,
}
