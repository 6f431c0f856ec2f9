// SPDX-License-Identifier: GPL-2.0

//! Types of settings and counters below `/proc/sys/sunrpc`. The files `config.rs` of the client and
//! of the server have those that there are.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use crate::prelude::*;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// A number that an administrator may set within a range, to be a `static` of the module.
///
/// # Examples
///
/// ```
/// # use kernel::prelude::*;
/// use sunrpc::sysctl::{
///     SysctlEntry,
///     SysctlRegistration, //
/// };
///
/// static CREDITS: SysctlEntry = SysctlEntry::new(c"example_credits", 64, 4, 256);
///
/// let files = SysctlRegistration::new(c"sunrpc", &[&CREDITS])?;
/// pr_info!("{} credits\n", CREDITS.get());
/// # Ok::<(), Error>(())
/// ```
pub struct SysctlEntry {
    name: &'static CStr,
    value: Atomic<i32>,
    least: i32,
    most: i32,
}

impl SysctlEntry {
    /// Creates a setting with this file name, default and range.
    pub const fn new(name: &'static CStr, default: i32, least: i32, most: i32) -> Self {
        Self {
            name,
            value: Atomic::new(default),
            least,
            most,
        }
    }

    /// Returns the present value.
    pub fn get(&self) -> usize {
        usize::try_from(self.value.load(Relaxed)).unwrap_or(0)
    }

    fn entry(&'static self) -> cbindings::ctl_table {
        cbindings::ctl_table {
            procname: self.name.to_bytes_with_nul().as_ptr().cast(),
            data: self.value.as_ptr().cast(),
            maxlen: core::mem::size_of::<i32>() as i32,
            mode: 0o644,
            proc_handler: Some(cbindings::proc_dointvec_minmax),
            // The handler only reads the range.
            extra1: (&raw const self.least).cast_mut().cast(),
            extra2: (&raw const self.most).cast_mut().cast(),
            ..Default::default()
        }
    }
}

/// A counter that a write to its file resets, to be a `static` of the module.
pub struct Counter {
    name: &'static CStr,
    value: Atomic<u64>,
}

impl Counter {
    /// Creates a counter with this file name.
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            value: Atomic::new(0),
        }
    }

    /// Counts `n` more.
    #[inline]
    pub fn add(&self, n: usize) {
        if n != 0 {
            // CAST: `usize` has 64 bits.
            self.value.fetch_add(n as u64, Relaxed);
        }
    }

    /// Returns the present value.
    #[cfg(RPCRDMA_SELFTEST)]
    pub fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }

    fn entry(&'static self) -> cbindings::ctl_table {
        cbindings::ctl_table {
            procname: self.name.to_bytes_with_nul().as_ptr().cast(),
            data: self.value.as_ptr().cast(),
            maxlen: core::mem::size_of::<u64>() as i32,
            mode: 0o644,
            proc_handler: Some(show_or_reset),
            ..Default::default()
        }
    }
}

const _: () = assert!(core::mem::size_of::<u64>() == core::mem::size_of::<kernel::ffi::c_ulong>());

/// Reads a [`Counter`]; any write sets it to zero.
///
/// # Safety
///
/// Only the sysctl core calls this, for an entry made by [`Counter::entry`].
unsafe extern "C" fn show_or_reset(
    table: *const cbindings::ctl_table,
    write: c_int,
    buffer: *mut c_void,
    len: *mut usize,
    position: *mut cbindings::loff_t,
) -> c_int {
    if write != 0 {
        // SAFETY: The entry's data is the value of a static counter.
        unsafe { Atomic::<u64>::from_ptr((*table).data.cast()) }.store(0, Relaxed);
        return 0;
    }
    // SAFETY: The arguments are the core's own; the data is an `unsigned long`.
    unsafe { cbindings::proc_doulongvec_minmax(table, write, buffer, len, position) }
}

/// Keeps the files of its entries as long as it lives.
///
/// # Invariants
///
/// `header` is registered for `table`, and unregistered only in `drop`.
pub struct SysctlRegistration {
    header: NonNull<cbindings::ctl_table_header>,
    _table: KVec<cbindings::ctl_table>, // Dropped after `header` is unregistered.
}

// SAFETY: Sysctl tables may be unregistered from any task.
unsafe impl Send for SysctlRegistration {}
// SAFETY: `&SysctlRegistration` gives access to nothing.
unsafe impl Sync for SysctlRegistration {}

impl SysctlRegistration {
    /// Makes files for `entries` in the directory `path` below `/proc/sys`. Sleeps.
    pub fn new(path: &'static CStr, entries: &[&'static SysctlEntry]) -> Result<Self> {
        Self::with_counters(path, entries, &[])
    }

    /// Makes files for `entries` and `counters` in the directory `path` below `/proc/sys`. Sleeps.
    pub fn with_counters(
        path: &'static CStr,
        entries: &[&'static SysctlEntry],
        counters: &[&'static Counter],
    ) -> Result<Self> {
        let mut table = KVec::with_capacity(entries.len() + counters.len(), GFP_KERNEL)?;
        for entry in entries {
            table.push(entry.entry(), GFP_KERNEL)?;
        }
        for counter in counters {
            table.push(counter.entry(), GFP_KERNEL)?;
        }
        // SAFETY: The path is static, and so is all that the entries point to. The value made below
        // owns the table until it is unregistered.
        let header = unsafe {
            cbindings::register_sysctl_sz(
                path.to_bytes_with_nul().as_ptr().cast(),
                table.as_ptr(),
                table.len(),
            )
        };
        // INVARIANT: The call above registered it.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
        })
    }
}

impl Drop for SysctlRegistration {
    fn drop(&mut self) {
        // SAFETY: `header` is registered by the type invariants. The call waits until readers and
        // writers have returned.
        unsafe { cbindings::unregister_sysctl_table(self.header.as_ptr()) };
    }
}
