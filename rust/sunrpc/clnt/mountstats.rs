// SPDX-License-Identifier: GPL-2.0

//! The transport's line in `/proc/self/mountstats`.
//!
//! User-space tools parse it by position: ten numbers that sunrpc counts, then seventeen that the
//! transport counts.

use crate::clnt::{
    timeouts::{
        jiffies,
        HZ, //
    },
    transport::Transport,
    xprt::Xprt, //
};
use core::sync::atomic::Ordering;
use kernel::{
    ffi::{
        c_ulong,
        c_ushort, //
    },
    seq_file::SeqFile,
    seq_print, //
};

/// The numbers that sunrpc counts.
struct GenericCounters {
    bind_count: c_ulong,
    connect_count: c_ulong,
    connect_seconds: c_ulong,
    idle_seconds: c_ulong,
    sends: c_ulong,
    recvs: c_ulong,
    bad_xids: c_ulong,
    req_u: u64,
    bklog_u: u64,
    hardway_register: u64,
}

impl GenericCounters {
    fn of<T: Transport>(xprt: &Xprt<T>) -> Self {
        /// Reads one counter.
        macro_rules! stat {
            ($name:ident) => {
                // SAFETY: The transport is live. Writers change the word as a whole.
                unsafe { (&raw const (*xprt.as_raw()).stat.$name).read_volatile() }
            };
        }
        let idle_seconds = if xprt.is_connected() {
            // SAFETY: The transport is live. Writers change the word as a whole.
            let last_used = unsafe { (&raw const (*xprt.as_raw()).last_used).read_volatile() };
            jiffies().wrapping_sub(last_used) / HZ
        } else {
            0
        };
        Self {
            bind_count: stat!(bind_count),
            connect_count: stat!(connect_count),
            connect_seconds: stat!(connect_time) / HZ,
            idle_seconds,
            sends: stat!(sends),
            recvs: stat!(recvs),
            bad_xids: stat!(bad_xids),
            req_u: stat!(req_u),
            bklog_u: stat!(bklog_u),
            hardway_register: xprt.parts.allocated.load(Ordering::Relaxed),
        }
    }
}

impl<T: Transport> Xprt<T> {
    /// Returns the local port, or zero without a connection. May sleep.
    pub(crate) fn source_port(&self) -> c_ushort {
        T::source(self).map_or(0, |source| {
            // SAFETY: A `SockAddr` is a whole address.
            unsafe { cbindings::rpc_get_port(source.as_raw()) }
        })
    }
}

/// Writes the line of `xprt`.
pub(crate) fn print<T: Transport>(xprt: &Xprt<T>, seq: &SeqFile) {
    let general = GenericCounters::of(xprt);
    let own = T::stats(xprt, xprt);

    seq_print!(
        seq,
        "\txprt:\t{} {} {} {} {} {} {} {} {} {} {} ",
        T::NAME,
        xprt.source_port(),
        general.bind_count,
        general.connect_count,
        general.connect_seconds,
        general.idle_seconds,
        general.sends,
        general.recvs,
        general.bad_xids,
        general.req_u,
        general.bklog_u,
    );
    seq_print!(
        seq,
        "{} {} {} {} {} {} {} {} {} {} {} ",
        own.read_chunks,
        own.write_chunks,
        own.reply_chunks,
        own.total_rdma_request,
        own.total_rdma_reply,
        own.pullup_copy,
        own.fixup_copy,
        general.hardway_register,
        own.failed_marshal,
        own.bad_reply,
        own.nomsg_call,
    );
    // The last column has no meaning any more; parsers still expect it.
    seq_print!(
        seq,
        "{} {} {} {} {} 0\n",
        own.mrs_recycled,
        own.mrs_orphaned,
        own.mrs_allocated,
        own.local_inv_needed,
        own.empty_sendctx_q,
    );
}
