// SPDX-License-Identifier: GPL-2.0

//! Differences among the kernels that this module is built for (`scripts/buildroot/kernels`), where
//! no single source serves all.
//!
//! Kbuild searches the metadata of the kernel that it builds for, and sets a `cfg` of this crate
//! for each thing found. A variant that no kernel of the list needs any more is removed, here and
//! there.
//!
//! | cfg | found in | what it says | kernels without it |
//! |---|---|---|---|
//! | `RPCRDMA_RAW_TRY_INIT` | `pin_init` | `raw_try_init` replaces `PinInit::__pinned_init` | 7.2 |
//!
//! Error codes that 7.2 lacks are in [`errno`](crate::errno), which goes with that kernel.

use pin_init::PinInit;

/// Initialises memory in place. If that fails, the memory counts as uninitialised, and may only be
/// freed.
///
/// # Safety
///
/// `slot` is valid for writes and aligned, nobody else uses it, and the value in it is not moved
/// until it is dropped.
#[inline]
pub unsafe fn try_init<T, E>(slot: *mut T, init: impl PinInit<T, E>) -> Result<(), E> {
    #[cfg(RPCRDMA_RAW_TRY_INIT)]
    // SAFETY: The caller promises a valid, aligned `slot` that nobody else uses and whose value is
    // not moved, which is all that the call demands.
    unsafe {
        pin_init::raw_try_init(slot, init)
    }
    #[cfg(not(RPCRDMA_RAW_TRY_INIT))]
    // SAFETY: The caller promises a valid, aligned `slot` that nobody else uses and whose value is
    // not moved, which is all that the call demands.
    unsafe {
        init.__pinned_init(slot)
    }
}
