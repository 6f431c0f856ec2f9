// SPDX-License-Identifier: GPL-2.0

//! Names that many files of this crate use.

pub(crate) use crate::{
    device::{
        Count,
        DeviceState, //
    },
    event_target::EventTarget,
    llp::{
        EstablishedConn,
        Llp, //
    },
    memory::{
        RegisteredMemory,
        RoundRegions, //
    },
    stream::{
        receiver::{
            Received,
            Receiver, //
        },
        Stream, //
    }, //
};
pub(crate) use core::{
    net::SocketAddr,
    sync::atomic::Ordering, //
};
pub(crate) use kernel::{
    c_str,
    prelude::*,
    sync::Arc,
    time::{
        Instant,
        Monotonic, //
    }, //
};
pub(crate) use provider::{
    cm::{
        ConnParams,
        ConnectError,
        Endpoints,
        EventParams, //
    },
    net::Net,
    netdev::NetDevice,
    queue::Queues,
    work::{
        Work,
        Worker, //
    }, //
};
pub(crate) use rdmap::{
    enhanced::ReadLimits,
    fault::{
        Code,
        Fault, //
    },
    stag::Stag, //
};
