// SPDX-License-Identifier: GPL-2.0

//! A weak reference from the transport's own machinery back to its [`Xprt`].

use crate::{
    Transport,
    Xprt, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    revocable::Revocable,
    sync::Arc, //
};

/// Names an [`Xprt`] without keeping it alive.
///
/// Completion and event handlers hold one: they may run while the transport is destroyed, and must
/// not be what keeps it from that.
pub struct XprtLink<T: Transport> {
    target: Arc<Revocable<Target<T>>>,
}

/// # Invariants
///
/// Points to a live `Xprt` until the [`Revocable`] around it is revoked.
struct Target<T: Transport>(NonNull<Xprt<T>>);

// SAFETY: It is as good as `&Xprt<T>`, and `Xprt<T>` is `Sync`.
unsafe impl<T: Transport> Send for Target<T> {}
// SAFETY: As above.
unsafe impl<T: Transport> Sync for Target<T> {}

impl<T: Transport> XprtLink<T> {
    /// # Safety
    ///
    /// `xprt` is a complete `Xprt` before the link is used, and stays one until [`Self::cut`]
    /// returned.
    pub(crate) unsafe fn new(xprt: NonNull<Xprt<T>>) -> Result<Self> {
        // INVARIANT: The caller keeps `xprt` alive until the link is cut.
        let target = Arc::pin_init(Revocable::new(Target(xprt)), GFP_KERNEL)?;
        Ok(Self { target })
    }

    /// Calls `f` with the transport. [`None`] if it is gone or going.
    ///
    /// `f` must not sleep.
    pub fn with<R>(&self, f: impl FnOnce(&Xprt<T>) -> R) -> Option<R> {
        self.target.try_access_with(|target| {
            // SAFETY: By the invariant of `Target` the transport lives while access is granted;
            // `cut` waits for us.
            f(unsafe { target.0.as_ref() })
        })
    }

    /// Makes every later [`Self::with`] return [`None`], and waits for those that run.
    pub(crate) fn cut(&self) {
        self.target.revoke();
    }
}

impl<T: Transport> Clone for XprtLink<T> {
    fn clone(&self) -> Self {
        Self {
            target: self.target.clone(),
        }
    }
}
