// SPDX-License-Identifier: GPL-2.0

//! A spin lock that may be taken in any context in which verbs are called.
//!
//! C header: [`include/linux/spinlock.h`](srctree/include/linux/spinlock.h)
//!
//! Interrupts are off while it is held, and come back as they were. That is why there is a closure and no guard: guards
//! may be dropped in any order, closures end in the right one.
//!
//! With PREEMPT_RT interrupts stay on, and who waits for it sleeps: nothing takes it with a raw lock held, with preemption
//! off, or in an interrupt that has no thread. No data behind such a lock rely on interrupts being off.

use core::cell::UnsafeCell;
use kernel::prelude::*;
use kernel::sync::LockClassKey;
use kernel::types::Opaque;

/// Data behind a spin lock.
#[pin_data]
pub struct IrqLock<T> {
    #[pin]
    lock: Opaque<crate::spinlock_t>,
    data: UnsafeCell<T>,
}

// SAFETY: The lock may be sent if its data may.
unsafe impl<T: Send> Send for IrqLock<T> {}
// SAFETY: One at a time has a reference to the data.
unsafe impl<T: Send> Sync for IrqLock<T> {}

impl<T> IrqLock<T> {
    /// A lock of this class; use [`new_irq_lock!`](crate::new_irq_lock).
    pub fn new(
        data: T,
        name: &'static CStr,
        key: Pin<&'static LockClassKey>,
    ) -> impl PinInit<Self> {
        pin_init!(Self {
            // SAFETY: `slot` is valid and stays where it is; name and key are static.
            lock <- Opaque::ffi_init(|slot: *mut crate::spinlock_t| unsafe {
                kernel::bindings::__spin_lock_init(slot.cast(), crate::chars(name), key.as_ptr().cast())
            }),
            data: UnsafeCell::new(data),
        })
    }

    /// Runs `f` with the data. It must not sleep, and not take the same lock again.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: The lock was initialised and stays where it is.
        let flags = unsafe { crate::spin_lock_irqsave(self.lock.get()) };
        // SAFETY: The lock is held, so nobody else has a reference.
        let result = f(unsafe { &mut *self.data.get() });
        // SAFETY: It was taken above, with these flags.
        unsafe { crate::spin_unlock_irqrestore(self.lock.get(), flags) };
        result
    }
}

/// Makes an [`IrqLock`] with a lock class of its own.
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
