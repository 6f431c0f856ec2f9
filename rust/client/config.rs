// SPDX-License-Identifier: GPL-2.0

//! What an administrator may choose, under the names that the in-tree module gave
//! it: `/proc/sys/sunrpc/rdma_*`.

use kernel::prelude::*;
use proto::cm_private_data::PrivateData;
use sunrpc::sysctl::{
    SysctlEntry,
    SysctlRegistration, //
};

/// Request slots, and so the credits to ask for. Read when a transport is made.
static SLOTS: SysctlEntry = SysctlEntry::new(c"rdma_slot_table_entries", 128, 4, 16384);

/// The longest Receive. Read at each connect. The default holds the reply to a GETATTR of NFSv4.2
/// with security labels, and 4 KiB of data, which 4,096 does not.
static INLINE_READ: SysctlEntry = SysctlEntry::new(c"rdma_max_inline_read", 8192, 1024, 65536);

/// The longest Send. Read at each connect.
static INLINE_WRITE: SysctlEntry = SysctlEntry::new(c"rdma_max_inline_write", 8192, 1024, 65536);

/// Without effect, here as in the in-tree module; scripts set them.
static PADDING: SysctlEntry = SysctlEntry::new(c"rdma_inline_write_padding", 0, 0, 4096);
static STRATEGY: SysctlEntry = SysctlEntry::new(c"rdma_memreg_strategy", 5, 0, 6);
static PAD_OPTIMIZE: SysctlEntry = SysctlEntry::new(c"rdma_pad_optimize", 0, i32::MIN, i32::MAX);

/// Makes the files.
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

/// How many request slots a new transport gets.
pub(super) fn slots() -> usize {
    SLOTS.get()
}

/// The buffer sizes of a new connection, as its private data tells them.
pub(super) fn inline() -> Result<PrivateData> {
    PrivateData::new(INLINE_WRITE.get(), INLINE_READ.get(), true).map_err(|_| EINVAL)
}
