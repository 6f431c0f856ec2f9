// SPDX-License-Identifier: GPL-2.0

//! Error codes of connections and devices.
//!
//! [`kernel::error::code`] has them in kernel 7.3. This module goes with kernel 7.2.

use kernel::error::Error;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident: $code:ident),* $(,)?) => {
        $(
            $(#[$doc])*
            pub fn $name() -> Error {
                // CAST: The numbers are below 4096.
                Error::from_errno(-(kernel::bindings::$code as i32))
            }
        )*
    };
}

errors! {
    /// The port is in use.
    eaddrinuse: EADDRINUSE,
    /// This host, or the namespace, does not have the address.
    eaddrnotavail: EADDRNOTAVAIL,
    /// The address family is not supported.
    eafnosupport: EAFNOSUPPORT,
    /// The peer refused to connect.
    econnrefused: ECONNREFUSED,
    /// The peer, or the device, reset the connection.
    econnreset: ECONNRESET,
    /// No device or path leads to the peer, or it does not answer.
    ehostunreach: EHOSTUNREACH,
    /// The connection attempt has begun.
    einprogress: EINPROGRESS,
    /// The message is longer than the greatest that is sent in one piece.
    emsgsize: EMSGSIZE,
    /// There is no connection, or it has ended.
    enotconn: ENOTCONN,
    /// The device does not support the operation.
    eopnotsupp: EOPNOTSUPP,
    /// The octets that arrived are no frame.
    eproto: EPROTO,
    /// The operation timed out.
    etimedout: ETIMEDOUT,
}
