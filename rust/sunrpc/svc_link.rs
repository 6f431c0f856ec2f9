// SPDX-License-Identifier: GPL-2.0

//! A weak reference from a server transport's own machinery back to its [`SvcXprt`].

use crate::SvcXprt;
use core::{
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicPtr,
        Ordering, //
    },
};
use kernel::{
    prelude::*,
    revocable::Revocable,
    sync::Arc, //
};

/// Names an [`SvcXprt`] without keeping it alive.
///
/// Completion and event handlers hold one. The last reference to a transport must not be dropped in
/// one of them, as that waits for the handlers to end.
pub struct SvcLink<S: Send + Sync + 'static> {
    target: Arc<Revocable<Target<S>>>,
}

/// # Invariants
///
/// Null, or points to a live `SvcXprt` until the [`Revocable`] around it is revoked.
struct Target<S: Send + Sync + 'static>(AtomicPtr<SvcXprt<S>>);

impl<S: Send + Sync + 'static> SvcLink<S> {
    /// A link to nothing.
    pub(crate) fn new() -> Result<Self> {
        // INVARIANT: Null.
        let target = Target(AtomicPtr::new(ptr::null_mut()));
        let target = Arc::pin_init(Revocable::new(target), GFP_KERNEL)?;
        Ok(Self { target })
    }

    /// Makes it a link to `xprt`.
    ///
    /// # Safety
    ///
    /// `xprt` stays a complete `SvcXprt` until [`Self::cut`] returned.
    pub(crate) unsafe fn tie(&self, xprt: NonNull<SvcXprt<S>>) {
        self.target.try_access_with(|target| {
            // INVARIANT: The caller keeps it alive until the link is cut.
            target.0.store(xprt.as_ptr(), Ordering::Release);
        });
    }

    /// Calls `f` with the transport. [`None`] if it is not complete yet, gone or going.
    ///
    /// `f` must not sleep.
    pub fn with<R>(&self, f: impl FnOnce(&SvcXprt<S>) -> R) -> Option<R> {
        self.target
            .try_access_with(|target| {
                let xprt = NonNull::new(target.0.load(Ordering::Acquire))?;
                // SAFETY: By the invariant of `Target` the transport lives while access is
                // granted; `cut` waits for us.
                Some(f(unsafe { xprt.as_ref() }))
            })
            .flatten()
    }

    /// Makes every later [`Self::with`] return [`None`], and waits for those that run.
    pub(crate) fn cut(&self) {
        self.target.revoke();
    }
}

impl<S: Send + Sync + 'static> Clone for SvcLink<S> {
    fn clone(&self) -> Self {
        Self {
            target: self.target.clone(),
        }
    }
}
