// SPDX-License-Identifier: GPL-2.0

//! Names that many files of this crate use.

pub(crate) use super::{
    cause::Cause,
    config,
    connection::ServerConn,
    denied_calls::DeniedCalls,
    responder::Responder,
    send::SendPath,
    transport::ServerTransport,
    work_queue::{
        ChunkedCall,
        Outgoing,
        WithMessage, //
    }, //
};
pub(crate) use endpoint::{
    ReceiveBufferExt,
    ResponderExt,
    SendBufferExt, //
};
pub(crate) use kernel::{
    new_spinlock,
    page::PAGE_SIZE,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            AtomicFlag,
            Full,
            Relaxed,
            Release, //
        },
        Arc,
        SpinLock, //
    },
    time::{
        Instant,
        Monotonic,
        Msecs, //
    }, //
};
pub(crate) use proto::call;
pub(crate) use rdma::{
    errno::enotconn,
    receive::{
        Message,
        MessageMemory, //
    },
    send::SendKind,
    transfer::Attached,
    QueuePair, //
};
pub(crate) use sunrpc::{
    memory::Page,
    SockAddr,
    SvcXprt,
    WeakSvcXprt, //
};
