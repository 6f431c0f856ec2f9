// SPDX-License-Identifier: GPL-2.0

//! Error codes that the `kernel` crate does not name.

use kernel::error::Error;

/// There is no connection, or no longer one.
pub fn not_connected() -> Error {
    Error::from_errno(-(raw::ENOTCONN as i32))
}

/// The device lacks what we cannot do without.
pub(crate) fn not_supported() -> Error {
    Error::from_errno(-(raw::EOPNOTSUPP as i32))
}
