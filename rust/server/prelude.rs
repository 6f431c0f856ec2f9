// SPDX-License-Identifier: GPL-2.0

//! Names that many files of this crate use.

pub(crate) use super::{
    cause::Cause,
    connection::ServerConn,
    send::SendPath,
    transport::ServerTransport,
    work_queue::WithMessage, //
};
pub(crate) use endpoint::SendBufferExt;
pub(crate) use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
        Arc,
        SpinLock, //
    },
    time::{
        Instant,
        Monotonic, //
    }, //
};
pub(crate) use rdma::{
    errno::enotconn,
    receive::Message,
    QueuePair, //
};
