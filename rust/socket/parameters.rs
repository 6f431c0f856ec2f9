// SPDX-License-Identifier: GPL-2.0

//! Parameters of the module about TCP. An administrator may change them at any time; a connection
//! keeps what they were when it began.

/// Returns whether connections have a CRC even if the peer wants none.
pub fn crc() -> bool {
    // SAFETY: The function has no preconditions.
    unsafe { cbindings::crc() }
}
