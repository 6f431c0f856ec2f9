// SPDX-License-Identifier: GPL-2.0

//! Places for a value that any task may put in and take out, without a lock.
//!
//! `selftests/loom` compiles this file on the host, and tries every order in which a few tasks may
//! execute it.

use core::{
    array,
    cell::UnsafeCell,
    marker::PhantomData,
    ptr::null_mut, //
};
use kernel::{
    cpu::CpuId,
    ffi::c_void,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Relaxed,
        Release, //
    },
    types::ForeignOwnable, //
};

/// A place for a value that is a pointer, such as an `Arc` or a `KBox`.
///
/// Nothing is reached through the cell: whoever takes the value owns it. So no reader can use a
/// value that another task has freed, and there is no ABA problem.
///
/// Whoever takes a value sees all that was done to it before it was put in (release and acquire).
///
/// # Invariants
///
/// `value` is null, or came from `P::into_foreign` and belongs to the cell.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ext::atomic_cell::AtomicCell;
///
/// let cell = AtomicCell::new();
/// assert!(cell.put(KBox::new(1, GFP_KERNEL)?).is_none());
///
/// // It is not empty.
/// let refused = cell.try_put(KBox::new(2, GFP_KERNEL)?);
/// assert!(refused.is_err_and(|refused| *refused == 2));
///
/// assert!(cell.take().is_some_and(|value| *value == 1));
/// assert!(cell.take().is_none());
/// # Ok::<(), Error>(())
/// ```
pub struct AtomicCell<P: ForeignOwnable> {
    value: Atomic<*mut c_void>,
    // Owned, and invariant: what is put in as one type comes out as that type.
    _owned: PhantomData<UnsafeCell<P>>,
}

// SAFETY: The cell owns the value, which may be sent.
unsafe impl<P: ForeignOwnable + Send> Send for AtomicCell<P> {}
// SAFETY: `&AtomicCell` gives no reference to the value, but moves it from one task to another,
// which its type allows.
unsafe impl<P: ForeignOwnable + Send> Sync for AtomicCell<P> {}

impl<P: ForeignOwnable> AtomicCell<P> {
    /// Creates an empty cell.
    pub fn new() -> Self {
        // INVARIANT: Null.
        Self {
            value: Atomic::new(null_mut()),
            _owned: PhantomData,
        }
    }

    /// Takes the value, if there is one.
    pub fn take(&self) -> Option<P> {
        // An empty cell is not written to.
        if self.value.load(Relaxed).is_null() {
            return None;
        }
        // INVARIANT: Null.
        let value = self.value.xchg(null_mut(), Acquire);
        // SAFETY: By the type invariants the value belonged to the cell. The exchange gave it to
        // this task alone.
        unsafe { Self::owned(value) }
    }

    /// Puts `value` in, and returns what was there.
    pub fn put(&self, value: P) -> Option<P> {
        // INVARIANT: It came from `into_foreign`, and belongs to the cell now.
        let old = self.value.xchg(value.into_foreign(), Full);
        // SAFETY: By the type invariants the value belonged to the cell. The exchange gave it to
        // this task alone.
        unsafe { Self::owned(old) }
    }

    /// Puts `value` in as [`Self::put`] does, without an atomic exchange if the cell is empty. At
    /// most one task may put at a time, or a value may be leaked; any may take.
    pub fn put_alone(&self, value: P) -> Option<P> {
        match self.try_put_alone(value) {
            Ok(()) => None,
            Err(value) => self.put(value),
        }
    }

    /// Puts `value` in if the cell is empty, without an atomic exchange. Returns it otherwise. At
    /// most one task may put at a time, or a value may be leaked; any may take.
    pub fn try_put_alone(&self, value: P) -> Result<(), P> {
        if !self.value.load(Relaxed).is_null() {
            return Err(value);
        }
        // INVARIANT: It came from `into_foreign`, and belongs to the cell now. The cell was empty,
        // and only others that put could have changed that, whose value is leaked.
        self.value.store(value.into_foreign(), Release);
        Ok(())
    }

    /// Puts `value` in if the cell is empty. Returns it otherwise.
    pub fn try_put(&self, value: P) -> Result<(), P> {
        // A cell that is not empty is not written to.
        if !self.value.load(Relaxed).is_null() {
            return Err(value);
        }
        let value = value.into_foreign();
        // INVARIANT: If this succeeds, it came from `into_foreign` and belongs to the cell now.
        match self.value.cmpxchg(null_mut(), value, Release) {
            Ok(_) => Ok(()),
            // SAFETY: It came from `into_foreign` above, and the cell did not get it.
            Err(_) => Err(unsafe { P::from_foreign(value) }),
        }
    }

    /// Returns the owner of `value`, if that is not null.
    ///
    /// # Safety
    ///
    /// `value` is null, or came from `into_foreign`, and belongs to the caller alone.
    unsafe fn owned(value: *mut c_void) -> Option<P> {
        if value.is_null() {
            return None;
        }
        // SAFETY: The caller promises that it came from `into_foreign` and belongs to it alone.
        Some(unsafe { P::from_foreign(value) })
    }
}

impl<P: ForeignOwnable> Default for AtomicCell<P> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: ForeignOwnable> Drop for AtomicCell<P> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// At most `N` values that are interchangeable, and that any task may put in and take out.
///
/// Each processor begins at another cell, so that processors that take and put back one value at a
/// time write different cache lines.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use ext::atomic_cell::CellPool;
///
/// let pool = CellPool::<KBox<u32>, 1>::new();
/// assert!(pool.put(KBox::new(1, GFP_KERNEL)?).is_ok());
/// // It is full.
/// assert!(pool.put(KBox::new(2, GFP_KERNEL)?).is_err());
/// assert!(pool.take().is_some_and(|value| *value == 1));
/// assert!(pool.take().is_none());
/// # Ok::<(), Error>(())
/// ```
pub struct CellPool<P: ForeignOwnable, const N: usize> {
    cells: [AtomicCell<P>; N],
}

impl<P: ForeignOwnable, const N: usize> CellPool<P, N> {
    /// Creates an empty pool.
    pub fn new() -> Self {
        Self {
            cells: array::from_fn(|_| AtomicCell::new()),
        }
    }

    /// Takes a value. [`None`] if each cell was empty when it was looked at.
    pub fn take(&self) -> Option<P> {
        self.cells_from_here().find_map(AtomicCell::take)
    }

    /// Puts `value` in. Returns it if no cell was empty when it was looked at.
    pub fn put(&self, value: P) -> Result<(), P> {
        self.put_by(value, AtomicCell::try_put)
    }

    /// Puts `value` in as [`Self::put`] does, without an atomic exchange. At most one task may put
    /// at a time, or a value may be leaked; any may take.
    pub fn put_alone(&self, value: P) -> Result<(), P> {
        self.put_by(value, AtomicCell::try_put_alone)
    }

    /// Puts values from `next` in until it has none, or no cell was empty when it was looked at. At
    /// most one task may put at a time, or values may be lost; any may take.
    pub fn fill_alone(&self, mut next: impl FnMut() -> Option<P>) {
        for cell in self.cells_from_here() {
            if !cell.value.load(Relaxed).is_null() {
                continue;
            }
            let Some(value) = next() else { return };
            // Nobody else puts, so it is still empty.
            drop(cell.try_put_alone(value));
        }
    }

    /// Puts `value` into the first cell for which `put` succeeds.
    fn put_by(
        &self,
        mut value: P,
        put: impl Fn(&AtomicCell<P>, P) -> Result<(), P>,
    ) -> Result<(), P> {
        for cell in self.cells_from_here() {
            match put(cell, value) {
                Ok(()) => return Ok(()),
                Err(back) => value = back,
            }
        }
        Err(value)
    }

    /// Iterates over all cells, the first one of this processor first.
    fn cells_from_here(&self) -> impl Iterator<Item = &AtomicCell<P>> {
        // CAST: To a type that is not narrower.
        let cpu = CpuId::current().as_u32() as usize;
        // Eight pointers are a cache line.
        let first = cpu.wrapping_mul(8).checked_rem(N).unwrap_or(0);
        let cells = self.cells.iter();
        cells.clone().skip(first).chain(cells.take(first))
    }
}

impl<P: ForeignOwnable, const N: usize> Default for CellPool<P, N> {
    fn default() -> Self {
        Self::new()
    }
}
