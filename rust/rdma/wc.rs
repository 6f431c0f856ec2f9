// SPDX-License-Identifier: GPL-2.0

//! The status of work completions.
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
    /// Returns the status of `wc`. [`None`] if the request succeeded.
    pub(crate) fn of(wc: &raw::ib_wc) -> Option<Self> {
        (wc.status != raw::ib_wc_status_IB_WC_SUCCESS).then_some(Self {
            status: wc.status,
            vendor_err: wc.vendor_err,
        })
    }

    /// Returns the number of the status.
    pub fn number(self) -> u32 {
        self.status
    }

    /// Returns the vendor's own error code.
    pub fn vendor_err(self) -> u32 {
        self.vendor_err
    }

    /// Returns whether the request was flushed because the queue pair is in the error state. The
    /// request that caused that has a more specific status.
    pub fn is_flush(self) -> bool {
        self.status == raw::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// Returns whether the peer denied access to its memory.
    pub fn is_denial(self) -> bool {
        self.status == raw::ib_wc_status_IB_WC_REM_ACCESS_ERR
    }

    /// Returns the kernel's text for the status.
    pub fn reason(self) -> &'static CStr {
        // SAFETY: The function takes any number and returns a static string that ends with a NUL.
        unsafe { CStr::from_char_ptr(raw::ib_wc_status_msg(self.status)) }
    }
}
