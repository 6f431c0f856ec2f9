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
    memory::Buffer,
    svc::{
        transport::SvcConnection,
        xprt::SvcXprt, //
    },
    xdr_buf::XdrBuf,
    SockAddr, //
};
pub(crate) use core::{
    marker::PhantomData,
    mem::offset_of,
    ops::{
        Deref,
        Range, //
    },
    ptr::{
        self,
        NonNull, //
    },
    sync::atomic::{
        AtomicBool,
        Ordering, //
    }, //
};
pub(crate) use kernel::{
    alloc::Flags,
    page::PAGE_SIZE,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};
