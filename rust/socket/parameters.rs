// SPDX-License-Identifier: GPL-2.0

//! Parameters of the module about TCP. An administrator may change them at any time; a connection
//! keeps what they were when it began.

/// Returns whether connections have a CRC even if the peer wants none.
pub fn crc() -> bool {
    // SAFETY: The function has no preconditions.
    unsafe { cbindings::crc() }
}

/// Returns the length of segments that a peer takes, in octets, however short TCP's are. 0 if that
/// is what the peer announces.
pub fn mulpdu() -> u32 {
    // SAFETY: The function has no preconditions.
    unsafe { cbindings::mulpdu() }
}
