// SPDX-License-Identifier: GPL-2.0

//! Vectors of octets that are zero.

use kernel::{
    alloc::{
        Allocator,
        Flags,
        Vec, //
    },
    prelude::*, //
};

/// Allocates `len` octets that are zero, with `flags`.
///
/// [`Vec::from_elem`] writes them one by one, which for a message of 8 KiB takes as long as a
/// twentieth of the RPC.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// let octets: KVec<u8> = ext::zeroed::vec(3, GFP_KERNEL)?;
/// assert_eq!(*octets, [0, 0, 0]);
/// # Ok::<(), Error>(())
/// ```
pub fn vec<A: Allocator>(len: usize, flags: Flags) -> Result<Vec<u8, A>> {
    let mut octets = Vec::with_capacity(len, flags | __GFP_ZERO)?;
    // SAFETY: The vector is empty and has room for `len` octets, which the allocator has set to
    // zero.
    unsafe { octets.inc_len(len) };
    Ok(octets)
}
