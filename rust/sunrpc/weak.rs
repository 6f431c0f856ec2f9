// SPDX-License-Identifier: GPL-2.0

//! A weak reference from a transport's own handlers back to its `Xprt` or `SvcXprt`.
//!
//! sunrpc counts every reference that it knows of. This one is not counted, and the transport
//! revokes it before it is freed.

use crate::prelude::*;
use core::sync::atomic::AtomicPtr;
use kernel::revocable::Revocable;

/// A reference to a transport `X` that does not keep it alive.
///
/// Completion and event handlers hold one. They may run while the transport is destroyed, and must
/// not drop its last reference, as destruction waits until the handlers have returned.
///
/// # Examples
///
/// ```
/// use sunrpc::{
///     Transport,
///     WeakXprt, //
/// };
///
/// /// Has the sender try again, from a completion handler. Does nothing if the transport is gone.
/// fn space_freed<T: Transport>(xprt: &WeakXprt<T>) {
///     xprt.with(|xprt| xprt.write_space());
/// }
/// ```
pub struct Weak<X: Send + Sync + 'static> {
    target: Arc<Revocable<Target<X>>>,
}

/// # Invariants
///
/// Null, or points to a live `X` until the [`Revocable`] around it is revoked.
struct Target<X>(AtomicPtr<X>);

impl<X: Send + Sync + 'static> Weak<X> {
    /// Returns a weak reference to no transport.
    pub(crate) fn new() -> Result<Self> {
        // INVARIANT: Null.
        let target = Target(AtomicPtr::new(ptr::null_mut()));
        let target = Arc::pin_init(Revocable::new(target), GFP_KERNEL)?;
        Ok(Self { target })
    }

    /// Makes this and all its clones refer to `xprt`.
    ///
    /// # Safety
    ///
    /// `xprt` is complete, and stays so until [`Self::revoke`] has returned.
    pub(crate) unsafe fn set(&self, xprt: NonNull<X>) {
        self.target.try_access_with(|target| {
            // INVARIANT: The caller keeps it alive until the weak reference is revoked.
            target.0.store(xprt.as_ptr(), Ordering::Release);
        });
    }

    /// Calls `f` with the transport. Returns [`None`] if that is not complete yet, or is being
    /// destroyed.
    ///
    /// `f` must not sleep.
    pub fn with<R>(&self, f: impl FnOnce(&X) -> R) -> Option<R> {
        self.target
            .try_access_with(|target| {
                let xprt = NonNull::new(target.0.load(Ordering::Acquire))?;
                // SAFETY: By the invariant of `Target` the transport lives while access is
                // granted; `revoke` waits until `f` has returned.
                Some(f(unsafe { xprt.as_ref() }))
            })
            .flatten()
    }

    /// Makes every later [`Self::with`] return [`None`], and waits for those that run. Sleeps.
    pub(crate) fn revoke(&self) {
        self.target.revoke();
    }
}

impl<X: Send + Sync + 'static> Clone for Weak<X> {
    fn clone(&self) -> Self {
        Self {
            target: self.target.clone(),
        }
    }
}
