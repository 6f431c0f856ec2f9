// SPDX-License-Identifier: GPL-2.0

//! Names that many files of this crate use.

pub(crate) use crate::{
    clnt::{
        rqst::{
            HasSlot,
            Rqst, //
        },
        transport::Transport,
        xprt::Xprt, //
    },
    svc::{
        transport::SvcConnection,
        xprt::SvcXprt, //
    },
    xdr_buf::XdrBuf,
    SockAddr, //
};
pub(crate) use core::{
    mem::offset_of,
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::Ordering, //
};
pub(crate) use kernel::{
    alloc::Flags,
    prelude::*,
    types::Opaque, //
};
