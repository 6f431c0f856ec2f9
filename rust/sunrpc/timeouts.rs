// SPDX-License-Identifier: GPL-2.0

//! Delays and time-outs, in jiffies.
//!
//! C headers: [`include/linux/jiffies.h`](srctree/include/linux/jiffies.h),
//! [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct rpc_timeout`.

use kernel::ffi::c_ulong;

/// The number of jiffies in a second.
pub(crate) const HZ: c_ulong = kernel::bindings::CONFIG_HZ as c_ulong;

/// The first time-out of a call, in seconds, unless a mount says another. NFS has the same.
const FIRST_TIMEOUT: u32 = 60;

/// The default time-outs: one minute to send a call and to receive its reply, without a
/// retransmission.
pub(crate) static DEFAULT_TIMEOUT: raw::rpc_timeout = rpc_timeout(FIRST_TIMEOUT as c_ulong * HZ);

/// The time that sunrpc waits for rpcbind.
pub(crate) const BIND_TIMEOUT: c_ulong = 60 * HZ;

/// The time that a connection without a call stays.
pub(crate) const IDLE_TIMEOUT: c_ulong = 5 * 60 * HZ;

/// The time that a transport keeps resources for its next connection, counted from the first close
/// after it last freed them.
pub(crate) const EXPIRY: c_ulong = 60 * HZ;

/// The shortest time between the beginnings of two attempts to connect, in seconds.
const ATTEMPT_SECONDS: u32 = 3;

/// The shortest time between the beginnings of two attempts to connect, in jiffies.
pub(crate) const ATTEMPT_INTERVAL: c_ulong = ATTEMPT_SECONDS as c_ulong * HZ;

/// The longest attempt to connect, in milliseconds, whose end the calls that wait for it see, if
/// they have the usual time-out.
///
/// A call waits from before the delay of the attempt until its first time-out. After that it does
/// not wait for the attempt, but for `XPRT_LOCKED`, and then for the next attempt.
pub const ATTEMPT_MS: u32 = (FIRST_TIMEOUT - ATTEMPT_SECONDS) * 1_000;

/// The shortest time-out that an upper layer may set for a connection that is being made.
pub(crate) const MIN_CONNECT_TIMEOUT: c_ulong = 10 * HZ;

/// Returns a time-out of `value` jiffies, after which nothing is retransmitted.
pub(crate) const fn rpc_timeout(value: c_ulong) -> raw::rpc_timeout {
    raw::rpc_timeout {
        to_initval: value,
        to_maxval: value,
        to_increment: 0,
        to_retries: 0,
        to_exponential: 0,
    }
}

/// Returns the present time.
pub(crate) fn jiffies() -> c_ulong {
    // SAFETY: The kernel never frees the word, and changes it as a whole.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}

/// Returns the time since `then`, in jiffies.
pub(crate) fn jiffies_since(then: raw::ktime_t) -> c_ulong {
    const NSEC_PER_JIFFY: i64 = 1_000_000_000 / HZ as i64;
    // SAFETY: Any context but an NMI may call this.
    let since = unsafe { raw::ktime_get() }.saturating_sub(then);
    c_ulong::try_from(since / NSEC_PER_JIFFY).unwrap_or(0)
}
