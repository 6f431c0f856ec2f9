// SPDX-License-Identifier: GPL-2.0

//! The spin locks of sunrpc's structures.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)

use kernel::sync::{
    SpinLock,
    SpinLockGuard, //
};

/// Takes a spin lock that C initialised.
///
/// # Safety
///
/// `lock` is one, and stays allocated until the guard has released it, after which `'a` may be
/// over.
pub(crate) unsafe fn lock<'a>(lock: *mut raw::spinlock_t) -> SpinLockGuard<'a, ()> {
    // CAST: Both types are what C calls `spinlock_t`.
    // SAFETY: The caller vouches for the lock.
    unsafe { SpinLock::from_raw(lock.cast()) }.lock()
}
