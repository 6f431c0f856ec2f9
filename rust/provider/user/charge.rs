// SPDX-License-Identifier: GPL-2.0

//! Memory that a process pays for, though it is allocated when the process does not run.
//!
//! C headers: [`include/linux/memcontrol.h`](srctree/include/linux/memcontrol.h),
//! [`include/linux/sched/mm.h`](srctree/include/linux/sched/mm.h)

use core::ptr::NonNull;

/// The memory cgroup that pays for the memory of a connection.
pub struct MemoryCharge(
    // INVARIANT: A cgroup that this has a reference to.
    Option<NonNull<cbindings::mem_cgroup>>,
);

// SAFETY: Any task may use the cgroup, and give the reference back.
unsafe impl Send for MemoryCharge {}
// SAFETY: Any task may use the cgroup.
unsafe impl Sync for MemoryCharge {}

impl MemoryCharge {
    /// Charges nobody: a consumer in the kernel has the memory.
    pub const fn nobody() -> Self {
        Self(None)
    }

    /// Charges the process that calls. Does not sleep.
    pub fn caller() -> Self {
        // SAFETY: The function has no preconditions.
        let memcg = unsafe { cbindings::get_mem_cgroup_from_current() };
        // INVARIANT: The function took the reference. It returns null if there are no cgroups.
        Self(NonNull::new(memcg))
    }

    /// Calls `f`, and charges what it allocates with `__GFP_ACCOUNT`.
    pub fn apply<R>(&self, f: impl FnOnce() -> R) -> R {
        let Some(memcg) = self.0 else {
            return f();
        };
        // SAFETY: There is a reference to it, by the type invariants, until this returns.
        let before = unsafe { cbindings::set_active_memcg(memcg.as_ptr()) };
        let result = f();
        // SAFETY: What this task had before, whose caller keeps it.
        unsafe { cbindings::set_active_memcg(before) };
        result
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        if let Some(memcg) = self.0 {
            // SAFETY: There is a reference to it, by the type invariants, which is used no more.
            unsafe { cbindings::mem_cgroup_put(memcg.as_ptr()) };
        }
    }
}
