// SPDX-License-Identifier: GPL-2.0

//! Names that many files of this crate use.

pub(crate) use super::{
    cause::Cause,
    chunk::Offered,
    config,
    connection::ClientConn,
    stats::Counters,
    transport::{
        ActiveConnection,
        ClientTransport, //
    }, //
};
pub(crate) use core::sync::atomic::Ordering;
pub(crate) use endpoint::{
    HandlerReceivesExt,
    ReceiveBufferExt,
    SendBufferExt, //
};
pub(crate) use kernel::{
    alloc::Flags,
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};
pub(crate) use rdma::{
    errno,
    mr::Idle,
    QueuePair, //
};
pub(crate) use sunrpc::Rqst;
