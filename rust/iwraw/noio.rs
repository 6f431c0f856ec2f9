// SPDX-License-Identifier: GPL-2.0

//! Scopes in which no allocation starts I/O.
//!
//! C header: [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

use kernel::types::NotThreadSafe;

/// A scope in which memory is not reclaimed for this task by way of file systems or devices: the
/// block device whose page is to be written may be reached through the very connection that the
/// memory is for.
pub struct NoIo {
    flags: u32,
    _task: NotThreadSafe,
}

impl NoIo {
    /// Begins a scope. Scopes end in the reverse order in which they began, as values do.
    #[expect(clippy::new_without_default)]
    pub fn new() -> Self {
        Self {
            // SAFETY: The function only sets a flag of this task, which `drop` restores.
            flags: unsafe { crate::memalloc_noio_save() },
            _task: NotThreadSafe,
        }
    }
}

impl Drop for NoIo {
    fn drop(&mut self) {
        // SAFETY: The flags are of `new`, which this task called, as the type cannot be sent to
        // another.
        unsafe { crate::memalloc_noio_restore(self.flags) };
    }
}
