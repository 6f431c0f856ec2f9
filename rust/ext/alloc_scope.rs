// SPDX-License-Identifier: GPL-2.0

//! Scopes of a task in which allocations do less than they may, whatever flags they are made with,
//! and those of C functions that are called, too.
//!
//! C header: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

use kernel::types::NotThreadSafe;

macro_rules! scope {
    ($(#[$doc:meta])* $name:ident, $save:ident, $restore:ident) => {
        $(#[$doc])*
        pub struct $name {
            flags: u32,
            _task: NotThreadSafe,
        }

        impl $name {
            /// Begins a scope. Scopes end in the reverse order in which they began, as values do.
            #[expect(clippy::new_without_default)]
            pub fn new() -> Self {
                Self {
                    // SAFETY: The function only sets a flag of this task, which `drop` restores.
                    flags: unsafe { cbindings::$save() },
                    _task: NotThreadSafe,
                }
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: The flags are of `new`, which this task called, as the type cannot be
                // sent to another.
                unsafe { cbindings::$restore(self.flags) };
            }
        }
    };
}

scope! {
    /// A scope in which memory is not reclaimed by way of file systems or devices: the block device
    /// whose page is to be written may be reached through the very connection that the memory is
    /// for.
    NoIo, memalloc_noio_save, memalloc_noio_restore
}

scope! {
    /// A scope in which memory is not reclaimed by way of file systems, which may send RPCs to free
    /// it.
    NoFs, memalloc_nofs_save, memalloc_nofs_restore
}

scope! {
    /// A scope in which no memory is reclaimed, and reserves are used instead: for what swapping
    /// out waits for.
    NoReclaim, memalloc_noreclaim_save, memalloc_noreclaim_restore
}
