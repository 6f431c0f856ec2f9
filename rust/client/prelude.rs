// SPDX-License-Identifier: GPL-2.0

//! Names that many files of this crate use.

pub(crate) use super::{
    cause::Cause,
    connection::ClientConn,
    transport::ClientTransport, //
};
pub(crate) use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    }, //
};
pub(crate) use rdma::mr::Idle;
pub(crate) use sunrpc::Rqst;
