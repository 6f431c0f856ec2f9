// SPDX-License-Identifier: GPL-2.0

//! Network namespaces.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use core::ptr::NonNull;

/// A network namespace.
///
/// # Invariants
///
/// The pointer is to a live `struct net`, to which the value owns a reference.
pub struct Net(NonNull<cbindings::net>);

// SAFETY: The reference belongs to no task, and the last one may be put in any.
unsafe impl Send for Net {}
// SAFETY: `&Net` gives the pointer and further references; any task may use a `struct net`, and its
// count is atomic.
unsafe impl Sync for Net {}

impl Net {
    /// Takes a reference to the namespace.
    ///
    /// # Safety
    ///
    /// The caller has a reference, or otherwise keeps the namespace during the call.
    pub unsafe fn from_raw(net: NonNull<cbindings::net>) -> Self {
        // SAFETY: The caller promises that the namespace is alive.
        unsafe { cbindings::get_net(net.as_ptr()) };
        // INVARIANT: The reference was just taken.
        Self(net)
    }

    /// Returns the initial namespace.
    pub fn init() -> Self {
        // SAFETY: The address of a static is not null, and the initial namespace is never freed.
        unsafe { Self::from_raw(NonNull::new_unchecked(&raw mut cbindings::init_net)) }
    }

    /// Returns the pointer for C functions.
    #[inline]
    pub fn as_raw(&self) -> *mut cbindings::net {
        self.0.as_ptr()
    }
}

impl PartialEq for Net {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Net {}

impl Clone for Net {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariants `self` has a reference, which keeps the namespace.
        unsafe { Self::from_raw(self.0) }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the value owns a reference, which is put only here.
        unsafe { cbindings::put_net(self.0.as_ptr()) };
    }
}
