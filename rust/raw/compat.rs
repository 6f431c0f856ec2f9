// SPDX-License-Identifier: GPL-2.0

//! Differences among the kernels that this module is built for (`scripts/buildroot/kernels`), where one text cannot serve all.
//!
//! Kbuild looks into the metadata of the kernel that it builds for, and what it finds is a `cfg` of this crate. What no kernel of
//! the list needs any more goes, here and there.
//!
//! | cfg | found in | what it says | kernels without it |
//! |---|---|---|---|
//! | `RPCRDMA_RAW_TRY_INIT` | `pin_init` | There is `raw_try_init`, and `PinInit` has no `__pinned_init`. | 7.2 |

use pin_init::PinInit;

/// Initialises memory in place. It is left as it was, and may only be freed, if that fails.
///
/// # Safety
///
/// `slot` is valid for writes and aligned, nobody else uses it, and it is not moved until what is in it then is dropped.
#[inline]
pub unsafe fn try_init<T, E>(slot: *mut T, init: impl PinInit<T, E>) -> Result<(), E> {
    #[cfg(RPCRDMA_RAW_TRY_INIT)]
    // SAFETY: The caller keeps the same promises.
    unsafe {
        pin_init::raw_try_init(slot, init)
    }
    #[cfg(not(RPCRDMA_RAW_TRY_INIT))]
    // SAFETY: The caller keeps the same promises.
    unsafe {
        init.__pinned_init(slot)
    }
}
