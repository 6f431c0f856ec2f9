// SPDX-License-Identifier: GPL-2.0

//! The settings of the client: fixed limits, and the sysctls that the in-tree module has under the
//! same names, `/proc/sys/sunrpc/rdma_*`.

use kernel::prelude::*;
use proto::cm_private_data::PrivateData;
use sunrpc::sysctl::{
    SysctlEntry,
    SysctlRegistration, //
};

/// Credits that the client grants for callbacks: the server may have this many outstanding.
pub(super) const CALLBACK_CREDITS: u32 = 32;

/// Credits that a connection has resources for when it is made, if it does not carry swap.
pub(super) const FIRST_CREDITS: usize = 16;

/// Pages of the largest payload: 1 MiB, the most that NFS asks for, at any offset in its first
/// page.
pub(super) const MAX_PAYLOAD_PAGES: usize = 257;

/// Request slots, and so the credits to request. Read when a transport is created.
static SLOTS: SysctlEntry = SysctlEntry::new(c"rdma_slot_table_entries", 128, 4, 16384);

/// The longest Receive. Read at each connect. The default holds the reply to a GETATTR of NFSv4.2
/// with security labels, and 4 KiB of data. 4,096 bytes, the default of the in-tree module, do not.
static INLINE_READ: SysctlEntry = SysctlEntry::new(c"rdma_max_inline_read", 8192, 1024, 65536);

/// The longest Send. Read at each connect.
static INLINE_WRITE: SysctlEntry = SysctlEntry::new(c"rdma_max_inline_write", 8192, 1024, 65536);

// These three have no effect, here as in the in-tree module. They exist because scripts set them.
static PADDING: SysctlEntry = SysctlEntry::new(c"rdma_inline_write_padding", 0, 0, 4096);
static STRATEGY: SysctlEntry = SysctlEntry::new(c"rdma_memreg_strategy", 5, 0, 6);
static PAD_OPTIMIZE: SysctlEntry = SysctlEntry::new(c"rdma_pad_optimize", 0, i32::MIN, i32::MAX);

/// Registers the sysctls.
pub(crate) fn register() -> Result<SysctlRegistration> {
    SysctlRegistration::new(
        c"sunrpc",
        &[
            &SLOTS,
            &INLINE_READ,
            &INLINE_WRITE,
            &PADDING,
            &STRATEGY,
            &PAD_OPTIMIZE,
        ],
    )
}

/// Returns the number of request slots of a new transport.
pub(super) fn slots() -> usize {
    SLOTS.get()
}

/// The settings of one connection.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    /// Credits to request.
    pub(super) credits: usize,
    /// The longest Send and the longest Receive, as the private data announces them.
    pub(super) inline: PrivateData,
}

impl Config {
    /// The settings of a new connection that requests `credits`: the inline thresholds are those of
    /// now.
    pub(super) fn current(credits: usize) -> Result<Self> {
        let inline =
            PrivateData::new(INLINE_WRITE.get(), INLINE_READ.get(), true).map_err(|_| EINVAL)?;
        Ok(Self { credits, inline })
    }
}
