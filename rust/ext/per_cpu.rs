// SPDX-License-Identifier: GPL-2.0

//! A counter with a part for each CPU, so that no processor writes a cache line of another.
//!
//! C header: [`include/linux/percpu_counter.h`](srctree/include/linux/percpu_counter.h)

use kernel::{
    error::to_result,
    prelude::*,
    types::Opaque, //
};

/// A counter.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ext::per_cpu::Counter;
///
/// let segments = Counter::new()?;
/// segments.add(2);
/// assert_eq!(segments.sum(), 2);
/// # Ok::<(), Error>(())
/// ```
///
/// # Invariants
///
/// The C counter is initialised.
pub struct Counter(Pin<KBox<Opaque<cbindings::percpu_counter>>>);

// SAFETY: Any task may free the memory of the CPUs.
unsafe impl Send for Counter {}
// SAFETY: C has a lock, or a part for each CPU, for what `&Counter` gives access to.
unsafe impl Sync for Counter {}

impl Counter {
    /// Creates a counter that is 0. Sleeps.
    pub fn new() -> Result<Self> {
        let counter = KBox::pin_init(
            Opaque::try_ffi_init(|slot| {
                // SAFETY: `Opaque` passes a valid pointer to pinned memory.
                to_result(unsafe {
                    cbindings::percpu_counter_init(slot, 0, kernel::bindings::GFP_KERNEL)
                })
            }),
            GFP_KERNEL,
        )?;
        // INVARIANT: It was just initialised.
        Ok(Self(counter))
    }

    /// Counts `n` more. May be called in any context.
    #[inline]
    pub fn add(&self, n: u32) {
        // SAFETY: By the type invariants the counter is initialised.
        unsafe { cbindings::percpu_counter_add_local(self.0.get(), n.into()) };
    }

    /// Returns the value. What is counted meanwhile may be missing.
    pub fn sum(&self) -> u64 {
        // SAFETY: By the type invariants the counter is initialised.
        let sum = unsafe { cbindings::percpu_counter_sum_positive(self.0.get()) };
        u64::try_from(sum).unwrap_or(0)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // SAFETY: By the type invariants the counter is initialised; `&mut self` guarantees that
        // nobody uses it.
        unsafe { cbindings::percpu_counter_destroy(self.0.get()) };
    }
}
