// SPDX-License-Identifier: GPL-2.0

//! Types of settings and counters below `/proc/sys/sunrpc`. The files `config.rs` of the client and
//! of the server have those that there are.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use crate::prelude::*;
use kernel::{
    error::to_result,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Relaxed,
            Release, //
        },
        rcu, //
    }, //
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

/// A counter that a write to its file resets, to be a `static` of the module. All processors share
/// its cache line; [`PerCpuCounter`] is for what each RPC counts.
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

/// A counter as [`Counter`] is one, with a part for each CPU, so that no processor writes a cache
/// line of another. It counts only while it has a file.
///
/// C header: [`include/linux/percpu_counter.h`](srctree/include/linux/percpu_counter.h)
///
/// # Invariants
///
/// Whoever changes `state` from [`Self::UNUSED`] to [`Self::CLAIMED`] owns `count` until it sets it
/// to [`Self::UNUSED`] again. `count` is initialised while `state` is [`Self::LIVE`], and for an
/// RCU grace period after that.
pub struct PerCpuCounter {
    name: &'static CStr,
    state: Atomic<u32>,
    count: Opaque<cbindings::percpu_counter>,
}

// SAFETY: By the type invariants `count` is changed by its owner only, or by functions that any
// number of tasks may call at the same time.
unsafe impl Sync for PerCpuCounter {}

impl PerCpuCounter {
    const UNUSED: u32 = 0;
    const CLAIMED: u32 = 1;
    const LIVE: u32 = 2;

    /// Creates a counter with this file name.
    pub const fn new(name: &'static CStr) -> Self {
        // INVARIANT: Nobody owns `count`, which is not initialised.
        Self {
            name,
            state: Atomic::new(Self::UNUSED),
            count: Opaque::uninit(),
        }
    }

    /// Counts `n` more. Does not sleep.
    #[inline]
    pub fn add(&self, n: usize) {
        if n == 0 {
            return;
        }
        // CAST: Nothing counts 2^63 of anything.
        self.with(|count| {
            // SAFETY: `with` passes an initialised counter.
            unsafe { cbindings::percpu_counter_add_local(count, n as i64) }
        });
    }

    /// Calls `f` with the counter, if that is initialised. `f` must not sleep.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(*mut cbindings::percpu_counter) -> R) -> Option<R> {
        let _reading = rcu::read_lock();
        // By the type invariants it stays initialised until the guard is dropped.
        (self.state.load(Acquire) == Self::LIVE).then(|| f(self.count.get()))
    }

    fn entry(&'static self) -> cbindings::ctl_table {
        cbindings::ctl_table {
            procname: self.name.to_bytes_with_nul().as_ptr().cast(),
            data: (&raw const *self).cast_mut().cast(),
            maxlen: core::mem::size_of::<c_ulong>() as i32,
            mode: 0o644,
            proc_handler: Some(show_or_reset_sum),
            ..Default::default()
        }
    }
}

/// Reads a [`PerCpuCounter`]; any write sets it to zero.
///
/// # Safety
///
/// Only the sysctl core calls this, for an entry made by [`PerCpuCounter::entry`].
unsafe extern "C" fn show_or_reset_sum(
    table: *const cbindings::ctl_table,
    write: c_int,
    buffer: *mut c_void,
    len: *mut usize,
    position: *mut cbindings::loff_t,
) -> c_int {
    // SAFETY: The entry's data is a static counter.
    let counter = unsafe { &*(*table).data.cast::<PerCpuCounter>() };
    if write != 0 {
        // SAFETY: `with` passes an initialised counter.
        counter.with(|count| unsafe { cbindings::percpu_counter_set(count, 0) });
        return 0;
    }
    // SAFETY: `with` passes an initialised counter.
    let sum = counter.with(|count| unsafe { cbindings::percpu_counter_sum_positive(count) });
    // CAST: It is not negative.
    let mut sum = sum.unwrap_or(0) as c_ulong;
    // SAFETY: The table is the core's own, which reads it only.
    let mut shown = unsafe { *table };
    shown.data = (&raw mut sum).cast();
    // SAFETY: The arguments are the core's own; the data is an `unsigned long`.
    unsafe { cbindings::proc_doulongvec_minmax(&shown, write, buffer, len, position) }
}

/// Counters that count as long as it lives.
///
/// # Invariants
///
/// It owns the `count` of each, which is initialised.
struct LiveCounters(KVec<&'static PerCpuCounter>);

impl LiveCounters {
    /// Makes `counters` count from zero. [`EBUSY`] if one of them does already. Sleeps.
    fn new(counters: &[&'static PerCpuCounter]) -> Result<Self> {
        // INVARIANT: There are none.
        let mut live = Self(KVec::with_capacity(counters.len(), GFP_KERNEL)?);
        for counter in counters {
            let (unused, claimed) = (PerCpuCounter::UNUSED, PerCpuCounter::CLAIMED);
            counter
                .state
                .cmpxchg(unused, claimed, Full)
                .map_err(|_| EBUSY)?;
            // SAFETY: The state says that this task owns the memory, and that it is not
            // initialised.
            let init = to_result(unsafe {
                cbindings::percpu_counter_init(counter.count.get(), 0, kernel::bindings::GFP_KERNEL)
            });
            // INVARIANT: It was just initialised, or is not owned any more.
            let state = init.map_or(PerCpuCounter::UNUSED, |()| PerCpuCounter::LIVE);
            counter.state.store(state, Release);
            init?;
            live.0.push_within_capacity(*counter).map_err(|_| ENOMEM)?;
        }
        Ok(live)
    }
}

impl Drop for LiveCounters {
    fn drop(&mut self) {
        for counter in &self.0 {
            // INVARIANT: It stays initialised until the grace period is over.
            counter.state.store(PerCpuCounter::CLAIMED, Release);
        }
        // SAFETY: This may sleep.
        unsafe { kernel::bindings::synchronize_rcu() };
        for counter in &self.0 {
            // SAFETY: `self` owns it by the type invariants, and a grace period has passed since
            // others could begin to use it.
            unsafe { cbindings::percpu_counter_destroy(counter.count.get()) };
            // INVARIANT: It is not initialised any more, and owned by nobody.
            counter.state.store(PerCpuCounter::UNUSED, Release);
        }
    }
}

/// Keeps the files of its entries as long as it lives.
///
/// # Invariants
///
/// `header` is registered for `table`, and unregistered only in `drop`.
pub struct SysctlRegistration {
    header: NonNull<cbindings::ctl_table_header>,
    _table: KVec<cbindings::ctl_table>, // Dropped after `header` is unregistered.
    _live: LiveCounters,
}

// SAFETY: Sysctl tables may be unregistered from any task.
unsafe impl Send for SysctlRegistration {}
// SAFETY: `&SysctlRegistration` gives access to nothing.
unsafe impl Sync for SysctlRegistration {}

impl SysctlRegistration {
    /// Makes files for `entries` in the directory `path` below `/proc/sys`. Sleeps.
    pub fn new(path: &'static CStr, entries: &[&'static SysctlEntry]) -> Result<Self> {
        Self::with_counters(path, entries, &[], &[])
    }

    /// Makes files for `entries`, `counters` and `per_cpu` counters in the directory `path` below
    /// `/proc/sys`. Sleeps.
    pub fn with_counters(
        path: &'static CStr,
        entries: &[&'static SysctlEntry],
        counters: &[&'static Counter],
        per_cpu: &[&'static PerCpuCounter],
    ) -> Result<Self> {
        let live = LiveCounters::new(per_cpu)?;
        let count = entries.len() + counters.len() + per_cpu.len();
        let mut table = KVec::with_capacity(count, GFP_KERNEL)?;
        for entry in entries {
            table.push(entry.entry(), GFP_KERNEL)?;
        }
        for counter in counters {
            table.push(counter.entry(), GFP_KERNEL)?;
        }
        for counter in per_cpu {
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
            _live: live,
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
