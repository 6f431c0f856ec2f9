// SPDX-License-Identifier: GPL-2.0

//! Delays and time-outs, in jiffies.
//!
//! C headers: [`include/linux/jiffies.h`](srctree/include/linux/jiffies.h),
//! [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h), `struct rpc_timeout`.

use kernel::ffi::c_ulong;

/// Jiffies of a second.
pub(crate) const HZ: c_ulong = kernel::bindings::CONFIG_HZ as c_ulong;

/// One minute to send a call and to receive its reply, without a retransmission.
pub(crate) static DEFAULT_TIMEOUT: raw::rpc_timeout = rpc_timeout(60 * HZ);

/// How long sunrpc waits for rpcbind.
pub(crate) const BIND_TIMEOUT: c_ulong = 60 * HZ;

/// How long a connection without a call stays.
pub(crate) const IDLE_TIMEOUT: c_ulong = 5 * 60 * HZ;

/// How long a transport keeps something for its next connection, counted from the first close after it last gave
/// that up.
pub(crate) const EXPIRY: c_ulong = 60 * HZ;

/// The shortest delay of an attempt to connect that is delayed at all.
pub(crate) const MIN_RECONNECT_DELAY: c_ulong = 5 * HZ;

/// A time-out of `value` jiffies, after which nothing is retransmitted.
pub(crate) const fn rpc_timeout(value: c_ulong) -> raw::rpc_timeout {
    raw::rpc_timeout {
        to_initval: value,
        to_maxval: value,
        to_increment: 0,
        to_retries: 0,
        to_exponential: 0,
    }
}

/// The present time.
pub(crate) fn jiffies() -> c_ulong {
    // SAFETY: The kernel never frees the word, and changes it as a whole.
    unsafe { (&raw const kernel::bindings::jiffies).read_volatile() }
}

/// The time since `then`, in jiffies.
pub(crate) fn jiffies_since(then: raw::ktime_t) -> c_ulong {
    const NSEC_PER_JIFFY: i64 = 1_000_000_000 / HZ as i64;
    // SAFETY: Any context but an NMI may call this.
    let since = unsafe { raw::ktime_get() }.saturating_sub(then);
    c_ulong::try_from(since / NSEC_PER_JIFFY).unwrap_or(0)
}
