// SPDX-License-Identifier: GPL-2.0

//! Names that many files of this crate use.

pub(crate) use crate::{
    callbacks::Events,
    socket::{
        Protocol,
        Socket, //
    }, //
};
pub(crate) use core::{
    net::SocketAddr,
    ptr::NonNull,
    sync::atomic::Ordering, //
};
pub(crate) use ext::net::Net;
pub(crate) use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};
