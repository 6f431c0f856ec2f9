// SPDX-License-Identifier: GPL-2.0

//! Shrinkers: memory that goes back to the kernel when it is short of memory.
//!
//! C header: [`include/linux/shrinker.h`](srctree/include/linux/shrinker.h)
//!
//! The crate `kernel` has no wrapper of it.

use crate::prelude::*;

/// Objects that nobody uses at the moment, and that take no I/O to make again.
///
/// The methods are called by whichever task needs memory, in the middle of an allocation that may
/// wait. So what they lock must not be held across such an allocation, and they must not allocate.
pub trait Shrink: Send + Sync + 'static {
    /// Returns the number of objects.
    fn count(&self) -> usize;

    /// Frees at most `count` of them. Returns the number of those that it freed.
    fn shrink(&self, count: usize) -> usize;
}

/// A registered shrinker, through which the kernel asks a `T` for memory until this is dropped. It
/// derefs to `T`. Dropping it sleeps.
///
/// # Invariants
///
/// `ptr` came from `shrinker_alloc`, has the functions of `T` and the address of `target`'s value
/// as `private_data`, is registered, and is freed only in `drop`.
///
/// # Examples
///
/// ```
/// # use kernel::{new_spinlock, prelude::*, sync::{Arc, SpinLock}};
/// use sunrpc::{
///     memory::Page,
///     shrinker::{
///         Shrink,
///         Shrinker, //
///     }, //
/// };
///
/// /// Pages for later.
/// #[pin_data]
/// struct Spares {
///     #[pin]
///     pages: SpinLock<KVec<Page>>,
/// }
///
/// impl Shrink for Spares {
///     fn count(&self) -> usize {
///         self.pages.lock().len()
///     }
///
///     fn shrink(&self, count: usize) -> usize {
///         let mut freed = 0;
///         while freed < count {
///             // The page is freed without the lock.
///             let page = self.pages.lock().pop();
///             if page.is_none() {
///                 break;
///             }
///             freed += 1;
///         }
///         freed
///     }
/// }
///
/// let spares = Arc::pin_init(
///     pin_init!(Spares {
///         pages <- new_spinlock!(KVec::new()),
///     }),
///     GFP_KERNEL,
/// )?;
/// let spares = Shrinker::new(c"example-spares", spares)?;
/// assert_eq!(spares.count(), 0);
/// # Ok::<(), Error>(())
/// ```
pub struct Shrinker<T: Shrink> {
    ptr: NonNull<cbindings::shrinker>,
    target: Arc<T>, // Dropped after `ptr` is freed: the functions use it.
}

// SAFETY: Any task may free a shrinker.
unsafe impl<T: Shrink> Send for Shrinker<T> {}
// SAFETY: `&Shrinker` gives access to `T` only, which is `Sync`.
unsafe impl<T: Shrink> Sync for Shrinker<T> {}

impl<T: Shrink> Shrinker<T> {
    /// Registers a shrinker with this `name`, which debugfs shows. Sleeps.
    pub fn new(name: &'static CStr, target: Arc<T>) -> Result<Self> {
        let name = name.to_bytes_with_nul().as_ptr().cast();
        // SAFETY: The name is a string.
        let ptr = unsafe { cbindings::shrinker_alloc(0, name) };
        let ptr = NonNull::new(ptr).ok_or(ENOMEM)?;
        // SAFETY: It was just allocated, and is not registered yet, so nobody else uses it.
        let shrinker = unsafe { &mut *ptr.as_ptr() };
        shrinker.count_objects = Some(count::<T>);
        shrinker.scan_objects = Some(scan::<T>);
        // The objects take no I/O to make again.
        shrinker.seeks = 0;
        shrinker.private_data = Arc::as_ptr(&target).cast_mut().cast();
        // SAFETY: It is complete. The value made below frees it before it gives up `target`.
        unsafe { cbindings::shrinker_register(ptr.as_ptr()) };
        // INVARIANT: Just made so.
        Ok(Self { ptr, target })
    }

    /// Calls the functions as the kernel does when it needs memory. Returns the number of objects,
    /// and how many of `wanted` are freed.
    #[cfg(RPCRDMA_SELFTEST)]
    pub fn reclaim(&self, wanted: usize) -> Result<(usize, usize)> {
        let mut control = cbindings::shrink_control {
            nr_to_scan: wanted,
            ..Default::default()
        };
        // SAFETY: The shrinker is registered by the type invariants, and nothing changes these.
        let (count, scan) = unsafe {
            let shrinker = self.ptr.as_ptr();
            (
                (*shrinker).count_objects.ok_or(EINVAL)?,
                (*shrinker).scan_objects.ok_or(EINVAL)?,
            )
        };
        // SAFETY: It is called for its own shrinker, with a valid control structure.
        let counted = unsafe { count(self.ptr.as_ptr(), &mut control) };
        // SAFETY: It is called for its own shrinker, with a valid control structure.
        let freed = unsafe { scan(self.ptr.as_ptr(), &mut control) };
        Ok((counted, freed))
    }
}

impl<T: Shrink> Deref for Shrinker<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.target
    }
}

impl<T: Shrink> Drop for Shrinker<T> {
    fn drop(&mut self) {
        // SAFETY: `ptr` is registered by the type invariants. The call waits until no function of
        // it runs, and none is called after that. What is left of the shrinker is freed by a
        // function of the kernel's own.
        unsafe { cbindings::shrinker_free(self.ptr.as_ptr()) };
    }
}

/// Returns the `T` that `shrinker` is of.
///
/// # Safety
///
/// `shrinker` is that of a [`Shrinker<T>`] that is not dropped during `'a`.
unsafe fn target<'a, T: Shrink>(shrinker: *mut cbindings::shrinker) -> &'a T {
    // SAFETY: By the type invariants this is the address of a `T` that lives as long as the
    // shrinker.
    unsafe { &*(*shrinker).private_data.cast() }
}

/// # Safety
///
/// Only the kernel calls this, for the shrinker of a [`Shrinker<T>`].
unsafe extern "C" fn count<T: Shrink>(
    shrinker: *mut cbindings::shrinker,
    _control: *mut cbindings::shrink_control,
) -> c_ulong {
    // SAFETY: `shrinker_free` waits for this call.
    let target = unsafe { target::<T>(shrinker) };
    target.count()
}

/// # Safety
///
/// Only the kernel calls this, for the shrinker of a [`Shrinker<T>`].
unsafe extern "C" fn scan<T: Shrink>(
    shrinker: *mut cbindings::shrinker,
    control: *mut cbindings::shrink_control,
) -> c_ulong {
    // SAFETY: `shrinker_free` waits for this call.
    let target = unsafe { target::<T>(shrinker) };
    // SAFETY: It is the kernel's own, and valid during the call.
    let wanted = unsafe { (*control).nr_to_scan };
    target.shrink(wanted)
}
