// SPDX-License-Identifier: GPL-2.0

//! How work requests end.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use kernel::{
    prelude::*,
    str::CStrExt, //
};

/// How a work request ended that did not succeed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WcStatus(raw::ib_wc_status);

impl WcStatus {
    /// That of a request which was not even posted, as the queue pair is at its end.
    pub(crate) const FLUSHED: Self = Self(raw::ib_wc_status_IB_WC_WR_FLUSH_ERR);

    /// [`None`] if `status` says that the request succeeded.
    pub(crate) fn of(status: raw::ib_wc_status) -> Option<Self> {
        (status != raw::ib_wc_status_IB_WC_SUCCESS).then_some(Self(status))
    }

    /// Whether it only shares the fate of its queue pair. The request that sealed it says more.
    pub fn is_flush(self) -> bool {
        self.0 == raw::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// Whether the peer does not let us at memory of its own.
    pub fn is_denial(self) -> bool {
        self.0 == raw::ib_wc_status_IB_WC_REM_ACCESS_ERR
    }

    /// The kernel's words for it.
    pub fn reason(self) -> &'static CStr {
        // SAFETY: The function takes any number and returns a string that is never freed.
        unsafe { CStr::from_char_ptr(raw::ib_wc_status_msg(self.0)) }
    }
}
