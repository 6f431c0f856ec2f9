// SPDX-License-Identifier: GPL-2.0

//! How work requests end.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use kernel::{
    prelude::*,
    str::CStrExt, //
};

/// The status of a work request that failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WcStatus {
    status: raw::ib_wc_status,
    vendor_err: u32,
}

impl WcStatus {
    /// [`None`] if `wc` says that the request succeeded.
    pub(crate) fn of(wc: &raw::ib_wc) -> Option<Self> {
        (wc.status != raw::ib_wc_status_IB_WC_SUCCESS).then_some(Self {
            status: wc.status,
            vendor_err: wc.vendor_err,
        })
    }

    /// The number of the status.
    pub fn number(self) -> u32 {
        self.status
    }

    /// What the device says in addition, in its own terms.
    pub fn vendor_err(self) -> u32 {
        self.vendor_err
    }

    /// Whether the request was flushed because the queue pair is in error state. The request that brought the
    /// queue pair there has a status that says more.
    pub fn is_flush(self) -> bool {
        self.status == raw::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// Whether the peer denies access to its memory.
    pub fn is_denial(self) -> bool {
        self.status == raw::ib_wc_status_IB_WC_REM_ACCESS_ERR
    }

    /// The kernel's text for the status.
    pub fn reason(self) -> &'static CStr {
        // SAFETY: The function takes any number and returns a string that is never freed.
        unsafe { CStr::from_char_ptr(raw::ib_wc_status_msg(self.status)) }
    }
}
