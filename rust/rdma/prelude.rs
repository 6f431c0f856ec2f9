// SPDX-License-Identifier: GPL-2.0

//! Names that many files of this crate use.

pub(crate) use crate::{
    chain::Chain,
    cm::Id,
    cq::WcStatus,
    errno::enotconn,
    handler::{
        Context,
        Handler, //
    },
    mr,
    pd::ProtectionDomain, //
};
pub(crate) use core::ptr::{
    null,
    null_mut,
    NonNull, //
};
pub(crate) use ext::{
    memory::Piece,
    trace::CompletionId, //
};
pub(crate) use kernel::{
    alloc::Flags,
    dma::DataDirection,
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
    time::Jiffies, //
};
