// SPDX-License-Identifier: GPL-2.0

//! Numbers below `/proc/sys/sunrpc`.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// A number that an administrator may set within a range, to be a `static` of the module.
pub struct Knob {
    name: &'static CStr,
    value: Atomic<i32>,
    least: i32,
    most: i32,
}

impl Knob {
    /// A knob with this file name, default and range.
    pub const fn new(name: &'static CStr, default: i32, least: i32, most: i32) -> Self {
        Self {
            name,
            value: Atomic::new(default),
            least,
            most,
        }
    }

    /// Its value now.
    pub fn get(&self) -> usize {
        usize::try_from(self.value.load(Relaxed)).unwrap_or(0)
    }

    fn entry(&'static self) -> raw::ctl_table {
        raw::ctl_table {
            procname: self.name.to_bytes_with_nul().as_ptr().cast(),
            data: self.value.as_ptr().cast(),
            maxlen: core::mem::size_of::<i32>() as i32,
            mode: 0o644,
            proc_handler: Some(raw::proc_dointvec_minmax),
            // The handler only reads the range.
            extra1: (&raw const self.least).cast_mut().cast(),
            extra2: (&raw const self.most).cast_mut().cast(),
            ..Default::default()
        }
    }
}

/// As long as it lives, its knobs have files.
///
/// # Invariants
///
/// `header` is registered for `table`, and unregistered only in `drop`.
pub struct SysctlRegistration {
    header: NonNull<raw::ctl_table_header>,
    _table: KVec<raw::ctl_table>, // Dropped after `header` is unregistered.
}

// SAFETY: Sysctl tables may be unregistered from any task.
unsafe impl Send for SysctlRegistration {}
// SAFETY: `&SysctlRegistration` gives access to nothing.
unsafe impl Sync for SysctlRegistration {}

impl SysctlRegistration {
    /// Makes files for `knobs` in the directory `path` below `/proc/sys`. Sleeps.
    pub fn new(path: &'static CStr, knobs: &[&'static Knob]) -> Result<Self> {
        let mut table = KVec::with_capacity(knobs.len(), GFP_KERNEL)?;
        for knob in knobs {
            table.push(knob.entry(), GFP_KERNEL)?;
        }
        // SAFETY: The path and what the entries point at are static; the table lives in the value
        // made below until it is unregistered.
        let header = unsafe {
            raw::register_sysctl_sz(
                path.to_bytes_with_nul().as_ptr().cast(),
                table.as_ptr(),
                table.len(),
            )
        };
        // INVARIANT: Just registered.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
        })
    }
}

impl Drop for SysctlRegistration {
    fn drop(&mut self) {
        // SAFETY: By the type invariants; the call waits for readers and writers under way.
        unsafe { raw::unregister_sysctl_table(self.header.as_ptr()) };
    }
}
