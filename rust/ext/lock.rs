// SPDX-License-Identifier: GPL-2.0

//! A spin lock for any context in which verbs are called.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)
//!
//! Interrupts are off while it is held, and are then restored. It takes a closure instead of
//! returning a guard, as guards may be dropped in any order, while closures end in the right one.
//!
//! With PREEMPT_RT interrupts stay on, and a task that waits for the lock sleeps: nothing takes it
//! with a raw lock held, with preemption off, or in an interrupt that has no thread. No data behind
//! such a lock rely on interrupts being off.

use core::cell::UnsafeCell;
use kernel::{
    prelude::*,
    sync::LockClassKey,
    types::Opaque, //
};

/// Data protected by a spin lock.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ext::{
///     lock::IrqLock,
///     new_irq_lock, //
/// };
///
/// /// Counts what interrupts report.
/// #[pin_data]
/// struct Reports {
///     #[pin]
///     count: IrqLock<u64>,
/// }
///
/// impl Reports {
///     fn new() -> impl PinInit<Self> {
///         pin_init!(Self {
///             count <- new_irq_lock!(0),
///         })
///     }
/// }
///
/// let reports = KBox::pin_init(Reports::new(), GFP_KERNEL)?;
/// reports.count.with(|count| *count += 1);
/// # Ok::<(), Error>(())
/// ```
#[pin_data]
pub struct IrqLock<T> {
    #[pin]
    lock: Opaque<cbindings::spinlock_t>,
    data: UnsafeCell<T>,
}

// SAFETY: The lock may be sent if its data may.
unsafe impl<T: Send> Send for IrqLock<T> {}
// SAFETY: The spin lock gives one task or interrupt at a time access to the data, which may be
// sent.
unsafe impl<T: Send> Sync for IrqLock<T> {}

impl<T> IrqLock<T> {
    /// Creates a lock of this class; use [`new_irq_lock!`](crate::new_irq_lock).
    pub fn new(
        data: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `Opaque::ffi_init` passes a valid pointer to pinned memory; name and key are
            // static.
            lock <- Opaque::ffi_init(|slot: *mut cbindings::spinlock_t| unsafe {
                kernel::bindings::__spin_lock_init(slot.cast(), name.as_char_ptr(), key.as_ptr().cast())
            }),
            data: UnsafeCell::new(data),
        })
    }

    /// Runs `f` with the data. It must not sleep, and must not take the same lock again.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: The initialiser of `new` has run, and the lock is pinned.
        let flags = unsafe { cbindings::spin_lock_irqsave(self.lock.get()) };
        // SAFETY: The lock is held, so nobody else has a reference to the data.
        let result = f(unsafe { &mut *self.data.get() });
        // SAFETY: The lock was taken above by this function, with these flags.
        unsafe { cbindings::spin_unlock_irqrestore(self.lock.get(), flags) };
        result
    }
}

/// Creates an [`IrqLock`] with a lock class of its own.
#[macro_export]
macro_rules! new_irq_lock {
    ($data:expr) => {
        $crate::lock::IrqLock::new(
            $data,
            ::kernel::c_str!(::core::concat!(::core::file!(), ":", ::core::line!())),
            ::kernel::static_lock_class!(),
        )
    };
}
